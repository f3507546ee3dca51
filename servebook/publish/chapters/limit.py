"""Chapter 07, limits: throughput and TTFT beyond the slots, where to cap, what reverses."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.explain.ledger_rows import PUBLISHED, read_published
from servebook.measure.saturation import PLATEAU_BAND
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import Sweep, condition_words
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.saturation import findings
from servebook.publish.charts.limit import two_panels
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["beyond_slots", "cap", "limit_statement", "reversal"]

_ID = "limit-beyond-slots"
_TITLE = "The limit of the slots"
_SWEEPS = {
    "mixed": Sweep("mixed", "Mixed", "output_throughput_tok_s", "output tokens/s"),
    "decode": Sweep("decode", "Decode", "output_throughput_tok_s", "output tokens/s"),
    "prefill": Sweep("prefill", "Prefill", "input_throughput_tok_s", "input tokens/s"),
}


def _slots(campaign: Campaign, name: str) -> int | None:
    c = campaign.manifest.configuration(name)
    return c.max_num_seqs * (c.dp or 1) if c is not None and c.max_num_seqs else None


def _beyond(campaign: Campaign) -> tuple[Sweep, pd.DataFrame, int] | None:
    """The series that reaches farthest beyond its slots: mixed before decode before prefill."""
    every = plain(campaign)
    for sweep in _SWEEPS.values():
        rows = every[(every["workload"] == sweep.workload) & every[sweep.throughput].notna()]
        best: tuple[tuple[int, float], pd.DataFrame, int] | None = None
        for _, line in rows.groupby("series", sort=True):
            slots = _slots(campaign, line["configuration"].iloc[0])
            if slots is None or line["concurrency"].max() <= slots or len(line) < 2:
                continue
            rank = (len(line), float(line[sweep.throughput].max()))
            if line["concurrency"].min() <= slots and (best is None or rank > best[0]):
                best = (rank, line.sort_values("concurrency", kind="stable"), slots)
        if best is not None:
            return sweep, common.styled(campaign, best[1]), best[2]
    return None


def _why_not(campaign: Campaign) -> str:
    stated = [c for c in campaign.manifest.configurations if c.max_num_seqs]
    if not stated:
        return (
            "The manifest states no slots (max_num_seqs), so where requests begin to wait for one "
            "is not known."
        )
    return (
        "No series of this campaign goes from below its slots to beyond them: a run with more "
        "requests in flight than max_num_seqs x dp would show the limit."
    )


def _words(sweep: Sweep, line: pd.DataFrame, slots: int) -> dict[str, Any]:
    last = line.iloc[-1]
    inside = line[line["concurrency"] <= slots]
    best = common.top(inside, inside[sweep.throughput])
    at_limit = inside.iloc[-1]
    return {
        "best": best,
        "last": last,
        "drop": 1 - last[sweep.throughput] / best[sweep.throughput],
        "growth": last["ttft_mean_ms"] / at_limit["ttft_mean_ms"],
        "at_limit": at_limit,
        "waiting": 1 - slots / last["concurrency"],
        "queue": 1 - at_limit["ttft_mean_ms"] / last["ttft_mean_ms"],
    }


def beyond_slots(campaign: Campaign) -> Figure:
    """Throughput and mean TTFT over concurrency in two panels, the slot limit across both."""
    found = _beyond(campaign)
    if found is None:
        return Figure(id=_ID, title=_TITLE, missing=_why_not(campaign))
    sweep, line, slots = found
    w = _words(sweep, line, slots)
    title = _sentence(sweep, slots, w)
    # The axis has the unit in which the words beside the largest values are.
    in_ms = float(line["ttft_mean_ms"].max()) < 1e3
    points = line[["concurrency", "colour", "shape"]].assign(
        rate=line[sweep.throughput],
        ttft=line["ttft_mean_ms"] / (1 if in_ms else 1e3),
        rate_text=[words.short(v) for v in line[sweep.throughput]],
        ttft_text=[words.milliseconds(v) for v in line["ttft_mean_ms"]],
        tip=[
            f"{words.number(r[sweep.throughput])} {sweep.unit}, TTFT mean "
            f"{words.milliseconds(r['ttft_mean_ms'])}, n = {r['n_ok']:,.0f} requests"
            for r in line.to_dict("records")
        ],
    )
    beyond = line["concurrency"] > slots
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            f"{line['name'].iloc[0]}. {condition_words(line)} Shaded: more requests than slots. "
            f"n = {line['n_ok'].sum():,.0f} requests; {common.interval(line['n_runs'])}."
        ),
        chart=two_panels(
            points,
            [("rate", sweep.unit, ""), ("ttft", f"TTFT mean, {'ms' if in_ms else 's'}", "")],
            float(slots),
            f"{slots} slots",
        ),
        table=pd.DataFrame(
            {
                "Requests in flight": line["concurrency"],
                f"Throughput ({sweep.unit})": line[sweep.throughput],
                "TTFT mean (ms)": line["ttft_mean_ms"],
                "TPOT mean (ms)": line["tpot_mean_ms"],
                "Waiting for a slot, by the slots (%)": [
                    100 * max(0.0, 1 - slots / c) for c in line["concurrency"]
                ],
                "TTFT beyond that at the slots (%)": (
                    100 * (1 - w["at_limit"]["ttft_mean_ms"] / line["ttft_mean_ms"])
                ).where(beyond),
                "Ok requests": line["n_ok"],
                "Runs": line["n_runs"],
            }
        ),
        alt=f"{title}. "
        + " ".join(
            f"{r['concurrency']} in flight: {words.number(r[sweep.throughput])} {sweep.unit}, TTFT "
            f"{words.milliseconds(r['ttft_mean_ms'])}."
            for r in line.to_dict("records")
        ),
        source=common.source(campaign, line),
        runs=common.runs_of(line),
        notes=(
            (
                f"Model: with {slots} slots, at least {words.percent(w['waiting'])} of "
                f"{w['last']['concurrency']} requests in flight wait for one at any time. "
                "Measured: "
                f"{words.percent(w['queue'])} of their TTFT lies beyond that at "
                f"{w['at_limit']['concurrency']} in flight."
            ),
            *_unprinted(campaign, line),
        ),
    )


def _unprinted(campaign: Campaign, line: pd.DataFrame) -> tuple[str, ...]:
    """Which points of a reconstructed curve were never printed: they come from the model alone."""
    if campaign.manifest.provenance != "reconstructed":
        return ()
    if not (campaign.root / PUBLISHED).is_file():
        return ()
    first = line.iloc[0]
    printed = {
        row.concurrency
        for row in read_published(campaign.root)
        if row.kind == "measured"
        and (row.configuration, row.workload) == (first["configuration"], first["workload"])
    }
    alone = [str(c) for c in line["concurrency"] if c not in printed]
    if not alone:
        return ()
    return (
        f"Not printed anywhere, so from the engine model alone: {words.listed(alone)} in flight.",
    )


def _sentence(sweep: Sweep, slots: int, w: dict[str, Any]) -> str:
    last = w["last"]
    change = (
        f"falls by {words.percent(w['drop'])}"
        if w["drop"] > 0.02
        else f"gains {words.percent(-w['drop'])}"
        if w["drop"] < -0.02
        else "stands still"
    )
    return (
        f"Beyond {slots} slots {sweep.workload} throughput {change} "
        f"({words.number(w['best'][sweep.throughput])} to {words.number(last[sweep.throughput])} "
        f"{sweep.unit}), while TTFT grows {words.times(w['growth'])}, from "
        f"{words.milliseconds(w['at_limit']['ttft_mean_ms'])} to "
        f"{words.milliseconds(last['ttft_mean_ms'])}"
    )


def limit_statement(campaign: Campaign) -> Statement:
    """What more requests than slots gain and cost, as a verdict."""
    found = _beyond(campaign)
    if found is None:
        return Statement(
            id="limit-verdict", sentence=_why_not(campaign), marks=common.marks(campaign)
        )
    sweep, line, slots = found
    w = _words(sweep, line, slots)
    return Statement(
        id="limit-verdict",
        sentence=f"{_sentence(sweep, slots, w)} ({line['name'].iloc[0]}).",
        metric="ttft_mean_ms",
        value=float(w["growth"]),
        unit="ratio",
        n=int(line["n_ok"].sum()),
        n_of="requests",
        interval=common.interval([w["at_limit"]["n_runs"], line["n_runs"].iloc[-1]]),
        runs=common.runs_of(line),
        figure=_ID,
        would_change="more slots, where the memory has room for their KV cache",
        verdict=True,
        rank=26,
        marks=common.marks(campaign, runs=common.runs_of(line)),
    )


def _prefill(campaign: Campaign, *kinds: str) -> tuple[dict[Any, Any], pd.DataFrame] | None:
    """The prefill series with a finding of ``kinds`` (most points, then the longest prompts)."""
    sweep = _SWEEPS["prefill"]
    every = plain(campaign)
    rows = every[(every["workload"] == "prefill") & every[sweep.throughput].notna()]
    if rows.empty:
        return None
    rows = common.styled(campaign, rows)
    found = findings(rows, sweep.throughput)
    found = found[found["finding"].isin(kinds)]
    if found.empty:
        return None
    own = found.assign(isl=found["series"].map(rows.groupby("series")["isl"].first()))
    row = own.sort_values(["n_points", "isl", "peak_value"], kind="stable").to_dict("records")[-1]
    line = rows[rows["series"] == row["series"]].sort_values("concurrency", kind="stable")
    return row, line


def cap(campaign: Campaign) -> Statement:
    """Where to cap the prefill concurrency: the start of a plateau, as a verdict."""
    name = "prefill-cap"
    found = _prefill(campaign, "plateau")
    if found is None:
        return Statement(
            id=name,
            sentence=(
                "No prefill series of this campaign has a plateau, so none tells where to cap the "
                "requests in flight."
            ),
            marks=common.marks(campaign),
        )
    row, line = found
    knee = line[line["concurrency"] == row["plateau_from"]].iloc[0]
    last = line.iloc[-1]
    share = knee["input_throughput_tok_s"] / row["peak_value"]
    growth = last["ttft_mean_ms"] / knee["ttft_mean_ms"]
    waits = last["ttft_mean_ms"] - knee["ttft_mean_ms"]
    single = row["plateau_from"] == row["first_concurrency"]
    return Statement(
        id=name,
        sentence=(
            f"Cap prefill near {common.in_flight(knee['concurrency'])}: {words.percent(share)} of "
            f"the top rate is reached there ({words.lengths(knee['isl'], knee['osl'])}, "
            f"{common.label(campaign, knee['configuration'])}); at {last['concurrency']} TTFT is "
            f"{words.times(growth)} as long, {words.milliseconds(waits)} more in the queue"
            + (", and fewer were not measured" if single else "")
            + "."
        ),
        metric="input_throughput_tok_s",
        value=float(knee["concurrency"]),
        unit="requests in flight",
        n=int(line["n_ok"].sum()),
        n_of="requests",
        interval=f"rule: first load within {words.percent(PLATEAU_BAND)} of the plateau's level",
        runs=common.runs_of(line),
        figure="prefill-throughput",
        would_change="runs between the measured concurrencies, other prompt lengths, or repeats",
        verdict=not single and growth > 1.5,
        rank=21,
        marks=common.marks(campaign, runs=common.runs_of(line)),
    )


def reversal(campaign: Campaign) -> Statement:
    """A prefill throughput that falls after its peak, its cause left open, as a verdict."""
    name = "prefill-reversal"
    found = _prefill(campaign, "reversal")
    if found is None:
        return Statement(
            id=name,
            sentence="No prefill series of this campaign falls after its peak.",
            marks=common.marks(campaign),
        )
    row, line = found
    peak = line[line["concurrency"] == row["peak_concurrency"]].iloc[0]
    last = line.iloc[-1]
    growth = last["ttft_mean_ms"] / peak["ttft_mean_ms"]
    several = common.several(line["configuration"]) or len(campaign.manifest.configurations) > 1
    who = f" ({common.label(campaign, peak['configuration'])})" if several else ""
    return Statement(
        id=name,
        sentence=(
            f"Prefill of {words.number(peak['isl'])} tokens falls by "
            f"{words.percent(row['drop_from_peak'])} from {peak['concurrency']} to "
            f"{last['concurrency']} in flight{who} while TTFT grows {words.times(growth)}; "
            "saturation alone would hold the rate, and what breaks it the dumps do not show."
        ),
        metric="input_throughput_tok_s",
        value=-100 * float(row["drop_from_peak"]),
        unit="%",
        n=int(line["n_ok"].sum()),
        n_of="requests",
        interval=common.interval([peak["n_runs"], last["n_runs"]]),
        runs=common.runs_of(line),
        figure="prefill-throughput",
        would_change=(
            "the engine's own metrics of that run (preemptions, KV use, batch sizes), or repeats "
            "in which the rate holds"
        ),
        verdict=True,
        rank=28,
        marks=common.marks(campaign, runs=common.runs_of(line)),
    )
