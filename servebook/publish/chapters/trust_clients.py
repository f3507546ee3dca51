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
from servebook.publish.text import say
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
            title=say("trust_clients.clients.title_condition_measured_clients"),
            missing=say("trust_clients.clients.missing"),
        )
    dots = found.assign(
        row=[words.told(METRICS[m].label) for m in found["metric"]],
        verdict=[
            "differs by definition"
            if not row["same_definition"]
            else "agrees"
            if abs(row["deviation"]) <= CLIENTS_AGREE
            else "unexplained"
            for row in found.to_dict("records")
        ],
        tip=[
            say(
                "trust_clients.clients.tip",
                configuration=common.label(campaign, r["configuration"]),
                workload=r["workload"],
                concurrency=r["concurrency"],
                value_a=words.number(r["value_a"]),
                client_a=r["client_a"],
                value_b=words.number(r["value_b"]),
                client_b=r["client_b"],
            )
            for r in found.to_dict("records")
        ],
    )
    known = dots[dots["verdict"] != "differs by definition"]
    names = say(
        "trust_clients.clients.names",
        client_b=found["client_b"].iloc[0],
        client_a=found["client_a"].iloc[0],
    )
    several = len(found[["client_a", "client_b"]].drop_duplicates()) > 1
    n_pairs = len(found[["run_a", "run_b"]].drop_duplicates())
    off = known[known["verdict"] == "unexplained"]
    worst = common.top(known, known["deviation"].abs()) if len(known) else None
    title = say(
        "trust_clients.clients.title_runs_clients",
        pairs=words.capital(words.count(n_pairs, "pair")),
    )
    if worst is None:
        title += say("trust_clients.clients.title_figure_definition")
    elif off.empty:
        title += say(
            "trust_clients.clients.title_figures_within",
            abs=words.percent(known["deviation"].abs().max()),
        )
    else:
        title += say(
            "trust_clients.clients.title_figures_within_off",
            n_known=len(known) - len(off),
            n_known_2=len(known),
            clients_agree=words.percent(CLIENTS_AGREE),
            row=worst["row"],
            deviation=words.percent(abs(worst["deviation"])),
        )
    return Figure(
        id="trust-clients",
        title=title,
        subtitle=say(
            "trust_clients.clients.subtitle_configuration_workload_concurrency",
            later_client=say("trust_clients.clients.subtitle_later_client_against")
            if several
            else names,
            clients_agree=words.percent(CLIENTS_AGREE),
        ),
        chart=around_zero(
            dots[["row", "deviation", "verdict", "tip"]],
            say("trust_clients.clients.chart"),
            band=CLIENTS_AGREE,
            band_text=say(
                "trust_clients.clients.band_text", clients_agree=words.percent(CLIENTS_AGREE)
            ),
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
            say("trust_clients.clients.note_ok_requests_itl"),
            say(
                "trust_clients.clients.note_percentiles_fewer_values",
                floors=FLOORS[50],
                floors_2=FLOORS[99],
            ),
        ),
    )


def _family(metric: str) -> str:
    """The row of a metric in the chart: one for all throughputs, one per latency."""
    if "throughput" in metric:
        return say("trust_clients.family")
    family = metric.split("_", 1)[0]
    return (
        words.told(LATENCIES[family][0])
        if family in LATENCIES
        else words.told(METRICS[metric].label)
    )


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
                "metric": words.told(METRICS[str(metric)].label)
                + (say("trust_clients.by_metric.metric", own=own) if own else ""),
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
            title=say("trust_clients.own_against_native.title_our_figures_against"),
            missing=say("trust_clients.own_against_native.missing"),
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
                say(
                    "trust_clients.own_against_native.tip",
                    run_id=r["run_id"],
                    ours=words.number(r["ours"], 6),
                    native=words.number(r["native"], 6),
                    unit=words.unit(METRICS[r["metric"]].unit),
                )
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
        title = say(
            "trust_clients.own_against_native.title_rates_latencies_share",
            n_same=len(same),
            agreement=words.percent(AGREEMENT, 1),
        )
    elif len(same):
        title = say(
            "trust_clients.own_against_native.title_rates_latencies_definition",
            n_off=len(off),
            n_same=len(same),
            agreement=words.percent(AGREEMENT, 1),
        )
    else:
        title = say("trust_clients.own_against_native.title_figure_clients_shares")
    again = other[other["theirs_deviation"].notna()]
    notes = []
    if len(other):
        differ = (
            say("trust_clients.own_against_native.differ_differs")
            if len(other) == 1
            else say("trust_clients.own_against_native.differ")
        )
        text = say(
            "trust_clients.own_against_native.definition",
            figures=words.count(len(other), "figure"),
            differ=differ,
        )
        if len(again):
            met = int((again["theirs_deviation"].abs() <= AGREEMENT).sum())
            text += say(
                "trust_clients.own_against_native.recomputed_client_definition",
                met=met,
                n_again=len(again),
                agreement=words.percent(AGREEMENT),
            )
        notes.append(text + ".")
        notes.append(say("trust_clients.own_against_native.note"))
    return Figure(
        id="trust-native",
        title=title,
        subtitle=say(
            "trust_clients.own_against_native.subtitle",
            runs=words.count(n_runs, "run"),
            n_shown=len(shown),
            agreement=words.percent(AGREEMENT, 1),
        ),
        chart=around_zero(
            drawn[["row", "deviation", "verdict", "tip"]],
            say("trust_clients.own_against_native.chart"),
            band=AGREEMENT,
            band_text=say(
                "trust_clients.clients.band_text", clients_agree=words.percent(AGREEMENT)
            ),
        ),
        table=_by_metric(campaign, shown),
        alt=f"{title}.",
        source=say(
            "shared.and_the_clients_summaries", records_of=common.records_of(campaign, n_runs)
        ),
        runs=tuple(sorted(set(shown["run_id"]))),
        notes=tuple(notes),
    )
