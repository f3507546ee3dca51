"""What the cells of chapter 07 share: the grid of one condition, its mark, the cells not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from servebook.explain.decompose import fullest
from servebook.explain.factors import Bundle, Cell, bundles, cells, level
from servebook.explain.memory import Fit, crossed
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["METRIC", "Grid", "grid", "mark", "mark_words", "memory", "missing_cells"]

METRIC = {
    "prefill": "input_throughput_tok_s",
    "decode": "output_throughput_tok_s",
    "mixed": "output_throughput_tok_s",
}


@dataclass(frozen=True)
class Grid:
    """The fullest condition of a workload and how its configurations differ."""

    rows: pd.DataFrame
    settings: tuple[Configuration, ...]
    columns: Bundle
    lines: tuple[Bundle, ...]
    cells: tuple[Cell, ...]


def grid(campaign: Campaign, workload: str) -> Grid | str:
    """The grid, or in words why there is none."""
    metric = METRIC[workload]
    every = plain(campaign)
    rows = fullest(every, workload, metric)
    if rows.empty:
        return common.absent(campaign, "", "", workload).missing
    names = list(rows["configuration"])
    settings = tuple(c for c in campaign.manifest.configurations if c.name in names)
    if len(settings) < 2:
        return say("decomposition_grid.grid.condition_client_lengths", workload=workload)
    found = bundles(settings)
    if not found:
        return say(
            "decomposition_grid.grid.differ_setting_manifest",
            c=words.listed(c.label for c in settings),
        )
    # The deployment (what most factors change together) makes the columns.
    first = max(found, key=lambda b: (len(b.factors), -found.index(b)))
    lines = tuple(b for b in found if b is not first)
    return Grid(rows, settings, first, lines, cells(settings))


def _mixed_up(made: Grid) -> list[str]:
    """What changes along the columns, as settings: nodes bring their GPUs."""
    names = list(made.columns.factors)
    if "nodes" in names and len({c.gpus for c in made.settings}) > 1:
        names.insert(names.index("nodes") + 1, "GPUs")
    return names


def mark(made: Grid) -> str:
    """The comparability mark of a step along the columns."""
    names = _mixed_up(made)
    return (
        say("decomposition_grid.mark.single_variable")
        if len(made.columns.factors) == 1
        else say("decomposition_grid.mark.settings", n_names=len(names))
    )


def mark_words(made: Grid) -> str:
    """The mark as a sentence that names the settings."""
    names = words.listed(map(words.told, _mixed_up(made)))
    if len(made.columns.factors) == 1:
        return say("decomposition_grid.mark_words.along_columns", mark=mark(made), names=names)
    return say("decomposition_grid.mark_words.change_together_along", mark=mark(made), names=names)


def memory(campaign: Campaign, levels: Mapping[str, str]) -> Fit | None:
    """The weights of such a cell against its memory; None where the manifest does not tell."""
    settings = campaign.manifest.configurations
    for one in crossed(settings, campaign.manifest.model.parameters):
        nodes = [level(c, "nodes") for c in settings if c.nodes == one.nodes and c.gpus == one.gpus]
        precision = levels.get("precision") or level(settings[0], "precision")
        if one.precision == precision and levels.get("nodes", "") in (*nodes, ""):
            return one
    return None


def missing_cells(campaign: Campaign, workload: str) -> tuple[str, ...]:
    """The cells that would part bundled factors, and whether they could be run, as notes."""
    made = grid(campaign, workload)
    if isinstance(made, str):
        return ()
    empty = [c for c in made.cells if not c.configurations]
    grouped: dict[str, list[str]] = {}
    runnable = False
    for cell in empty:
        room = memory(campaign, cell.levels)
        runnable |= room is None or room.fits is not False
        why = ""
        if room is not None and room.fits is not None:
            why = (
                say(
                    "decomposition_grid.missing_cells.why_gb_weights_gpu",
                    weights_per_gpu_gb=words.number(room.weights_per_gpu_gb),
                )
                if room.fits
                else say(
                    "decomposition_grid.missing_cells.why_cannot_run_weights",
                    shortfall_gb=words.number(room.shortfall_gb),
                )
            )
        grouped.setdefault(why, []).append(" · ".join(map(words.told, cell.levels.values())))
    told = [
        say("decomposition_grid.missing_cells.told_run", cells=words.listed(cells, most=4), why=why)
        for why, cells in grouped.items()
    ]
    if runnable:
        told.append(say("decomposition_grid.missing_cells.told_command_cell_run"))
    return tuple(told)
