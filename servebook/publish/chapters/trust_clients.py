"""Chapter 02, clients: ours against each client's own summary, and two clients side by side."""

from __future__ import annotations

import pandas as pd

from servebook.measure import native, pairs
from servebook.measure.metrics import LATENCIES, METRICS
from servebook.measure.percentiles import FLOORS
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.charts.deviations import around_zero
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["AGREEMENT", "clients", "compared", "kinds_of", "own_against_native"]

#: Ours and a client's own figure of one definition must agree to this.
AGREEMENT = 0.001
#: Of a percentage: what is beyond is noise of the processor.
_DECIMALS = 4
#: Two clients are different runs: within this they are said to agree.
CLIENTS_AGREE = 0.05


def clients(campaign: Campaign) -> Figure:
    """Two clients on one condition: deviations around 0."""
    found = pairs.pairs(common.metrics(campaign))
    if found.empty:
        return Figure(
            id="trust-clients",
            title="No condition was measured by two clients",
            missing=(
                "No condition of this campaign was measured by two clients, so their agreement is "
                "not known."
            ),
        )
    dots = found.assign(
        row=[METRICS[m].label for m in found["metric"]],
        verdict=[
            "differs by definition"
            if not row["same_definition"]
            else "agrees"
            if abs(row["deviation"]) <= CLIENTS_AGREE
            else "unexplained"
            for row in found.to_dict("records")
        ],
        tip=[
            f"{common.label(campaign, r['configuration'])}, {r['workload']}, "
            f"{r['concurrency']} in flight: {words.number(r['value_a'])} ({r['client_a']}), "
            f"{words.number(r['value_b'])} ({r['client_b']})"
            for r in found.to_dict("records")
        ],
    )
    known = dots[dots["verdict"] != "differs by definition"]
    names = f"{found['client_b'].iloc[0]} against {found['client_a'].iloc[0]}"
    several = len(found[["client_a", "client_b"]].drop_duplicates()) > 1
    n_pairs = len(found[["run_a", "run_b"]].drop_duplicates())
    off = known[known["verdict"] == "unexplained"]
    worst = common.top(known, known["deviation"].abs()) if len(known) else None
    title = f"{words.capital(words.count(n_pairs, 'pair'))} of runs by two clients: "
    if worst is None:
        title += "no figure with one definition"
    elif off.empty:
        title += f"all figures within {words.percent(known['deviation'].abs().max())}"
    else:
        title += (
            f"{len(known) - len(off)} of {len(known)} figures within "
            f"{words.percent(CLIENTS_AGREE)}, {worst['row']} off by up to "
            f"{words.percent(abs(worst['deviation']))}"
        )
    return Figure(
        id="trust-clients",
        title=title,
        subtitle=(
            f"{'Later client against earlier by name' if several else names}: same configuration, "
            f"workload, concurrency and lengths, one run each. Shaded: within "
            f"{words.percent(CLIENTS_AGREE)}. Triangles: unexplained. No interval: a deviation "
            "holds both the clients' and the runs' own differences."
        ),
        chart=around_zero(
            dots[["row", "deviation", "verdict", "tip"]],
            "second client against first",
            band=CLIENTS_AGREE,
            band_text=f"within {words.percent(CLIENTS_AGREE)}",
        ),
        table=pd.DataFrame(
            {
                "configuration": common.labels(campaign, found["configuration"]),
                "workload": found["workload"],
                "requests in flight": found["concurrency"],
                "metric": dots["row"],
                "unit": [METRICS[m].unit for m in found["metric"]],
                "client A": found["client_a"],
                "A": found["value_a"],
                "n of A": found["n_a"],
                "client B": found["client_b"],
                "B": found["value_b"],
                "n of B": found["n_b"],
                "deviation (%)": (100 * found["deviation"]).round(_DECIMALS) + 0.0,
                "verdict": dots["verdict"],
                "why": found["reason"],
            }
        ),
        alt=f"{title}.",
        source=common.records_of(campaign, 2 * n_pairs),
        runs=tuple(sorted({*found["run_a"], *found["run_b"]})),
        notes=(
            "n: ok requests, for ITL gaps.",
            (
                "Percentiles of fewer values than their floor in either run are left out (median: "
                f"{FLOORS[50]}, p99: {FLOORS[99]})."
            ),
        ),
    )


def _family(metric: str) -> str:
    """The row of a metric in the chart: one for all throughputs, one per latency."""
    if "throughput" in metric:
        return "Throughputs"
    family = metric.split("_", 1)[0]
    return LATENCIES[family][0] if family in LATENCIES else METRICS[metric].label


