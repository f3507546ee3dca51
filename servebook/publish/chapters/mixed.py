"""Chapter 05: prefill and decode mixed; what the slowest tokens wait for and who sees it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.distribution import longer_than, pooled_gaps_ms
from servebook.measure.percentiles import below_floor, percentile
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.gaps import WORKLOAD, gap_word, mixed_rows, tail_name
from servebook.publish.chapters.gaps import drawn as draw
from servebook.publish.chapters.mixed_anatomy import stall_anatomy
from servebook.publish.chapters.mixed_causes import stall_causes, stall_control
from servebook.publish.chapters.mixed_stalls import hidden, stall_frequency, stall_time
from servebook.publish.chapters.mixed_timeline import engine_timeline
from servebook.publish.chapters.mixed_twin import twin, twin_statement
from servebook.publish.charts.survival import longer_than as draw_longer_than
from servebook.publish.charts.tail import on_a_log_rule
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = [
    "distribution",
    "engine_timeline",
    "hidden",
    "stall_anatomy",
    "stall_causes",
    "stall_control",
    "stall_frequency",
    "stall_time",
    "tail",
    "tail_statement",
    "twin",
    "twin_statement",
]

_SHORTEST = 0.05
_TABLED = (("median", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9))
_POINTS, _CONTEXT_POINTS = 150, 50
_DEPENDENT = (
    "Gaps are not independent: those of one request share it, and all running requests share each "
    "engine step. The number of requests bounds what a tail rests on."
)
_FLOORS = (
    "p99 and p99.9 are given only above 662 and 6,636 gaps per run; below that the longest of n "
    "stands in their place."
)


def tail(campaign: Campaign) -> Figure:
    """Median, mean and p99 of the gaps per condition, on one log rule."""
    rows = mixed_rows(campaign)
    if rows.empty:
        return common.absent(campaign, "mixed-tail", "Mixed load: the tail", WORKLOAD)
    drawn, note = draw(rows)
    ratio = rows["tail"] / rows["itl_p50_ms"]
    worst = common.top(rows, ratio)
    title = (
        f"One token in a hundred waits up to {words.number(ratio.max(), 2)} times as long as the "
        "typical one"
        if not worst["few"]
        else f"The longest wait is {words.number(ratio.max(), 2)} times the typical one"
    )
    one = len(rows) == 1
    if not one and ratio.max() < 1.5:
        title = f"No condition has a long tail: p99 stays below {words.times(ratio.max())} median"
    elif not one:
        low = common.bottom(rows, ratio)
        title += f"; at best {words.number(ratio.min(), 2)} times ({low['row_label']})"
    chart = on_a_log_rule(
        pd.DataFrame(
            {
                "row": drawn["series"] + "|" + drawn["concurrency"].astype(str),
                "label": drawn["row_label"],
                "median": drawn["itl_p50_ms"],
                "mean": drawn["itl_mean_ms"],
                "tail": drawn["tail"],
                "text": [
                    f"{tail_name(r['few'], r['n_gaps_least'])} {words.milliseconds(r['tail'])} "
                    f"· {words.factor(r['tail'] / r['itl_p50_ms'])}"
                    for r in drawn.to_dict("records")
                ],
                "colour": drawn["colour"],
                "ink": drawn["ink"],
                "tip": [
                    f"median {words.milliseconds(r['itl_p50_ms'])}, "
                    f"mean {words.milliseconds(r['itl_mean_ms'])}, "
                    f"longest {words.milliseconds(r['itl_max_ms'])}, n = {r['n_gaps']:,.0f} gaps"
                    for r in drawn.to_dict("records")
                ],
            }
        ),
        f"{gap_word(campaign, rows)}, ms (log)",
    )
    table = common.table(
        rows.assign(
            ratio=ratio.where(~rows["few"]),
            p99=rows["itl_p99_ms"].where(~rows["few"]),
            p999=[
                np.nan if below_floor(99.9, n) else v
                for v, n in zip(rows["itl_p999_ms"], rows["n_gaps_least"], strict=True)
            ],
        ),
        [
            ("name", "configuration"),
            ("concurrency", "requests in flight"),
            ("itl_p50_ms", "ITL median (ms)"),
            ("itl_mean_ms", "ITL mean (ms)"),
            ("p99", "ITL p99 (ms)"),
            ("itl_p99_ms_low", "p99, lowest repeat"),
            ("itl_p99_ms_high", "p99, highest repeat"),
            ("ratio", "p99 / median"),
            ("p999", "ITL p99.9 (ms)"),
            ("itl_max_ms", "longest (ms)"),
            ("n_gaps", "gaps"),
            ("n_ok", "requests"),
            ("n_runs", "runs"),
        ],
    )
    n = f"n = {rows['n_gaps'].sum():,.0f} gaps of {rows['n_ok'].sum():,.0f} requests"
    repeats = common.interval(rows["n_runs"])
    return Figure(
        id="mixed-tail",
        title=title,
        subtitle=(
            f"● median, ○ mean, ▶ p99. {condition_words(rows)} {n}. {words.capital(repeats)}. "
            "Lower is better."
        ),
        chart=chart,
        table=table,
        alt=f"{title}. "
        + " ".join(
            f"{r['row_label']}: median {words.milliseconds(r['itl_p50_ms'])}, "
            f"{tail_name(r['few'], r['n_gaps_least'])} {words.milliseconds(r['tail'])}."
            for r in drawn.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=tuple(
            text
            for text in (
                note,
                _DEPENDENT,
                _FLOORS if rows["few"].any() else "",
                *common.left_out_notes(campaign, WORKLOAD),
            )
            if text
        ),
    )


def tail_statement(campaign: Campaign) -> Statement:
    """The widest tail among the conditions, as a verdict."""
    rows = mixed_rows(campaign)
    known = rows[~rows["few"]]
    if known.empty:
        if rows.empty:
            return common.absent_statement(campaign, "mixed-tail-verdict", WORKLOAD)
        return Statement(
            id="mixed-tail-verdict",
            sentence=(
                "No mixed run has the 662 gaps that a p99 needs, so nothing is said of the tail."
            ),
            marks=common.marks(campaign),
        )
    ratio = known["itl_p99_ms"] / known["itl_p50_ms"]
    worst = common.top(known, ratio)
    low, high = worst["itl_p99_over_p50_low"], worst["itl_p99_over_p50_high"]
    several = worst["n_runs"] > 1
    return Statement(
        id="mixed-tail-verdict",
        sentence=(
            f"Under mixed load ({worst['row_label']}) one token in a hundred waits "
            f"{words.milliseconds(worst['itl_p99_ms'])} or longer, "
            f"{words.times(ratio.max())} the median of {words.milliseconds(worst['itl_p50_ms'])}."
        ),
        metric="itl_p99_over_p50",
        value=float(ratio.max()),
        unit="ratio",
        n=int(worst["n_gaps"]),
        n_of=f"gaps of {words.count(int(worst['n_ok']), 'request')}",
        low=float(low) if several else None,
        high=float(high) if several else None,
        interval=words.spread(int(worst["n_runs"])),
        runs=tuple(worst["runs"]),
        figure="mixed-tail",
        would_change="repeats of this condition whose p99 differs, or a smaller prefill per step",
        verdict=True,
        rank=40,
        marks=common.marks(campaign, runs=tuple(worst["runs"])),
    )


def distribution(campaign: Campaign) -> Figure:
    """The share of gaps longer than x, per configuration, with p99 and p99.9."""
    rows = mixed_rows(campaign)
    name = "mixed-distribution"
    if rows.empty:
        return common.absent(campaign, name, "Mixed load: the distribution of gaps", WORKLOAD)
    gaps = pooled_gaps_ms(campaign.tables)
    # One concurrency for all where there is one that most series share (of these, the highest).
    counts = rows.groupby("concurrency")["series"].nunique()
    chosen = int(max(counts.index, key=lambda c: (counts[c], c)))
    curves: list[pd.DataFrame] = []
    marks, percentiles = [], []
    for row in rows.to_dict("records"):
        front = row["concurrency"] == chosen
        pool = np.concatenate([gaps[run] for run in row["runs"] if run in gaps])
        curve = longer_than(pool, _POINTS if front else _CONTEXT_POINTS)
        # The few shortest gaps (chunks that came together) would stretch the axis by decades.
        curve = curve[curve["share"] <= 1 - _SHORTEST]
        # Nothing is longer than the longest: without it a curve whose longest gaps tie would end
        # above the percentiles that they are.
        curve = pd.concat([curve, pd.DataFrame({"x": [float(pool.max())], "share": [0.0]})])
        curves.append(
            curve.assign(
                series=str(len(curves)),  # short: it is repeated in every point
                colour=row["colour"] if front else None,
                context=not front,
            )
        )
        pooled = [run for run in row["runs"] if run in gaps]
        percentiles.append(
            {
                "condition": row["row_label"],
                "runs pooled": len(pooled),
                "requests": row["n_ok"],
                "gaps": len(pool),
            }
            | {
                f"{name} (ms)": np.nan if below_floor(q, len(pool)) else percentile(pool, q)
                for name, q in _TABLED
            }
            | {"longest (ms)": float(pool.max())}
        )
        if not front:
            continue
        drawn = [
            (q, text, percentile(pool, q))
            for q, text in ((99.0, "p99"), (99.9, "p99.9"))
            if not below_floor(q, len(pool))
        ]
        named = "\n".join(
            [
                str(row["label"]),
                *(f"{text} {words.milliseconds(value)}" for _, text, value in drawn),
                *([f"{len(pooled)} runs pooled"] if len(pooled) > 1 else []),
            ]
        )
        marks += [
            {
                "series": row["row_label"],
                "x": value,
                "share": 1 - q / 100,
                "value": f"{text} {words.milliseconds(value)}",
                "text": named if text == "p99" else "",  # one label for both marks of a series
                "colour": row["colour"],
                "ink": row["ink"],
                "shape": row["shape"],
            }
            for q, text, value in drawn
        ]
    front = rows[rows["concurrency"] == chosen]
    hump, which = _hump(front)
    columns = ["series", "x", "share", "value", "text", "colour", "ink", "shape"]
    shown = pd.DataFrame(percentiles)
    others = len(rows) - len(front)
    word = gap_word(campaign, rows)
    return Figure(
        id=name,
        title=hump,
        subtitle=(
            f"{condition_words(rows)} {words.capital(common.in_flight(chosen))}; gaps of repeats "
            f"pooled, n = {front['n_gaps'].sum():,.0f}."
            + (f" Grey: {words.count(others, 'other condition')}." if others else "")
        ),
        chart=draw_longer_than(
            pd.concat(curves, ignore_index=True),
            pd.DataFrame(marks, columns=columns),
            f"{word}, ms (log)",
            "share of gaps longer than this (log)",
        ),
        table=shown,
        alt=f"{hump}. " + " ".join(f"{m['series']}: {m['value']}." for m in marks),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(
            (
                f"Each curve is thinned to at most {_POINTS} points ({_CONTEXT_POINTS} for grey "
                f"ones), and its shortest {words.percent(_SHORTEST)} of gaps are not drawn. The "
                "table's percentiles use all gaps."
            ),
            *which,
        ),
    )


#: A title names at most so many conditions; of more it says how many, and a note names them.
_MOST_NAMED = 3


def _hump(front: pd.DataFrame) -> tuple[str, tuple[str, ...]]:
    """Whether the tail stands apart from the body: p99 against p90 of the front conditions.

    Returns the title and, where it counts conditions, the notes that name them.
    """
    parts = []
    for row in front.to_dict("records"):
        body = row["itl_p90_ms"] / row["itl_p50_ms"]
        reach = row["itl_p99_ms"] / row["itl_p90_ms"]
        apart = reach > 2 and reach > body
        parts.append((row["name"], apart))
    yes = [name for name, apart in parts if apart]
    no = [name for name, apart in parts if not apart]
    rest = "a second group of long gaps stands apart"
    if yes and no and len(parts) > _MOST_NAMED:
        title = f"Most gaps are one decode step; in {len(yes)} of {len(parts)} conditions {rest}"
        note = (
            "A second group (p99 more than twice p90, and by a larger factor than p90 exceeds the "
            f"median): {words.listed(yes)}. None: {words.listed(no)}."
        )
        return title, (note,)
    if yes and no:
        title = (
            f"Most gaps are one decode step; with {words.listed(yes)} {rest}, with "
            f"{words.listed(no)} it does not"
        )
        return title, ()
    if yes:
        return f"Most gaps are one decode step; {rest}", ()
    return "The gaps form one group; no second group of long gaps stands apart below p99", ()
