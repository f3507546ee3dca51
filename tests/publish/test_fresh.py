"""A build in which nothing changed does nothing; one in which a notebook changed runs that one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from servebook.publish import fresh
from servebook.publish.fresh import ingredients, record, up_to_date
from servebook.publish.kept import Kept
from servebook.publish.places import home

LOOPBACK = "data/loopback"


def campaign(folder: Path) -> tuple[Path, Path, Path]:
    """A project and a page in it: the project's folder, the campaign's, the page's."""
    for name in ("notebooks", "report/template", "report/text", "data/toy/raw"):
        (folder / name).mkdir(parents=True)
    (folder / "notebooks" / "1.ipynb").write_text("{}")
    (folder / "notebooks" / "helper.py").write_text("x = 1")
    (folder / "report" / "template" / "page.css").write_text("a")
    (folder / "report" / "text" / "en.yaml").write_text("a")
    (folder / "data" / "toy" / "campaign.yaml").write_text("title: toy")
    (folder / "data" / "toy" / "raw" / "a.jsonl").write_text("{}")
    out = folder / "out"
    (out / "toy" / "tables").mkdir(parents=True)
    (out / "toy.html").write_text("page")
    (out / "toy" / "tables" / "t.csv").write_text("1")
    return folder, folder / "data" / "toy", out


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    base, root, out = campaign(tmp_path / "project")
    record(ingredients(root, base).whole("en"), out, "toy", "toy")
    assert up_to_date(root, base, out, "en") == out / "toy.html"
    return base, root, out


def test_a_page_may_have_another_name_than_the_folder(built: tuple[Path, Path, Path]) -> None:
    base, root, out = built
    (out / "toy.html").rename(out / "other.html")
    (out / "toy").rename(out / "other")
    assert not up_to_date(root, base, out, "en")
    record(ingredients(root, base).whole("en"), out, "toy", "other")
    assert up_to_date(root, base, out, "en") == out / "other.html"
    (out / "other" / "tables" / "t.csv").write_text("2")
    assert not up_to_date(root, base, out, "en")


@pytest.mark.parametrize(
    "name",
    [
        "notebooks/1.ipynb",
        "notebooks/helper.py",
        "report/template/page.css",
        "report/text/en.yaml",
        "data/toy/campaign.yaml",
        "data/toy/raw/a.jsonl",
        "out/toy.html",
        "out/toy/tables/t.csv",
    ],
)
@pytest.mark.parametrize("change", ["content", "lost"])
def test_any_change_is_seen(built: tuple[Path, Path, Path], name: str, change: str) -> None:
    base, root, out = built
    path = base / name
    status = path.stat()
    if change == "lost":
        path.unlink()
    else:  # of the same length, with the old times
        path.write_text(path.read_text()[:-1] + "~")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not up_to_date(root, base, out, "en")


@pytest.mark.parametrize("name", ["notebooks/2.ipynb", "data/toy/b.jsonl", "out/toy/more.csv"])
def test_a_new_file_is_seen(built: tuple[Path, Path, Path], name: str) -> None:
    base, root, out = built
    (base / name).write_text("{}")
    assert not up_to_date(root, base, out, "en")


def test_what_is_new_in_name_or_time_only_is_no_change(built: tuple[Path, Path, Path]) -> None:
    base, root, out = built
    (root / "raw" / "a.jsonl").touch()
    (base / "notebooks" / "__pycache__").mkdir()
    (base / "notebooks" / "__pycache__" / "x.pyc").write_text("x")
    assert up_to_date(root, base, out, "en")


