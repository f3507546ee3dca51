"""The runs of a reconstructed campaign: what was printed for each, and the recipe that makes it.

``published.csv`` holds the printed figures (a measured row names its ``run``); ``recipes.csv``
holds one row per run in the order in which they follow one another: its condition, the run that
its free parameters start from (``based_on``), and the recipe, which ``refit`` fills in.
"""

from __future__ import annotations

import csv
import io
import re
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
_PRINTED = ("run", "metric", "stat", "unit", "value", "printed_step")
_RECIPE = tuple(f.name for f in fields(Recipe))
_RESULT = ("catch_all_s", "free", "fitted_to", "worst_deviation")
_COLUMNS = (*_CONDITION, "based_on", *_RECIPE, *_RESULT)
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")  # no "..", nothing absolute
_MOST, _MOST_TOKENS = 10**6, 10**8
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
    plan: list[Planned] = []
    for line, row in enumerate(_rows(campaign / RECIPES), start=2):
        try:
            values = {name: _number(name, row[name]) for name in _CONDITION}
            condition = Condition(**values, targets=printed.pop(row["run"], {}))  # type: ignore[arg-type]
            given = {name: _number(name, row[name]) for name in _RECIPE if row.get(name)}
            recipe = replace(Recipe(), **given)  # type: ignore[arg-type]
            _check(condition, recipe)
            based, known = row.get("based_on") or "", [p.condition.run for p in plan]
            if condition.run in known:
                raise ValueError("the run is planned twice")
            if based and based not in known:
                raise ValueError("based_on names no run above it")
            worst = _number("worst_deviation", row.get("worst_deviation") or "nan")
        except (KeyError, TypeError, ValueError) as error:
            raise DumpError(
                campaign / RECIPES,
                "one run per row with its lengths, concurrency and layout",
                f"a row that lacks or garbles a value ({_what(error)})",
                "correct the row",
                line=line,
            ) from None
        plan.append(
            Planned(
                condition,
                recipe,
                based,
                tuple((row.get("free") or "").split()),
                float(str(worst)) if row.get("worst_deviation") else None,
            )
        )
    if printed:
        raise DumpError(
            campaign / PUBLISHED,
            f"runs that {RECIPES} plans",
            f"figures of {sorted(printed)[0]}",
            f"add the run to {RECIPES} or correct its name",
        )
    if not plan:
        raise DumpError(campaign / RECIPES, "one run per row", "no row", "plan a run")
    return plan


def _what(error: Exception) -> str:
    """What is wrong with a row; a missing column by its name."""
    return f"no column {error}" if isinstance(error, KeyError) else str(error)


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
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        found = getattr(error, "strerror", None) or "bytes that make none"
        raise DumpError(path, "a CSV file in UTF-8", found, "write it anew") from None


def _printed(rows: Iterable[Mapping[str, str]], path: Path) -> dict[str, dict[str, float]]:
    """Figures by run; where one is printed twice, the one with the finer last digit counts."""
    found: dict[str, dict[str, float]] = {}
    fineness: dict[tuple[str, str], float] = {}
    for line, row in enumerate(rows, start=2):
        if lacking := [name for name in _PRINTED if row.get(name) is None]:
            raise DumpError(
                path, f"the columns {', '.join(_PRINTED)}", f"no {lacking[0]}", "add it", line=line
            )
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
        try:
            step, value = float(row["printed_step"]) * scale, float(row["value"]) * scale
            if not (step >= 0 and 0 < value < 1e15):
                raise ValueError
        except ValueError:
            expected = "a value above 0 and its last printed digit (printed_step)"
            raise DumpError(path, expected, "others", "correct the row", line=line) from None
        if step <= fineness.get((row["run"], name), step):
            fineness[row["run"], name] = step
            found.setdefault(row["run"], {})[name] = value
    return found


def _number(name: str, text: str | None) -> object:
    if text is None:
        raise ValueError(f"no {name}")
    if name in ("run", "configuration", "workload"):
        return text
    try:
        return int(text) if name in _WHOLE else float(text)
    except ValueError:
        kind = "whole number" if name in _WHOLE else "number"
        raise ValueError(f"{name} is no {kind}") from None


def _check(condition: Condition, recipe: Recipe) -> None:
    """Raise ValueError for what the model cannot make, or what would be written elsewhere."""
    parts = condition.run.split("/")
    if parts[0] != "raw" or len(parts) < 2 or not all(_PLAIN.fullmatch(part) for part in parts):
        raise ValueError("run is no path of plain names below raw/")
    if condition.workload not in ("prefill", "decode", "mixed"):
        raise ValueError("workload is none of prefill, decode, mixed")
    for name in (*_CONDITION[3:], "prompts_per_batch", "waves"):
        value = int(getattr(condition if hasattr(condition, name) else recipe, name))
        if not 1 <= value <= _MOST:
            raise ValueError(f"{name} is not from 1 to {_MOST:,}")
    for name in ("decode_s", "prefill_tok_s"):
        if not 0 < getattr(recipe, name) < 1e12:
            raise ValueError(f"{name} is not above 0")
    for name in ("full_step_s", "spread_up", "slow_start", "pause_s", "pause_jitter", "delay_s",
                 "ramp"):  # fmt: skip
        if not 0 <= getattr(recipe, name) <= 1e6:
            raise ValueError(f"{name} is not 0 or more")
    tokens = condition.concurrency * recipe.waves * condition.osl
    if tokens > _MOST_TOKENS:
        raise ValueError(f"the run has {tokens:,} output tokens, more than {_MOST_TOKENS:,}")


def _rounded(recipe: Recipe) -> Recipe:
    values: dict[str, Any] = {}
    for name in _RECIPE:
        value = getattr(recipe, name)
        values[name] = value if name in _WHOLE else float(f"{value:.7g}")
    return Recipe(**values)
