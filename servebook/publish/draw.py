"""Static drawings and the Vega bundle, made by one worker process for the whole build.

Starting vl-convert's JavaScript engine costs more than a second per process; a worker of its own
pays it once, draws while the next notebook runs, and has its time zone fixed (which the drawing
of a time axis depends on) without touching the caller's.

Each chart is drawn once. The file beside the page is that same drawing below its heading, which is
drawn by itself: drawing is most of the work, and a chart does not shrink for a long title.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from servebook.publish.fixed import FIXED
from servebook.publish.fonts import settings
from servebook.publish.spec import VL_VERSION, Spec

__all__ = ["SNIPPET", "Drawing", "Studio", "draw", "javascript_bundle", "page_svg"]

PNG_SCALE = 2
SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Drawing(NamedTuple):
    """One chart, drawn: for the page, and as files that stand alone, with their heading."""

    page: str
    svg: str
    png: bytes


def _svg(spec: Spec) -> str:
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VL_VERSION)
    return text


def page_svg(spec: Spec, prefix: str) -> str:
    """The chart as a compact SVG for the page."""
    from servebook.publish.svg import compact  # lxml, which the driver does not need

    return compact(_svg(spec), prefix)


def _heading(title: str, subtitle: str, config: Spec) -> str:
    """Title and subtitle as Vega draws them: above a chart of no size."""
    lines = {"subtitle": subtitle} if subtitle else {}
    return _svg(
        {
            "mark": "point",
            "data": {"values": []},
            "width": 1,
            "height": 1,
            "title": {"text": title, "anchor": "start", "frame": "group", **lines},
            "config": config,
        }
    )


def draw(spec: Spec, prefix: str, title: str, subtitle: str) -> Drawing:
    """All drawings of a chart; one that has a title of its own gets no other."""
    import vl_convert

    from servebook.publish.svg import compact, headed

    plain = _svg(spec)
    svg = plain
    if "title" not in spec:
        svg = headed(plain, _heading(title, subtitle, spec.get("config", {})))
    return Drawing(compact(plain, prefix), svg, vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def javascript_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed``."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(SNIPPET, vl_version=VL_VERSION)
    return bundle


def _begin() -> None:
    """Start the engine and load Vega: what the first drawing of a process would wait for."""
    _svg({"mark": "point", "data": {"values": []}})


def _start(parent: int, folder: Path) -> None:
    os.environ.update(FIXED)
    os.environ.update(settings(folder))
    time.tzset()

    def follow() -> None:  # a killed driver must not leave its worker behind
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class Studio:
    """The drawing worker: a context manager whose methods return futures.

    ``folder``, which it makes, takes its files.
    """

    def __init__(self, folder: Path) -> None:
        self._pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_start, initargs=(os.getpid(), folder)
        )

    def bundle(self) -> Future[str]:
        """The Vega bundle."""
        return self._pool.submit(javascript_bundle)

    def begin(self) -> None:
        """Have the worker get ready, for drawings that will be asked for."""
        self._pool.submit(_begin)

    def drawing(self, spec: Spec, prefix: str, title: str, subtitle: str) -> Future[Drawing]:
        """A chart for the page and for the folder beside it."""
        return self._pool.submit(draw, spec, prefix, title, subtitle)

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
