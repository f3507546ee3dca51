"""Static drawings and the Vega bundle, made by two worker processes for the whole build.

Starting vl-convert's JavaScript engine costs more than a second per process; a worker of its own
pays it once, draws while the next notebook runs, and has its time zone fixed (which the drawing
of a time axis depends on) without touching the caller's.

Pixels are painted by a second one, which needs no such engine: two fifths of the work, for which
the page does not wait.

Each chart is drawn once. The file beside the page is that same drawing below its heading, which is
drawn by itself: drawing is most of the work, and a chart does not shrink for a long title.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from servebook.publish.fixed import FIXED
from servebook.publish.fonts import settings
from servebook.publish.spec import VL_VERSION, Spec

__all__ = [
    "SNIPPET",
    "Drawing",
    "Ordered",
    "Studio",
    "draw",
    "javascript_bundle",
    "page_svg",
    "paint",
]

T = TypeVar("T")

PNG_SCALE = 2
_NOTHING = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'
SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Drawing(NamedTuple):
    """One chart, drawn: for the page, and as a file that stands alone, with its heading."""

    page: str
    svg: str


class Ordered(NamedTuple):
    """A drawing that was asked for, and its file painted as PNG."""

    drawing: Future[Drawing]
    png: Future[bytes]


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
    """Both drawings of a chart; one that has a title of its own gets no other."""
    from servebook.publish.svg import compact, headed

    plain = _svg(spec)
    svg = plain
    if "title" not in spec:
        svg = headed(plain, _heading(title, subtitle, spec.get("config", {})))
    return Drawing(compact(plain, prefix), svg)


def paint(svg: str) -> bytes:
    """A drawing as PNG."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(svg, scale=PNG_SCALE)
    return png


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


def _worker(folder: Path) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=_start, initargs=(os.getpid(), folder)
    )


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What is started meanwhile hears no Ctrl-C: who started it does, and ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _have(worker: ProcessPoolExecutor, work: Callable[..., T], *asked: Any) -> Future[T]:
    """Ask a worker for something; its process is started for the first."""
    with _undisturbed():
        return worker.submit(work, *asked)


class Studio:
    """The workers that draw and paint: a context manager whose methods return futures.

    ``folder``, which they make, takes their files.
    """

    def __init__(self, folder: Path) -> None:
        self._pool = _worker(folder)
        self._painter = _worker(folder.with_name(f"{folder.name}-2"))

    def bundle(self) -> Future[str]:
        """The Vega bundle."""
        return _have(self._pool, javascript_bundle)

    def begin(self) -> None:
        """Have the workers get ready, for drawings that will be asked for."""
        _have(self._pool, _begin)
        _have(self._painter, paint, _NOTHING)

    def drawing(self, spec: Spec, prefix: str, title: str, subtitle: str) -> Ordered:
        """A chart for the page and for the folder beside it."""
        drawing = _have(self._pool, draw, spec, prefix, title, subtitle)
        png: Future[bytes] = Future()
        drawing.add_done_callback(lambda drawn: self._paint(drawn, png))
        return Ordered(drawing, png)

    def _paint(self, drawn: Future[Drawing], png: Future[bytes]) -> None:
        """Have a drawing painted as soon as it is there; ``png`` fails where it did."""
        try:
            painted = _have(self._painter, paint, drawn.result().svg)
        except (Exception, CancelledError) as error:
            png.set_exception(error)
        else:
            painted.add_done_callback(lambda one: _pass_on(one, png))

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in (self._pool, self._painter):
            pool.shutdown(wait=True, cancel_futures=True)


def _pass_on(one: Future[T], other: Future[T]) -> None:
    try:
        other.set_result(one.result())
    except (Exception, CancelledError) as error:
        other.set_exception(error)
