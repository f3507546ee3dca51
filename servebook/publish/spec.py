"""An Altair chart as the Vega-Lite specification that goes into the page.

Altair's own ``mimetype`` renderer names a type that nbformat refuses, and neither rounds nor
escapes; so the specification is made here. It holds no address of anything: data are inline, and
the ``$schema`` line (which no reader of ours fetches, but which is a URL) names the version only
in the MIME type.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from servebook.publish.tabular import round_float

__all__ = ["VL_VERSION", "Spec", "specification"]

Spec = dict[str, Any]

VL_VERSION = "6.4"  # what vl-convert calls the Vega-Lite that Altair 6.3 writes


def _rounded(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e6 else round_float(value)
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


def specification(chart: alt.TopLevelMixin, description: str = "") -> Spec:
    """The chart's specification, floats rounded to six significant digits.

    ``description`` becomes the chart's text for those who do not see it.

    Raises:
        ValueError: the chart takes its data from an address.

    """
    with alt.data_transformers.enable("default", max_rows=None):
        spec: Spec = _rounded(chart.to_dict())
    spec.pop("$schema", None)
    if _addresses(spec):
        raise ValueError("a chart must hold its data; this one takes them from an address")
    if description:
        spec["description"] = description
    return spec
