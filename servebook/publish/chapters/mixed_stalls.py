"""Chapter 05, stalls: how often, how long, and whether p99 sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.metrics import METRICS
from servebook.measure.stalls import in_part
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows, tail_name
from servebook.publish.chapters.gaps import drawn as draw
from servebook.publish.charts.frequency import against_one_percent
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["hidden", "stall_frequency", "stall_time"]
#: A p99 that misses stalls which take more than this share of the decode time hides them.
_HIDDEN_SHARE = 0.05


@dataclass(frozen=True)
class _Stalled:
    """Stall figures per run joined with looks, only runs where stalls could be told."""

    rows: pd.DataFrame
    unknown: tuple[str, ...]


def _stalled(campaign: Campaign) -> _Stalled:
    if _modelled(campaign):
        return _Stalled(pd.DataFrame(), ())
    summary = stalled.summary(campaign).set_index("run_id")
    rows = mixed_rows(campaign)
    out, unknown = [], []
    for row in rows.to_dict("records"):
        found = summary.loc[[run for run in row["runs"] if run in summary.index]]
        known = found[found["stall_fraction_of_gaps"].notna()]
        if known.empty:
            unknown.append(row["row_label"])
            continue
        both = {
            "stall_share": known["stall_share_of_decode_time"],
            "slow_share": known["slow_share_of_decode_time"],
            "frequency": known["stall_fraction_of_gaps"],
            "inside": known["inside_stall_fraction"],
            "slow_frequency": known["slow_fraction_of_gaps"],
            "expected": known["expected_stall_frequency"],
            "longest": known["longest_stall_ms"],
            "n_stalls": known["n_stalls"],
            "batches": known["n_prefill_batches"],
            "k": known["prefill_batch_mean"],
        }
        if in_part(known).any():  # figures of long runs are of a part
            row["n_gaps"] = int((known["n_first_gaps"] + known["n_inside_gaps"]).sum())
        row |= {key: values.median() for key, values in both.items()}
        for key in ("n_stalls", "n_prefill_stalls"):
            row[f"all_{key}"] = int(known[key].sum())
        for key in ("frequency", "stall_share"):
            several = len(known) > 1
            row[f"{key}_low"] = both[key].min() if several else np.nan
            row[f"{key}_high"] = both[key].max() if several else np.nan
        row["baseline"] = words.listed(sorted(set(known["baseline"])))
        row["style"] = words.listed(sorted({s for s in known["prefill_style"] if s}))
        out.append(row)
    columns = [*rows.columns, "stall_share", "slow_share", "frequency", "inside", "expected"]
    frame = pd.DataFrame(out) if out else pd.DataFrame(columns=columns)
    return _Stalled(frame, tuple(unknown))


def _modelled(campaign: Campaign) -> bool:
    return campaign.manifest.provenance == "reconstructed"


def _no_stalls(campaign: Campaign, name: str, title: str, found: _Stalled) -> Figure:
    if _modelled(campaign) and not common.by_condition(campaign)["workload"].eq(WORKLOAD).any():
        return common.absent(campaign, name, title, WORKLOAD)
    if _modelled(campaign):
        return Figure(id=name, title=title, missing=say("mixed_stalls.model"))
    if not found.unknown:
        return common.absent(campaign, name, title, WORKLOAD)
    return Figure(
        id=name,
        title=title,
        missing=say("mixed_stalls.no_stalls.missing"),
    )


def _stall_table(rows: pd.DataFrame) -> pd.DataFrame:
    percent = {
        key: 100 * rows[key]
        for key in (
            "frequency",
            "inside",
            "expected",
            "stall_share",
            "slow_frequency",
            "slow_share",
        )
    }
    return common.table(
        rows.assign(**percent),
        [
            ("name", "configuration"),
            ("concurrency", "requests in flight"),
            ("frequency", "stalls (% of gaps)"),
            ("inside", "stalls inside requests (% of their gaps)"),
            ("expected", "expected (% of gaps)"),
            ("stall_share", "time in stalls (% of decode time)"),
            ("slow_frequency", "slow shared steps (% of gaps)"),
            ("slow_share", "time lost in shared steps (% of decode time)"),
            ("itl_p99_ms", "ITL p99 (ms)"),
            ("longest", "longest stall (ms)"),
            ("n_stalls", "stalls"),
            ("batches", "prefill batches"),
            ("n_gaps", "gaps"),
            ("n_runs", "runs"),
            ("style", "prefill in steps"),
            ("baseline", "decode-only baseline"),
        ],
    )


def stall_time(campaign: Campaign) -> Figure:
    """The share of decode time that stalls take, per condition."""
    found = _stalled(campaign)
    title = say("mixed_stalls.stall_time.title_mixed_load_time")
    if found.rows.empty:
        return _no_stalls(campaign, "mixed-stall-time", title, found)
    rows, note = draw(found.rows)
    parts = []
    for row in rows.to_dict("records"):
        lost, slow = row["stall_share"], row["slow_share"]
        text = say("mixed_stalls.stall_time.stalls", lost=words.percent(lost))
        if slow > 0:
            text = say("mixed_stalls.stall_time.slower_steps", slow=words.percent(slow))
            text = (
                text
                if lost == 0
                else say("mixed_stalls.stall_time.text_stalls", lost=words.percent(lost), text=text)
            )
        pieces = [
            (say("mixed_stalls.stall_time.time_stalls"), 0.0, lost, row["colour"]),
            (say("mixed_stalls.stall_time.time_lost_steps"), lost, lost + slow, "#BBBBBB"),
            (say("mixed_stalls.stall_time.ordinary_decoding"), lost + slow, 1.0, theme.GRID),
        ]
        parts += [
            {
                "row": f"{row['series']}|{row['concurrency']}",
                "label": f"{row['row_label']}: {text}",
                "part": part,
                "start": start,
                "end": end,
                "colour": colour,
                "tip": words.percent(end - start),
            }
            for part, start, end, colour in pieces
            if end > start
        ]
    top = common.top(found.rows, found.rows["stall_share"])
    title = (
        say(
            "mixed_stalls.stall_time.title_decode_time",
            lost_to=_lost_to(top),
            stall_share=words.percent(top["stall_share"]),
        )
        if top["stall_share"] > 0
        else say("mixed_stalls.stall_time.title_decode_time_lost")
    )
    shared = found.rows[found.rows["slow_share"] > 0]
    if len(shared) and top["stall_share"] > 0:
        title += say(
            "mixed_stalls.stall_time.title_spread_slower_steps",
            name=words.listed(dict.fromkeys(shared["name"])),
        )
    return Figure(
        id="mixed-stall-time",
        title=title,
        subtitle=say(
            "mixed_stalls.stall_time.subtitle",
            condition_words=condition_words(found.rows),
            n_gaps=found.rows["n_gaps"].sum(),
            interval=common.interval(found.rows["n_runs"]),
        ),
        chart=of_a_whole(pd.DataFrame(parts), say("mixed_stalls.stall_time.chart")),
        table=_stall_table(found.rows),
        alt=f"{title}. "
        + " ".join(
            f"{r['row_label']}: {words.percent(r['stall_share'])}." for r in rows.to_dict("records")
        ),
        source=common.source(campaign, found.rows),
        runs=common.runs_of(found.rows),
        notes=tuple(
            t
            for t in (
                note,
                say(
                    "mixed_stalls.stall_time.note_stall",
                    definition=words.told(METRICS["n_stalls"].definition),
                ),
                say(
                    "mixed_stalls.stall_time.note_told_common_clock",
                    unknown=words.listed(found.unknown),
                )
                if found.unknown
                else "",
                *stalled.part_notes(campaign),
            )
            if t
        ),
    )


def _lost_to(row: pd.Series[Any]) -> str:
    """What takes the time in stalls: the sentence names prefills alone only where they are all."""
    n, by_prefill = row["all_n_stalls"], row["all_n_prefill_stalls"]
    if by_prefill == n:
        return say("mixed_stalls.lost_to.waiting_requests_prefills")
    return say("mixed_stalls.lost_to.stalls_requests_prefills", by_prefill=by_prefill, n=n)


def stall_frequency(campaign: Campaign) -> Figure:
    """How many gaps are stalls over concurrency, against the 1 % that p99 can see."""
    found = _stalled(campaign)
    title = say("mixed_stalls.stall_frequency.title_mixed_load_often")
    if found.rows.empty:
        return _no_stalls(campaign, "mixed-stall-frequency", title, found)
    rows = found.rows[found.rows["frequency"] > 0]
    none = found.rows[found.rows["frequency"] == 0]
    notes = [
        say("mixed_stalls.expected"),
        say("mixed_stalls.stall_frequency.note_share_gaps_p99"),
        *stalled.part_notes(campaign),
    ]
    if len(none):
        notes.append(
            say(
                "mixed_stalls.stall_frequency.note_stall_log_axis",
                row_label=words.listed(none["row_label"], most=4),
            )
        )
    if rows.empty:
        return Figure(
            id="mixed-stall-frequency",
            title=say("mixed_stalls.stall_frequency.title_gap_stall_mixed"),
            table=_stall_table(found.rows),
            source=common.source(campaign, found.rows),
            runs=common.runs_of(found.rows),
            notes=tuple(notes),
            open_table=True,
        )
    below, above = rows[rows["frequency"] <= 0.01], rows[rows["frequency"] > 0.01]
    title = _blind_title(below, above)
    many = len(rows) > 10
    edges = rows.groupby("series")["concurrency"].agg(["min", "max"])
    texts = []
    for row in rows.to_dict("records"):
        at_edge = row["concurrency"] in tuple(edges.loc[row["series"]])
        what = tail_name(row["few"], row["n_gaps_least"])
        value = words.milliseconds(row["tail"])
        texts.append("" if many and not at_edge else f"{what} {value}")
    points = pd.DataFrame(
        {
            "series": rows["series"],
            "label": rows["label"],
            "concurrency": rows["concurrency"].astype(float),
            "share": rows["frequency"],
            "low": rows["frequency_low"],
            "high": rows["frequency_high"],
            "text": texts,
            "colour": rows["colour"],
            "ink": rows["ink"],
            "shape": rows["shape"],
        }
    )
    expected = pd.DataFrame(
        {
            "series": rows["series"],
            "concurrency": rows["concurrency"].astype(float),
            "share": rows["expected"],
        }
    ).dropna()
    return Figure(
        id="mixed-stall-frequency",
        title=title,
        subtitle=say(
            "mixed_stalls.stall_frequency.subtitle",
            condition_words=condition_words(rows),
            n_gaps=rows["n_gaps"].sum(),
            interval=common.interval(rows["n_runs"]),
        ),
        chart=against_one_percent(
            points, say("mixed_stalls.stall_frequency.chart"), expected=expected
        ),
        table=_stall_table(found.rows),
        alt=f"{title}. "
        + " ".join(
            say(
                "mixed_stalls.stall_frequency.alt",
                row_label=r["row_label"],
                frequency=words.percent(r["frequency"]),
            )
            for r in rows.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(found.rows),
        notes=tuple(notes),
    )


def _blind_title(below: pd.DataFrame, above: pd.DataFrame) -> str:
    if below.empty:
        return say("mixed_stalls.blind_title.stalls_gaps_everywhere")
    if above.empty:
        return say("mixed_stalls.blind_title.stalls_stay_below")
    first = above.sort_values("concurrency", kind="stable").iloc[0]
    last = below.sort_values("concurrency", kind="stable").iloc[-1]
    if last["concurrency"] < first["concurrency"]:
        return say(
            "mixed_stalls.blind_title.stalls_flight_already",
            concurrency=last["concurrency"],
            concurrency_2=first["concurrency"],
        )
    return say(
        "mixed_stalls.blind_title.p99_sees_stalls",
        conditions=words.count(len(above), "condition"),
        conditions_2=words.count(len(below), "condition"),
    )


def hidden(campaign: Campaign) -> Statement:
    """A warning where p99 misses stalls that take a noticeable share of the decode time."""
    found = _stalled(campaign)
    name = "mixed-hidden-stalls"
    if found.rows.empty:
        missing = _no_stalls(campaign, name, "", found).missing
        return Statement(id=name, sentence=missing, marks=common.marks(campaign))
    rows = found.rows
    unseen = rows[(rows["frequency"] <= 0.01) & (rows["frequency"] > 0)]
    worst = unseen[unseen["stall_share"] > _HIDDEN_SHARE]
    if len(worst):
        row = common.top(worst, worst["stall_share"])
        sentence = say(
            "mixed_stalls.hidden.sentence_warning_p99_hides",
            row_label=row["row_label"],
            frequency=words.percent(row["frequency"]),
            stall_share=words.percent(row["stall_share"]),
        )
    elif len(unseen):
        row = common.top(unseen, unseen["stall_share"])
        sentence = say(
            "mixed_stalls.hidden.sentence_p99_see_stalls",
            row_label=row["row_label"],
            frequency=words.percent(row["frequency"]),
            stall_share=words.percent(row["stall_share"]),
            hidden_share=words.percent(_HIDDEN_SHARE),
        )
    else:
        row = common.bottom(rows, rows["frequency"])
        sentence = say("mixed_stalls.hidden.sentence_mixed_condition_stalls")
    several = row["n_runs"] > 1
    return Statement(
        id=name,
        sentence=sentence,
        metric="stall_share_of_decode_time",
        value=float(row["stall_share"]),
        unit="fraction",
        n=int(row["n_gaps"]),
        n_of="gaps",
        low=float(row["stall_share_low"]) if several else None,
        high=float(row["stall_share_high"]) if several else None,
        interval=words.spread(int(row["n_runs"])),
        runs=tuple(row["runs"]),
        figure="mixed-stall-frequency",
        would_change=say("mixed_stalls.hidden.would_change"),
        verdict=bool(len(worst)),
        rank=45,
        marks=common.marks(campaign, runs=tuple(row["runs"])),
    )
