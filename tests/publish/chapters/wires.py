"""Small campaigns with counters, made by hand: rates per link and second, runs beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from servebook.read.campaign import Campaign
from servebook.read.manifest import load_manifest
from servebook.tables import Tables, empty, table

S = 1_000_000_000
T0 = 1_700_000_000 * S

#: One link: (device, interface, direction), and what it carries in bytes/s at second i.
Links = Mapping[tuple[str, str, str], Callable[[int], float]]

CONFIGURATIONS = """
configurations:
  one: {label: one node, nodes: 1, gpus: 8, gpus_per_node: 8}
  two: {label: two nodes, nodes: 2, gpus: 16, gpus_per_node: 8}
"""


def samples(
    links: Links,
    seconds: int,
    *,
    source: str = "counters.json",
    step: int = 1,
    start: int = 0,
    reset_at: int | None = None,
    silent: Sequence[int] = (),
) -> pa.Table:
    """Counter readings every ``step`` seconds from ``start``; at ``reset_at`` they begin at 0."""
    rows = []
    for (device, interface, direction), rate in links.items():
        count = 10**9
        for i in range(start, start + seconds, step):
            if i > start:
                count += round(sum(rate(j) for j in range(i - step, i)))
            if i == reset_at:
                count = 0
            if i in silent:
                continue
            rows.append(
                {
                    "source": source,
                    "format": "prometheus",
                    "device": device,
                    "interface": interface,
                    "ts_ns": T0 + i * S,
                    "ts_kind": "collector",
                    "metric": "bytes",
                    "scope": "port",
                    "direction": direction,
                    "kind": "counter",
                    "count": count,
                    "bits": 64,
                }
            )
    return table("samples", rows)


def runs(*rows: tuple[str, str, str, int, int]) -> Tables:
    """Runs of (run_id, configuration, workload, first second, last second).

    Each has ten requests of 100 tokens in and 1 (prefill) or 50 tokens out, back to back.
    """
    run_rows, requests = [], []
    for run_id, configuration, workload, first, last in rows:
        start, end = T0 + first * S, T0 + last * S
        step = (end - start) // 10
        osl = 1 if workload == "prefill" else 50
        run_rows.append(
            {
                "run_id": run_id,
                "configuration": configuration,
                "client": "AIPerf",
                "path": run_id,
                "workload": workload,
                "concurrency": 1,
                "start_ns": start,
                "end_ns": end,
                "clock": "epoch",
                "level": "records",
                "n_requests": 10,
                "n_ok": 10,
                "native": json.dumps({"n_ok": 10}),
                "notes": [],
            }
        )
        requests += [
            {
                "run_id": run_id,
                "request_id": str(i),
                "phase": "profiling",
                "status": "ok",
                "start_ns": start + i * step,
                "first_token_ns": start + i * step + step // 4,
                "end_ns": start + (i + 1) * step,
                "isl": 100,
                "osl": osl,
                "flags": [],
            }
            for i in range(10)
        ]
    return Tables(runs=table("runs", run_rows), requests=table("requests", requests))


def campaign(
    folder: Path,
    run_tables: Tables,
    counters: Sequence[pa.Table] = (),
    ports: Sequence[Mapping[str, object]] = (),
    *,
    manifest: str = CONFIGURATIONS,
) -> Campaign:
    """A campaign of these tables; ``ports`` are entries of the manifest."""
    text = "servebook: 1\nname: wires\nprovenance: measured\n" + manifest
    if ports:
        text += "ports:\n" + "".join(f"  - {json.dumps(port)}\n" for port in ports)
    path = folder / "campaign.yaml"
    path.write_text(text, encoding="utf-8")
    read = load_manifest(folder)
    rows = [
        {
            "device": p.device,
            "interface": p.interface,
            "speed_bps": None if p.speed_gbps is None else p.speed_gbps * 1e9,
            "role": p.role,
            "node": p.node,
            "rail": p.rail,
            "gpu": p.gpu,
        }
        for p in read.ports
    ]
    tables = Tables(
        runs=run_tables.runs,
        requests=run_tables.requests,
        gaps=run_tables.gaps,
        samples=pa.concat_tables(counters) if counters else empty("samples"),
    )
    inputs = pa.table(
        {
            "path": ["campaign.yaml"],
            "sha256": ["0" * 64],
            "bytes": pa.array([len(text)], pa.int64()),
            "format": ["campaign manifest"],
        }
    )
    return Campaign(
        root=folder,
        name="wires",
        manifest=read,
        tables=tables,
        ports=table("ports", rows),
        inputs=inputs,
        findings=(),
    )
