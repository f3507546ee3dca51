"""Prometheus text exposition with network counters: a page per time, or a log of readings.

Written by: node_exporter (``curl :9100/metrics``), sonic-exporter and other exporters of the
names in ``counter_names``; the log by a loop that prints ``### <epoch>`` before each reading.
Specified in: https://prometheus.io/docs/instrumenting/exposition_formats/
Cannot tell: which host it was (``device:`` in the manifest says), and, in a page, when it was
taken: that comes from the ``###`` line, from the file's name (``metrics_<epoch ms>.prom``) or from
the sample's own time stamp. Values are printed like ``2.9e+08`` and are exact below 2^53.
node_network_* misses RDMA traffic, which bypasses the kernel's interface counters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from servebook.errors import DumpError
from servebook.read.counter_names import NAMES, Meaning
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import Block, blocks, epoch_ns, find_texts, no_time
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "node-text"
_PAGE = re.compile(rb"\s*(### [^\n]*\n\s*)?(# (HELP|TYPE) [a-zA-Z_:]|node_\w+[{ ])")
_DEVICE = "host"
_WHAT = "a page of metrics"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; pages named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _PAGE.match(head) is not None)


def read(source: Source) -> Tables:
    """Samples of all pages or blocks of the source.

    Raises DumpError where there is no time or no network counter; lines that cannot be read are
    set aside.
    """
    rows = Rows(source)
    known: dict[str, tuple[int, Meaning] | None] = {}
    timed = False
    for block in blocks(rows, _WHAT, own_times=True):
        timed = timed or block.ts_ns > 0
        for line, text in block.lines:
            if text and text[0] not in "# ":
                _line(rows, known, block, line, text)
    if not len(rows) and not timed:
        raise no_time(rows.where(), _WHAT)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "network counters such as node_network_receive_bytes_total",
            rows.unusable("a page without them"),
            "save the /metrics page of node_exporter, with its netdev collector on",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _line(
    rows: Rows,
    known: dict[str, tuple[int, Meaning] | None],
    block: Block,
    line: int,
    text: str,
) -> None:
    end = text.rfind("}") + 1 or len(text.split(maxsplit=1)[0])
    head, tail = text[:end], text[end:].split()
    if head.partition("{")[0] not in NAMES:
        return
    try:
        if head not in known:
            known[head] = _series(rows, head)
        found = known[head]
        if found is None or not 1 <= len(tail) <= 2:
            raise ValueError("no sample of the exposition format")
        series, meaning = found
        at, stamp = block.ts_ns, block.stamp
        if len(tail) == 2:
            at, step = epoch_ns(tail[1])
            stamp = rows.stamp("device", step, block.path)
        elif not at:
            name = head.partition("{")[0]
            rows.aside_once(name, "no time, neither its own nor the page's", line, block.path)
            return
        if meaning.kind == "counter":
            rows.add(series, at, whole(tail[0]), stamp, line)
        else:
            speed = number(tail[0]) * meaning.factor
            if speed <= 0:
                rows.aside_once(
                    head.partition("{")[0], "the device does not know it", line, block.path
                )
            else:
                rows.add(series, at, speed, stamp, line)
    except ValueError as error:
        rows.aside("reading", str(error), line, block.path)


def _series(rows: Rows, head: str) -> tuple[int, Meaning] | None:
    try:
        [family] = text_string_to_metric_families(f"{head} 0\n")
        [sample] = family.samples
    except ValueError:
        return None
    labels = sample.labels
    meaning = NAMES[head.partition("{")[0]]
    interface = labels.get("ifName") or labels.get("device") or "unknown"
    if meaning.scope == "rdma" and "port" in labels:
        interface = f"{interface}/{labels['port']}"
    return (
        rows.series(
            _DEVICE,
            interface,
            meaning.metric,
            meaning.direction,
            scope=meaning.scope,
            kind=meaning.kind,
            bits=meaning.bits,
        ),
        meaning,
    )
