"""Chapter part: do the weights fit, and what remains for the KV cache?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from servebook.explain.memory import Fit, crossed
from servebook.explain.memory import fit as fit_one
from servebook.publish import theme, words
from servebook.publish.charts.memory import memory_bars
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["fit"]

_ID = "memory-fit"
_SHORT = theme.ALARM  # what does not fit, in no configuration's colour
_ROOM = 1.04  # the axis reaches a little beyond the longest bar


def fit(campaign: Campaign) -> Figure:
    """Weights per precision against the HBM of each deployment, with the cells nobody ran."""
    settings = campaign.manifest.configurations
    parameters = campaign.manifest.model.parameters
    cells = [c for c in crossed(settings, parameters) if c.weights_gb is not None]
    alone = [fit_one(c, parameters) for c in settings]
    lacking = [f for f in alone if f.missing]
    if not cells:
        return Figure(
            id=_ID,
            title=say("memory.fit.title"),
            missing=_missing(lacking),
            source=say("shared.manifest"),
        )
    looks = theme.looks(settings)
    rows = [_row(cell, settings) for cell in cells]
    parts = pd.DataFrame(
        [p for cell, row in zip(cells, rows, strict=True) for p in _parts(cell, row, looks)]
    )
    ends = pd.DataFrame([_end(cell, row) for cell, row in zip(cells, rows, strict=True)])
    title = _title(cells)
    return Figure(
        id=_ID,
        title=title,
        subtitle=say("memory.fit.subtitle", billions=words.number(_billions(parameters))),
        chart=memory_bars(
            parts, ends, limit_gb=float(max(ends["hbm_gb"].max(), ends["weights_gb"].max())) * _ROOM
        ),
        table=_table(cells, settings),
        alt=f"{title}. " + " ".join(_sentence(cell) for cell in cells),
        source=say("memory.fit.source"),
        notes=_notes(alone, lacking),
    )


def _billions(parameters: int | None) -> float:
    return (parameters or 0) / 1e9


def _missing(lacking: Sequence[Fit]) -> str:
    if not lacking:
        return say("memory.missing.manifest_states_configuration")
    lack = sorted({item for one in lacking for item in one.missing})
    return say("memory.missing.manifest_state_campaign", lack=words.listed(map(words.told, lack)))


def _names(cell: Fit, settings: Sequence[Configuration]) -> str:
    labels = [c.label for c in settings if c.name in cell.configurations]
    return ", ".join(labels) or say("shared.not_run")


def _row(cell: Fit, settings: Sequence[Configuration]) -> str:
    names = [c.label for c in settings if c.name in cell.configurations] or [say("shared.not_run")]
    # "two nodes FP8 TP4/DP4, TP8/DP2": what all names begin with is said once.
    split = [name.split() for name in names]
    same = 0
    while len(names) > 1 and all(len(s) > same + 1 and s[same] == split[0][same] for s in split):
        same += 1
    rest = [" ".join(s[same:]) for s in split]
    return f"{words.told(cell.label)}: {' '.join([*split[0][:same], words.listed(rest, most=2)])}"


def _parts(cell: Fit, row: str, looks: dict[str, theme.Look]) -> list[dict[str, object]]:
    weights, hbm = cell.weights_gb or 0.0, cell.hbm_gb or 0.0
    colour = looks[cell.configurations[0]].colour if cell.configurations else theme.CONTEXT

    def part(kind: str, start: float, end: float, text: str) -> dict[str, object]:
        shown = _SHORT if kind == "short" else colour
        return {
            "row": row,
            "part": kind,
            "from_gb": start,
            "to_gb": end,
            "colour": shown,
            "words": text,
        }

    result = [
        part(
            "weights",
            0.0,
            min(weights, hbm),
            say("memory.parts.result_weights_gb", weights=words.number(weights)),
        )
    ]
    if cell.fits:
        result.append(
            part(
                "room",
                weights,
                hbm,
                say("memory.parts.result_gb_kv_cache", hbm=words.number(hbm - weights)),
            )
        )
    else:
        result.append(
            part(
                "short",
                hbm,
                weights,
                say("memory.parts.result_gb_too_much", weights=words.number(weights - hbm)),
            )
        )
    return result


def _end(cell: Fit, row: str) -> dict[str, object]:
    weights, hbm = cell.weights_gb or 0.0, cell.hbm_gb or 0.0
    return {
        "row": row,
        "hbm_gb": hbm,
        "weights_gb": weights,
        "name": row,
        "words": (
            say(
                "memory.end.gb_gb_gpu",
                weights=words.number(weights),
                weights_per_gpu_gb=words.number(cell.weights_per_gpu_gb),
                kv_room_gb=words.number(cell.kv_room_gb),
            )
            if cell.fits
            else say(
                "memory.end.gb_fit_gb",
                weights=words.number(weights),
                shortfall_gb=words.number(cell.shortfall_gb),
            )
        ),
    }


def _sentence(cell: Fit) -> str:
    what = say("memory.sentence.what", cell=cell.label, weights_gb=words.number(cell.weights_gb))
    against = say("memory.sentence.against", hbm_gb=words.number(cell.hbm_gb))
    if cell.fits:
        return say(
            "memory.sentence.gb_left",
            what=what,
            against=against,
            kv_room_gb=words.number(cell.kv_room_gb),
        )
    return say(
        "memory.sentence.fit_gb_short",
        what=what,
        against=against,
        shortfall_gb=words.number(cell.shortfall_gb),
    )


def _title(cells: Sequence[Fit]) -> str:
    short = [c for c in cells if not c.fits]
    if len(short) == 1:
        return say(
            "memory.title.fit_gb_short",
            short=short[0].label,
            shortfall_gb=words.number(short[0].shortfall_gb),
        )
    if short:
        return words.capital(
            say(
                "memory.title.fit",
                combinations=words.count(len(short), "combination", spelled=True),
                n_cells=len(cells),
            )
        )
    tight = min(cells, key=lambda c: (c.kv_room_gb or 0.0) / (c.hbm_gb or 1.0))
    left = words.percent((tight.kv_room_gb or 0.0) / (tight.hbm_gb or 1.0))
    if len(cells) == 1:
        return say("memory.title.weights_leave_memory", left=left)
    return say("memory.title.fit_tightest_leaves", left=left, tight=tight.label)


def _table(cells: Sequence[Fit], settings: Sequence[Configuration]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "Deployment": cell.label,
                "Configurations": _names(cell, settings),
                "Weights (GB)": cell.weights_gb,
                "HBM (GB)": cell.hbm_gb,
                "Weights per GPU (GB)": cell.weights_per_gpu_gb,
                "Fits": cell.fits,
                "Short by (GB)": cell.shortfall_gb,
                "Left for KV cache at most (GB)": cell.kv_room_gb,
            }
            for cell in cells
        ]
    )


def _notes(alone: Sequence[Fit], lacking: Sequence[Fit]) -> tuple[str, ...]:
    notes = [f"{f.label}: {words.told(note)}." for f in alone for note in f.notes if not f.missing]
    notes += [
        say(
            "memory.notes.note_left_manifest_lacks",
            f=f.label,
            missing=words.listed(map(words.told, f.missing)),
        )
        for f in lacking
    ]
    notes.append(say("memory.notes.note_activations_graphs_communication"))
    return tuple(notes)
