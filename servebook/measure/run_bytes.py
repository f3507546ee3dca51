"""Link bytes of a whole run: summed over its links, each byte once, per token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["above_idle", "run_totals"]

#: Where several kinds of ports saw one and the same traffic, the first kind that counted is taken.
_ROLES = ("uplink", "host", "", "spine")
_RUN = ["run_id", "configuration", "workload", "concurrency"]
_ROUNDING = 1e-9


def above_idle(total: float, idle: float) -> float:
    """Bytes above the idle level (NaN without one); 0 where the two differ by rounding alone."""
    rest = total - idle
    return 0.0 if abs(rest) <= _ROUNDING * total else rest


def run_totals(links: pd.DataFrame) -> pd.DataFrame:
    """Bytes and bytes per token of each run over all its links, one row per run and direction.

    ``links`` is ``bytes_per_token``, located, with one view per port (``rails.preferred``). Only
    one scope (port before others) and one role (uplink, host, none stated, spine) is summed, so
    that traffic which two kinds of ports see is not counted twice. Columns: run_id,
    configuration, workload, concurrency, role, scope, direction, n_links, bytes, idle_bytes,
    tokens, basis, gross, net (bytes per token; NaN with the words in ``why``), idle_steady (all
    links). Sorted as the runs come.
    """
    rows: list[dict[str, Any]] = []
    for _, run in links.groupby("run_id", sort=False):
        scopes = sorted(set(run["scope"]), key=lambda s: (s != "port", s))
        chosen = run[run["scope"] == scopes[0]]
        roles = {r if isinstance(r, str) else "" for r in chosen["role"]}
        role = next((r for r in _ROLES if r in roles), "")
        chosen = chosen[[(r if isinstance(r, str) else "") == role for r in chosen["role"]]]
        for direction, group in chosen.groupby("direction", sort=True):
            first = group.iloc[0]
            whys = sorted({w for w in group["why"] if w})
            tokens = float(first["tokens"]) if not whys else np.nan
            total, idle = float(group["bytes"].sum()), float(group["idle_bytes"].sum(skipna=False))
            rows.append(
                {name: first[name] for name in _RUN}
                | {
                    "role": role,
                    "scope": scopes[0],
                    "direction": direction,
                    "n_links": len(group),
                    "bytes": total,
                    "idle_bytes": idle,
                    "tokens": tokens,
                    "basis": first["basis"],
                    "gross": total / tokens,
                    "net": above_idle(total, idle) / tokens,
                    "idle_steady": bool(group["idle_steady"].all()),
                    "why": "; ".join(whys),
                }
            )
    columns = [*_RUN, "role", "scope", "direction", "n_links", "bytes", "idle_bytes", "tokens"]
    return pd.DataFrame(rows, columns=[*columns, "basis", "gross", "net", "idle_steady", "why"])
