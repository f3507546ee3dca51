"""Small canonical tables by hand, in ms, for tests of the measures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from servebook.tables import Tables, table

MS = 1_000_000


def request(
    request_id: str,
    start: float | None,
    *,
    ttft: float | None = None,
    gaps: Sequence[float] = (),
    end: float | None = None,
    isl: int | None = 100,
    osl: int | None = None,
    status: str = "ok",
    error: str | None = None,
    phase: str = "profiling",
    scheduled: float | None = None,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """A request in ms; by default its end is the last gap's and its OSL one more than its gaps."""
    first = None if start is None or ttft is None else start + ttft
    if end is None and first is not None:
        end = first + sum(gaps)
    if osl is None and status == "ok":
        osl = len(gaps) + 1
    return {
        "request_id": request_id,
        "phase": phase,
        "status": status,
        "scheduled_ns": _ns(scheduled),
        "start_ns": _ns(start),
        "first_token_ns": _ns(first),
        "end_ns": _ns(end),
        "isl": isl,
        "osl": osl,
        "error_kind": error,
        "flags": list(flags),
        "gaps": list(gaps),
    }


def run(
    run_id: str,
    requests: Sequence[Mapping[str, Any]],
    *,
    native: Mapping[str, Any] | None = None,
    **identity: Any,
) -> Tables:
    """A run of these requests; identity columns by keyword."""
    rows, gaps = [], []
    for one in requests:
        row = {k: v for k, v in one.items() if k != "gaps"} | {"run_id": run_id}
        rows.append(row)
        end = one["first_token_ns"]
        for index, gap in enumerate(one["gaps"]):
            end += _ns(gap)
            gaps.append(
                {
                    "run_id": run_id,
                    "request_id": one["request_id"],
                    "index": index,
                    "end_ns": end,
                    "gap_ns": _ns(gap),
                }
            )
    counted = [r for r in rows if r["phase"] == "profiling"]
    known: dict[str, Any] = {
        "run_id": run_id,
        "path": run_id,
        "client": "AIPerf",
        "format": "aiperf",
        "clock": "epoch",
        "level": "records",
        "n_requests": len(counted),
        "n_gaps": len(gaps),
        "native": None if native is None else json.dumps(native),
    }
    for status in ("ok", "failed", "cancelled"):
        known[f"n_{status}"] = sum(r["status"] == status for r in counted)
    return Tables(
        runs=table("runs", [known | identity]),
        requests=table("requests", rows),
        gaps=table("gaps", gaps),
    )


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * MS)
