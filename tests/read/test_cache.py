from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

from servebook.read import cache as cache_module
from servebook.read.cache import Cache, default_folder, source_key
from servebook.read.source import Source
from servebook.tables import Tables, table

KEY = "ab" + "0" * 62


@pytest.fixture
def tables() -> Tables:
    return Tables(
        runs=table("runs", [{"run_id": "a", "notes": ["x"], "n_ok": None}]),
        gaps=table("gaps", {"run_id": ["a", "a"], "index": [0, 1], "gap_ns": [5, 7]}),
        samples=table("samples", [{"source": "s", "count": 2**64 - 1}]),
    )


def same(a: Tables | None, b: Tables) -> bool:
    return a is not None and all(getattr(a, f.name).equals(getattr(b, f.name)) for f in fields(b))


def test_what_is_put_comes_back_exactly(tmp_path: Path, tables: Tables) -> None:
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, tables)
    assert same(cache.get(KEY), tables)
    assert [p.name for p in (tmp_path / "ab").iterdir()] == [KEY]  # no working folder is left


def entry(tmp_path: Path) -> Path:
    return tmp_path / "ab" / KEY


def cut(tmp_path: Path) -> None:
    path = entry(tmp_path) / "gaps.parquet"
    path.write_bytes(path.read_bytes()[:-9])


def flip(tmp_path: Path) -> None:
    path = entry(tmp_path) / "gaps.parquet"
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(bytes(content))


def lose(tmp_path: Path) -> None:
    (entry(tmp_path) / "runs.parquet").unlink()


def no_index(tmp_path: Path) -> None:
    (entry(tmp_path) / "entry.json").unlink()


def bad_index(tmp_path: Path) -> None:
    (entry(tmp_path) / "entry.json").write_text("[1")


def other_key(tmp_path: Path) -> None:
    path = entry(tmp_path) / "entry.json"
    path.write_text(path.read_text().replace(KEY, "f" * 64))


def other_form(tmp_path: Path) -> None:
    (entry(tmp_path) / "entry.json").write_text("[]")


def swapped(tmp_path: Path) -> None:
    """A table of another schema, with a checksum that holds."""
    path = entry(tmp_path) / "entry.json"
    index = json.loads(path.read_text())
    (entry(tmp_path) / "gaps.parquet").write_bytes((entry(tmp_path) / "runs.parquet").read_bytes())
    index["sha256"]["gaps"] = index["sha256"]["runs"]
    path.write_text(json.dumps(index))


@pytest.mark.parametrize(
    "harm", [cut, flip, lose, no_index, bad_index, other_key, other_form, swapped]
)
def test_a_harmed_entry_is_dropped_and_built_again(
    harm: object, tmp_path: Path, tables: Tables
) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, tables)
    harm(tmp_path)  # type: ignore[operator]
    assert cache.get(KEY) is None
    assert not entry(tmp_path).exists()
    cache.put(KEY, tables)
    assert same(cache.get(KEY), tables)


def test_the_second_writer_leaves_the_first_ones_entry(tmp_path: Path, tables: Tables) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, tables)
    before = (entry(tmp_path) / "entry.json").stat().st_ino
    cache.put(KEY, Tables())
    assert same(cache.get(KEY), tables)
    assert (entry(tmp_path) / "entry.json").stat().st_ino == before
    assert len(list((tmp_path / "ab").iterdir())) == 1


def test_many_at_once_never_see_half_an_entry(tmp_path: Path, tables: Tables) -> None:
    cache = Cache(tmp_path)

    def work(number: int) -> bool:
        if number % 5 == 0:
            with contextlib.suppress(OSError):
                no_index(tmp_path)
        cache.put(KEY, tables)
        found = cache.get(KEY)
        return found is None or same(found, tables)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(80)))
    assert {p.name for p in (tmp_path / "ab").iterdir()} <= {KEY}


def test_a_folder_that_cannot_be_written_means_no_cache(tmp_path: Path, tables: Tables) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    for folder in (blocked, blocked / "below", None):
        cache = Cache(folder)
        cache.put(KEY, tables)
        assert cache.get(KEY) is None


def test_the_folder_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv("SERVEBOOK_CACHE", "")
    assert default_folder() is None
    monkeypatch.delenv("SERVEBOOK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "servebook"


def test_the_key_covers_all_that_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(root: Path = tmp_path, name: str = "a/x.json", sha: str = "1", **more: object) -> str:
        options = {"records": root / name, **more}
        form = str(more.get("form", "vllm"))
        return source_key(Source(form, root, root / name, (), options), [(name, sha)])

    first = key()
    assert key(root=tmp_path / "elsewhere") == first  # the folder of the campaign does not count
    others = [key(name="b/x.json"), key(sha="2"), key(unit="bits"), key(form="aiperf")]
    monkeypatch.setattr(cache_module, "reader_version", lambda: "another")
    others.append(key())
    assert len({first, *others}) == len(others) + 1
