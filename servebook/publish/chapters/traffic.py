"""Traffic of each watched run as one row: use over its links, sums, bytes per token."""

from __future__ import annotations

import pandas as pd

from servebook.measure.run_bytes import run_totals
from servebook.publish.chapters import common
from servebook.publish.chapters.fabric_base import measured
from servebook.read.campaign import Campaign

__all__ = ["per_run"]


@common.memo
def per_run(campaign: Campaign) -> pd.DataFrame:
    """One row per watched run, in order of run_id; empty without counters.

    Columns: run_id, usual_util, floor_util, peak_util (means over links and directions of the
    first two, the highest of the third; NaN without a speed), peak_window_s, usual_bps, sum_bps
    (of a node's links, mean over nodes and directions; of all links where no node is stated),
    links, bytes_per_token (the busier direction, gross, summed over the links), speed_bps, noted
    (bool: a speed that the manifest remarks on), devices (that were read, as text). Uplinks where
    there are any, else all links.
    """
    fabric = measured(campaign)
    columns = [
        "run_id", "usual_util", "floor_util", "peak_util", "peak_window_s", "usual_bps", "sum_bps",
        "links", "bytes_per_token", "speed_bps", "noted", "devices",
    ]  # fmt: skip
    if fabric is None or fabric.seen.empty:
        return pd.DataFrame(columns=columns)
    seen = fabric.seen[fabric.seen["why"] == ""]
    if (seen["role"] == "uplink").any():
        seen = seen[seen["role"] == "uplink"]
    noted = {(p.device, p.interface) for p in campaign.manifest.ports if p.speed_note}
    totals = run_totals(fabric.tokens)
    busiest = totals.dropna(subset=["gross"]).groupby("run_id")["gross"].max()
    rows = []
    for run, links in seen.groupby("run_id", sort=True):
        top = links.sort_values("peak_bps", kind="stable").iloc[-1]
        nodes = links.groupby([links["node"].fillna(""), "direction"], sort=True)["usual_bps"].sum()
        rows.append(
            {
                "run_id": run,
                "usual_util": float(links["usual_util"].mean()),
                "floor_util": float(links["floor_util"].mean()),
                "peak_util": float(top["peak_util"]),
                "peak_window_s": float(top["peak_window_s"]),
                "usual_bps": float(links["usual_bps"].mean()),
                "sum_bps": float(nodes.mean()),
                "links": int(links["physical"].nunique()),
                "bytes_per_token": float(busiest.get(run, float("nan"))),
                "speed_bps": float(top["speed_bps"]),
                "devices": ", ".join(sorted(set(links["device"]))),
                "noted": (top["device"], top["interface"]) in noted,
            }
        )
    return pd.DataFrame(rows, columns=columns)
