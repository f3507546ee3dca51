from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servebook.cli import main
from servebook.publish import cache_report
from servebook.publish.cache_report import remove, render, report
from servebook.publish.fresh import program
from servebook.publish.kept import Kept, drawing_version
from servebook.read.cache import Cache
from servebook.tables import Tables, table

KEYS = ["ab" + "0" * 62, "cd" + "0" * 62]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    tables = Tables(runs=table("runs", [{"run_id": "a"}]))
    for key in KEYS:
        Cache(tmp_path).put(key, tables)
    old = tmp_path / "cd" / KEYS[1] / "entry.json"
    old.write_text(json.dumps({**json.loads(old.read_text()), "reader": "another"}))
    Kept("notebooks", program()).put("a", b"12345")
    Kept("notebooks", "0" * 64).put("a", b"1")
    Kept("drawings", drawing_version()).put("a", b"1")
    for name, seconds in (("0" * 40, time.time()), ("1" * 40, 1e9)):
        (tmp_path / "remote" / name).mkdir(parents=True)
        (tmp_path / "remote" / name / "a.jsonl").write_text("12345")
        os.utime(tmp_path / "remote" / name, (seconds, seconds))
    (tmp_path / "remote" / "mine.txt").write_text("not of the cache")
    (tmp_path / "mine.txt").write_text("not of the cache")
    (tmp_path / "ab" / "mine.txt").write_text("not of the cache")
    return tmp_path


def counts() -> dict[str, tuple[int, int]]:
    kinds = report()["kinds"]
    return {kind: (row["entries"], row["stale"]) for kind, row in kinds.items() if row["entries"]}


def test_what_is_there_is_counted(folder: Path) -> None:
    assert counts() == {
        "tables": (2, 1),
        "notebooks": (2, 1),
        "drawings": (1, 0),
        "remote": (2, 1),
    }
    assert "2 mirrors of URLs, 10 B; 1 (5 B) that no build will use again" in render(report())
    found = report()
    assert found["kinds"]["notebooks"]["bytes"] == 2 * 65 + 5 + 1
    text = render(found)
    assert text.splitlines()[0] == str(folder)
    assert "2 notebooks that ran, 136 B; 1 (66 B) that no build will use again" in text


def test_pruning_takes_what_is_stale_and_clearing_all_of_ours(folder: Path) -> None:
    assert remove(stale_only=True)["removed"]["entries"] == 3
    assert counts() == {
        "tables": (1, 0),
        "notebooks": (1, 0),
        "drawings": (1, 0),
        "remote": (1, 0),
    }
    assert Cache(folder).get(KEYS[0]) is not None
    assert remove(stale_only=False)["removed"]["entries"] == 4
    assert counts() == {}
    left = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert left == ["ab/mine.txt", "mine.txt", "remote/mine.txt"]
    assert render(report()).endswith("empty")


@pytest.mark.usefixtures("folder")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"]["tables"]["entries"] == 2
    assert main(["cache", "--clear"]) == 0
    assert "removed 7 entries" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_removed_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Path:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refused)
    assert main(["cache", "--clear"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-2:] == [
        "removed 0 entries, 0 B",
        "7 could not be removed: may the folder be written to?",
    ]


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", "")
    assert render(remove(stale_only=False)).startswith("no cache")
    assert cache_report.report()["folder"] is None


WRITER = """
import sys
from pathlib import Path
from servebook.publish.kept import Kept
from servebook.read.cache import Cache
from servebook.tables import Tables, table
tables = Tables(gaps=table("gaps", {"run_id": ["a"] * 9, "gap_ns": list(range(9))}))
cache, kept = Cache(Path(sys.argv[1])), Kept("notebooks", "v" * 16)
for number in range(60):
    key = f"{number % 5:02x}" + "0" * 62
    found = cache.get(key)
    assert found is None or found.gaps.equals(tables.gaps)
    cache.put(key, tables)
    kept.put(key, key.encode() * 100)
    assert kept.get(key) in (None, key.encode() * 100)
"""


def test_processes_at_work_on_one_cache_do_not_clash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    while any(process.poll() is None for process in running):
        remove(stale_only=False)  # a third one takes everything away meanwhile
    for process in running:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
