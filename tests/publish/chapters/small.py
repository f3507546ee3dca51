"""Small campaigns written by hand, and the shipped one, read once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from servebook.read.campaign import Campaign, load
from servebook.read.manifest import parse_manifest
from servebook.tables import Tables, empty, table

LOOPBACK = Path(__file__).parents[3] / "data" / "loopback"
MANIFEST = """\
servebook: 1
name: small
provenance: measured
configurations:
  a: {label: A, max_num_seqs: 8, chunked_prefill: false}
  b: {label: B, max_num_seqs: 8, chunked_prefill: true}
"""


def one_run(
    name: str,
    *,
    configuration: str | None = "a",
    workload: str = "mixed",
    concurrency: int = 2,
    gaps_ms: Iterable[float] = (5.0,),
    status: str = "ok",
    n: int = 2,
    client: str = "AIPerf",
    level: str = "records",
    length_s: float = 1.0,
    isl: int = 100,
    clock: str = "epoch",
    n_lost: int | None = 0,
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """A run of n equal requests, one after the other: row of runs, of requests, of gaps."""
    ok = status == "ok"
    gaps = list(gaps_ms) if workload != "prefill" and ok else []
    requests, gap_rows = [], []
    for i in range(n):
        start = int(i * length_s * 1e9)
        at = start + 10_000_000
        request = {
            "run_id": name,
            "request_id": f"{name}-{i}",
            "phase": "profiling",
            "status": status,
            "start_ns": start,
            "first_token_ns": at if ok else None,
            "isl": isl if ok else None,
            "osl": len(gaps) + 1 if ok else None,
            "error_kind": None if ok else "http_500",
            "flags": [],
        }
        for k, gap in enumerate(gaps):
            at += int(gap * 1e6)
            gap_rows.append(
                {
                    "run_id": name,
                    "request_id": f"{name}-{i}",
                    "index": k,
                    "end_ns": at if clock == "epoch" else None,
                    "gap_ns": int(gap * 1e6),
                }
            )
        request["end_ns"] = at if gaps else start + int(length_s * 1e9)
        requests.append(request)
    run = {
        "run_id": name,
        "campaign": "small",
        "configuration": configuration,
        "format": "aiperf",
        "client": client,
        "client_version": "0.13.0",
        "path": f"raw/{name}.jsonl",
        "workload": workload,
        "concurrency": concurrency,
        "repeat": 1,
        "isl_requested": isl,
        "osl_requested": len(gaps) + 1,
        "clock": clock,
        "start_ns": 0,
        "end_ns": int(n * length_s * 1e9),
        "n_requests": n,
        "n_ok": n if ok else 0,
        "n_failed": n if status == "failed" else 0,
        "n_cancelled": n if status == "cancelled" else 0,
        "n_lost": n_lost,
        "n_gaps": len(gap_rows),
        "level": level,
        "notes": [],
    }
    return run, ([] if level == "summary" else requests), ([] if level == "summary" else gap_rows)


def campaign(runs: Mapping[str, Mapping[str, Any]], manifest: str = MANIFEST) -> Campaign:
    """A campaign of these runs (keyword arguments of ``one_run``)."""
    parts = [one_run(name, **settings) for name, settings in runs.items()]
    return Campaign(
        root=Path("small"),
        name="small",
        manifest=parse_manifest(manifest.encode(), Path("campaign.yaml")),
        tables=Tables(
            runs=table("runs", [p[0] for p in parts]),
            requests=table("requests", [r for p in parts for r in p[1]]),
            gaps=table("gaps", [g for p in parts for g in p[2]]),
        ),
        ports=empty("ports"),
        inputs=pa.table({"path": [], "sha256": [], "bytes": [], "format": []}),
        findings=(),
    )


@functools.cache
def shipped(name: str) -> Campaign:
    """A campaign in ``data/``, read and measured once for all tests of a process."""
    return load(LOOPBACK.parent / name)


def loopback() -> Campaign:
    """The shipped campaign that was measured."""
    return shipped("loopback")
