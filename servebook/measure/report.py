"""``servebook measure``: the metrics of each run below a path, without a page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from servebook.measure.metrics import COUNTS, METRICS, VALUES
from servebook.measure.native import compare, native
from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.read.files import printable
from servebook.tables import Tables

__all__ = ["measure", "measure_tables", "render"]

_SHOWN = (
    "duration_s",
    "request_throughput_req_s",
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    "total_throughput_tok_s",
    *(
        f"{family}_{statistic}_ms"
        for family in ("ttft", "tpot", "itl", "e2e")
        for statistic in ("mean", "p50", "p99")
    ),
)


_PAIR = ["metric", "same_definition", "reason", "theirs_recomputed"]


def measure(path: Path) -> dict[str, Any]:
    """The metrics of every run below ``path``: see ``measure_tables`` for the shape.

    Raises DumpError where the path does not exist or holds nothing that can be read.
    """
    return measure_tables(read_tree(path))


def measure_tables(tables: Tables) -> dict[str, Any]:
    """``{"runs": [...], "refused": [...]}``, runs in the order of their paths.

    Each run: run_id, path, client, level, duration_from, itl_basis, ours (metric or count: value),
    native (the client's own), same_definition (metric: bool, for those that both have), why
    (metric: the reason in words, for those that differ), theirs_recomputed (metric: the client's
    definition applied to our records, where they allow it). What is undefined or unknown is null.
    """
    metrics = run_metrics(tables)
    found = compare(tables, metrics)
    found["metric"] += ("@" + found["variant"]).where(found["variant"] != "", "")
    compared = {str(run): rows for run, rows in found.groupby("run_id")}
    own = dict(
        zip(tables.runs["run_id"].to_pylist(), tables.runs["native"].to_pylist(), strict=True)
    )
    names = [m.name for m in (*COUNTS, *VALUES)] + ["isl_mean", "osl_mean"]
    whole = {m.name for m in COUNTS}
    runs = []
    for row in metrics.sort_values(["path", "run_id"], kind="stable").to_dict("records"):
        run_id = str(row["run_id"])
        pairs = compared.get(run_id, pd.DataFrame(columns=_PAIR))
        same = dict(zip(pairs["metric"], pairs["same_definition"].astype(bool), strict=True))
        why = dict(zip(pairs["metric"], pairs["reason"], strict=True))
        again = dict(zip(pairs["metric"], pairs["theirs_recomputed"], strict=True))
        runs.append(
            {
                "run_id": run_id,
                "path": _text(row["path"]),
                "client": _text(row["client"]),
                "level": _text(row["level"]),
                "duration_from": _text(row["duration_from"]),
                "itl_basis": _text(row["itl_basis"]),
                "ours": {name: _value(row[name], whole=name in whole) for name in names},
                "native": {k: _value(v) for k, v in native(own[run_id])[0].items()},
                "same_definition": {name: bool(value) for name, value in same.items()},
                "why": {name: str(text) for name, text in why.items() if text},
                "theirs_recomputed": {
                    name: value for name in again if (value := _value(again[name])) is not None
                },
            }
        )
    return {"runs": runs, "refused": tables.refused.to_pylist()}


def render(found: dict[str, Any]) -> str:
    """The same for people: one aligned table per run."""
    parts = [_run(run) for run in found["runs"]]
    refused = found.get("refused") or []
    if not parts:
        parts.append("No run of a known client was found.")
    if refused:
        parts.append(
            "\n".join(printable(f"refused {row['path']}: {row['reason']}") for row in refused)
        )
    return "\n\n".join(parts)


def _run(run: dict[str, Any]) -> str:
    ours, theirs = run["ours"], run["native"]
    counts = ", ".join(
        f"{ours[name]} {METRICS[name].label.lower()}"
        for name in ("n_requests", "n_ok", "n_failed", "n_cancelled", "n_lost", "n_gaps")
        if ours[name] is not None
    )
    name = printable(run["run_id"])
    counts = counts or "the number of requests is not stated"
    lines = [f"{name} ({run['client'] or 'unknown client'})", f"  {counts}"]
    if run["level"] == "summary":
        lines.append("  a summary without records: nothing to recompute, the client's own values:")
    if run["duration_from"] == "client":
        lines.append("  no common clock in the records: the duration is the client's stopwatch")
    if run["itl_basis"] == "chunk":
        lines.append("  a chunk carries several tokens: ITL is the gap between chunks")
    client = str(run["client"] or "client")
    table = [("", "ours", client, "deviation")]
    notes: dict[str, str] = {}
    agreement: dict[str, list[float]] = {}  # of the client's definition, recomputed
    second = {key.partition("@")[0]: key for key in theirs if "@" in key}
    shown = [n for name in _SHOWN for n in (name, second.get(name)) if n]
    for name in shown:
        metric, _, variant = name.partition("@")
        mine, own = ours[metric], theirs.get(name)
        if mine is None and own is None:
            continue
        mark = ""
        if mine is not None and own and name in run["same_definition"]:
            mark = _percent(mine / own - 1)
        if (text := run["why"].get(name)) and run["level"] != "summary":
            again = run["theirs_recomputed"].get(name)
            missing = mine is None and again is None
            text = f"{'not recomputed' if missing else 'differs by definition'}: {text}"
            number = notes.setdefault(text, f"[{len(notes) + 1}]")
            mark = f"{mark} {number}".strip()
            if again is not None and own:
                agreement.setdefault(text, []).append(again / own - 1)
        label = f"{METRICS[metric].label} ({METRICS[metric].unit})"
        label = f"  its {variant}" if variant else label
        table.append((label, _figure(mine), _figure(own), mark))
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    lines += [
        "  "
        + "  ".join(
            cell.ljust(width) if i in (0, 3) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    for text, number in notes.items():
        lines.append(f"  {number} {text}")
        if found := agreement.get(text):
            worst = _percent(max(found, key=abs))
            lines.append(f"      recomputed by that definition, ours deviates by {worst} at most")
    return "\n".join(lines)


def _percent(ratio: float) -> str:
    text = f"{100 * ratio:+.3f} %"
    return text.replace("-0.000", "+0.000")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _value(value: Any, *, whole: bool = False) -> float | int | None:
    """A JSON number, or null for what is unknown, undefined or not finite."""
    if value is None or value is pd.NA or isinstance(value, str):
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    return round(number) if whole else int(value) if isinstance(value, int) else number


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
