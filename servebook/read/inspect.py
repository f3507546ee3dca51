"""Says what a file or tree is and holds, without judging any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from servebook.read.discover import discover, read_source, reader
from servebook.read.files import printable
from servebook.read.source import Source, relative
from servebook.tables import Tables

__all__ = ["inspect", "render"]

_RUN_COLUMNS = (
    "run_id",
    "format",
    "client",
    "client_version",
    "n_requests",
    "n_ok",
    "n_failed",
    "n_cancelled",
    "n_gaps",
    "start_ns",
    "end_ns",
    "clock",
)
_MANY = 12
_FEW = 4


def inspect(path: Path) -> dict[str, Any]:
    """Runs, counters, records set aside, refusals and companions at or below ``path``.

    Raises DumpError where ``path`` does not exist.
    """
    found = discover(path)
    out: dict[str, Any] = {
        "path": printable(str(path)),
        "runs": [],
        "counters": [],
        "engine": [],
        "set_aside": [],
        "refused": [{"path": name, "reason": reason} for name, reason in found.refused],
        "companions": list(found.companions),
    }
    with reader(found) as read:
        for source in found.sources:
            tables = read_source(source, read)
            out["runs"] += tables.runs.select(list(_RUN_COLUMNS)).to_pylist()
            out["counters"] += _counters(source, tables)
            out["engine"] += _engine(source, tables)
            out["set_aside"] += tables.set_aside.select(["path", "line", "reason"]).to_pylist()
            out["refused"] += tables.refused.to_pylist()
    out["refused"].sort(key=lambda row: (row["path"], row["reason"]))
    return out


def _counters(source: Source, tables: Tables) -> list[dict[str, Any]]:
    """One entry per device of a source; a file without a device's name is one entry."""
    samples = tables.samples
    rows = []
    for device in sorted(pc.unique(samples["device"]).to_pylist(), key=lambda d: (d is None, d)):
        alike = (
            pc.is_null(samples["device"]) if device is None else pc.equal(samples["device"], device)
        )
        own = samples.filter(alike)
        times = pc.min_max(own["ts_ns"]).as_py()
        interfaces = pc.unique(own["interface"]).to_pylist()
        rows.append(
            {
                "format": source.format,
                "device": device,
                "interfaces": sorted(i for i in interfaces if i is not None),
                "n_samples": own.num_rows,
                "start_ns": times["min"],
                "end_ns": times["max"],
            }
        )
    return rows


def _engine(source: Source, tables: Tables) -> list[dict[str, Any]]:
    """One entry per source of engine metrics."""
    rows = tables.engine
    if not rows.num_rows:
        return []
    return [
        {
            "format": source.format,
            "path": relative(source.main, source.root),
            "engines": pc.count_distinct(rows["engine"]).as_py(),
            "metrics": sorted(pc.unique(rows["metric"]).to_pylist()),
            "n_values": rows.num_rows,
            "start_ns": pc.min(rows["start_ns"]).as_py(),
            "end_ns": pc.max(rows["end_ns"]).as_py(),
        }
    ]


def render(found: dict[str, Any]) -> str:
    """The same as text for a terminal: tables, then what was not used, grouped by reason."""
    blocks = [found["path"]]
    if found["runs"]:
        titles = ("run", "client", "requests", "ok", "failed", "cancelled", "gaps", "clock")
        keys = ("run_id", None, "n_requests", "n_ok", "n_failed", "n_cancelled", "n_gaps", "clock")
        body = [
            [_client(run) if key is None else _cell(run[key]) for key in keys]
            for run in found["runs"]
        ]
        blocks.append(_columns("Runs", titles, body))
    if found["counters"]:
        head = ("format", "device", "interfaces", "samples", "seconds")
        body = [
            [
                _cell(row["format"]),
                _cell(row["device"]),
                _cell(", ".join(row["interfaces"][:_MANY]) + _more(row["interfaces"])),
                _cell(row["n_samples"]),
                _seconds(row),
            ]
            for row in found["counters"]
        ]
        blocks.append(_columns("Counters", head, body))
    if found["engine"]:
        head = ("file", "engines", "metrics", "values", "seconds")
        body = [
            [
                _cell(row["path"]),
                _cell(row["engines"]),
                _cell(", ".join(row["metrics"])),
                _cell(row["n_values"]),
                _seconds(row),
            ]
            for row in found["engine"]
        ]
        blocks.append(_columns("Engine metrics", head, body))
    for title, key in (("Set aside", "set_aside"), ("Refused", "refused")):
        if found[key]:
            blocks.append(_grouped(title, found[key]))
    if found["companions"]:
        n, some = len(found["companions"]), found["companions"][:_FEW]
        blocks.append(
            f"Beside them, not read as dumps: {n:,} file{'s' if n > 1 else ''}, "
            + printable(", ".join(some) + (", ..." if len(some) < n else ""))
        )
    if not found["runs"] and not found["counters"] and not found["engine"]:
        blocks.append("No dump that can be used.")
    return "\n\n".join(blocks)


def _client(run: dict[str, Any]) -> str:
    return _cell(" ".join(filter(None, (run["client"], run["client_version"]))))


def _seconds(row: dict[str, Any]) -> str:
    if row["start_ns"] is None:
        return "-"
    return f"{(row['end_ns'] - row['start_ns']) / 1e9:,.1f}"


def _more(values: list[str]) -> str:
    return f" and {len(values) - _MANY} more" if len(values) > _MANY else ""


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _columns(title: str, head: Sequence[str], body: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in (list(head), *body)) for i in range(len(head))]
    numeric = [
        all(row[i] == "-" or row[i].replace(",", "").replace(".", "").isdigit() for row in body)
        for i in range(len(head))
    ]

    def line(cells: list[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  " + "  ".join(padded).rstrip()

    return "\n".join([f"{title} ({len(body):,})", line(list(head)), *map(line, body)])


def _grouped(title: str, rows: list[dict[str, Any]]) -> str:
    """Reasons with their number and the first place of each."""
    count = Counter(row["reason"] for row in rows)
    first: dict[str, str] = {}
    for row in rows:
        line = row.get("line")
        place = row["path"] if line is None else f"{row['path']}:{line}"
        first.setdefault(row["reason"], printable(place))
    out = [f"{title} ({len(rows):,})"]
    for reason, n in count.most_common():
        place = first[reason] if n == 1 else f"{first[reason]} and {n - 1:,} more"
        out.append(f"  {place}: {printable(reason)}")
    return "\n".join(out)
