"""Counters joined with the manifest: clock offsets, and what does not fit the runs and ports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from servebook.read.campaign_runs import some
from servebook.tables import Tables

__all__ = ["counter_findings", "moved"]


def moved(part: Tables, offset_s: float | None) -> Tables:
    """The counters with ``offset_s`` added to their times."""
    if not offset_s or not part.samples.num_rows:
        return part
    at = part.samples.schema.get_field_index("ts_ns")
    times = pc.add(part.samples["ts_ns"], round(offset_s * 1e9))
    return dataclasses.replace(
        part, samples=part.samples.set_column(at, part.samples.schema.field(at), times)
    )


def counter_findings(tables: Tables, ports: pa.Table) -> list[str]:
    """Counters that lie beside no run, and interfaces without a port entry or without samples."""
    findings = []
    phases = [
        (start, end)
        for start, end, clock in zip(
            *(tables.runs[c].to_pylist() for c in ("start_ns", "end_ns", "clock")), strict=True
        )
        if clock == "epoch" and start is not None and end is not None
    ]
    spans = _spans(tables.samples, "source")
    for source, (first, last) in spans.items():
        if not any(start <= last and end >= first for start, end in phases):
            findings.append(
                f"{source}: its counters ({_clock(first)} to {_clock(last)}) overlap no run"
                + (
                    f"; the runs lie between {_clock(min(s for s, _ in phases))} and "
                    f"{_clock(max(e for _, e in phases))}: check clocks and time zones, or state "
                    "`clock_offset_s`"
                    if phases
                    else ", because no run has a wall clock"
                )
            )
    if spans and phases:
        outside = sum(
            not any(start <= last and end >= first for first, last in spans.values())
            for start, end in phases
        )
        if outside:
            findings.append(f"{outside} of {len(phases)} runs have no counters beside them")
    findings += _port_findings(tables.samples, ports)
    return findings


def _port_findings(samples: pa.Table, ports: pa.Table) -> list[str]:
    findings = []
    known = {(row["device"], row["interface"]): row["speed_bps"] for row in ports.to_pylist()}
    pairs = samples.select(["device", "interface"]).group_by(["device", "interface"]).aggregate([])
    seen = {
        (device, interface)
        for device, interface in zip(
            pairs["device"].to_pylist(), pairs["interface"].to_pylist(), strict=True
        )
        if interface is not None
    }
    names = [f"{device} {interface}" for device, interface in sorted(seen - set(known), key=str)]
    if names:
        findings.append(
            f"{len(names)} interfaces have counters but no `ports:` entry, so their use in percent "
            f"is unknown: {some(names)}"
        )
    slow = [f"{d} {i}" for (d, i), speed in sorted(known.items()) if speed is None]
    if slow:
        findings.append(f"{len(slow)} ports have no speed_gbps: {some(slow)}")
    silent = [f"{d} {i}" for d, i in sorted(set(known) - seen)]
    if silent:
        findings.append(f"{len(silent)} ports of the manifest have no counters: {some(silent)}")
    return findings


def _spans(samples: pa.Table, by: str) -> Mapping[str, tuple[int, int]]:
    spans = samples.group_by([by]).aggregate([("ts_ns", "min"), ("ts_ns", "max")])
    columns: Sequence[list[object]] = [
        spans[name].to_pylist() for name in (by, "ts_ns_min", "ts_ns_max")
    ]
    return {
        str(name): (int(str(first)), int(str(last)))
        for name, first, last in sorted(zip(*columns, strict=True), key=str)
        if first is not None
    }


def _clock(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
