"""Chapter 05, stalls: how often, how long, and whether p99 sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows, tail_name
from servebook.publish.chapters.gaps import drawn as draw
from servebook.publish.charts.frequency import against_one_percent
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["hidden", "stall_frequency", "stall_time"]

_EXPECTED = (
    "Dashed: (c - k) / (k (OSL - 1)), the stalls per gap if c requests run and are prefilled k at "
    "a time; c and k as seen in the runs."
)
_MODEL = (
    "The gaps of this campaign come from an engine model, not from an engine: which of them are "
    "stalls, and what caused them, would say something of the model only. Measured campaigns show "
    "it here; what printed summary figures alone say of stalls stands under decomposition."
)
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
        return Figure(id=name, title=title, missing=_MODEL)
    if not found.unknown:
        return common.absent(campaign, name, title, WORKLOAD)
    return Figure(
        id=name,
        title=title,
        missing=(
            "Stalls cannot be told from ordinary gaps here: the dumps have no common clock for "
            "their requests, or too few gaps for a baseline."
        ),
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
    title = "Mixed load: time in stalls"
    if found.rows.empty:
        return _no_stalls(campaign, "mixed-stall-time", title, found)
    rows, note = draw(found.rows)
    parts = []
    for row in rows.to_dict("records"):
        lost, slow = row["stall_share"], row["slow_share"]
        text = f"{words.percent(lost)} in stalls"
        if slow > 0:
            text = f"{words.percent(slow)} in slower steps"
            text = text if lost == 0 else f"{words.percent(lost)} in stalls, {text}"
        pieces = [
            ("time in stalls", 0.0, lost, row["colour"]),
            ("time lost in steps shared with a prompt", lost, lost + slow, "#BBBBBB"),
            ("ordinary decoding", lost + slow, 1.0, theme.GRID),
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
        f"{_lost_to(top)} up to {words.percent(top['stall_share'])} of the decode time"
        if top["stall_share"] > 0
        else "No decode time is lost in stalls"
    )
    shared = found.rows[found.rows["slow_share"] > 0]
    if len(shared) and top["stall_share"] > 0:
        title += (
            f"; with {words.listed(dict.fromkeys(shared['name']))} it is spread over slower steps"
        )
    return Figure(
        id="mixed-stall-time",
        title=title,
        subtitle=(
            "Time of stalls beyond the run's median gap, as a share of the time of all gaps. "
            f"{condition_words(found.rows)} n = {found.rows['n_gaps'].sum():,.0f} gaps; "
            f"{common.interval(found.rows['n_runs'])}."
        ),
        chart=of_a_whole(pd.DataFrame(parts), "share of the time between tokens"),
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
                f"Stall: {METRICS['n_stalls'].definition}.",
                f"Not told for {words.listed(found.unknown)}: no common clock or too few gaps."
                if found.unknown
                else "",
            )
            if t
        ),
    )


def _lost_to(row: pd.Series[Any]) -> str:
    """What takes the time in stalls: the sentence names prefills alone only where they are all."""
    n, by_prefill = row["all_n_stalls"], row["all_n_prefill_stalls"]
    if by_prefill == n:
        return "Waiting for other requests' prefills takes"
    return f"Stalls, {by_prefill:,} of {n:,} of them by other requests' prefills, take"


def stall_frequency(campaign: Campaign) -> Figure:
    """How many gaps are stalls over concurrency, against the 1 % that p99 can see."""
    found = _stalled(campaign)
    title = "Mixed load: how often tokens stall"
    if found.rows.empty:
        return _no_stalls(campaign, "mixed-stall-frequency", title, found)
    rows = found.rows[found.rows["frequency"] > 0]
    none = found.rows[found.rows["frequency"] == 0]
    notes = [
        _EXPECTED,
        "The share is over all gaps, as p99 is; the table has the gaps inside requests apart.",
    ]
    if len(none):
        notes.append(
            f"No stall, so not on the log axis: {words.listed(none['row_label'], most=4)}."
        )
    if rows.empty:
        return Figure(
            id="mixed-stall-frequency",
            title="No gap is a stall in any mixed run",
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
        subtitle=(
            f"{condition_words(rows)} Beside each point its p99. "
            f"n = {rows['n_gaps'].sum():,.0f} gaps; {common.interval(rows['n_runs'])}."
        ),
        chart=against_one_percent(points, "gaps that are stalls (log)", expected=expected),
        table=_stall_table(found.rows),
        alt=f"{title}. "
        + " ".join(
            f"{r['row_label']}: {words.percent(r['frequency'])} of gaps."
            for r in rows.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(found.rows),
        notes=tuple(notes),
    )


def _blind_title(below: pd.DataFrame, above: pd.DataFrame) -> str:
    if below.empty:
        return "Stalls are more than 1 % of gaps everywhere, so p99 sees them"
    if above.empty:
        return "Stalls stay below 1 % of gaps, where p99 cannot see them"
    first = above.sort_values("concurrency", kind="stable").iloc[0]
    last = below.sort_values("concurrency", kind="stable").iloc[-1]
    if last["concurrency"] < first["concurrency"]:
        return (
            f"Stalls are there at {last['concurrency']} in flight already; p99 sees them only from "
            f"{first['concurrency']} on, where they pass 1 % of gaps"
        )
    return (
        f"p99 sees the stalls of {words.count(len(above), 'condition')} and is blind to those of "
        f"{words.count(len(below), 'condition')}, where they are below 1 % of gaps"
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
        sentence = (
            f"Warning: p99 hides stalls at {row['row_label']}. They are "
            f"{words.percent(row['frequency'])} of gaps, below the 1 % that p99 can see, and take "
            f"{words.percent(row['stall_share'])} of the decode time."
        )
    elif len(unseen):
        row = common.top(unseen, unseen["stall_share"])
        sentence = (
            f"p99 does not see the stalls at {row['row_label']} "
            f"({words.percent(row['frequency'])} of gaps), but they take only "
            f"{words.percent(row['stall_share'])} of the decode time; the limit for a warning is "
            f"{words.percent(_HIDDEN_SHARE)}."
        )
    else:
        row = common.bottom(rows, rows["frequency"])
        sentence = (
            "No mixed condition has stalls that p99 misses: they are more than 1 % of gaps, or "
            "there are none."
        )
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
        would_change="another decode-only baseline, or more runs near the 1 % line",
        verdict=bool(len(worst)),
        rank=45,
        marks=common.marks(campaign, runs=tuple(row["runs"])),
    )