def _by_metric(campaign: Campaign, shown: pd.DataFrame) -> pd.DataFrame:
    """One row per client and metric: how many figures, and the largest deviation of each kind."""
    client = common.metrics(campaign).set_index("run_id")["client"]
    rows = []
    grouped = shown.assign(client=shown["run_id"].map(client)).groupby(
        ["client", "metric", "variant"], sort=False
    )
    for (who, metric, own), part in grouped:
        same, other = part[part["same_definition"]], part[~part["same_definition"]]
        rows.append(
            {
                "client": who,
                "metric": METRICS[str(metric)].label + (f" (its {own})" if own else ""),
                "unit": METRICS[str(metric)].unit,
                "same definition (runs)": len(same),
                "largest deviation (%)": _largest(same["deviation"]),
                "other definition (runs)": len(other),
                "largest difference (%)": _largest(other["deviation"]),
                "by its definition, largest deviation (%)": _largest(other["theirs_deviation"]),
            }
        )
    return pd.DataFrame(rows)


def _largest(deviations: pd.Series[float]) -> float:
    return round(100 * float(deviations.abs().max()), _DECIMALS) + 0.0


def kinds_of(reasons: pd.Series[str]) -> pd.Series[str]:
    """Reasons without their numbers, which differ from run to run."""
    return reasons.str.replace(r"\d[\d.,]*", "#", regex=True)


@common.memo
def compared(campaign: Campaign) -> pd.DataFrame:
    """``native.compare`` without the counts, one row per run and metric."""
    found = native.compare(campaign.tables, common.metrics(campaign))
    return found[~found["metric"].str.startswith("n_")].reset_index(drop=True)


def own_against_native(campaign: Campaign) -> Figure:
    """Our recomputed figures against the clients' own summaries."""
    found = compared(campaign)
    shown = found[found["ours"].notna() & found["native"].notna() & found["deviation"].notna()]
    if shown.empty:
        return Figure(
            id="trust-native",
            title="Our figures against the clients' own",
            missing="No client left a summary with figures that could be recomputed from records.",
        )
    n_runs = shown["run_id"].nunique()
    same = shown[shown["same_definition"]]
    off = same[same["deviation"].abs() > AGREEMENT]
    other = shown[~shown["same_definition"]]
    verdicts = [
        "differs by definition"
        if not row["same_definition"]
        else "agrees"
        if abs(row["deviation"]) <= AGREEMENT
        else "unexplained"
        for row in shown.to_dict("records")
    ]
    dots = pd.DataFrame(
        {
            "row": [
                _family(m) + (f" ({own})" if own else "")
                for m, own in zip(shown["metric"], shown["variant"], strict=True)
            ],
            "deviation": shown["deviation"],
            "verdict": verdicts,
            "tip": [
                f"{r['run_id']}: ours {words.number(r['ours'], 6)}, its own "
                f"{words.number(r['native'], 6)} {METRICS[r['metric']].unit}"
                for r in shown.to_dict("records")
            ],
        }
    )
    order = {m: i for i, m in enumerate(METRICS)}
    rank = shown["metric"].map(order)
    dots = dots.assign(_rank=rank).sort_values("_rank", kind="stable").drop(columns="_rank")
    # Dots that coincide say nothing more: one per row and place.
    drawn = dots.assign(place=dots["deviation"].round(4)).drop_duplicates(
        ["row", "place", "verdict"]
    )
    if len(same) and off.empty:
        title = (
            f"All {len(same):,} rates and latencies that share a definition with ours are met to "
            f"{words.percent(AGREEMENT, 1)} by the clients' own summaries"
        )
    elif len(same):
        title = (
            f"{len(off):,} of {len(same):,} rates and latencies of one definition are off by more "
            f"than {words.percent(AGREEMENT, 1)}"
        )
    else:
        title = "No figure of the clients shares a definition with ours"
    again = other[other["theirs_deviation"].notna()]
    notes = []
    if len(other):
        differ = "differs" if len(other) == 1 else "differ"
        text = f"{words.count(len(other), 'figure')} {differ} by definition"
        if len(again):
            met = int((again["theirs_deviation"].abs() <= AGREEMENT).sum())
            text += (
                f"; recomputed by the client's definition {met:,} of {len(again):,} agree to "
                f"{words.percent(AGREEMENT)}"
            )
        notes.append(text + ".")
        notes.append("What the clients mean, and why it differs, stands in the next figure.")
    return Figure(
        id="trust-native",
        title=title,
        subtitle=(
            f"{words.count(n_runs, 'run')}, {len(shown):,} figures, no counts. Circles agree "
            f"within {words.percent(AGREEMENT, 1)} (shaded), grey diamonds differ by definition, "
            "triangles are unexplained."
        ),
        chart=around_zero(
            drawn[["row", "deviation", "verdict", "tip"]],
            "ours ÷ the client's own − 1",
            band=AGREEMENT,
            band_text=f"within {words.percent(AGREEMENT)}",
        ),
        table=_by_metric(campaign, shown),
        alt=f"{title}.",
        source=f"{common.records_of(campaign, n_runs)} and the clients' summaries",
        runs=tuple(sorted(set(shown["run_id"]))),
        notes=tuple(notes),
    )
