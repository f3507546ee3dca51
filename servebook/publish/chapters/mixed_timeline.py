"""Chapter 05, the engine timeline: two seconds of each mixed run around one batch of prefills."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.stall_digest import StallDigest
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.gaps import mixed_rows
from servebook.publish.chapters.mixed_windows import GRID, MOST_LANES, OVER, Window, window
from servebook.publish.charts.engine_timeline import timeline
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["engine_timeline"]

#: With more requests in flight lanes are too thin to read at first sight.
_MODERATE = 16
#: More blocks than this would make the picture too large: the window is halved until they fit.
_MOST_BLOCKS = 450
#: All runs together: some 25 bytes a block, so that the figure stays far below 200 KB.
_ALL_BLOCKS, _MOST_RUNS = 4500, 24
_COLOURS = {
    "queue": "#d0d0d0",
    "wait": "#c6b99f",
    "prefill": "colour",
    "decode": "tint",
    "stall": theme.INK,
    "link": "#777777",
    "unexplained": "#aaaaaa",
}


def engine_timeline(campaign: Campaign) -> Figure:
    """Requests as lanes: queue, prefill, decode, and the stalls that stop them, run by run."""
    figure, title = "mixed-engine-timeline", say("mixed_timeline.engine_timeline.mixed_load_engine")
    if (nothing := stalled.no_causes(campaign, figure, title)) is not None:
        return nothing
    runs = _ordered(campaign)
    rows = mixed_rows(campaign)
    row_of = {run: row for row in rows.to_dict("records") for run in row["runs"]}
    windows: list[Window] = []
    for one in runs[:_MOST_RUNS]:
        most = _MOST_BLOCKS if not windows else _ALL_BLOCKS // min(len(runs), _MOST_RUNS)
        windows.append(window(one, min(most, _MOST_BLOCKS)))
    if not windows or windows[0].around is None:
        why = say("mixed_timeline.engine_timeline.why")
        return Figure(id=figure, title=title, missing=why)
    first, row = windows[0], row_of[windows[0].run_id]
    looks = theme.looks(campaign.manifest.configurations)
    shown = [kind for kind in _COLOURS if any(kind in w.kinds for w in windows)]
    inside = first.time_ms
    decode = inside.get("decode", 0.0)
    lost = sum(inside.get(kind, 0.0) for kind in OVER)
    title = _title(first)
    blocks = pd.concat([w.blocks.assign(run=w.run_id) for w in windows], ignore_index=True)
    blocks["kind"] = [words.told(kind) for kind in blocks["kind"]]  # as the legend says it
    labels = {w.run_id: f"{row_of[w.run_id]['row_label']} · {w.run_id}" for w in windows}
    chosen = say("mixed_timeline.engine_timeline.chosen") if len(windows) > 1 else ""
    return Figure(
        id=figure,
        title=title,
        subtitle=say(
            "mixed_timeline.engine_timeline.subtitle",
            row_label=row["row_label"],
            end_ns=words.duration((first.end_ns - first.begin_ns) / 1e9),
            lost=words.percent(lost / decode if decode else float("nan")),
            chosen=chosen,
        ),
        chart=timeline(
            blocks,
            [(words.told(kind), _COLOURS[kind]) for kind in shown],
            pd.DataFrame(
                {
                    "run": [w.run_id for w in windows],
                    "label": [labels[w.run_id] for w in windows],
                    "begin_s": [w.begin_ns / 1e9 for w in windows],
                    "end_s": [w.end_ns / 1e9 for w in windows],
                    "step_s": [w.step_ns / 1e9 for w in windows],
                    "n_lanes": [w.n_lanes for w in windows],
                    "at_s": [_middle_s(w) for w in windows],
                    "remark": [_remark(w) for w in windows],
                    "colour": [_colour(looks, row_of[w.run_id]) for w in windows],
                    "tint": [_tint(_colour(looks, row_of[w.run_id])) for w in windows],
                }
            ),
        ),
        table=pd.concat([_shares(w, labels[w.run_id]) for w in windows], ignore_index=True),
        alt=say("mixed_timeline.engine_timeline.alt", title=title),
        source=say(
            "mixed_timeline.engine_timeline.source",
            source=common.source(campaign, rows[rows["row_label"] == row["row_label"]]),
        ),
        runs=tuple(w.run_id for w in windows),
        notes=(*_notes(runs, windows), *stalled.part_notes(campaign)),
    )


def _title(first: Window) -> str:
    around = first.around
    assert around is not None
    n, tokens = around["n_prompts"], around["tokens"]
    of = ""
    if not np.isnan(tokens):
        key = "mixed_timeline.title.of_together" if n > 1 else "mixed_timeline.title.of"
        of = say(key, tokens=words.number(tokens))
    return say(
        "mixed_timeline.title.for",
        prompts=words.capital(words.count(n, "prompt", spelled=True)),
        of=of,
        stops=say("mixed_timeline.title.stops") if n == 1 else say("mixed_timeline.title.stop"),
        running_answers=words.count(around["n_stalled"], "running answer"),
        lost_ns=words.milliseconds(around["lost_ns"] / 1e6),
    )


def _remark(one: Window) -> str:
    if one.around is None:
        return ""
    tokens = one.around["tokens"]
    said = (
        "" if np.isnan(tokens) else say("mixed_timeline.remark.said", tokens=words.number(tokens))
    )
    return ", ".join(filter(None, (words.count(one.around["n_prompts"], "prompt"), said)))


def _middle_s(one: Window) -> float:
    if one.around is None:
        return one.begin_ns / 1e9
    return float(one.around["end_ns"] - one.around["lost_ns"] / 2) / 1e9


def _colour(looks: dict[str, theme.Look], row: dict[Hashable, Any]) -> str:
    return looks[str(row["configuration"])].colour


def _shares(one: Window, label: str) -> pd.DataFrame:
    inside = one.time_ms
    whole = sum(ms for kind, ms in inside.items() if kind not in OVER)
    kinds = [kind for kind in _COLOURS if kind in inside]
    return pd.DataFrame(
        {
            "run": label,
            "what": [say(_MEANS[kind]) for kind in kinds],
            "time of all lanes (ms)": [inside[kind] for kind in kinds],
            "share of all lanes' time (%)": [100 * inside[kind] / whole for kind in kinds],
        }
    )


_MEANS = {
    "queue": "mixed_timeline.queue",
    "wait": "mixed_timeline.wait",
    "prefill": "mixed_timeline.prefill",
    "decode": "mixed_timeline.decode",
    "stall": "mixed_timeline.stall",
    "link": "mixed_timeline.link",
    "unexplained": "mixed_timeline.unexplained",
}


def _ordered(campaign: Campaign) -> list[StallDigest]:
    """All mixed runs, to be shown first: the one with the most stalls of those with few lanes."""
    at = {r: int(c["concurrency"]) for r, c in stalled.conditions(campaign).items()}
    runs = list(stalled.mixed(campaign))

    def key(one: StallDigest) -> tuple[bool, bool, int, int, str]:
        run = one.run_id
        busy = at[run] > _MODERATE
        return one.around is None, busy, at[run] if busy else 0, -one.n_stalls, run

    if not runs:
        return []
    first = min(runs, key=key)
    rest = [one for one in runs if one is not first]
    return [first, *sorted(rest, key=lambda one: (at[one.run_id], one.run_id))]


def _clock(one: StallDigest) -> str:
    requests = words.count(one.n_requests, "request")
    if one.cut is not None:  # there are more
        return say("mixed_timeline.notes.note_prefills_stalls_stand_part", requests=requests)
    return say("mixed_timeline.notes.note_prefills_stalls_stand", requests=requests)


def _notes(runs: list[StallDigest], windows: list[Window]) -> tuple[str, ...]:
    first, one = windows[0], runs[0]
    grid = (first.end_ns - first.begin_ns) / GRID
    least = min(w.end_ns - w.begin_ns for w in windows)
    cut = [w for w in windows if w.n_lanes == MOST_LANES]
    notes = [
        _clock(one),
        say(
            "mixed_timeline.notes.note_drawn_grid_shorter",
            grid=words.milliseconds(grid / 1e6),
            moderate=_MODERATE,
        ),
        say("mixed_timeline.notes.note_shortest_window_work", least=words.milliseconds(least / 1e6))
        if least < first.end_ns - first.begin_ns
        else "",
        say(
            "mixed_timeline.notes.note_drawn_first_lanes",
            most_lanes=MOST_LANES,
            run="" if len(windows) == 1 else say("mixed_timeline.notes.note_run"),
        )
        if cut
        else "",
        say("mixed_timeline.notes.note_drawn_mixed_runs", n_windows=len(windows), n_runs=len(runs))
        if len(runs) > len(windows)
        else "",
        say("mixed_timeline.notes.note_prompts_share_steps")
        if any(other.style == "shared" for other in runs[: len(windows)])
        else "",
    ]
    return tuple(note for note in notes if note)


def _tint(colour: str) -> str:
    """The colour at a third of its strength on white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * 0.3):02x}" for part in parts)
