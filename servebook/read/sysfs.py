"""Counters copied from sysfs: ``/sys/class/net/*/statistics`` and InfiniBand's port counters.

Written by: ``grep -H . /sys/class/net/*/statistics/* /sys/class/infiniband/*/ports/*/{counters,
hw_counters}/*`` (``path:value``), or ``head``/``tail`` of several files (``==> path <==``), with a
``### <epoch>`` line before each reading or in files named after their time. A CSV of chosen
counters is read as "Plain CSV".
Specified in: Linux, Documentation/ABI; mlx5's counters in NVIDIA's documentation.
Cannot tell: which host it was; bytes of RDMA in ``net/*/statistics``, which it bypasses; all but
RDMA in ``infiniband/*/counters`` on RoCE. ``port_*_data`` is in words of 4 bytes and is multiplied.
Classic counters that stand at their highest value have stopped and are set aside. Values are
renewed every 10 ms (``lifespan``) at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import LONGEST_TEXT_LINE, Block, blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.read.sysfs_names import HARDWARE, NET, OTHERS, PORT, count_of
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "sysfs"
_DEVICE = "host"
_WHAT = "counters of sysfs"
_NET = re.compile(r"(?:.*/)?net/(?P<dev>[^/\s:]+)/(?:statistics/(?P<name>\w+)|speed)")
_IB = re.compile(
    r"(?:.*/)?infiniband/(?P<dev>[^/\s:]+)/ports/(?P<port>\d{1,3})/"
    r"(?:(?P<group>counters|hw_counters)/(?P<name>\w+)|rate)"
)
_HEAD = re.compile(
    rb"(?m)(^|/)net/[^/\s:]+/statistics/\w+( <==|[ \t]{0,3}[:= ][ \t]{0,3}\d)"
    rb"|(^|/)infiniband/[^/\s:]+/ports/\d+/(hw_)?counters/\w+( <==|[ \t]{0,3}[:= ][ \t]{0,3}\S)"
)
_PAIR = re.compile(
    r"(?P<path>\S*?(?:net/[^/\s:]+/(?:statistics/)?\w+"
    r"|infiniband/[^/\s:]+/(?:ports/\d{1,3}/)?(?:\w+/)?\w+))\s*[:= ]\s*(?P<value>\S.*)"
)
_TITLE = re.compile(r"==> (?P<path>\S+) <==")
_RATE = re.compile(r"(\d{1,5}(?:\.\d)?) Gb/sec\b.*")


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; copies named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.search(head) is not None)


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError where there is no time or no counter; other files of sysfs and lines that
    cannot be read are set aside.
    """
    rows = Rows(source)
    for block in blocks(rows, _WHAT, longest=LONGEST_TEXT_LINE):
        title: str | None = None
        for line, text in block.lines:
            if match := _TITLE.fullmatch(text.strip()):
                title = match["path"]
            elif not text.strip():
                continue
            elif title is not None:
                _entry(rows, block, line, title, text.strip())
                title = None
            elif match := _PAIR.fullmatch(text.strip()):
                _entry(rows, block, line, match["path"], match["value"])
            else:
                rows.aside_once("lines", "no path with a value", line, block.path)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "counters such as /sys/class/net/eth0/statistics/rx_bytes:123",
            rows.unusable("none that can be read"),
            "save `grep -H . /sys/class/net/*/statistics/*` with a `### $(date +%s.%N)` before it",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _entry(rows: Rows, block: Block, line: int, path: str, value: str) -> None:
    net, fabric = _NET.fullmatch(path), _IB.fullmatch(path)
    own, rank = False, 0
    try:
        if fabric:
            interface = f"{fabric['dev']}/{fabric['port']}"
            if fabric["name"] is None:
                _speed(rows, block, line, interface, _gigabits(value), "rdma")
                return
            own = fabric["group"] == "counters"
            meaning = (PORT if own else HARDWARE).get(fabric["name"])
            if meaning is None and not own:
                meaning, rank = OTHERS.get(fabric["name"]), 1
        elif net:
            interface = net["dev"]
            if net["name"] is None:
                _speed(rows, block, line, interface, _megabits(value), "port")
                return
            meaning = NET.get(net["name"])
        else:
            meaning = None
        if meaning is None:
            rows.aside_once("other files", "no counters that Servebook uses", line, block.path)
            return
        if value.upper().startswith("N/A"):
            rows.aside_once("counters", "the device has no value (N/A)", line, block.path)
            return
        count = count_of(meaning, value, stops=own)
        key = rows.meant(meaning, _DEVICE, interface, rank=rank)
        rows.add(key, block.ts_ns, count, block.stamp, line)
    except ValueError as error:
        rows.aside("counter", str(error), line, block.path)


def _gigabits(value: str) -> float:
    match = _RATE.fullmatch(value)
    if match is None:
        raise ValueError("no rate in Gb/sec")
    return float(match[1]) * 1e9


def _megabits(value: str) -> float:
    if not re.fullmatch(r"-?\d{1,8}", value, re.ASCII):
        raise ValueError("no speed in Mbit/s")
    return int(value) * 1e6


def _speed(
    rows: Rows, block: Block, line: int, interface: str, speed_bps: float, scope: str
) -> None:
    if speed_bps <= 0:
        rows.aside_port(interface, "the device does not know its speed", line, block.path)
        return
    key = rows.series(_DEVICE, interface, "speed_bps", None, kind="gauge", scope=scope)
    rows.add(key, block.ts_ns, speed_bps, block.stamp, line)
