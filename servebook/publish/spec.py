"""An Altair chart as the Vega-Lite specification that goes into the page.

Altair's own ``mimetype`` renderer names a type that nbformat refuses, and neither rounds nor
escapes; so the specification is made here. It holds no address of anything: data are inline, and
the ``$schema`` line (which no reader of ours fetches, but which is a URL) names the version only
in the MIME type. Altair is imported when a chart is at hand: the process that draws needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

__all__ = ["VL_VERSION", "Spec", "specification"]

Spec = dict[str, Any]

VL_VERSION = "6.4"  # what vl-convert calls the Vega-Lite that Altair 6.3 writes
_DIGITS = 6


def _short(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _rounded(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e6 else _short(value)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _addresses(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        own = (
            [f"{path}.data.url"]
            if isinstance(value.get("data"), dict) and ("url" in value["data"])
            else []
        )
        return own + [hit for key, item in value.items() for hit in _addresses(item, key)]
    if isinstance(value, list):
        return [hit for item in value for hit in _addresses(item, path)]
    return []


def _rows_once() -> Callable[[Any], Any]:
    """A data transformer that turns each table into rows once, however many layers draw it."""
    from altair.utils.data import to_values

    known: dict[int, tuple[Any, Any]] = {}  # the table is held, so that its id stays its own

    def transform(data: Any) -> Any:
        if id(data) not in known:
            known[id(data)] = data, to_values(data)
        return known[id(data)][1]

    return transform


def specification(
    chart: alt.TopLevelMixin, description: str = "", *, validate: bool = True
) -> Spec:
    """The chart's specification, floats rounded to six significant digits.

    ``description`` becomes the chart's text for those who do not see it. ``validate`` holds it
    against the schema of Vega-Lite, half of the work: tests do, and a build leaves what is wrong
    to the drawing, which fails as well.

    Raises:
        ValueError: the chart takes its data from an address.

    """
    import altair as alt

    alt.data_transformers.register("servebook", _rows_once())
    try:
        with alt.data_transformers.enable("servebook"):
            spec: Spec = _rounded(chart.to_dict(validate=validate))
    finally:
        alt.data_transformers.register("servebook", None)
    spec.pop("$schema", None)
    if _addresses(spec):
        raise ValueError("a chart must hold its data; this one takes them from an address")
    if description:
        spec["description"] = description
    return spec
