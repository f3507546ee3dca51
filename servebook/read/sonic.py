"""What SONiC's commands print: counters of ports, queues, priorities and priority groups.

Written by: SONiC (sonic-utilities): ``show interfaces counters`` (all forms, also ``rates``,
``errors``, ``fec-stats``, ``rif``, ``trim``, ``detailed`` and ``-j``), ``show queue counters`` and
``wredcounters`` (also ``--json``), ``show pfc counters`` (also ``--history``), ``show
priority-group drop counters``; in a loop with ``### <epoch>`` lines, in files named after their
time, or in the ``dump`` folder of ``show techsupport``, whose two snapshots are one series.
Specified in: sonic-utilities, doc/Command-Reference.md and scripts/{portstat,queuestat,pfcstat}.
Cannot tell: the bytes of a port. The tables have packets and a rate, which the device smooths over
about 10 s (also under ``-p N``) and divides by its nominal poll interval; only queues have bytes,
and COUNTERS_DB has all. Counts are those since the user's own last ``sonic-clear``. The tables have
no time, and a techsupport's ``date.counter_N`` has no zone: it is taken from the COUNTERS_DB dump
beside it, or from ``time_zone:`` in the manifest. K, M and G are powers of 1000; images before
December 2020 wrote powers of 1024, which the printed utilisation gives away where it is above 5 %.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import (
    LONGEST_TEXT_LINE,
    Block,
    blocks,
    ends_whole,
    find_texts,
    no_time,
)
from servebook.read.files import lines
from servebook.read.json_objects import objects
from servebook.read.sonic_support import STEP_NS, snapshots, support_sources
from servebook.read.sonic_tables import (
    DETAILED,
    HISTORY,
    PER_QUEUE,
    PORT,
    QUEUE_JSON,
    QUEUE_SCOPES,
    Table,
    are_binary,
    cut,
    reading,
)
from servebook.read.source import File, Format, Source
from servebook.read.times import iso_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "sonic-cli"
_HEAD = re.compile(
    rb"(?m)^[ \t]*(IFACE\s+(DESC\s+)?(STATE\s+)?(RX_|FEC_|TRIM)|Port [RT]x\s+PFC0"
    rb"|Port\s+(TxQ|Voq)\s+\w+/pkts"
    rb"|Port\s+Priority\s+RX Pause Transitions|Packets Received 64 Octets\.\.)"
    rb"|Ingress PG dropped packets|\"RX_OK\"\s*:\s*\"|\"(totalpacket|wreddroppacket)\"\s*:"
)
_DEVICE = "switch"
_WHAT = "the output of SONiC's show commands"
_PERIOD = re.compile(r"The rates are calculated within (\d{1,6}) seconds? period")
_DOTTED = re.compile(r"\s*([A-Z][^.]*?)\.{3,}\s*(\S.*)")
_DETAIL = re.compile(r"counters detailed\s+([A-Za-z][\w/.-]*)")
_QUEUE = re.compile(r"(UC|MC|ALL|VOQ)(\d{1,5})")
_PFC = re.compile(r"PFC(\d)")
_GROUP = re.compile(r"PG(\d{1,3})")
_PREFACE = re.compile(
    r"\s*(.*Last cached time was .*|The rates are calculated .*|Command: .*|Reminder: .*"
    r"|For namespace .*|Time Since Counters Last Cleared.*|Ingress PG dropped packets:?)\s*"
)
_EWMA = {"window_s": 10.0, "smoothing": "ewma"}


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; files named after their time, and a techsupport's, as one series each."""
    support = support_sources(_NAME, files, _mine)
    taken = {path for source in support for path in source.files}
    rest = [file for file in files if file.path not in taken]
    return sorted(support + find_texts(_NAME, rest, _mine), key=lambda source: source.main)


def _mine(head: bytes) -> bool:
    return _HEAD.search(head) is not None


def read(source: Source) -> Tables:
    """Samples of all tables and JSON objects of the source.

    Raises DumpError where there is no time, or no table of counters; rows that cannot be read and
    other lines are set aside.
    """
    rows = Rows(source)
    timed = False
    for block in _blocks(rows):
        timed = timed or block.ts_ns > 0
        _block(rows, block)
    if not len(rows):
        if not timed and rows.source.options.get("time_zone") is None and _says_time(rows):
            raise DumpError(
                rows.where(),
                f"{_WHAT} with the zone of its times",
                "times without a zone",
                "write `time_zone: UTC` (or the switch's zone) in the manifest's counters entry",
            )
        if not timed:
            raise no_time(rows.where(), _WHAT)
        raise DumpError(
            rows.where(),
            "a table of counters that show interfaces counters prints",
            rows.unusable("none that can be read"),
            "save the command's whole output, with the table's header",
        )
    # Only ``show interfaces counters detailed`` needs it, and has it by now.
    rows.take_interface()
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _says_time(rows: Rows) -> bool:
    return any(b'"time"' in raw for _, raw in lines(rows.source.main))