def test_another_language_place_or_no_cache_is_a_build(
    built: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, root, out = built
    assert not up_to_date(root, base, out, "de")
    assert not up_to_date(root, base, out / "toy", "en")
    shutil.move(root, root.with_name("other"))
    assert not up_to_date(root.with_name("other"), base, out, "en")
    shutil.move(root.with_name("other"), root)
    monkeypatch.setenv("SERVEBOOK_CACHE", "")
    assert not up_to_date(root, base, out, "en")


def test_the_programme_belongs_to_it(
    built: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base, root, out = built
    assert "publish/fresh.py" in fresh._files(fresh._PACKAGE)
    copy = tmp_path / "servebook"
    shutil.copytree(fresh._PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fresh, "_PACKAGE", copy)
    assert up_to_date(root, base, out, "en")
    with (copy / "tables.py").open("a") as stream:
        stream.write("\n")
    assert not up_to_date(root, base, out, "en")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": 1}', b"\xff"])
def test_a_damaged_record_is_a_build(built: tuple[Path, Path, Path], content: bytes) -> None:
    base, root, out = built
    place = fresh._place(out, "toy")
    assert place is not None
    place.write_bytes(content)
    assert not up_to_date(root, base, out, "en")


def test_the_key_of_a_chapter(built: tuple[Path, Path, Path]) -> None:
    base, root, _ = built
    before = ingredients(root, base)
    first, second = (("1.ipynb", "code", root, "en"), ("2.ipynb", "code", root, "en"))
    assert before.chapter(*first) != before.chapter(*second)
    assert before.chapter(*first) != before.chapter("1.ipynb", "other code", root, "en")
    assert before.chapter(*first) != before.chapter("1.ipynb", "code", root, "de")
    (base / "notebooks" / "2.ipynb").write_text("{ }")
    after = ingredients(root, base)
    assert before.chapter(*first) == after.chapter(*first)
    assert before.whole("en") != after.whole("en")
    (root / "raw" / "a.jsonl").write_text("{ }")
    again = ingredients(root, base)
    assert again.chapter(*first) != after.chapter(*first)
    (base / "report" / "text" / "en.yaml").write_text("{ }")
    assert ingredients(root, base).chapter(*first) != again.chapter(*first)
    assert ingredients(root, base).about("en") != again.about("en") != again.about("de")


def test_what_is_kept_comes_back_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    kept = Kept("drawings", "v1")
    kept.put("a", b"one\ntwo")
    kept.put_json("b", {"z": [1.5, None], "a": "é"})
    assert kept.get("a") == b"one\ntwo"
    assert list(kept.get_json("b").items()) == [("z", [1.5, None]), ("a", "é")]
    assert kept.get("c") is None
    assert Kept("drawings", "v2").get("a") is None
    assert Kept("drawings", "v1", renew=True).get("a") is None
    assert Kept("drawings", None).get("a") is None
    path = tmp_path / "drawings" / "v1" / "a"
    shutil.copy(path, path.with_name("c"))
    assert kept.get("c") is None  # under another key
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert kept.get("a") is None


def test_nothing_changed_imports_no_libraries(built: tuple[Path, Path, Path]) -> None:
    base, _, out = built
    script = (
        "import sys; from servebook.cli import main; code = main(sys.argv[1:]);"
        "print(*sorted({'pandas', 'altair', 'numpy', 'nbformat', 'pyarrow', 'papermill'}"
        " & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "build", "data/toy", "-o", str(out)],
        cwd=base,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{out}/toy.html\n\n", done.stderr
    assert done.stderr == "servebook: toy is up to date (--force builds it anyway)\n"
    assert done.returncode == 0


def _command(base: Path, cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "servebook", "build", *options],
        cwd=base,
        env={**os.environ, "SERVEBOOK_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def _bytes(output: Path) -> dict[str, bytes]:
    return {
        path.relative_to(output).as_posix(): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_one_edited_notebook_runs_alone_and_gives_the_bytes_of_a_whole_build(
    tmp_path: Path,
) -> None:
    source = home()
    base = tmp_path / "project"
    (base / "report").mkdir(parents=True)
    for name in ("notebooks", "report/template", "report/text", LOOPBACK):
        shutil.copytree(source / name, base / name)
    for path in sorted((base / "notebooks").glob("*.ipynb"))[2:-1]:
        path.unlink()  # a page of three chapters tells as much
    cache, out = tmp_path / "cache", tmp_path / "out"
    first = _command(base, cache, LOOPBACK, "-o", str(out), "-v")
    assert first.returncode == 0, first.stderr
    start = time.time_ns()
    second = _command(base, cache, LOOPBACK, "-o", str(out), "-v")
    assert "is up to date" in second.stderr
    assert all(path.stat().st_mtime_ns < start for path in out.rglob("*"))
    path = base / "notebooks" / "01-setup.ipynb"
    nb = nbformat.read(path, as_version=4)
    for number, (cell_type, edit, ran) in enumerate(
        [("markdown", "\n\nOne more sentence.", []), ("code", "\n# One more remark.", ["01-setup"])]
    ):
        cell = next(cell for cell in reversed(nb.cells) if cell.cell_type == cell_type)
        cell.source += edit
        nbformat.write(nb, path)
        edited = _command(base, cache, LOOPBACK, "-o", str(out), "-v")
        lines = [line for line in edited.stderr.splitlines() if " after " in line]
        assert [line.split()[1] for line in lines] == ran, edited.stderr
        empty, whole = tmp_path / f"empty{number}", tmp_path / f"whole{number}"
        again = _command(base, empty, LOOPBACK, "-o", str(whole), "-v")
        assert again.returncode == 0, again.stderr
        assert edit.strip() in (out / "loopback.html").read_text()
        assert _bytes(out) == _bytes(whole)
