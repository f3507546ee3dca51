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
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["beyond_slots", "cap", "limit_statement", "reversal"]

_ID = "limit-beyond-slots"
_SWEEPS = {
    "mixed": Sweep("mixed", "output_throughput_tok_s", "output tokens/s"),
    "decode": Sweep("decode", "output_throughput_tok_s", "output tokens/s"),
    "prefill": Sweep("prefill", "input_throughput_tok_s", "input tokens/s"),
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
        return say("limit.why_not.manifest_states_slots")
    return say("limit.why_not.series_campaign_goes")


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
        return Figure(id=_ID, title=say("limit.title"), missing=_why_not(campaign))
    sweep, line, slots = found
    w = _words(sweep, line, slots)
    title = _sentence(sweep, slots, w)
    # The axis tells the unit once, so that the words beside the points have room on a phone.
    in_ms = float(line["ttft_mean_ms"].max()) < 1e3
    points = line[["concurrency", "colour", "shape"]].assign(
        rate=line[sweep.throughput],
        ttft=line["ttft_mean_ms"] / (1 if in_ms else 1e3),
        rate_text=[words.number(v) for v in line[sweep.throughput]],
        ttft_text=[words.number(v / (1 if in_ms else 1e3)) for v in line["ttft_mean_ms"]],
        tip=[
            say(
                "limit.beyond_slots.tip",
                r=words.number(r[sweep.throughput]),
                unit=sweep.unit_words,
                ttft_mean_ms=words.milliseconds(r["ttft_mean_ms"]),
                n_ok=r["n_ok"],
            )
            for r in line.to_dict("records")
        ],
    )
    beyond = line["concurrency"] > slots
    return Figure(
        id=_ID,
        title=title,
        subtitle=say(
            "limit.beyond_slots.subtitle",
            name=line["name"].iloc[0],
            condition_words=condition_words(line),
            n_ok=line["n_ok"].sum(),
            interval=common.interval(line["n_runs"]),
        ),
        chart=two_panels(
            points,
            [
                ("rate", sweep.unit_words, ""),
                ("ttft", say("limit.beyond_slots.chart_ttft_mean", ms="ms" if in_ms else "s"), ""),
            ],
            float(slots),
            say("limit.beyond_slots.chart_slots", slots=slots),
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
            say(
                "limit.beyond_slots.alt",
                concurrency=r["concurrency"],
                r=words.number(r[sweep.throughput]),
                unit=sweep.unit_words,
                ttft_mean_ms=words.milliseconds(r["ttft_mean_ms"]),
            )
            for r in line.to_dict("records")
        ),
        source=common.source(campaign, line),
        runs=common.runs_of(line),
        notes=(
            say(
                "limit.beyond_slots.note",
                slots=slots,
                waiting=words.percent(w["waiting"]),
                concurrency=w["last"]["concurrency"],
                standing=words.capital(common.standing(campaign)),
                queue=words.percent(w["queue"]),
                concurrency_2=w["at_limit"]["concurrency"],
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
    return (say("limit.unprinted", alone=words.listed(alone)),)


def _sentence(sweep: Sweep, slots: int, w: dict[str, Any]) -> str:
    last = w["last"]
    change = (
        say("limit.sentence.change_falls", drop=words.percent(w["drop"]))
        if w["drop"] > 0.02
        else say("limit.sentence.change_gains", drop=words.percent(-w["drop"]))
        if w["drop"] < -0.02
        else say("limit.sentence.change_stands_still")
    )
    return say(
        "limit.sentence.beyond_slots_throughput",
        slots=slots,
        workload=sweep.workload,
        change=change,
        best=words.number(w["best"][sweep.throughput]),
        last=words.number(last[sweep.throughput]),
        unit=sweep.unit_words,
        growth=words.times(w["growth"]),
        ttft_mean_ms=words.milliseconds(w["at_limit"]["ttft_mean_ms"]),
        ttft_mean_ms_2=words.milliseconds(last["ttft_mean_ms"]),
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
        would_change=say("limit.limit_statement.would_change"),
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
            sentence=say("limit.cap.sentence_prefill_series_campaign"),
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
            say(
                "limit.cap.sentence_cap_prefill_near",
                in_flight=common.in_flight(knee["concurrency"]),
                share=words.percent(share),
                lengths=words.lengths(knee["isl"], knee["osl"]),
                configuration=common.label(campaign, knee["configuration"]),
                concurrency=last["concurrency"],
                growth=words.times(growth),
                waits=words.milliseconds(waits),
            )
            + (say("limit.cap.sentence_fewer_measured") if single else "")
            + "."
        ),
        metric="input_throughput_tok_s",
        value=float(knee["concurrency"]),
        unit="requests in flight",
        n=int(line["n_ok"].sum()),
        n_of="requests",
        interval=say("limit.cap.interval", plateau_band=words.percent(PLATEAU_BAND)),
        runs=common.runs_of(line),
        figure="prefill-throughput",
        would_change=say("limit.cap.would_change"),
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
            sentence=say("limit.reversal.sentence_prefill_series_campaign"),
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
        sentence=say(
            "limit.reversal.sentence_prefill_tokens_falls",
            isl=words.number(peak["isl"]),
            drop_from_peak=words.percent(row["drop_from_peak"]),
            concurrency=peak["concurrency"],
            concurrency_2=last["concurrency"],
            who=who,
            growth=words.times(growth),
        ),
        more=say("limit.reversal.more"),
        metric="input_throughput_tok_s",
        value=-100 * float(row["drop_from_peak"]),
        unit="%",
        caption=say("limit.reversal.caption"),
        n=int(line["n_ok"].sum()),
        n_of="requests",
        interval=common.interval([peak["n_runs"], last["n_runs"]]),
        runs=common.runs_of(line),
        figure="prefill-throughput",
        would_change=say("limit.reversal.would_change"),
        verdict=True,
        rank=28,
        marks=common.marks(campaign, runs=common.runs_of(line)),
    )
