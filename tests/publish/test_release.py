from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servebook.errors import BuildError
from servebook.publish import release
from servebook.publish.release import publish, staging


def publish_text(output: Path, text: str) -> None:
    with staging(output, "c") as folder:
        (folder / "c" / "claims.json").write_text(text)
        (folder / "c.html").write_text(text)
        publish(folder, output, "c")


def state(output: Path) -> list[str]:
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*"))


@pytest.mark.parametrize("swap", [True, False])
def test_a_page_replaces_the_last_one(
    tmp_path: Path, swap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swap:
        monkeypatch.setattr(release, "_exchange", lambda one, other: False)
    publish_text(tmp_path, "first")
    publish_text(tmp_path, "second")
    assert (tmp_path / "c.html").read_text() == "second"
    assert (tmp_path / "c" / "claims.json").read_text() == "second"
    assert state(tmp_path) == ["c", "c.html", "c/charts", "c/claims.json", "c/tables"]


def test_a_failure_leaves_the_last_page_and_nothing_else(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    before = state(tmp_path)

    def fail_halfway() -> None:
        with staging(tmp_path, "c") as folder:
            (folder / "c.html").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert state(tmp_path) == before
    assert (tmp_path / "c.html").read_text() == "good"


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    with (
        pytest.raises(BuildError, match="No space left on device; the last good page is as it was"),
        staging(tmp_path, "c"),
    ):
        raise OSError(28, os.strerror(28))
    assert (tmp_path / "c.html").read_text() == "good"


def test_a_target_that_is_a_file_is_one_message(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("")
    with pytest.raises(BuildError, match="cannot write the page to"), staging(target, "c"):
        pass


def test_what_a_killed_build_left_is_swept(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    left = tmp_path / f".staging-c-{ended.stdout.strip()}"
    left.mkdir()
    (left / "c.html").write_text("half")
    living = tmp_path / f".staging-d-{os.getppid()}"
    living.mkdir()
    publish_text(tmp_path, "good")
    assert not left.exists()
    assert living.exists()
