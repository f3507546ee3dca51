"""Copies of /proc/net/dev: the kernel's interface counters, a `### <epoch>` line before each.

Written by: the Linux kernel, copied in a loop; also Cumulus and SONiC switches.
Specified in: Linux, net/core/net-procfs.c (dev_seq_printf_stats); 64-bit counters.
Cannot tell: its own time, which host it was, the speed of a link, and RDMA traffic, which bypasses
these counters. Columns are counted, since the header's words are glued together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "proc-net-dev"
_HEAD = re.compile(rb"\s*(### [^\n]*\n\s*)?Inter-\|\s+Receive\s")
_ROW = re.compile(r"\s*(\S+?):\s*(\d.*)")
_COLUMNS = {
    0: ("bytes", "rx"),
    1: ("packets", "rx"),
    2: ("errors", "rx"),
    3: ("drops", "rx"),
    8: ("bytes", "tx"),
    9: ("packets", "tx"),
    10: ("errors", "tx"),
    11: ("drops", "tx"),
}
_N_COLUMNS = 16
_DEVICE = "host"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; copies named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.match(head) is not None)


def read(source: Source) -> Tables:
    """Samples of all readings; raises DumpError where there is no time or no interface."""
    rows = Rows(source)
    for block in blocks(rows, "a copy of /proc/net/dev"):
        for line, text in block.lines:
            if "|" in text or not text.strip():
                continue
            match = _ROW.match(text)
            values = match[2].split() if match else []
            if match is None or len(values) != _N_COLUMNS:
                rows.aside(
                    "reading",
                    f"expected an interface and {_N_COLUMNS} numbers, found {len(values)}",
                    line,
                    block.path,
                )
                continue
            try:
                counts = [whole(value) for value in values]
            except ValueError as error:
                rows.aside("reading", str(error), line, block.path)
                continue
            for column, (metric, direction) in _COLUMNS.items():
                series = rows.series(_DEVICE, match[1], metric, direction)
                rows.add(series, block.ts_ns, counts[column], block.stamp, line)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "a line per interface",
            rows.unusable("none that can be read"),
            "copy /proc/net/dev again",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)
