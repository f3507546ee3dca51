"""Blocks of lines from one byte of a file to another: every line once, whatever the cuts."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import files, line_blocks
from servebook.read.line_blocks import PAD, blocks_between, lines_of


def between(content: bytes, start: int, end: int) -> list[bytes]:
    stream: Any = io.BytesIO(content)
    lines = []
    for block in blocks_between(stream, start, end):
        assert block[-1:] == b"\n"
        memory: Any = block.obj
        assert len(memory) >= len(block) + PAD
        lines += lines_of(block)
    return lines


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"a")), max_size=12),
    st.booleans(),
    st.lists(st.integers(1, 400), max_size=5),
    st.integers(1, 30),
)
@example([b"a", b"", b"", b"b"], False, [1, 2, 3], 1)
@example([b"x" * 40, b"y"], True, [3, 40, 41], 7)
@example([b"x" * 25, b"y" * 26, b"z" * 24 + b"\r"], True, [25, 26, 27], 30)
def test_every_line_once(lines: list[bytes], ended: bool, cuts: list[int], size: int) -> None:
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    expected = content.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "_BLOCK", size)
        patch.setattr(files, "MAX_LINE_BYTES", 25)
        found = [line for a, b in pairwise(edges) if content for line in between(content, a, b)]
    assert found == [line[:25].rstrip(b"\r\n") for line in expected]