def _blocks(rows: Rows) -> Iterator[Block]:
    stamps = snapshots(rows)
    if not stamps:
        yield from blocks(rows, _WHAT, own_times=True, longest=LONGEST_TEXT_LINE)
        return
    for path, ns in stamps:
        numbered = [(n, raw.decode("utf-8", "replace")) for n, raw in lines(path)]
        if numbered and not ends_whole(path):
            rows.torn(numbered[-1][0], path)
        stamp = rows.stamp("device", STEP_NS, path)
        yield Block(path, ns, stamp, 0, numbered)


def _block(rows: Rows, block: Block) -> None:
    start = next(
        (i for i, (_, text) in enumerate(block.lines) if text.lstrip().startswith("{")), None
    )
    if start is not None:
        _documents(rows, block, start)
    if not block.ts_ns:
        for line, text in block.lines[:start]:
            if text.strip():
                rows.aside_once("lines", "no time", line, block.path)
        return
    period: int | None = None
    interface = _named(rows, block)
    for part in cut(block.lines[:start]):
        if isinstance(part, Table):
            _table(rows, block, part, period)
            continue
        line, text = part
        if match := _PERIOD.search(text):
            period = int(match[1])
        if match := _DETAIL.search(text):
            interface = match[1]
        elif match := _DOTTED.fullmatch(text):
            _detail(rows, block, line, match[1], match[2], interface)
        elif not _PREFACE.fullmatch(text):
            rows.aside_once("lines", "no table of counters", line, block.path)


def _named(rows: Rows, block: Block) -> str:
    option = rows.source.options.get("interface")
    return str(option) if option else next(iter(block.words), "unknown")


def _detail(rows: Rows, block: Block, line: int, name: str, text: str, interface: str) -> None:
    meaning = DETAILED.get(name)
    if meaning is None:
        if not _PREFACE.fullmatch(name):
            rows.aside_once("detailed counters", "not one that Servebook uses", line, block.path)
        return
    _cell(rows, block, line, meaning, text, interface, {})


def _table(rows: Rows, block: Block, table: Table, period: int | None) -> None:
    """Adds a table's rows; each row gives readings or is set aside."""
    header = table.header
    first = header[0] if header else ""
    places = {name: place for place, name in enumerate(header)}
    upper = {name.upper(): place for place, name in enumerate(header)}
    binary = False
    if first == "IFACE":
        pairs = [
            (cells[upper[f"{way}_BPS"]], cells[upper[f"{way}_UTIL"]])
            for _, cells in table.rows
            if cells
            for way in ("RX", "TX")
            if f"{way}_BPS" in upper and f"{way}_UTIL" in upper
        ]
        binary = are_binary(pairs)
    for line, cells in table.rows:
        if cells is None:
            rows.aside(
                "row", f"not the {len(header)} cells of the table's header", line, block.path
            )
            continue
        found: list[tuple[Meaning, str]] = []
        if first == "IFACE":
            scope = "port" if "STATE" in upper else "l3"
            found = [
                (_scoped(meaning, scope), cells[upper[name]])
                for name, meaning in PORT.items()
                if name in upper
            ]
        elif first in ("Port Rx", "Port Tx"):
            found = _numbered(places, cells, _PFC, "pfc_frames", first[-2:].lower(), "prio")
        elif "TxQ" in places or "Voq" in places:
            found = _queue(cells[places.get("TxQ", places.get("Voq", 0))], PER_QUEUE, places, cells)
        elif "PG0" in places and _is_drops(block, table.line):
            found = _numbered(places, cells, _GROUP, "drops", "rx", "pg")
        elif "Priority" in places and (match := _PFC.fullmatch(cells[places["Priority"]])):
            found = [
                (Meaning(metric, "rx", scope="prio", index=int(match[1])), cells[places[name]])
                for name, metric in HISTORY.items()
                if name in places
            ]
        if not found:
            rows.aside_once("rows", "a table of something else than counters", line, block.path)
            continue
        _row(rows, block, line, cells[0], found, period if first == "IFACE" else None, binary)


def _scoped(meaning: Meaning, scope: str) -> Meaning:
    return dataclasses.replace(meaning, scope=scope)


