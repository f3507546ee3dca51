"""Prometheus text exposition with network counters: a page per time, or a log of readings.

Written by: node_exporter (``curl :9100/metrics``), snmp_exporter, sonic-exporter, gnmic's
prometheus output, infiniband_exporter, dcgm-exporter, ``/federate``, ``promtool tsdb dump``: every
exporter of the names in ``counter_names`` and ``prometheus_names``, in the text format or as
OpenMetrics; the log by a loop that prints ``### <epoch>`` before each reading.
Specified in: https://prometheus.io/docs/instrumenting/exposition_formats/ and OpenMetrics 1.0.
Cannot tell: which host it was (``device:`` in the manifest says), and, in a page, when it was
taken: that comes from the ``###`` line, from the file's name (``metrics_<epoch ms>.prom``) or from
the sample's own time stamp. Values are printed like ``2.9e+08`` and are exact below 2^53.
node_network_* misses RDMA traffic, which bypasses the kernel's interface counters; where the page
has the driver's own counters of the port (node_ethtool_*), those are used. dcgm-exporter has no
Ethernet counters: PCIe and NVLink rates are read, and are no links of the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from prometheus_client.parser import text_string_to_metric_families

from servebook.errors import DumpError
from servebook.read.counter_names import TOO_NARROW
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import LONGEST_TEXT_LINE, Block, blocks, find_texts, no_time
from servebook.read.prometheus_names import (
    BUILD_INFO,
    Series,
    job_of,
    known_name,
    reading_of,
    series_of,
    words_factor,
)
from servebook.read.source import File, Format, Source
from servebook.read.times import epoch_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "node-text"
_PAGE = re.compile(rb"\s*(### [^\n]*\n\s*)?(# (HELP|TYPE|UNIT) [a-zA-Z_:]|node_\w+[{ ])")
_SAMPLE = re.compile(
    r"[a-zA-Z_:][\w:]*(?:\{(?:[^\"}]|\"(?:[^\"\\\\]|\\\\.)*+\")*+\})?(?=\s)", re.ASCII
)
_DUMPED = re.compile(r'\{__name__="([a-zA-Z_:][\w:]*)",?\s?', re.ASCII)
_FIRST_LINES = 40
_DEVICE = "host"
_WHAT = "a page of metrics"


@dataclass
class _Page:
    """What is known of the series of a source, and of the exporter that wrote them."""

    known: dict[str, tuple[int, Series] | None] = field(default_factory=dict)
    build: str | None = None
    jobs: dict[str, list[str]] = field(default_factory=dict)

    def device(self, labels: Mapping[str, str]) -> str:
        """The device of a series: pages of ``/federate`` and dumps hold those of several targets.

        Named after the job, with a number from the job's second instance on.
        """
        instance = labels.get("instance")
        if instance is None:
            return _DEVICE
        job = job_of(labels) or "instance"
        known = self.jobs.setdefault(job, [])
        if instance not in known:
            known.append(instance)
        place = known.index(instance) + 1
        return job if place == 1 else f"{job} {place}"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; pages named after their time as one series per folder."""
    return find_texts(_NAME, files, _is_page)


def _is_page(head: bytes) -> bool:
    if _PAGE.match(head):
        return True
    for line in head[:8192].decode("utf-8", "replace").splitlines()[:_FIRST_LINES]:
        if (match := _SAMPLE.match(_named_first(line))) and _is_ours(match[0].partition("{")[0]):
            return True
    return False


def _is_ours(name: str) -> bool:
    return known_name(name) or name in TOO_NARROW


def read(source: Source) -> Tables:
    """Samples of all pages or blocks of the source.

    Raises DumpError where there is no time or no network counter; lines that cannot be read are
    set aside, and so are, in one row per file, those of other metrics.
    """
    rows = Rows(source)
    page = _Page()
    timed = False
    for block in blocks(rows, _WHAT, own_times=True, longest=LONGEST_TEXT_LINE):
        timed = timed or block.ts_ns > 0
        others = [
            line
            for line, text in block.lines
            if text.strip()
            and not text.lstrip().startswith("#")
            and not _line(rows, page, block, line, _named_first(text.strip()))
        ]
        if others:
            reason = "no network counters"
            rows.aside_once("other metrics", reason, others[0], block.path, len(others))
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


def _named_first(text: str) -> str:
    """``promtool tsdb dump`` puts the name among the labels: {__name__="x", device="lo"} 1 2."""
    match = _DUMPED.match(text)
    return text if match is None else f"{match[1]}{{{text[match.end() :]}"


def _line(rows: Rows, page: _Page, block: Block, line: int, text: str) -> bool:
    """Adds one sample or sets it aside; False for a metric of something else."""
    match = _SAMPLE.match(text)
    name = next(iter(text.partition("{")[0].split(maxsplit=1)), "")
    if name == BUILD_INFO and match and (labels := _labels(match[0])):
        page.build = labels.get("version")
    if name in TOO_NARROW:
        rows.aside_once(name, TOO_NARROW[name], line, block.path)
        return True
    if not known_name(name):
        return False
    try:
        if match is None:
            raise ValueError("no sample of the exposition format")
        found = _series(rows, page, match[0])
        # An exemplar follows the value of an OpenMetrics counter: # {trace_id="..."} 1.0
        tail = text[match.end() :].partition(" # {")[0].split()
        if found is None or not 1 <= len(tail) <= 2:
            raise ValueError("no sample of the exposition format")
        key, series = found
        at, stamp = block.ts_ns, block.stamp
        if len(tail) == 2:
            at, step = epoch_ns(_plain(tail[1]))
            stamp = rows.stamp("device", step, block.path)
        elif not at:
            rows.aside_once(name, "no time, neither its own nor the page's", line, block.path)
            return True
        factor = words_factor(page.build, rows.source.options.get("unit")) if series.in_words else 1
        rows.add(key, at, reading_of(series.meaning, tail[0], factor), stamp, line)
    except ValueError as error:
        grouped = str(error).startswith("the device") or "infiniband_exporter" in str(error)
        if grouped:
            rows.aside_once(name, str(error), line, block.path)
        else:
            rows.aside("reading", str(error), line, block.path)
    return True


def _plain(text: str) -> str:
    """OpenMetrics writes times like 1.795973865157e+09."""
    try:
        return format(Decimal(text), "f") if "e" in text.lower() and len(text) < 40 else text
    except ArithmeticError:
        raise ValueError("no epoch time") from None


def _labels(head: str) -> dict[str, str] | None:
    try:
        [family] = text_string_to_metric_families(f"{head} 0\n")
        [sample] = family.samples
    except ValueError:
        return None
    return dict(sample.labels)


def _series(rows: Rows, page: _Page, head: str) -> tuple[int, Series] | None:
    if head not in page.known:
        labels = _labels(head)
        found = series_of(head.partition("{")[0], labels) if labels is not None else None
        if found is None:
            page.known[head] = None
        else:
            device = rows.alias(found.device) if found.device else page.device(labels or {})
            interface = found.interface or "unknown"
            key = rows.meant(found.meaning, device, interface, rank=found.rank)
            page.known[head] = (key, found)
    return page.known[head]
