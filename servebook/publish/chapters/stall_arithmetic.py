"""Chapter 07, stalls by arithmetic on summary figures: their size, their share, what p99 misses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.stall_rows import chunked, most, rows_of
from servebook.publish.charts.parts import stacked
from servebook.publish.charts.tail import on_a_log_rule
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["arithmetic", "hidden_tail", "stop_statement", "tail_range"]

_MIXED = "mixed"
_CEILING = "input_throughput_tok_s"
_MOST = 12
_LONG_TAIL = 2.0  # p99 over median: below it no second kind of gap is spoken of


def arithmetic(campaign: Campaign) -> Figure:
    """Mean time per token as decoding (median gap) and waiting; a prefill's and a stall's size."""
    name = "stall-arithmetic"
    rows = rows_of(campaign)
    if rows.empty:
        return common.absent(
            campaign, name, say("stall_arithmetic.arithmetic.stall_arithmetic"), _MIXED
        )
    worst = common.top(rows, rows["share_of_decode"])
    sized = rows[rows["ceiling"].notna() & (rows["ratio"] > _LONG_TAIL)]
    sized = sized[[not chunked(campaign, c) for c in sized["configuration"]]]
    top = common.top(sized, sized["share_of_decode"]) if len(sized) else worst
    drawn, lost = most(rows, (worst.name, top.name))
    segments, ends = [], []
    for row in drawn.to_dict("records"):
        key = row["row_label"]
        middle = min(row["itl_p50_ms"], row["tpot_mean_ms"])
        for part, low, high, colour in (
            (say("stall_arithmetic.arithmetic.median_gap"), 0.0, middle, theme.PALE),
            (
                say("stall_arithmetic.arithmetic.waiting_beyond"),
                middle,
                row["tpot_mean_ms"],
                row["colour"],
            ),
        ):
            segments.append(
                {"row": key, "part": part, "low": low, "high": high, "colour": colour,
                 "tip": words.milliseconds(high - low)}
            )  # fmt: skip
        ends.append(
            {
                "row": key,
                "label": key,
                "end": max(row["tpot_mean_ms"], np.nan_to_num(row["decode_ms"])),
                "measured": row["decode_ms"],
                "text": say(
                    "stall_arithmetic.arithmetic.text",
                    share_of_decode=words.percent(row["share_of_decode"]),
                ),
            }
        )
    title = say(
        "stall_arithmetic.arithmetic.title",
        share_of_decode=words.percent(worst["share_of_decode"]),
        share_of_response=words.percent(worst["share_of_response"]),
        row_label=worst["row_label"],
    )
    size = ""
    if len(sized):
        about = float(f"{top['stall_tokens']:.2g}")
        size = say(
            "stall_arithmetic.arithmetic.size",
            ceiling=words.number(top["ceiling"]),
            one_prefill_s=words.duration(top["one_prefill_s"]),
            itl_p99_ms=words.milliseconds(top["itl_p99_ms"]),
            about=words.number(about),
            stall_prompts=words.number(top["stall_prompts"], 2),
            row_label=top["row_label"],
        )
    whole = pd.Series([not chunked(campaign, c) for c in rows["configuration"]], rows.index)
    table = pd.DataFrame(
        {
            "Configuration": rows["name"],
            "Requests in flight": rows["concurrency"],
            "ITL median (ms)": rows["itl_p50_ms"],
            "TPOT mean (ms)": rows["tpot_mean_ms"],
            "Decode-only TPOT (ms)": rows["decode_ms"],
            "Median over decode-only": rows["itl_p50_ms"] / rows["decode_ms"],
            "Waiting, of the decode time (%)": 100 * rows["share_of_decode"],
            "Waiting, of the response (%)": 100 * rows["share_of_response"],
            "Prefill ceiling (tokens/s)": rows["ceiling"],
            "One prefill (s)": rows["one_prefill_s"].where(whole),
            "p99 less median (s)": rows["stall_s"],
            "Prompt tokens in it": rows["stall_tokens"].where(whole),
            "Prompts in it": rows["stall_prompts"].where(whole),
            "Requests": rows["n_ok"],
        }
    )
    runs = tuple(sorted({*common.runs_of(rows), *(r for t in rows["decode_runs"] for r in t)}))
    return Figure(
        id=name,
        title=title,
        subtitle=f"{condition_words(rows)} {size}".strip(),
        chart=stacked(
            pd.DataFrame(segments),
            pd.DataFrame(ends),
            say("stall_arithmetic.arithmetic.chart"),
        ),
        table=table,
        alt=f"{title}. {size} " + " ".join(f"{e['label']}: {e['text']}." for e in ends),
        source=say(
            "stall_arithmetic.arithmetic.source", records_of=common.records_of(campaign, len(runs))
        ),
        runs=runs,
        notes=(
            say("stall_arithmetic.arithmetic.note_waiting_mean_tpot"),
            say("stall_arithmetic.arithmetic.note_model_stalled_engine"),
            *lost,
        ),
    )


def _against(level: float) -> str:
    """Ends in "than", or in "as long as" where nothing differs in the digits that are shown."""
    if abs(level - 1) < 5e-4:
        return say("stall_arithmetic.against.long")
    return say(
        "stall_arithmetic.against.time",
        level=words.percent(abs(level - 1)),
        less=say("stall_arithmetic.against.less")
        if level < 1
        else say("stall_arithmetic.against.more"),
    )


def stop_statement(campaign: Campaign) -> Statement:
    """Whether the engine stops or slows: median gap against decode alone, as a verdict."""
    name = "stall-stop"
    rows = rows_of(campaign)
    if rows.empty:
        return common.absent_statement(campaign, name, _MIXED)
    known = rows[rows["decode_ms"].notna()]
    stalled = known[known["ratio"] > _LONG_TAIL]
    if stalled.empty:
        return Statement(
            id=name,
            sentence=say("stall_arithmetic.stop_statement.sentence_whether_engine_stops"),
            marks=common.marks(campaign),
        )
    row = common.top(stalled, stalled["share_of_decode"])
    level = row["itl_p50_ms"] / row["decode_ms"]
    stops = 0.85 < level < 1.15
    finding = (
        say("stall_arithmetic.stop_statement.finding_engine_stopped_rather")
        if stops and campaign.manifest.provenance == "reconstructed"
        else say("stall_arithmetic.stop_statement.finding_engine_stops_rather")
        if stops
        else say("stall_arithmetic.stop_statement.finding_runs_slower_too")
        if level >= 1.15
        else say("stall_arithmetic.stop_statement.finding_fewer_requests_decode")
    )
    return Statement(
        id=name,
        sentence=say(
            "stall_arithmetic.stop_statement.sentence_between_stalls_token",
            against=_against(level),
            finding=finding,
            share_of_decode=words.percent(row["share_of_decode"]),
            share_of_response=words.percent(row["share_of_response"]),
        ),
        more=say(
            "stall_arithmetic.stop_statement.more",
            itl_p50_ms=words.milliseconds(row["itl_p50_ms"]),
            decode_ms=words.milliseconds(row["decode_ms"]),
            row_label=row["row_label"],
        ),
        metric="stall_share_estimate",
        value=100 * float(row["share_of_decode"]),
        unit="% of the decode time",
        n=int(row["n_ok"]),
        n_of="requests",
        interval=common.interval([int(row["n_runs"])]),
        runs=tuple(sorted({*row["runs"], *row["decode_runs"]})),
        figure="stall-arithmetic",
        would_change=say("stall_arithmetic.stop_statement.would_change"),
        verdict=stops and row["share_of_decode"] > 0.05,
        rank=29,
        marks=common.marks(campaign, runs=tuple(sorted({*row["runs"], *row["decode_runs"]}))),
    )


def hidden_tail(campaign: Campaign) -> Figure:
    """What mean and p99 alone say of the slowest 1 %: their average at least, per condition."""
    name = "stall-hidden-tail"
    rows = rows_of(campaign)
    if rows.empty:
        return common.absent(campaign, name, say("stall_arithmetic.hidden_tail.p99_show"), _MIXED)
    above = rows[rows["tpot_mean_ms"] > rows["itl_p99_ms"]]
    top = common.top(above, above["slowest_ms"] / above["itl_p99_ms"]) if len(above) else None
    drawn, lost = most(rows, () if top is None else (top.name,))
    bound = drawn["slowest_ms"].where(drawn["slowest_ms"] > drawn["itl_p99_ms"])
    none = bool(bound.isna().all())
    chart = on_a_log_rule(
        pd.DataFrame(
            {
                "row": drawn["row_label"],
                "label": drawn["row_label"],
                "median": drawn["itl_p50_ms"],
                "mean": drawn["itl_p99_ms"],
                "tail": bound.fillna(drawn["itl_p99_ms"]),
                "text": [
                    say("stall_arithmetic.hidden_tail.slowest", b=words.milliseconds(b))
                    if b == b
                    else f"p99 {words.milliseconds(p)}"
                    for b, p in zip(bound, drawn["itl_p99_ms"], strict=True)
                ],
                "colour": drawn["colour"],
                "ink": drawn["ink"],
                "tip": [
                    say(
                        "stall_arithmetic.hidden_tail.tip",
                        tpot_mean_ms=words.milliseconds(r["tpot_mean_ms"]),
                        itl_p99_ms=words.milliseconds(r["itl_p99_ms"]),
                        n_gaps=r["n_gaps"],
                    )
                    for r in drawn.to_dict("records")
                ],
            }
        ),
        say("stall_arithmetic.hidden_tail.chart_gap_ms_log")
        + ("" if none else say("stall_arithmetic.hidden_tail.chart_arrow_slowest")),
    )
    title = say("stall_arithmetic.hidden_tail.title_condition_mean_gap")
    if top is not None:
        title = say(
            "stall_arithmetic.hidden_tail.title_p99_hides_stalls",
            concurrency=top["concurrency"],
            tpot_mean_ms=words.milliseconds(top["tpot_mean_ms"]),
            itl_p99_ms=words.milliseconds(top["itl_p99_ms"]),
            slowest_ms=words.milliseconds(top["slowest_ms"]),
        )
    return Figure(
        id=name,
        title=title,
        subtitle=(
            say(
                "stall_arithmetic.hidden_tail.subtitle_arithmetic_mean_tpot",
                condition_words=condition_words(rows),
            )
            + (say("stall_arithmetic.hidden_tail.subtitle_sum_lies_above") if none else "")
            + say("stall_arithmetic.hidden_tail.subtitle_measured_gaps_runs")
        ),
        chart=chart,
        table=pd.DataFrame(
            {
                "Configuration": rows["name"],
                "Requests in flight": rows["concurrency"],
                "ITL median (ms)": rows["itl_p50_ms"],
                "TPOT mean (ms)": rows["tpot_mean_ms"],
                "ITL p99 (ms)": rows["itl_p99_ms"],
                "Slowest 1 % at least (ms)": rows["slowest_ms"].where(
                    rows["slowest_ms"] > rows["itl_p99_ms"], rows["itl_p99_ms"]
                ),
                "Mean above p99": rows["tpot_mean_ms"] > rows["itl_p99_ms"],
                "Longest gap (ms)": rows["itl_max_ms"],
                "Gaps": rows["n_gaps"],
            }
        ),
        alt=f"{title}.",
        source=say("stall_arithmetic.hidden_tail.source", source=common.source(campaign, rows)),
        runs=common.runs_of(rows),
        notes=(
            *([] if none else [say("stall_arithmetic.hidden_tail.sum_adds_nothing")]),
            say("stall_arithmetic.hidden_tail.note"),
            *lost,
        ),
    )


def tail_range(campaign: Campaign) -> Statement:
    """The range of p99 over median over configurations, or over concurrencies, as a verdict."""
    name = "tail-range"
    rows = rows_of(campaign)
    if rows.empty:
        return common.absent_statement(campaign, name, _MIXED)
    keys = ["client", "isl", "osl", "concurrency"]
    many = rows.groupby(keys)["configuration"].transform("nunique")
    one = not common.several(rows["configuration"])
    if one:
        # The client that ran most workloads: its mixed runs stand beside its own isolated ones.
        every = plain(campaign)
        ran = every.groupby("client")["workload"].nunique()
        client = max(sorted(set(rows["client"])), key=lambda c: int(ran[c]))
        part = rows[rows["client"] == client]
        over = say("shared.in_flight", concurrency=words.span(part["concurrency"]))
    else:
        kept = rows[many == many.max()]
        best = kept.sort_values(["ratio"], kind="stable").iloc[-1]
        part = kept[(kept[keys] == best[keys]).all(axis=1)]
        over = say(
            "stall_arithmetic.tail_range.over",
            configurations=words.count(
                part["configuration"].nunique(), "configuration", spelled=True
            ),
            in_flight=common.in_flight(best["concurrency"]),
        )
    low, high = common.bottom(part, part["ratio"]), common.top(part, part["ratio"])
    spread = [part["itl_p50_ms"].min(), part["itl_p50_ms"].max()]
    ends = (
        tuple(say("shared.in_flight", concurrency=r["concurrency"]) for r in (low, high))
        if one
        else (str(low["name"]), str(high["name"]))
    )
    return Statement(
        id=name,
        sentence=say(
            "stall_arithmetic.tail_range.sentence",
            over=over,
            ratio=words.span([low["ratio"], high["ratio"]], 2),
            itl_p99_ms=words.milliseconds(low["itl_p99_ms"]),
            itl_p99_ms_2=words.milliseconds(high["itl_p99_ms"]),
            spread=words.span(spread),
        ),
        more=say("stall_arithmetic.tail_range.more", ends=ends[0], ends_2=ends[1]),
        metric="itl_p99_over_p50",
        value=float(high["ratio"]),
        unit="ratio",
        n=int(part["n_gaps"].sum()),
        n_of="gaps",
        low=float(low["ratio"]),
        high=float(high["ratio"]),
        interval=say(
            "stall_arithmetic.tail_range.over_concurrencies"
            if one
            else "stall_arithmetic.tail_range.over_configurations"
        ),
        runs=common.runs_of(part),
        figure="mixed-tail",
        would_change=say("stall_arithmetic.tail_range.would_change"),
        # Of two configurations the chapter on mixed load speaks.
        verdict=high["ratio"] > _LONG_TAIL and (one or part["configuration"].nunique() > 2),
        rank=25,
        marks=common.marks(campaign, runs=common.runs_of(part)),
    )
