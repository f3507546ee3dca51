"""Ports beside each other: one view per physical port, where it stands, and which stand apart.

A host's interface may be read in several ways at once, each a device of its own; the ports of a
node may sit on several switches. Both are told by the manifest's ``ports``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from servebook.measure.fabric import LINK

__all__ = ["MIN_PORTS", "located", "preferred", "spread"]

MIN_PORTS = 4  # fewer do not show what is usual among them
_FAR = 3.0  # robust standard deviations from the median
_MATTERS = 0.1  # of the median: less is no outlier, however even the others are
_NORMAL = 1.4826  # median absolute deviation to standard deviation of a normal distribution


def located(links: pd.DataFrame, ports: pa.Table) -> pd.DataFrame:
    """Adds what the manifest says of each link, one row per row of ``links`` (columns ``LINK``).

    Columns: role, node, rail (None where not stated), place (what its ports are summed and drawn
    under: the node for switch ports, the device for what a host says of itself and for ports
    without a node), physical (equal for all views of one host interface, else the link's own).
    """
    stated = {
        (row["device"], row["interface"]): row
        for row in ports.select(["device", "interface", "role", "node", "rail"]).to_pylist()
    }
    # Each link once: intervals have many thousand rows of the same few dozen.
    group = links.groupby(LINK, sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    rows = []
    for source, device, interface, scope, _ in (
        links[LINK].iloc[first].itertuples(index=False, name=None)
    ):
        port = stated.get((device, interface), {})
        role, node, rail = port.get("role"), port.get("node"), port.get("rail")
        of_host = role == "host" and node is not None
        rows.append(
            {
                "role": role,
                "node": node,
                "rail": rail,
                "place": device if of_host or node is None else node,
                "physical": f"{node}\t{interface}\t{scope}"
                if of_host
                else f"{device}\t{interface}\t{scope}\t{source}",
            }
        )
    added = pd.DataFrame(rows, columns=["role", "node", "rail", "place", "physical"])
    for name in ("role", "node", "rail"):  # None, not NaN, where the manifest is silent
        added[name] = pd.Series([row[name] for row in rows], dtype=object)
    added = added.take(group).set_index(links.index)
    return pd.concat([links, added], axis="columns")


def preferred(seen: pd.DataFrame) -> pd.DataFrame:
    """Of several views of one port in one run the one with the most readings, so that nothing
    counts twice.

    ``seen`` is a located frame with run_id, direction and ``n_inside`` or ``coverage``; the order
    of its rows is kept.
    """
    weight = "n_inside" if "n_inside" in seen else "coverage"
    ranked = seen.sort_values([weight, *LINK], ascending=[False] + [True] * 5, kind="stable")
    kept = ranked.drop_duplicates(["run_id", "physical", "direction"], keep="first")
    return seen.loc[kept.index.sort_values()]


def spread(values: pd.DataFrame) -> pd.DataFrame:
    """Ports in order of use per direction, and those that stand apart.

    ``values`` has direction and value (not NaN). Adds rank (1 = least), middle (median of the
    direction), deviation (value over middle, minus 1), outlier: more than 3 robust standard
    deviations and more than 10 % of the median away from it, among at least ``MIN_PORTS`` ports.
    """
    parts = []
    for _, group in values.groupby("direction", sort=True):
        ordered = group.sort_values("value", kind="stable")
        value = ordered["value"].to_numpy(dtype=float)
        middle = float(np.median(value))
        distance = np.abs(value - middle)
        scale = _NORMAL * float(np.median(distance))
        far = (distance > _FAR * scale) & (distance > _MATTERS * abs(middle))
        parts.append(
            ordered.assign(
                rank=np.arange(1, len(value) + 1),
                middle=middle,
                deviation=value / middle - 1 if middle else np.nan,
                outlier=far & (len(value) >= MIN_PORTS),
            )
        )
    if not parts:
        return values.assign(rank=0, middle=np.nan, deviation=np.nan, outlier=False)
    return pd.concat(parts, ignore_index=True)
