from __future__ import annotations

from pathlib import Path

import pytest

from servebook.publish import bundle
from servebook.publish.draw import SNIPPET
from servebook.publish.drawings import Drawings
from servebook.publish.kept import Kept
from servebook.publish.workers import Workers


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the script was made; a short one stands for it."""
    calls: list[str] = []

    def make() -> str:
        calls.append("script")
        return f"vega ✓; {SNIPPET}"

    monkeypatch.setattr(bundle, "javascript_bundle", make)
    return calls


def test_an_environment_has_the_script_made_once(tmp_path: Path, made: list[str]) -> None:
    assert bundle.ready(tmp_path) is None
    bundle.main(tmp_path)
    bundle.main(tmp_path)
    assert bundle.ready(tmp_path) == f"vega ✓; {SNIPPET}"
    assert made == ["script"]
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.stat().st_mode & 0o777 == 0o644  # whoever uses the environment
    assert file.parent.stat().st_mode & 0o777 == 0o755


@pytest.mark.usefixtures("made")
def test_a_script_that_was_altered_is_made_again(tmp_path: Path) -> None:
    bundle.main(tmp_path)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes().replace(b"vega", b"evil"))
    assert bundle.ready(tmp_path) is None
    bundle.main(tmp_path)
    assert bundle.ready(tmp_path) == f"vega ✓; {SNIPPET}"


@pytest.mark.usefixtures("made")
def test_an_environment_that_cannot_be_written_to_has_none(tmp_path: Path) -> None:
    (tmp_path / "share").write_bytes(b"")
    bundle.main(tmp_path)
    assert bundle.ready(tmp_path) is None


@pytest.mark.usefixtures("made")
def test_a_build_takes_the_script_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    bundle.main()
    with Workers() as workers:
        drawings = Drawings(workers, Kept("drawings", None))
        drawings.start()
        assert drawings.bundle() == f"vega ✓; {SNIPPET}" == bundle.script()
        assert "studio" not in vars(workers)  # no process was started for it
