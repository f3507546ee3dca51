"""perfquery's text: counters of InfiniBand ports, one block of dotted lines per port.

Written by: infiniband-diags, ``perfquery`` (classic counters) and ``perfquery -x`` (extended), with
a ``### <epoch>`` line before each reading or in files named after their time.
Specified in: infiniband-diags, perfquery(8); InfiniBand architecture, PortCounters.
Cannot tell: whose port it is: the interface is named by LID and port. Data is in words of 4 bytes
and is multiplied. The classic data and packet counters are 32 bits wide and stop at their highest
value, within a second on a fast link: one that stands there is set aside; use ``-x``. ``-r`` and
``-R`` clear the counters; after a clear the values fall and the interval is a reset.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import LONGEST_TEXT_LINE, blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.read.sysfs_names import PERFQUERY, count_of
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "perfquery"
_DEVICE = "fabric"
_TITLE = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,6}) port (\d{1,3})\b.*")
_HEAD = re.compile(rb"(?m)^# Port (extended )?counters: Lid \d+ port \d+")
_LINE = re.compile(r"(\w+):\.{2,}(\S+)")


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; texts named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.search(head) is not None)


def read(source: Source) -> Tables:
    """Samples of all ports; raises DumpError where there is no time or no counter of a port."""
    rows = Rows(source)
    for block in blocks(rows, "perfquery's text", longest=LONGEST_TEXT_LINE):
        interface: str | None = None
        for line, text in block.lines:
            if match := _TITLE.fullmatch(text.strip()):
                interface = f"lid {match[1]}/{match[2]}"
                continue
            if not text.strip():
                continue
            match = _LINE.fullmatch(text.strip())
            if match is None or interface is None:
                rows.aside_once("lines", "no counter below a port's title", line, block.path)
                continue
            meaning = PERFQUERY.get(match[1])
            if meaning is None:
                rows.aside_once("counters", "none that Servebook uses", line, block.path)
                continue
            try:
                count = count_of(meaning, match[2], stops=True)
            except ValueError as error:
                rows.aside("counter", f"{match[1]}: {error}", line, block.path)
                continue
            rows.add(rows.meant(meaning, _DEVICE, interface), block.ts_ns, count, block.stamp, line)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "counters below `# Port extended counters: Lid N port N`",
            rows.unusable("none that can be read"),
            "save `perfquery -x LID PORT` with a `### $(date +%s.%N)` before it",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)
