"""Drawings and their pixels come from two processes; what becomes of either is told."""

from __future__ import annotations

import os
import signal
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servebook.errors import BuildError
from servebook.publish.draw import Drawing, Ordered, Studio
from servebook.publish.drawings import Drawings
from servebook.publish.kept import Kept

CHART: dict[str, Any] = {
    "data": {"values": [{"x": 1, "y": 2}]},
    "mark": "point",
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}


def test_pixels_are_those_of_the_file_beside_the_page(tmp_path: Path) -> None:
    with Studio(tmp_path / "fonts") as studio:
        studio.begin()
        ordered = studio.drawing(CHART, "a-", "A title", "")
        drawing, png = ordered.drawing.result(timeout=60), ordered.png.result(timeout=60)
    assert "A title" in drawing.svg
    assert "A title" not in drawing.page
    head = drawing.svg[: drawing.svg.index(">")]
    width, height = (
        float(head.split(f' {side}="')[1].split('"')[0]) for side in ("width", "height")
    )
    assert png.startswith(b"\x89PNG")
    sizes = [int.from_bytes(png[at : at + 4], "big") for at in (16, 20)]
    assert sizes == [round(2 * width), round(2 * height)]


def test_an_interrupt_is_for_the_process_that_began(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes; each of them would print where it was."""
    with Studio(tmp_path / "fonts") as studio:
        studio.begin()
        for pool in (studio._pool, studio._painter):
            asked = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, [])
            assert signal.SIGINT in asked.result(timeout=60)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_the_end_of_the_process_that_paints_is_told(tmp_path: Path) -> None:
    with Studio(tmp_path / "fonts") as studio:
        assert studio._painter.submit(os.getpid).result(timeout=60) != os.getpid()
        for pid in list(studio._painter._processes):
            os.kill(pid, signal.SIGKILL)
        ordered = studio.drawing(CHART, "a-", "A title", "")
        assert ordered.drawing.result(timeout=60).page.startswith("<svg")
        with pytest.raises(BrokenExecutor):
            ordered.png.result(timeout=60)


def test_what_cannot_be_drawn_is_not_painted(tmp_path: Path) -> None:
    with Studio(tmp_path / "fonts") as studio:
        ordered = studio.drawing({"mark": "no mark"}, "a-", "A title", "")
        for future in ordered:
            with pytest.raises(ValueError, match="conversion failed"):
                future.result(timeout=60)


def test_what_cannot_be_painted_names_its_figure() -> None:
    drawings = Drawings(SimpleNamespace(lock=None), Kept("drawings", None))  # type: ignore[arg-type]
    done: Future[Drawing] = Future()
    done.set_result(Drawing("<svg/>", "<svg/>"))
    failed: Future[bytes] = Future()
    failed.set_exception(ValueError("too large\nat 1"))
    drawings._drawn["a"] = "key", Ordered(done, failed)
    with pytest.raises(BuildError, match=r"^figure 'a' cannot be painted: too large$"):
        drawings.files("a")
