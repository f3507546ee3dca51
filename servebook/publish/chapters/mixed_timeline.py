"""Chapter 05, the engine timeline: two seconds of one mixed run around one batch of prefills."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.lanes import busiest_step, lanes
from servebook.measure.stalled_gaps import ClassifiedRun
from servebook.publish import theme, words
from servebook.publish.chapters import common, stalled
from servebook.publish.chapters.gaps import mixed_rows
from servebook.publish.charts.engine_timeline import timeline
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["engine_timeline"]

_WINDOW_NS = 2e9
#: Half a pixel: times are drawn on this grid, and stalls are never narrower.
_BIN_NS = _WINDOW_NS / 1280
#: With more requests in flight lanes are too thin to read; they are then cut off.
_MODERATE, _MOST_LANES = 16, 32
#: More blocks than this would make the picture too large: the window is halved until they fit.
_MOST_BLOCKS = 450
_KINDS = ("queue", "wait", "prefill", "decode", "stall", "link", "unexplained")
_OVER = ("stall", "link", "unexplained")


def engine_timeline(campaign: Campaign) -> Figure:
    """Requests as lanes: queue, prefill, decode, and the stalls that stop them."""
    figure, title = "mixed-engine-timeline", "Mixed load: the engine's timeline"
    if (nothing := stalled.no_causes(campaign, figure, title)) is not None:
        return nothing
    one = _chosen(campaign)
    around = busiest_step(one) if one else None
    if one is None or around is None:
        why = (
            "No mixed run has a step that a prefill stalled and that could be recovered from its "
            "token times: there is nothing to draw a timeline around."
        )
        return Figure(id=figure, title=title, missing=why)
    rows = mixed_rows(campaign)
    row = next(r for r in rows.to_dict("records") if one.tokens.run_id in r["runs"])
    look = theme.looks(campaign.manifest.configurations)[row["configuration"]]
    blocks, n_lanes, window = _blocks(campaign, one, around["end_ns"])
    shown = [kind for kind in _KINDS if kind in set(blocks["kind"])]
    colours = {
        "queue": "#d0d0d0",
        "wait": "#d0d0d0",
        "prefill": look.colour,
        "decode": _tint(look.colour),
        "stall": theme.INK,
        "link": "#777777",
        "unexplained": "#aaaaaa",
    }
    prompts = words.count(around["n_prompts"], "prompt")
    tokens = "" if np.isnan(around["tokens"]) else f"{words.number(around['tokens'])} tokens"
    remark = ", ".join(filter(None, (prompts, tokens)))
    answers = words.count(around["n_stalled"], "running answer")
    title = (
        f"{words.capital(words.count(around['n_prompts'], 'prompt', spelled=True))}"
        f"{f' of together {tokens}' if tokens and around['n_prompts'] > 1 else ''}"
        f"{f' of {tokens}' if tokens and around['n_prompts'] == 1 else ''} "
        f"{'stops' if around['n_prompts'] == 1 else 'stop'} {answers} for "
        f"{words.milliseconds(around['lost_ns'] / 1e6)}"
    )
    table = (
        blocks[blocks["kind"] != ""]
        .assign(ms=1e3 * (blocks["t1_s"] - blocks["t0_s"]) * (blocks["b"] - blocks["a"]))
        .groupby("kind", sort=False)["ms"]
        .sum()
        .reindex(shown)
    )
    inside = {kind: float(ms) for kind, ms in table.items()}
    decode = inside.get("decode", 0.0)
    lost = sum(inside.get(kind, 0.0) for kind in _OVER)
    whole = sum(ms for kind, ms in inside.items() if kind not in _OVER)
    return Figure(
        id=figure,
        title=title,
        subtitle=(
            f"{row['row_label']}, {words.duration((window[1] - window[0]) / 1e9)} of one run. "
            f"Every lane is a request in flight. Dark: gaps that are stalls, "
            f"{words.percent(lost / decode if decode else float('nan'))} of the time that answers "
            "decode in this window."
        ),
        chart=timeline(
            blocks,
            [(kind, colours[kind]) for kind in shown],
            (window[0] / 1e9, window[1] / 1e9),
            n_lanes,
            ((around["end_ns"] - around["lost_ns"] / 2) / 1e9, remark),
        ),
        table=pd.DataFrame(
            {
                "what": [_MEANS[kind] for kind in shown],
                "time of all lanes (ms)": [inside[kind] for kind in shown],
                "share of all lanes' time (%)": [100 * inside[kind] / whole for kind in shown],
            }
        ),
        alt=f"{title}. Requests as lanes over time; stalls stand at the same time in all lanes.",
        source=f"{common.source(campaign, rows[rows['row_label'] == row['row_label']])}; one run",
        runs=(one.tokens.run_id,),
        notes=_notes(one, n_lanes, int(one.tokens.isl.size), window),
    )


_MEANS = {
    "queue": "queue: sent, its prompt not yet at work",
    "wait": "wait: sent, no first token yet (queue or prefill)",
    "prefill": "prefill: its prompt at work",
    "decode": "decode: first token to last, stalls included",
    "stall": "stall by a prefill of another request (within decode)",
    "link": "stall by a link (within decode)",
    "unexplained": "unexplained stall (within decode)",
}


def _chosen(campaign: Campaign) -> ClassifiedRun | None:
    """The run with the most stalls of those with few enough lanes, else of the fewest lanes."""
    at = {r: int(c["concurrency"]) for r, c in stalled.conditions(campaign).items()}
    found = [
        (at[one.tokens.run_id] > _MODERATE, one)
        for one in stalled.mixed(campaign)
        if busiest_step(one)
    ]
    if not found:
        return None

    def key(entry: tuple[bool, ClassifiedRun]) -> tuple[bool, int, int, str]:
        busy, one = entry
        run = one.tokens.run_id
        return busy, at[run] if busy else 0, -int(one.stall.sum()), run

    return min(found, key=key)[1]


def _blocks(
    campaign: Campaign, one: ClassifiedRun, middle: float
) -> tuple[pd.DataFrame, int, tuple[float, float]]:
    """Blocks of lanes that do the same at the same time, how many lanes, and the window."""
    half = _WINDOW_NS / 2
    while True:
        begin = max(0.0, middle - half)
        window = (begin, begin + 2 * half)
        found = lanes(campaign.tables, one, *window)
        n_lanes = min(int(found["lane"].max()) + 1, _MOST_LANES)
        blocks = _merged(found[found["lane"] < n_lanes], window[0], _BIN_NS * half / _WINDOW_NS * 2)
        if len(blocks) <= _MOST_BLOCKS or half < 1e6:
            return blocks, n_lanes, window
        half /= 2


def _merged(found: pd.DataFrame, zero: float, grid: float) -> pd.DataFrame:
    """Segments on the grid; neighbouring lanes with the same segment are one block."""
    over = found["kind"].isin(_OVER)
    a = np.rint((found["t0_ns"] - zero) / grid)
    b = np.rint((found["t1_ns"] - zero) / grid)
    b = b.where(~over, np.maximum(b, a + 1))
    rows = found.assign(a=a, b=b, over=over)[b > a]
    rows = rows.sort_values(["over", "a", "b", "kind", "lane"], kind="stable")
    same = (rows[["a", "b", "kind"]] == rows[["a", "b", "kind"]].shift()).all(axis=1)
    block = (~(same & (rows["lane"] == rows["lane"].shift() + 1))).cumsum()
    first = rows.groupby(block)
    return pd.DataFrame(
        {
            "kind": first["kind"].first(),
            "a": first["lane"].first(),
            "b": first["lane"].last() + 1,
            "t0_s": ((zero + first["a"].first() * grid) / 1e9).round(5),
            "t1_s": ((zero + first["b"].first() * grid) / 1e9).round(5),
        }
    ).reset_index(drop=True)


def _notes(
    one: ClassifiedRun, n_lanes: int, n_requests: int, window: tuple[float, float]
) -> tuple[str, ...]:
    grid = (window[1] - window[0]) / 1280
    notes = [
        (
            "Prefills and stalls stand on the engine's clock as recovered from the token times of "
            f"all {words.count(n_requests, 'request')} of the run; queue and ends are the client's."
        ),
        (
            f"Drawn on a grid of {words.milliseconds(grid / 1e6)}; what is shorter is left out, a "
            "stall is never narrower. The run is the one with the most stalls among those with "
            f"at most {_MODERATE} requests in flight; the window lies around the prefill that "
            "stalled the most answers."
        ),
        f"Drawn: the first {_MOST_LANES} lanes." if n_lanes == _MOST_LANES else "",
        "Where prompts share steps with decodes, queue and prefill cannot be told apart."
        if one.style == "shared"
        else "",
    ]
    return tuple(note for note in notes if note)


def _tint(colour: str) -> str:
    """The colour at a third of its strength on white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * 0.3):02x}" for part in parts)
