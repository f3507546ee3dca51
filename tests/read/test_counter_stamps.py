"""Times of readings: file names and separators."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import blocks, ends_whole, name_ns
from servebook.read.source import Source

S = 10**9


@pytest.mark.parametrize(
    ("name", "ns"),
    [
        ("metrics_1795973865157.prom", 1795973865157 * 10**6),
        ("1795973865.txt", 1795973865 * S),
        ("walk-20261129T171023Z.txt", 1795972223 * S),
        ("metrics_DEFAULT.prom", None),
        ("metrics_20269929T171023Z.prom", None),
        ("serial_0000000001.prom", None),
    ],
)
def test_times_in_names(name: str, ns: int | None) -> None:
    found = name_ns(Path(name))
    assert (found[0] if found else None) == ns


@pytest.mark.parametrize(
    ("separator", "words"),
    [
        ("### 1795972223.5 eth0", ("eth0",)),
        ("### eth0 1795972223", ("eth0",)),
        ("### 1795972223.5 2026-11-29T17:10:23+00:00", ()),
        ("### 1795972223.5 2026-11-29T17:10:23", ()),
        ("### 1795972223", ()),
    ],
)
def test_a_separator_may_name_what_was_read(
    tmp_path: Path, separator: str, words: tuple[str, ...]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{separator}\none\n")
    [block] = blocks(Rows(Source("x", tmp_path, log, (log,))), "text")
    assert block.words == words


def test_lines_that_no_command_prints_are_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"### {1795972223}\none\n{' ' * 9}\n{'x' * 10}\n")
    rows = Rows(Source("x", tmp_path, log, (log,)))
    [block] = blocks(rows, "text", longest=9)
    assert [line for line, _ in block.lines] == [2, 3]
    [row] = rows.tables().set_aside.to_pylist()
    assert (row["line"], row["reason"]) == (4, "lines: longer than 9 bytes (1 reading)")


def test_blocks_split_at_separators_and_bad_ones_are_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("### 1795972223.5 x\none\n### garbage\ntwo\n### 2026-11-29T17:10:25Z\nthree")
    rows = Rows(Source("x", tmp_path, log, (log,)))
    found = [(block.ts_ns, block.lines) for block in blocks(rows, "text")]
    assert found == [
        (1795972223_500_000_000, [(2, "one")]),
        (1795972225 * S, [(6, "three")]),
    ]
    [row] = rows.tables().set_aside.to_pylist()
    assert (row["line"], row["record"]) == (3, "block")


@pytest.mark.parametrize(("content", "whole"), [(b"", True), (b"a\n", True), (b"a\nb", False)])
def test_whether_a_file_ends_with_its_line(tmp_path: Path, content: bytes, whole: bool) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert ends_whole(path) is whole
