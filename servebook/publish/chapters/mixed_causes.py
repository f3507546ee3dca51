"""Chapter 05, causes: the stalls of each run by cause, and a control that must fail."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.attribution import shuffled_control
from servebook.measure.metrics import METRICS
from servebook.measure.percentiles import below_floor
from servebook.measure.stalled_gaps import CONGESTED
from servebook.measure.stalls import in_part
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows
from servebook.publish.charts.anatomy import own_against_other
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["stall_causes", "stall_control"]


def stall_causes(campaign: Campaign) -> Figure:
    """The stalls of each mixed run by cause, beside the percentiles and the expectation."""
    figure, title = "mixed-stall-causes", say("mixed_causes.stall_causes.mixed_load_causes")
    if (nothing := stalled.no_causes(campaign, figure, title)) is not None:
        return nothing
    names = stalled.conditions(campaign)
    summary = stalled.summary(campaign).set_index("run_id")
    metrics = common.metrics(campaign).set_index("run_id")
    runs = [run for run in names if run in summary.index and summary.loc[run, "why"] == ""]
    watched = set(stalled.watched(campaign, tuple(runs)))
    rows = summary.loc[runs].copy()
    n = rows["n_gaps"]
    for name, q in (("itl_p99_ms", 99.0), ("itl_p999_ms", 99.9)):
        low = [below_floor(q, int(k)) for k in n]
        rows[name] = metrics.loc[runs, name].mask(pd.Series(low, index=rows.index))
    rows["longest"] = metrics.loc[runs, "itl_max_ms"]
    # What stalls are a share of: in long runs the gaps of the part that was looked at.
    told = rows["n_first_gaps"] + rows["n_inside_gaps"]
    rows["n_gaps"] = n = n.mask(in_part(rows), told)
    rows["n_link_stalls"] = rows["n_link_stalls"].where(rows.index.isin(watched))
    rows["run"] = [stalled.run_words(names[run], run) for run in runs]
    # The formula is of prompts that have steps of their own.
    rows["expected_stall_frequency"] = rows["expected_stall_frequency"].where(
        rows["prefill_style"] != "shared"
    )
    for name in _PERCENT:
        rows[name] = 100 * rows[name]
    unexplained = words.count(int(rows["n_unexplained_stalls"].sum()), "stall")
    total, by_prefill = int(rows["n_stalls"].sum()), int(rows["n_prefill_stalls"].sum())
    other = total - by_prefill
    several = words.count(len(runs), "mixed run")
    if not total:
        title = say("mixed_causes.stall_causes.title_gap_stall", several=several)
    elif not other:
        title = (
            say(
                "mixed_causes.stall_causes.title_stalls_prefills_requests",
                total=total,
                several=several,
            )
            if total > 1
            else say("mixed_causes.stall_causes.title_stall_prefill_another", several=several)
        )
    else:
        title = say(
            "mixed_causes.stall_causes.title_stalls_prefills_requests_unexplained",
            by_prefill=words.percent(by_prefill / total),
            total=total,
            several=several,
            unexplained=unexplained,
        )
    if uncertain := int((rows["doubt"] != "").sum()):
        title += say(
            "mixed_causes.stall_causes.title_uncertain", runs=words.count(uncertain, "run")
        )
    unwatched = [run for run in runs if run not in watched]
    notes = (
        say(
            "mixed_causes.stall_causes.note_stall",
            definition=words.told(METRICS["n_stalls"].definition),
        ),
        say("mixed_causes.stall_causes.note_expected_osl_requests"),
        say("mixed_causes.stall_causes.note_p99_p99_given"),
        say("mixed_causes.stall_causes.note_link_link_known", congested=words.percent(CONGESTED)),
        say("mixed_causes.stall_causes.note_counter_link_watched", n_unwatched=len(unwatched))
        if unwatched
        else "",
    )
    return Figure(
        id=figure,
        title=title,
        subtitle=say("mixed_causes.stall_causes.subtitle", n=n.sum(), several=several),
        table=common.table(rows.reset_index(), [("run", "run"), *_COLUMNS]),
        source=common.source(campaign, mixed_rows(campaign)),
        runs=tuple(sorted(runs)),
        notes=(
            *(note for note in notes if note),
            *(
                say("mixed_causes.stall_causes.note_uncertain", name=name, doubt=doubt)
                for name, doubt in zip(rows["run"], rows["doubt"], strict=True)
                if doubt
            ),
            *stalled.part_notes(campaign),
            *common.left_out_notes(campaign, WORKLOAD),
        ),
        open_table=True,
    )


_PERCENT = (
    "stall_fraction_of_gaps",
    "stall_fraction_of_steps",
    "stall_share_of_decode_time",
    "first_stall_fraction",
    "inside_stall_fraction",
    "expected_stall_frequency",
)
_COLUMNS = (
    ("n_gaps", "gaps"),
    ("n_stalls", "stalls"),
    # What the title speaks of stands first: a screen does not hold all columns.
    ("n_prefill_stalls", "by prefill"),
    ("n_link_stalls", "by link"),
    ("n_unexplained_stalls", "unexplained"),
    ("stall_fraction_of_gaps", "stalls (% of gaps)"),
    ("expected_stall_frequency", "expected (% of gaps)"),
    ("stall_share_of_decode_time", "time in stalls (% of decode time)"),
    ("itl_p99_ms", "ITL p99 (ms)"),
    ("longest_stall_ms", "worst stall (ms)"),
    ("longest", "longest gap (ms)"),
    ("itl_p999_ms", "ITL p99.9 (ms)"),
    ("stall_fraction_of_steps", "stalled steps (% of steps)"),
    ("first_stall_fraction", "after own first token (% of those gaps)"),
    ("inside_stall_fraction", "inside requests (% of those gaps)"),
    ("prefill_batch_mean", "k, prompts per prefill"),
    ("running_peak", "c, decoding at once"),
)


def _of_another(alone: bool) -> str:
    """Whose first tokens a run is given in the control."""
    if alone:
        return say("mixed_causes.stall_control.of_itself")
    return say("mixed_causes.stall_control.of_another")


def stall_control(campaign: Campaign) -> Figure:
    """The attribution with first tokens of another run, which must explain next to nothing."""
    figure, title = "mixed-stall-control", say("mixed_causes.stall_control.mixed_load_control")
    if (nothing := stalled.no_causes(campaign, figure, title)) is not None:
        return nothing
    names, looks = stalled.conditions(campaign), theme.looks(campaign.manifest.configurations)
    lines = [one.line for one in stalled.mixed(campaign) if one.line]
    rows = shuffled_control(campaign.tables, lines=lines).set_index("run_id")
    runs = [run for run in names if run in rows.index]
    rows = rows.loc[runs]
    if rows.empty:
        why = say("mixed_causes.stall_control.why")
        return Figure(id=figure, title=title, missing=why)
    own = _pooled(rows["long_fraction"], rows["n_steps"])
    other = _pooled(rows["shuffled_long_fraction"], rows["n_shuffled_steps"])
    chance = _pooled(rows["long_share_of_time"], rows["n_shuffled_steps"])
    alone = bool((rows["other_run_id"] == rows.index).all())  # there is no other run
    if other < own / 2:
        title = say(
            "mixed_causes.stall_control.title_steps_first_token",
            own=words.percent(own),
            of_another=_of_another(alone),
            other=words.percent(other),
            chance=words.percent(chance),
        )
    else:
        title = say(
            "mixed_causes.stall_control.title_control_fail_must",
            own=words.percent(own),
            other=words.percent(other),
            of_another=_of_another(alone),
        )
    rows = rows.assign(
        row=runs,
        label=[stalled.run_words(names[run], run) for run in runs],
        other_label=[
            say("mixed_causes.stall_control.itself")
            if other == run
            else stalled.run_words(names[other], other)
            for run, other in rows["other_run_id"].items()
        ],
        colour=[looks[names[run]["configuration"]].colour for run in runs],
        own=rows["long_fraction"],
        other=rows["shuffled_long_fraction"],
        chance=rows["long_share_of_time"],
        itself=rows["other_run_id"] == rows.index,
    )
    rows["tip"] = [
        say(
            "mixed_causes.stall_control.run_alone"
            if r["itself"]
            else "mixed_causes.stall_control.run",
            own=words.percent(r["own"]),
            n_steps=r["n_steps"],
            other=words.percent(r["other"]),
            n_shuffled_steps=r["n_shuffled_steps"],
        )
        for r in rows.to_dict("records")
    ]
    whose = "mirrored" if alone else "another run's"
    percent = {key: 100 * rows[key] for key in ("own", "other", "chance")}
    columns = ["row", "label", "own", "other", "chance", "colour", "tip"]
    return Figure(
        id=figure,
        title=title,
        subtitle=say(
            "mixed_causes.stall_control.subtitle_alone"
            if alone
            else "mixed_causes.stall_control.subtitle",
            n_steps=rows["n_steps"].sum(),
            n_shuffled_steps=rows["n_shuffled_steps"].sum(),
        ),
        chart=own_against_other(rows[columns], say("mixed_causes.stall_control.chart")),
        table=common.table(
            rows.assign(**percent),
            [
                ("label", "run"),
                ("own", "own first tokens (% of steps long)"),
                ("n_steps", "steps"),
                ("other", f"{whose} (% of steps long)"),
                ("n_shuffled_steps", "steps, mirrored" if alone else "steps, other run"),
                ("chance", "at random (% of time)"),
                *([] if alone else [("other_label", "the other run")]),
            ],
        ),
        alt=f"{title}. " + " ".join(f"{r['label']}: {r['tip']}." for r in rows.to_dict("records")),
        source=common.source(campaign, mixed_rows(campaign)),
        runs=tuple(sorted(runs)),
        notes=(
            say("mixed_causes.stall_control.note_long_longer_usual"),
            say("mixed_causes.stall_control.note_run_control_takes")
            if (rows["other_run_id"] == rows.index).any()
            else say("mixed_causes.stall_control.note_run_takes_first"),
            *stalled.part_notes(campaign),
        ),
    )


def _pooled(share: pd.Series[Any], n: pd.Series[Any]) -> float:
    known = share.notna()
    return float((share * n)[known].sum() / n[known].sum()) if n[known].sum() else float("nan")
