"""Static drawings and the Vega bundle, made by one worker process for the whole build.

Starting vl-convert's JavaScript engine costs more than a second per process; a worker of its own
pays it once, draws while the next notebook runs, and has its time zone fixed (which the drawing
of a time axis depends on) without touching the caller's.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from servebook.publish.kernel import FIXED
from servebook.publish.spec import VL_VERSION, Spec
from servebook.publish.svg import compact

__all__ = ["Studio", "export_files", "javascript_bundle", "page_svg"]

PNG_SCALE = 2


def page_svg(spec: Spec, prefix: str) -> str:
    """The chart as a compact SVG for the page."""
    import vl_convert

    return compact(vl_convert.vegalite_to_svg(spec, vl_version=VL_VERSION), prefix)


def export_files(spec: Spec, title: str, subtitle: str) -> tuple[str, bytes]:
    """The chart as files that stand alone: SVG and PNG, with the figure's title in them."""
    import vl_convert

    titled = copy.deepcopy(spec)
    if "title" not in titled:
        lines = {"subtitle": subtitle} if subtitle else {}
        titled["title"] = {"text": title, "anchor": "start", "frame": "group", **lines}
    svg: str = vl_convert.vegalite_to_svg(titled, vl_version=VL_VERSION)
    return svg, vl_convert.svg_to_png(svg, scale=PNG_SCALE)


def javascript_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed``."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=VL_VERSION
    )
    return bundle


def _start(parent: int) -> None:
    os.environ.update(FIXED)
    time.tzset()

    def follow() -> None:  # a killed driver must not leave its worker behind
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class Studio:
    """The drawing worker: a context manager whose methods return futures."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_start, initargs=(os.getpid(),)
        )

    def bundle(self) -> Future[str]:
        """The Vega bundle."""
        return self._pool.submit(javascript_bundle)

    def drawing(self, spec: Spec, prefix: str) -> Future[str]:
        """The SVG for the page."""
        return self._pool.submit(page_svg, spec, prefix)

    def files(self, spec: Spec, title: str, subtitle: str) -> Future[tuple[str, bytes]]:
        """The SVG and PNG for the folder beside the page."""
        return self._pool.submit(export_files, spec, title, subtitle)

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
