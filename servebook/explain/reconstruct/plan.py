"""The runs of a reconstructed campaign: what was printed for each, and the recipe that makes it.

``published.csv`` holds the printed figures (a measured row names its ``run``); ``recipes.csv``
holds one row per run in the order in which they follow one another: its condition, the run that
its free parameters start from (``based_on``), and the recipe, which ``refit`` fills in.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from servebook.errors import DumpError
from servebook.explain.reconstruct.condition import Condition, Recipe
from servebook.explain.reconstruct.fit import Fit, fit

__all__ = ["PUBLISHED", "RECIPES", "Planned", "read_plan", "recipes_csv", "refit"]

PUBLISHED, RECIPES = "published.csv", "recipes.csv"
_CONDITION = (
    "run",
    "configuration",
    "workload",
    "isl",
    "osl",
    "concurrency",
    "replicas",
    "max_num_seqs",
)
_RECIPE = tuple(f.name for f in fields(Recipe))
_RESULT = ("catch_all_s", "free", "fitted_to", "worst_deviation")
_COLUMNS = (*_CONDITION, "based_on", *_RECIPE, *_RESULT)
_WHOLE = {"isl", "osl", "concurrency", "replicas", "max_num_seqs", "prompts_per_batch", "waves"}
_FIGURES = {  # (metric, stat, unit) of published.csv -> figure of a run and its scale
    ("input_throughput", "total", "tok/s"): ("input_throughput", 1.0),
    ("output_throughput", "total", "tok/s"): ("output_throughput", 1.0),
    ("total_throughput", "total", "tok/s"): ("total_throughput", 1.0),
    ("ttft", "mean", "s"): ("ttft_mean_s", 1.0),
    ("ttft", "mean", "ms"): ("ttft_mean_s", 1e-3),
    ("tpot", "mean", "ms"): ("tpot_mean_ms", 1.0),
    ("tpot", "p99", "ms"): ("tpot_p99_ms", 1.0),
    ("itl", "median", "ms"): ("itl_median_ms", 1.0),
    ("itl", "mean", "ms"): ("itl_mean_ms", 1.0),
    ("itl", "p99", "ms"): ("itl_p99_ms", 1.0),
}


@dataclass(frozen=True)
class Planned:
    """One run of the plan; ``based_on`` names the run whose recipe the fit starts from."""

    condition: Condition
    recipe: Recipe
    based_on: str = ""
    free: tuple[str, ...] = ()
    worst_deviation: float | None = None


def read_plan(campaign: Path) -> list[Planned]:
    """The campaign's runs in order; raises DumpError where a row cannot be used."""
    printed = _printed(_rows(campaign / PUBLISHED), campaign / PUBLISHED)
    plan = []
    for line, row in enumerate(_rows(campaign / RECIPES), start=2):
        try:
            values = {name: _number(name, row[name]) for name in _CONDITION if name in row}
            condition = Condition(**values, targets=printed.pop(row["run"], {}))  # type: ignore[arg-type]
            given = {name: _number(name, row[name]) for name in _RECIPE if row.get(name)}
            recipe = replace(Recipe(), **given)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError) as error:
            raise DumpError(
                campaign / RECIPES,
                "one run per row with its lengths, concurrency and layout",
                f"a row that lacks or garbles a value ({error})",
                "correct the row",
                line=line,
            ) from error
        plan.append(
            Planned(
                condition,
                recipe,
                row.get("based_on", ""),
                tuple(row.get("free", "").split()),
                float(row["worst_deviation"]) if row.get("worst_deviation") else None,
            )
        )
    if printed:
        raise DumpError(
            campaign / PUBLISHED,
            f"runs that {RECIPES} plans",
            f"figures of {sorted(printed)[0]}",
            f"add the run to {RECIPES} or correct its name",
        )
    return plan


def refit(plan: Iterable[Planned]) -> list[Planned]:
    """Fit every run in order; a run without printed figures takes over the recipe it is based on.

    Recipes are rounded to seven digits, so that the file holds all that a replay uses.
    """
    done: dict[str, Planned] = {}
    for planned in plan:
        start = done[planned.based_on].recipe if planned.based_on else planned.recipe
        found = fit(planned.condition, start, based=bool(planned.based_on))
        recipe = _rounded(found.recipe)
        done[planned.condition.run] = replace(
            planned,
            recipe=recipe,
            free=found.free if planned.condition.targets else (),
            worst_deviation=Fit.of(planned.condition, recipe, found.free).worst,
        )
    return list(done.values())


def recipes_csv(plan: Iterable[Planned]) -> str:
    """The text of ``recipes.csv``."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for planned in plan:
        condition, recipe = planned.condition, planned.recipe
        row: dict[str, object] = {name: getattr(condition, name) for name in _CONDITION}
        row |= {name: getattr(recipe, name) for name in _RECIPE}
        row |= {
            "based_on": planned.based_on,
            "catch_all_s": f"{recipe.catch_all_s():.4g}",
            "free": " ".join(planned.free),
            "fitted_to": " ".join(sorted(condition.targets)),
            "worst_deviation": ""
            if planned.worst_deviation is None or not condition.targets
            else f"{planned.worst_deviation:.1e}",
        }
        writer.writerow(row)
    return out.getvalue()


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise DumpError(
            path,
            "the file that plans a reconstructed campaign",
            "no such file",
            "reconstruct only campaigns that ship one",
        ) from None


def _printed(rows: Iterable[Mapping[str, str]], path: Path) -> dict[str, dict[str, float]]:
    """Figures by run; where one is printed twice, the one with the finer last digit counts."""
    found: dict[str, dict[str, float]] = {}
    fineness: dict[tuple[str, str], float] = {}
    for line, row in enumerate(rows, start=2):
        if not row["run"]:
            continue
        key = (row["metric"], row["stat"], row["unit"])
        if key not in _FIGURES:
            raise DumpError(
                path,
                "a figure that the engine model yields",
                f"{row['metric']} ({row['stat']}, {row['unit']})",
                "leave its run column empty",
                line=line,
            )
        name, scale = _FIGURES[key]
        step = float(row["printed_step"]) * scale
        if step <= fineness.get((row["run"], name), step):
            fineness[row["run"], name] = step
            found.setdefault(row["run"], {})[name] = float(row["value"]) * scale
    return found


def _number(name: str, text: str) -> object:
    if name in ("run", "configuration", "workload"):
        return text
    return int(text) if name in _WHOLE else float(text)


def _rounded(recipe: Recipe) -> Recipe:
    values: dict[str, Any] = {}
    for name in _RECIPE:
        value = getattr(recipe, name)
        values[name] = value if name in _WHOLE else float(f"{value:.7g}")
    return Recipe(**values)
