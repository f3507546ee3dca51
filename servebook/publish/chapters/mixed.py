"""Chapter 05: prefill and decode mixed; what the slowest tokens wait for and who sees it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.distribution import gap_pools
from servebook.measure.percentiles import below_floor
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
from servebook.publish.text import say
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


def tail(campaign: Campaign) -> Figure:
    """Median, mean and p99 of the gaps per condition, on one log rule."""
    rows = mixed_rows(campaign)
    if rows.empty:
        return common.absent(campaign, "mixed-tail", say("mixed.tail.mixed_load_tail"), WORKLOAD)
    ratio = rows["tail"] / rows["itl_p50_ms"]
    worst, low = common.top(rows, ratio), common.bottom(rows, ratio)
    drawn, note = draw(rows, (worst.name, low.name))
    title = (
        say("mixed.tail.title_token_hundred_waits", ratio=words.number(ratio.max(), 2))
        if not worst["few"]
        else say("mixed.tail.title_longest_wait_times", ratio=words.number(ratio.max(), 2))
    )
    one = len(rows) == 1
    if not one and ratio.max() < 1.5:
        title = say("mixed.tail.title_condition_long_tail", ratio=words.times(ratio.max()))
    elif not one:
        title += (
            say("mixed.tail.title_best_no_longer", row_label=low["row_label"])
            if ratio.min() < 1.005
            else say(
                "mixed.tail.title_best_times",
                ratio=words.times(ratio.min()),
                row_label=low["row_label"],
            )
        )
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
                    say(
                        "mixed.tail.tip",
                        itl_p50_ms=words.milliseconds(r["itl_p50_ms"]),
                        itl_mean_ms=words.milliseconds(r["itl_mean_ms"]),
                        itl_max_ms=words.milliseconds(r["itl_max_ms"]),
                        n_gaps=r["n_gaps"],
                    )
                    for r in drawn.to_dict("records")
                ],
            }
        ),
        say("shared.ms_log", gap_word=gap_word(campaign, rows)),
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
    n = say("mixed.tail.n", n_gaps=rows["n_gaps"].sum(), n_ok=rows["n_ok"].sum())
    repeats = common.interval(rows["n_runs"])
    return Figure(
        id="mixed-tail",
        title=title,
        subtitle=say(
            "mixed.tail.subtitle",
            condition_words=condition_words(rows),
            n=n,
            repeats=words.capital(repeats),
        ),
        chart=chart,
        table=table,
        alt=f"{title}. "
        + " ".join(
            say(
                "mixed.tail.alt",
                row_label=r["row_label"],
                itl_p50_ms=words.milliseconds(r["itl_p50_ms"]),
                tail_name=tail_name(r["few"], r["n_gaps_least"]),
                tail=words.milliseconds(r["tail"]),
            )
            for r in drawn.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=tuple(
            text
            for text in (
                note,
                say("mixed.dependent"),
                say("mixed.floors") if rows["few"].any() else "",
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
            sentence=say("mixed.tail_statement.sentence_mixed_run_gaps"),
            marks=common.marks(campaign),
        )
    ratio = known["itl_p99_ms"] / known["itl_p50_ms"]
    worst = common.top(known, ratio)
    low, high = worst["itl_p99_over_p50_low"], worst["itl_p99_over_p50_high"]
    several = worst["n_runs"] > 1
    return Statement(
        id="mixed-tail-verdict",
        sentence=say(
            "mixed.tail_statement.sentence_mixed_load_token",
            row_label=worst["row_label"],
            itl_p99_ms=words.milliseconds(worst["itl_p99_ms"]),
            ratio=words.times(ratio.max()),
            itl_p50_ms=words.milliseconds(worst["itl_p50_ms"]),
        ),
        metric="itl_p99_over_p50",
        value=float(ratio.max()),
        unit="ratio",
        n=int(worst["n_gaps"]),
        n_of=say("mixed.n_of", requests=words.count(int(worst["n_ok"]), "request")),
        low=float(low) if several else None,
        high=float(high) if several else None,
        interval=words.spread(int(worst["n_runs"])),
        runs=tuple(worst["runs"]),
        figure="mixed-tail",
        would_change=say("mixed.tail_statement.would_change"),
        verdict=True,
        rank=40,
        marks=common.marks(campaign, runs=tuple(worst["runs"])),
    )


def _named(drawn: list[tuple[str, str]]) -> list[str]:
    """Lines that give percentiles: one where all of them are the same."""
    if len(drawn) > 1 and len({value for _, value in drawn}) == 1:
        return [" = ".join([*(text for text, _ in drawn), drawn[0][1]])]
    return [f"{text} {value}" for text, value in drawn]


def distribution(campaign: Campaign) -> Figure:
    """The share of gaps longer than x, per configuration, with p99 and p99.9."""
    rows = mixed_rows(campaign)
    name = "mixed-distribution"
    if rows.empty:
        return common.absent(
            campaign, name, say("mixed.distribution.mixed_load_distribution"), WORKLOAD
        )
    pools = gap_pools(campaign.tables, rows["runs"])
    # One concurrency for all where there is one that most series share (of these, the highest).
    counts = rows.groupby("concurrency")["series"].nunique()
    chosen = int(max(counts.index, key=lambda c: (counts[c], c)))
    curves: list[pd.DataFrame] = []
    marks, percentiles = [], []
    for row, (pooled, pool) in zip(rows.to_dict("records"), pools, strict=True):
        front = row["concurrency"] == chosen
        curve = pool.longer_than(_POINTS if front else _CONTEXT_POINTS)
        # The few shortest gaps (chunks that came together) would stretch the axis by decades.
        curve = curve[curve["share"] <= 1 - _SHORTEST]
        # Nothing is longer than the longest: without it a curve whose longest gaps tie would end
        # above the percentiles that they are.
        curve = pd.concat([curve, pd.DataFrame({"x": [pool.longest], "share": [0.0]})])
        curves.append(
            curve.assign(
                series=str(len(curves)),  # short: it is repeated in every point
                colour=row["colour"] if front else None,
                context=not front,
            )
        )
        known = [q for _, q in _TABLED if not below_floor(q, len(pool))]
        values = dict(zip(known, pool.percentiles(known), strict=True))
        percentiles.append(
            {
                "condition": row["row_label"],
                "runs pooled": len(pooled),
                "requests": row["n_ok"],
                "gaps": len(pool),
            }
            | {f"{name} (ms)": values.get(q, np.nan) for name, q in _TABLED}
            | {"longest (ms)": pool.longest}
        )
        if not front:
            continue
        drawn = [
            (q, text, values[q]) for q, text in ((99.0, "p99"), (99.9, "p99.9")) if q in values
        ]
        named = "\n".join(
            [
                str(row["label"]),
                *_named([(text, words.milliseconds(value)) for _, text, value in drawn]),
                *(
                    [say("mixed.distribution.named", n_pooled=len(pooled))]
                    if len(pooled) > 1
                    else []
                ),
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
            say(
                "mixed.distribution.subtitle_gaps_repeats_pooled",
                condition_words=condition_words(rows),
                in_flight=words.capital(common.in_flight(chosen)),
                n_gaps=front["n_gaps"].sum(),
            )
            + (
                say(
                    "mixed.distribution.subtitle_grey",
                    other_conditions=words.count(others, "other condition"),
                )
                if others
                else ""
            )
        ),
        chart=draw_longer_than(
            pd.concat(curves, ignore_index=True),
            pd.DataFrame(marks, columns=columns),
            say("shared.ms_log", gap_word=word),
            say("mixed.distribution.chart"),
        ),
        table=shown,
        alt=f"{hump}. " + " ".join(f"{m['series']}: {m['value']}." for m in marks),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(
            say(
                "mixed.distribution.note",
                points=_POINTS,
                context_points=_CONTEXT_POINTS,
                shortest=words.percent(_SHORTEST),
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
    rest = say("mixed.hump.rest")
    if yes and no and len(parts) > _MOST_NAMED:
        title = say(
            "mixed.hump.title_gaps_decode_step", n_yes=len(yes), n_parts=len(parts), rest=rest
        )
        note = say("mixed.hump.note", yes=words.listed(yes), no=words.listed(no))
        return title, (note,)
    if yes and no:
        title = say(
            "mixed.hump.title_gaps_decode_step_2",
            yes=words.listed(yes),
            rest=rest,
            no=words.listed(no),
        )
        return title, ()
    if yes:
        return say("mixed.hump.gaps_decode_step", rest=rest), ()
    return say("mixed.hump.gaps_form_group"), ()
