"""Shapes of AIPerf's record lines: what all lines of a run have in common, for ``aiperf_rows.c``.

A shape is the text of a line that msgspec read, without its values: names in their order, units,
literals, and between them what kind of value stands there. Those of a run are few (warm-up and
measured requests; names of metrics in another order from another process). They are kept as a tree
of texts, so that lines of several shapes are told apart where they begin to differ.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.read.aiperf_rows import AT

__all__ = ["Shapes", "again", "leave"]

#: What follows a text: the same order as in ``aiperf_rows.c``.
_KINDS = ("end", "text", "number", "gaps", "whole", "count", "span", "percent", "name", "talk")
_END, _TEXT, _NUMBER, _GAPS, _WHOLE, _COUNT, _SPAN, _PERCENT, _NAME, _TALK = range(len(_KINDS))

_TOKEN = re.compile(rb'\s*("[^"\\]*"|-?[0-9][-+.0-9eE]*|true|false|null|[][{}:,])\s*')
#: The values that a request needs, by where they stand: their kind and their column.
_ABOUT = {
    "x_request_id": (_NAME, AT["name_end"]),
    "request_start_ns": (_WHOLE, AT["start_ns"]),
    "credit_issued_ns": (_WHOLE, AT["scheduled_ns"]),
    "request_end_ns": (_WHOLE, AT["end_ns"]),
    "session_num": (_WHOLE, AT["session"]),
    "turn_index": (_WHOLE, AT["turn"]),
    "phase_index": (_WHOLE, AT["phase_index"]),
}
_METRICS = {
    "time_to_first_token": (_SPAN, AT["ttft_ns"]),
    "ttft": (_SPAN, AT["ttft_ns"]),
    "request_latency": (_SPAN, AT["latency_ns"]),
    "input_sequence_length": (_COUNT, AT["isl"]),
    "output_sequence_length": (_COUNT, AT["osl"]),
    "usage_prompt_cache_read_tokens": (_COUNT, AT["cached_tokens"]),
    "usage_completion_tokens": (_COUNT, AT["usage"]),
    "osl_mismatch_diff_pct": (_PERCENT, AT["percent"]),
    "inter_chunk_latency": (_GAPS, AT["gaps"]),
}
_PHASES = ("phase_kind", "benchmark_phase", "credit_phase")
#: Literals, and a text where it decides what the line is, are part of the shape.
_CONSTANT = (-1, 0)

#: Most shapes at once, and nodes of their tree.
_MOST, _MOST_NODES = 64, 1 << 14
#: A longer line, its gaps left out, is no usual one.
_MOST_BYTES = 1 << 14
#: So much may looking at lines that have no shape cost, and so much more with every so many lines.
_TRIES, _ONE_OF = 1600, 16
#: What a line costs whose shape was looked for, where one that is no usual record costs 1.
_COST = 50

Node = list[int]


class Shapes:
    """The shapes of some lines, as a tree that grows.

    Each of ``nodes``, from 1 on: where its text begins in ``texts`` and how long it is, the kind of
    the value behind it and its column, the node that follows, and the one to look at where this one
    does not fit (0: none). ``is_warmup``: what a line is that ends at a node.
    """

    def __init__(self, *, with_sent: bool = False) -> None:
        self.with_sent = with_sent
        self.n_lines = 0  # that were looked for
        self._talk = _TALK if with_sent else _TEXT
        self._nodes: list[Node] = [[0] * 6]
        self._content = b""
        self._known: dict[bytes, int] = {}
        self._warmup: list[bool] = [False]
        self._n = self._cost = 0
        self._made()

    def _made(self) -> None:
        self.nodes: npt.NDArray[np.int32] = np.array(self._nodes, np.int32)
        self.texts = np.frombuffer(self._content + bytes(16), np.uint8)
        self.is_warmup = np.array(self._warmup)

    @property
    def is_full(self) -> bool:
        """Whether there can be no more."""
        return self._n >= _MOST or len(self._nodes) >= _MOST_NODES

    def wants(self) -> bool:
        """Whether another line should be looked at."""
        return not self.is_full and self._cost < _TRIES + self.n_lines // _ONE_OF

    def tried(self) -> None:
        """A line was looked at that is no usual record."""
        self._cost += 1

    def add(self, rest: bytes, has_gaps: bool) -> bool:
        """Add the shape of a line that was read; False where it has none of use, or a known one.

        The line is ASCII without escapes; ``has_gaps``: null stands for its list of gaps.
        """
        found = _Line(self._talk, has_gaps)
        if len(rest) > _MOST_BYTES or not found.read(rest):
            self._cost += _COST
            return False
        at, n = 0, len(self._nodes)
        for text, kind, column in found.parts:
            at = self._behind(at, text, kind, column)
        if len(self._nodes) == n:
            self._cost += _COST
            return False
        self._warmup += [False] * (len(self._nodes) - len(self._warmup))
        self._warmup[at] = found.phase == b'"warmup"'
        self._n += 1
        self._made()
        return True

    def _behind(self, at: int, text: bytes, kind: int, column: int) -> int:
        """The node of this text and value behind another one; made where there is none."""
        begin = self._known.setdefault(text, len(self._content))
        if begin == len(self._content):
            self._content += text
        own = [begin, len(text), kind, column]
        last, child = 0, self._nodes[at][4]
        while child:
            if self._nodes[child][:4] == own:
                return child
            last, child = child, self._nodes[child][5]
        self._nodes.append([*own, 0, 0])
        if last:
            self._nodes[last][5] = len(self._nodes) - 1
        else:
            self._nodes[at][4] = len(self._nodes) - 1
        return len(self._nodes) - 1


def again(*, with_sent: bool) -> Shapes:
    """The shapes that were left here by ``leave``, if there is room for more, or none."""
    while _left:
        one = _left.pop()
        if one.with_sent == with_sent and not one.is_full:
            return one
    return Shapes(with_sent=with_sent)


def leave(shapes: Shapes) -> None:
    """Leave shapes for lines of the same file, or of one like it, that this process reads next."""
    _left[:] = [shapes]


#: Of a process, when nobody uses them.
_left: list[Shapes] = []


class _Line:
    """A line cut at its values."""

    def __init__(self, talk: int, has_gaps: bool) -> None:
        self._about: dict[str, Any] = {**_ABOUT, "conversation_id": (talk, AT["talk_end"])}
        self._needed = {*_NEEDED, AT["talk_end"]} if talk == _TALK else _NEEDED
        self._has_gaps = has_gaps
        self.parts: list[tuple[bytes, int, int]] = []
        self.phase = b'""'

    def read(self, line: bytes) -> bool:
        """Whether it could be cut: it has no list, no name twice, and what a request needs once."""
        phases: dict[str, bytes] = {}
        units: dict[str, bytes] = {}
        path: list[str] = []
        names: list[set[str]] = []
        key = ""
        begin = at = 0
        line = line.rstrip(b"\r")
        while at < len(line):
            token = _TOKEN.match(line, at)
            if token is None:
                return False
            text, at = token[1], token.end()
            if text in b"[]":
                return False
            if text == b"{":
                path.append(key)
                names.append(set())
            elif text == b"}":
                path.pop()
                names.pop()
            elif text[:1] == b'"' and line[at : at + 1] == b":":
                key = text[1:-1].decode()
                if key in names[-1]:
                    return False
                names[-1].add(key)
            elif text not in b",:":
                if path == ["", "metadata"] and key in _PHASES:
                    phases[key] = text
                if path[:2] == ["", "metrics"] and key == "unit":
                    units[path[-1]] = text
                kind, column = self._kind(path[1:], key, text)
                if kind != _CONSTANT[0]:
                    start, end = token.span(1)
                    if kind == _GAPS:
                        end = start + 4
                    self.parts.append((line[begin:start], kind, column))
                    begin = end
        self.parts.append((line[begin:], _END, 0))
        told = (phases[name] for name in _PHASES if phases.get(name, b"null") not in _NO_PHASE)
        self.phase = next(told, b'""')
        columns = [column for _, kind, column in self.parts if kind in _ONCE]
        in_ms = all(units.get(name) == b'"ms"' for name in _SPANS if name in units)
        return in_ms and len(columns) == len(set(columns)) and self._needed <= set(columns)

    def _kind(self, path: list[str], key: str, text: bytes) -> tuple[int, int]:
        """What kind of value stands there, and its column."""
        plain = _NUMBER if text[:1] in b"-0123456789" else _TEXT
        if text in (b"true", b"false"):
            return _CONSTANT
        if path == ["metrics", "inter_chunk_latency"] and key == "value":
            return _METRICS["inter_chunk_latency"] if self._has_gaps else _CONSTANT
        if text == b"null":
            return _CONSTANT
        if path == ["metadata"]:
            return _CONSTANT if key in _PHASES else self._about.get(key, (plain, 0))
        if len(path) == 2 and path[0] == "metrics":
            if key == "unit":
                return _CONSTANT
            if key == "value":
                return _METRICS.get(path[1], (plain, 0))
        return plain, 0


#: What stands for no phase.
_NO_PHASE = (b"null", b'""')
#: Kinds of values of which a line has one at most in a column, and columns that it must have.
_ONCE = (_GAPS, _WHOLE, _COUNT, _SPAN, _PERCENT, _NAME, _TALK)
_NEEDED = {AT["start_ns"], AT["osl"], AT["name_end"]}
_SPANS = [name for name, (kind, _) in _METRICS.items() if kind in (_SPAN, _GAPS)]
