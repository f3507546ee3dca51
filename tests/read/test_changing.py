"""A dump that is removed or cut while it is read: one reason, whatever its reader made of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import aiperf_split, line_blocks
from servebook.read.cache import Cache
from servebook.read.changing import while_it_stays
from servebook.read.discover import discover, read_source
from servebook.read.files import unreadable, walk
from servebook.read.parts import read_part
from servebook.read.registry import FORMATS
from servebook.read.source import Source

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
REMOVED = (
    "expected a file that stays until it is read, found that it was removed meanwhile; "
    "put it back and read again"
)
#: One dump a reader: the first of its sources among those that are shipped.
_TREES = (FIXTURES / "counters", FIXTURES / "clients", ROOT / "data" / "loopback" / "raw")


def _sources() -> Iterator[tuple[str, Source]]:
    seen = set()
    for tree in _TREES:
        for source in discover(tree).sources:
            if source.format not in seen:
                seen.add(source.format)
                yield source.format, source


SOURCES = dict(_sources())


@pytest.mark.parametrize("name", sorted(SOURCES))
@pytest.mark.parametrize("reads_first", [False, True])
def test_a_dump_that_is_removed_has_one_reason(
    name: str, reads_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = SOURCES[name]
    shutil.copytree(shipped.main.parent, tmp_path / "in")
    source = next(
        one
        for one in discover(tmp_path / "in").sources
        if one.format == name and one.main.name == shipped.main.name
    )
    form = next(one for one in FORMATS if one.name == name)
    real = form.read

    def read(given: Source) -> object:
        try:
            return real(given) if reads_first else None
        finally:
            source.main.unlink(missing_ok=True)
            if not reads_first:
                real(given)

    monkeypatch.setattr("servebook.read.discover.format_of", lambda _: _Form(read))
    monkeypatch.setattr("servebook.read.parts.format_of", lambda _: _Form(read))
    [row] = read_source(source).refused.to_pylist()
    assert row["reason"] == REMOVED
    with pytest.raises(DumpError, match="it was removed meanwhile"):
        read_part(source, Cache(None))


class _Form:
    def __init__(self, read: Callable[[Source], object]) -> None:
        self.read = read


def test_ranges_of_a_file_that_goes_are_one_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = ROOT / "data" / "loopback" / "raw" / "aiperf" / "spread" / "decode_c2"
    shutil.copytree(shipped, tmp_path / "run")
    monkeypatch.setattr(line_blocks, "RANGE_BYTES", (1 << 14, 1 << 14))
    [source] = [one for one in discover(tmp_path).sources if one.format == "aiperf"]
    ranges, taken = aiperf_split.read_range, []

    def read_range(path: Path, *rest: object, **more: object) -> object:
        if taken:
            path.unlink(missing_ok=True)
        taken.append(path)
        return ranges(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(aiperf_split, "read_range", read_range)
    [row] = read_source(source).refused.to_pylist()
    assert len(taken) > 2
    assert row["reason"] == REMOVED


def test_one_that_was_shortened_is_read_as_it_is_now_or_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    source = Source("vllm", tmp_path, path, (path,))

    def reading(size: int) -> Callable[[], str]:
        def read() -> str:
            text = path.read_text()
            os.truncate(path, size)
            if not text:
                raise DumpError("a.json", "a result", "none", "copy the file again")
            return text

        return read

    path.write_text("abcdef")
    assert while_it_stays(source, reading(2)) == "ab"
    path.write_text("abcdef")
    with pytest.raises(DumpError, match="shortened meanwhile, from 6 to 0 bytes; read again when"):
        while_it_stays(source, reading(0))


def test_a_file_that_does_not_change_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("x")
    source, taken = Source("vllm", tmp_path, path, (path,)), []
    for error in (DumpError("a.json", "b", "c", "d"), OSError(5, "Input/output error")):

        def read(error: Exception = error) -> None:
            taken.append(error)
            raise error

        with pytest.raises(type(error)):
            while_it_stays(source, read)
    assert len(taken) == 2


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(13, "check its permissions"), (5, "copy the file again"), (27, "split it, or leave")],
)
def test_the_way_out_fits_what_is_wrong(number: int, way_out: str) -> None:
    error = unreadable("a.json", OSError(number, os.strerror(number)))
    assert str(error).startswith(f"a.json: expected a readable file, found {os.strerror(number)};")
    assert way_out in str(error)


def test_a_file_that_goes_while_its_folder_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("{}")

    def gone(path: Path) -> object:
        path.unlink()
        return path.open("rb")

    monkeypatch.setattr("servebook.read.files.open_bytes", gone)
    assert walk(tmp_path).refused == [("a.json", REMOVED)]
