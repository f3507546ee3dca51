"""A page whose dumps were read, and whose runs were measured, on a cluster that lost a worker."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from servebook.publish.build import build
from tests.read.clusters import PAUSING, started, wait_for

pytestmark = pytest.mark.slow


def pages(folder: Path) -> dict[str, bytes]:
    """Every file of the built pages by its path."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_page_has_the_same_bytes(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = project_root / "data" / "loopback"
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    shutil.copy(project_root / "notebooks" / "05-mixed.ipynb", notebooks)
    pause = tmp_path / "pause"
    pause.mkdir()

    def built(name: str) -> dict[str, bytes]:
        monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / f"cache {name}"))
        assert build([campaign], tmp_path / name, notebooks=notebooks) == 0
        return pages(tmp_path / name)

    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    here = built("here")
    assert "loopback.html" in here
    assert len(here) > 10
    with started(tmp_path / "c", preload=PAUSING, variables={"PAUSE_FOLDER": str(pause)}) as two:

        def lose_one() -> None:
            wait_for(lambda: len(list(pause.iterdir())) == 2, "both workers at work")
            os.kill(two.workers[0].pid, signal.SIGKILL)
            two.workers[0].wait()
            (pause / "go").touch()

        killer = threading.Thread(target=lose_one)
        killer.start()
        try:
            monkeypatch.setenv("SERVEBOOK_SCHEDULER", two.address)
            assert built("there") == here
        finally:
            (pause / "go").touch()
            killer.join()
        assert two.workers[0].returncode == -signal.SIGKILL
        log = (tmp_path / "c" / "s.log").read_text()
        assert "Remove worker" in log or "lost" in log
