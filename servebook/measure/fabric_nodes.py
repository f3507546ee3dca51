"""Link use of a server's links together, and how evenly they carry it.

A link that several sources counted is taken from one of them (``one_source``); nothing is ever
added up twice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from servebook.measure.fabric import LINK, TIMED, USAGE, Columns, columns_of, idle, link_use
from servebook.measure.intervals import flagged, good

__all__ = ["balance", "node_usage", "one_source", "rail_skew"]


def one_source(intervals: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The intervals with one source per link where several overlap in time, and which were left.

    A counter is preferred to a rate, true times to a query's grid, more intervals to fewer, then
    the first name. The sentences say which source was taken for which links.
    """
    group = intervals.groupby(LINK, sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    dropped: set[tuple[str, ...]] = set()
    words: dict[tuple[str, str], list[str]] = {}
    for port, ranked in _ranked(intervals, group, first).items():
        taken: list[tuple[int, int, str]] = []
        for rank, start, end in sorted(ranked):
            rival = next((name for a, b, name in taken if start < b and a < end), None)
            if rival is None:
                taken.append((start, end, rank[3]))
                continue
            dropped.add((rank[3], *port))
            words.setdefault((rival, rank[3]), []).append(f"{port[0]} {port[1]} {port[3]}")
    links = intervals[LINK].iloc[first].astype(str).to_numpy()
    keep = np.array([tuple(key) not in dropped for key in links], dtype=bool)[group]
    told = tuple(
        f"{', '.join(links)}: counted by {kept} and {left} at the same time; sums use {kept}"
        for (kept, left), links in sorted(words.items())
    )
    return intervals[keep], told


_Rank: TypeAlias = tuple[tuple[bool, bool, int, str], int, int]  # then its first and last time


def _ranked(
    intervals: pd.DataFrame, group: npt.NDArray[Any], first: npt.NDArray[Any]
) -> dict[tuple[str, ...], list[_Rank]]:
    """The sources of each port, sorted by port; ``group`` says which link each interval is of."""
    n = len(first)
    size = np.bincount(group, minlength=n)
    grid = flagged(intervals["flags"], lambda flags: "grid" in flags)
    on_grid = np.bincount(group[grid], minlength=n) > 0
    rates = (intervals["source_kind"] == "rate").to_numpy()
    only_rates = np.bincount(group[rates], minlength=n) == size
    start, end = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(start, group, intervals["t0_ns"].to_numpy())
    np.maximum.at(end, group, intervals["t1_ns"].to_numpy())
    found: dict[tuple[str, ...], list[_Rank]] = {}
    links = intervals[LINK].iloc[first]
    for at in np.flatnonzero(links.notna().all(axis="columns").to_numpy()).tolist():
        source, *port = (str(links[name].iloc[at]) for name in LINK)
        rank = (bool(only_rates[at]), bool(on_grid[at]), -int(size[at]), source)
        found.setdefault(tuple(port), []).append((rank, int(start[at]), int(end[at])))
    return dict(sorted(found.items()))


def node_usage(
    intervals: pd.DataFrame,
    phases: pd.DataFrame,
    ports: pa.Table,
    levels: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Usual, peak and floor of all links of a node together, per run, role and direction.

    ``ports`` (schema "ports") says which links belong to a node. Links of one node are added over
    the intervals of the one that was read least often, the others' bytes shared out by time.
    Columns: run_id, configuration, workload, concurrency, node, role, direction, n_ports (of the
    manifest), n_counted, and ``USAGE``; speed_bps is the sum. Where a link of the node was not
    counted the values are NaN and ``why`` says so.
    """
    taken, _ = one_source(good(intervals))
    taken = taken[taken["scope"] == "port"]
    floors = idle(intervals, phases) if levels is None else levels
    known = {
        tuple(str(part) for part in key): float(value)
        for key, value in zip(floors[LINK].to_numpy(), floors["idle_bps"], strict=True)
    }
    by_port = {
        port: (columns_of(frame, [*TIMED, "bytes"]), known.get(_link(frame), np.nan))
        for port, frame in taken.groupby(["device", "interface", "direction"])
    }
    rows = []
    for (node, role), members in _nodes(ports).items():
        for direction in ("rx", "tx"):
            links = [by_port.get((*member, direction)) for member in members]
            counted = [link for link in links if link is not None]
            for phase in phases.to_dict("records"):
                t0, t1 = int(phase["t0_ns"]), int(phase["t1_ns"])
                near, level = [], 0.0
                for columns, own_level in counted:
                    there = (columns["t1_ns"] > t0) & (columns["t0_ns"] < t1)
                    if there.any():
                        near.append({name: values[there] for name, values in columns.items()})
                        level += own_level
                if not near:
                    continue
                use = (
                    link_use(_added(near), t0, t1, level)
                    if len(near) == len(members)
                    else {"why": f"{len(near)} of {len(members)} links of the node were counted"}
                )
                rows.append(
                    {name: phase[name] for name in ("run_id", "configuration", "workload")}
                    | {"concurrency": phase["concurrency"], "node": node, "role": role}
                    | {"direction": direction, "n_ports": len(members), "n_counted": len(near)}
                    | use
                )
    names = ["run_id", "configuration", "workload", "concurrency", "node", "role", "direction"]
    out = pd.DataFrame(rows, columns=[*names, "n_ports", "n_counted", *USAGE])
    return out.astype({"peak_t0_ns": "Int64"})


def rail_skew(usage: pd.DataFrame, ports: pa.Table) -> pd.DataFrame:
    """How evenly the links of a node carry a run: one row per link, sorted by use.

    ``usage`` is what ``usage`` gives, one source per link. Columns: run_id, node, role,
    direction, device, interface, rail, usual_bps, rank (1 = most used), share_of_mean,
    max_over_min (of the node's links in that run and direction; NaN below two links).
    """
    about = ports.select(["device", "interface", "node", "role", "rail"]).to_pandas()
    frame = usage.dropna(subset=["usual_bps"]).merge(about, on=["device", "interface"])
    group = ["run_id", "node", "role", "direction"]
    use = frame.groupby(group, dropna=False)["usual_bps"]
    frame["share_of_mean"] = frame["usual_bps"] / use.transform("mean")
    frame["rank"] = use.rank(ascending=False, method="first").astype("int64")
    several = use.transform("count") > 1
    frame["max_over_min"] = (use.transform("max") / use.transform("min")).where(several)
    columns = [*group, "device", "interface", "rail", "usual_bps", "rank"]
    out = frame[[*columns, "share_of_mean", "max_over_min"]]
    return out.sort_values([*group, "rank"], kind="stable", ignore_index=True)


def balance(attributed: pd.DataFrame) -> pd.DataFrame:
    """What each link received and sent in each run, from ``attributed`` (or bytes per token).

    Columns: run_id, source, device, interface, scope, rx_bytes, tx_bytes (NaN where that
    direction was not counted), tx_over_rx.
    """
    keys = ["run_id", "source", "device", "interface", "scope"]
    wide = attributed.pivot_table(
        index=keys, columns="direction", values="bytes", aggfunc="sum", sort=True
    )
    wide = wide.reindex(columns=["rx", "tx"]).rename(columns=lambda name: f"{name}_bytes")
    wide["tx_over_rx"] = (wide["tx_bytes"] / wide["rx_bytes"]).where(wide["rx_bytes"] > 0)
    out = wide.reset_index()
    out.columns.name = None
    return out


def _nodes(ports: pa.Table) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(node, role) -> its (device, interface) pairs, sorted."""
    nodes: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in ports.to_pylist():
        if row["node"]:
            key = (row["node"], row["role"] or "")
            nodes.setdefault(key, set()).add((row["device"], row["interface"]))
    return {key: sorted(nodes[key]) for key in sorted(nodes)}


def _link(frame: pd.DataFrame) -> tuple[str, ...]:
    return tuple(str(frame[name].iloc[0]) for name in LINK)


def _added(links: list[Columns]) -> Columns:
    """The links' rates added over the intervals of the one with the longest of them."""
    spacing = [float(np.median(link["t1_ns"] - link["t0_ns"])) for link in links]
    base = links[int(np.argmax(spacing))]
    start, end = base["t0_ns"], base["t1_ns"]
    moved = base["bytes"].copy()
    for link in links:
        if link is not base:
            moved += _between(link, start, end)
    known = ~np.isnan(moved)
    speed = sum(float(link["speed_bps"][0]) for link in links)
    return {
        "t0_ns": start[known],
        "t1_ns": end[known],
        "rate_bps": moved[known] * 8e9 / (end - start)[known],
        "speed_bps": np.array([speed]),
    }


def _between(
    link: Columns, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Bytes of one link between the times; NaN where it was not watched throughout."""
    t0, t1 = link["t0_ns"], link["t1_ns"]
    zero = min(int(start.min()), int(t0.min()))
    points = np.ravel(np.column_stack([t0, t1]) - zero).astype(float)
    amount = np.cumsum(link["bytes"])
    totals = np.ravel(np.column_stack([amount - link["bytes"], amount]))
    watched = np.ravel(np.column_stack([np.cumsum(t1 - t0) - (t1 - t0), np.cumsum(t1 - t0)]))
    a, b = (start - zero).astype(float), (end - zero).astype(float)
    moved = np.interp(b, points, totals) - np.interp(a, points, totals)
    seen = np.interp(b, points, watched) - np.interp(a, points, watched)
    return np.where(seen >= (b - a) * (1 - 1e-6), moved, np.nan)
