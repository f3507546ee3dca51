"""Blocks of lines from one byte of a file to another: every line once, whatever the cuts."""

from __future__ import annotations

import io
import mmap
import tempfile
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import files, line_blocks
from servebook.read.line_blocks import PAD, blocks_between, lines_of, mapped_between


def between(stream: Any, start: int, end: int) -> list[bytes]:
    lines = []
    way = blocks_between if isinstance(stream, io.BytesIO) else mapped_between
    for block in way(stream, start, end):
        assert block[-1:] == b"\n"
        memory: Any = block.obj
        behind = np.frombuffer(memory, np.uint8).ctypes.data + len(memory)
        assert np.frombuffer(block, np.uint8).ctypes.data + len(block) + PAD <= behind
        lines += lines_of(block)
    return lines


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"a")), max_size=12),
    st.booleans(),
    st.lists(st.integers(1, 400), max_size=5),
    st.integers(1, 30),
    st.integers(0, 200),
)
@example([b"a", b"", b"", b"b"], False, [1, 2, 3], 1, 0)
@example([b"", b"x" * 25], False, [], 26, 0)
@example([b"x" * 40, b"y"], True, [3, 40, 41], 7, 9)
@example([b"x" * 25, b"y" * 26, b"z" * 24 + b"\r"], True, [25, 26, 27], 30, 200)
def test_every_line_once(
    lines: list[bytes], ended: bool, cuts: list[int], size: int, long: int
) -> None:
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    expected = content.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BLOCK", size)
        patch.setattr(files, "MAX_LINE_BYTES", 25)
        patch.setattr(line_blocks, "_LONG", long)
        patch.setattr(mmap, "ALLOCATIONGRANULARITY", mmap.PAGESIZE)
        ranges = [(a, b) for a, b in pairwise(edges) if content]
        found = [line for a, b in ranges for line in between(io.BytesIO(content), a, b)]
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(content)
            mapped = [line for a, b in ranges for line in between(file, a, b)]
    assert found == [line[:25].rstrip(b"\r\n") for line in expected]
    assert mapped == found


def test_a_file_system_that_maps_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object, **__: object) -> None:
        raise OSError(19, "No such device")

    content = b"".join(b"%050d\n" % n for n in range(50))
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        expected = between(file, 300, 1200)
        monkeypatch.setattr(mmap, "mmap", no)
        assert between(file, 300, 1200) == expected == content.splitlines()[6:24]