def _numbered(
    places: Mapping[str, int],
    cells: Sequence[str],
    pattern: re.Pattern[str],
    metric: str,
    direction: str,
    scope: str,
) -> list[tuple[Meaning, str]]:
    return [
        (Meaning(metric, direction, scope=scope, index=int(match[1])), cells[place])
        for name, place in places.items()
        if (match := pattern.fullmatch(name))
    ]


def _queue(
    queue: str, names: Mapping[str, str], places: Mapping[str, int], cells: Sequence[str]
) -> list[tuple[Meaning, str]]:
    match = _QUEUE.fullmatch(queue)
    if match is None:
        return []
    scope, index = QUEUE_SCOPES[match[1]], int(match[2])
    return [
        (Meaning(metric, "tx", scope=scope, index=index), cells[places[name]])
        for name, metric in names.items()
        if name in places
    ]


def _is_drops(block: Block, line: int) -> bool:
    """True where the title above a table of priority groups says dropped packets."""
    above = [text for n, text in block.lines if line - 3 <= n < line and text.strip()]
    return bool(above) and "dropped packets" in above[-1]


def _row(
    rows: Rows,
    block: Block,
    line: int,
    interface: str,
    found: Sequence[tuple[Meaning, str]],
    period: int | None,
    binary: bool,
) -> None:
    used = [
        _cell(rows, block, line, meaning, text, interface, {"period": period, "binary": binary})
        for meaning, text in found
    ]
    if not any(used):
        rows.aside_port(interface, "no value in its row (N/A)", line, block.path)


def _cell(
    rows: Rows,
    block: Block,
    line: int,
    meaning: Meaning,
    text: str,
    interface: str,
    more: Mapping[str, Any],
) -> bool:
    """Adds one cell; False where the device has no value for it."""
    try:
        value = reading(meaning, text, binary=bool(more.get("binary")))
    except ValueError as error:
        rows.aside("cell", f"{meaning.metric}: {error}", line, block.path)
        return True
    if value is None:
        return False
    smoothing: dict[str, Any] = {} if meaning.kind == "counter" else dict(_EWMA)
    if (period := more.get("period")) and meaning.kind == "counter":
        # Under -p N the counts are differences over N seconds.
        meaning = Meaning(meaning.metric, meaning.direction, kind="rate", scope=meaning.scope)
        value, smoothing = value / period, {"window_s": float(period), "smoothing": "boxcar"}
    key = rows.meant(meaning, _DEVICE, interface, **smoothing)
    rows.add(key, block.ts_ns, value, block.stamp, line)
    return True


def _documents(rows: Rows, block: Block, start: int) -> None:
    """The JSON objects from a place in the block on."""
    text = "\n".join(text for _, text in block.lines[start:])
    offset = block.lines[start][0] - 1
    for line, document, broken in objects(text):
        if broken or not isinstance(document, dict):
            rows.aside("block", broken or "no JSON object", line + offset, block.path)
            continue
        rows.complete(block.path)
        for interface, values in document.items():
            if not isinstance(values, dict):
                rows.aside_port(str(interface)[:40], "no counters", line + offset, block.path)
                continue
            _interface(rows, block, line + offset, str(interface), values)


def _interface(
    rows: Rows, block: Block, line: int, interface: str, values: Mapping[str, Any]
) -> None:
    at = _own_time(rows, block, values.get("time"))
    if at is None:
        rows.aside_port(interface, "no time, neither the file's nor its own", line, block.path)
        return
    scope = "port" if "STATE" in values else "l3"
    found = [
        (_scoped(PORT[name.upper()], scope), str(value))
        for name, value in values.items()
        if name.upper() in PORT
    ]
    for queue, counts in values.items():
        if isinstance(counts, dict):
            places = {str(name): place for place, name in enumerate(counts)}
            found += _queue(str(queue), QUEUE_JSON, places, [str(v) for v in counts.values()])
    rates = [(str(values.get(f"{w}_BPS")), str(values.get(f"{w}_UTIL"))) for w in ("RX", "TX")]
    _row(rows, at, line, interface, found, None, are_binary(rates))


def _own_time(rows: Rows, block: Block, text: Any) -> Block | None:
    """The block, with the time of the object itself where the block has none."""
    if block.ts_ns:
        return block
    zone = rows.source.options.get("time_zone")
    try:
        ns, step = iso_ns(str(text), str(zone) if zone else None)
    except ValueError:
        return None
    return Block(block.path, ns, rows.stamp("device", step, block.path), block.line)
