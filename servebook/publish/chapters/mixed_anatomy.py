"""Chapter 05, stall anatomy: how long stalls are against the prompts prefilled in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.attribution import prefill_rate, stalled_steps
from servebook.measure.stall_digest import StallDigest
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows
from servebook.publish.charts.anatomy import lost_over_tokens
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["stall_anatomy"]

#: Points closer than this share of the picture are one point that stands for several.
_BINS = 48


def _chunked(campaign: Campaign, found: tuple[StallDigest, ...]) -> list[str]:
    names = stalled.conditions(campaign)
    shared = [one.run_id for one in found if one.style == "shared"]
    return list(dict.fromkeys(stalled.run_words(names[run], run) for run in shared))


def stall_anatomy(campaign: Campaign) -> Figure:
    """How long stalled steps are against the prompt tokens prefilled in them."""
    figure, title = "mixed-stall-anatomy", say("mixed_anatomy.stall_anatomy.mixed_load_stalls")
    if (nothing := stalled.no_causes(campaign, figure, title)) is not None:
        return nothing
    found, looks = stalled.mixed(campaign), theme.looks(campaign.manifest.configurations)
    configuration = {run: row["configuration"] for run, row in stalled.conditions(campaign).items()}
    lines = [one.line for one in found if one.line]
    steps = pd.DataFrame(
        [
            {"series": configuration[line.tokens.run_id], "tokens": t, "lost_ms": lost / 1e6}
            for line in lines
            if line.style != "shared"
            for lost, t in zip(*stalled_steps(line), strict=True)
        ],
        columns=["series", "tokens", "lost_ms"],
    )
    chunked = _chunked(campaign, found)
    if steps.empty:
        why = say("mixed_anatomy.stall_anatomy.why")
        why += " " + say("mixed_anatomy.chunked", runs=words.listed(chunked)) if chunked else ""
        return Figure(id=figure, title=title, missing=why)
    rates = prefill_rate(campaign.tables, lines=lines)
    rates = rates[rates["level"] == "configuration"].set_index("configuration")
    order = [c.name for c in campaign.manifest.configurations if c.name in rates.index]
    rates = rates.loc[order]
    paused = _paused(found)
    points = _binned(steps).assign(
        colour=lambda p: [looks[s].colour for s in p["series"]],
        shape=lambda p: [looks[s].shape for s in p["series"]],
        tip=lambda p: [
            say(
                "mixed_anatomy.stall_anatomy.tip",
                series=common.label(campaign, r["series"]),
                steps=words.count(int(r["n"]), "step"),
                tokens=words.number(r["tokens"]),
                lost_ms=words.milliseconds(r["lost_ms"]),
            )
            for r in p.to_dict("records")
        ],
    )
    drawn = rates[rates["rate_tok_s"].notna()]
    edges = steps.groupby("series")["tokens"].agg(["min", "max"]).loc[drawn.index]
    fitted = pd.DataFrame(
        {
            "series": list(drawn.index),
            "label": [
                say(
                    "mixed_anatomy.stall_anatomy.label",
                    n=words.wrapped(common.label(campaign, n), 20),
                    r=words.short(r),
                    k=k,
                )
                for n, r, k in zip(drawn.index, drawn["rate_tok_s"], drawn["n_steps"], strict=True)
            ],
            "colour": [looks[n].colour for n in drawn.index],
            "ink": [looks[n].text for n in drawn.index],
            "spread": list(drawn["residual_p90_ms"]),
        }
    )
    for end, side in (("low", "min"), ("high", "max")):
        fitted[f"x_{end}"] = list(edges[side])
        fitted[f"y_{end}"] = list(drawn["base_ms"] + 1e3 * edges[side] / drawn["rate_tok_s"])
    if len(drawn):
        told = [
            say(
                "mixed_anatomy.stall_anatomy.told",
                r=words.number(round(r, -2) if r > 1e4 else r),
                n=common.label(campaign, n),
            )
            for n, r in zip(map(str, drawn.index), drawn["rate_tok_s"], strict=True)
        ]
        title = say(
            "mixed_anatomy.stall_anatomy.title_stall_lasts_long", told=words.listed(told, most=3)
        )
    else:
        title = say("mixed_anatomy.stall_anatomy.title_stalls_prefill_rate")
    table = rates.reset_index().assign(
        label=common.labels(campaign, pd.Series(rates.index)),
        unexplained=[
            sum(n for run, n in paused["n"].items() if configuration[run] == name)
            for name in rates.index
        ],
    )
    unseen = sum(
        int(((line.prefills.request < 0) & ~line.prefills.part).sum())
        for line in lines
        if line.style != "shared"
    )
    spread = "; ".join(
        say(
            "mixed_anatomy.stall_anatomy.spread",
            n=common.label(campaign, n),
            residual_p50_ms=words.milliseconds(r["residual_p50_ms"]),
            residual_p90_ms=words.milliseconds(r["residual_p90_ms"]),
        )
        for n, r in zip(map(str, drawn.index), drawn.to_dict("records"), strict=True)
    )
    notes = [
        say("mixed_anatomy.stall_anatomy.note_line_median_slope"),
        say("mixed_anatomy.stall_anatomy.note_spread", spread=spread) if spread else "",
        *(
            say(
                "mixed_anatomy.stall_anatomy.note_line",
                n=common.label(campaign, n),
                w=words.told(w),
            )
            for n, w in zip(map(str, rates.index), rates["why"], strict=True)
            if w
        ),
        say(
            "mixed_anatomy.stall_anatomy.note_points_nearer_picture",
            bins=_BINS,
            n_points=len(points),
            n_steps=len(steps),
        )
        if len(points) < len(steps)
        else "",
        say(
            "mixed_anatomy.stall_anatomy.note_without_record_dump",
            prompts=words.count(unseen, "prompt"),
        )
        if unseen
        else "",
        say("mixed_anatomy.chunked", runs=words.listed(chunked, most=4)) if chunked else "",
        *stalled.part_notes(campaign),
        *common.left_out_notes(campaign, WORKLOAD),
    ]
    crosses = (
        say(
            "mixed_anatomy.stall_anatomy.crosses_crosses_without_prompt",
            steps=words.count(len(paused["lost_ms"]), "step"),
        )
        if len(paused["lost_ms"])
        else say("mixed_anatomy.stall_anatomy.crosses_step_without_prompt")
    )
    return Figure(
        id=figure,
        title=title,
        subtitle=say(
            "mixed_anatomy.stall_anatomy.subtitle",
            stalled_engine_steps=words.count(len(steps), "stalled engine step"),
            mixed_runs=words.count(len(lines), "mixed run"),
            crosses=crosses,
        ),
        chart=lost_over_tokens(points, fitted, pd.DataFrame({"lost_ms": paused["lost_ms"]})),
        table=common.table(
            table,
            [
                ("label", "configuration"),
                ("n_steps", "stalled steps"),
                ("n_lengths", "different token counts"),
                ("rate_tok_s", "prefill rate (tokens/s)"),
                ("rate_low_tok_s", "rate, low end of 95 %"),
                ("rate_high_tok_s", "rate, high end of 95 %"),
                ("base_ms", "fixed part (ms)"),
                ("residual_p50_ms", "half of the steps within (ms)"),
                ("residual_p90_ms", "nine in ten within (ms)"),
                ("overall_tok_s", "all tokens / all time lost (tokens/s)"),
                ("unexplained", "unexplained steps"),
            ],
        ),
        alt=f"{title}. {spread}.",
        source=common.source(campaign, mixed_rows(campaign)),
        runs=tuple(sorted(line.tokens.run_id for line in lines)),
        notes=tuple(note for note in notes if note),
    )


def _binned(steps: pd.DataFrame) -> pd.DataFrame:
    """Steps that lie close together as one point at their means, with their number."""
    size = {name: max(float(steps[name].max()), 1e-9) / _BINS for name in ("tokens", "lost_ms")}
    cells = [np.floor(steps[name] / width) for name, width in size.items()]
    groups = steps.groupby(["series", *cells], sort=True)
    out = groups.agg(tokens=("tokens", "mean"), lost_ms=("lost_ms", "mean"), n=("tokens", "size"))
    return out.reset_index(level="series").reset_index(drop=True)


def _paused(found: tuple[StallDigest, ...]) -> dict[str, Any]:
    """Steps of which no prompt is the cause: time lost in ms, and their number per run."""
    lost: list[float] = []
    number: dict[str, int] = {}
    for one in found:
        if one.line is not None:
            lost += one.paused_ms.tolist()
            number[one.run_id] = len(one.paused_ms)
    return {"lost_ms": lost, "n": number}
