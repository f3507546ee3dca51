"""How each dump of a reconstructed campaign was made: what was free, and what it was fitted to."""

from __future__ import annotations

import pandas as pd

from servebook.explain.reconstruct.plan import RECIPES, Planned, read_plan
from servebook.publish import words
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["recipes"]

_WORDS = {
    "decode_s": "decode step",
    "prefill_tok_s": "prefill rate",
    "spread_up": "spread of decode steps",
    "slow_start": "slow start",
    "pause_s": "pause",
    "delay_s": "delay",
}


def recipes(campaign: Campaign) -> Figure:
    """The free parameters of every run beside the figures that they were fitted to."""
    if not (campaign.root / RECIPES).is_file():
        return Figure(
            "appendix-recipes",
            "No dump of this campaign comes from a recipe",
            missing=f"The campaign has no {RECIPES}: its dumps were not made by a model.",
            source="campaign folder",
        )
    plan = read_plan(campaign.root)
    fitted = [planned for planned in plan if planned.condition.targets]
    worst = max((planned.worst_deviation or 0.0 for planned in fitted), default=0.0)
    catch_all = max(planned.recipe.catch_all_s() for planned in plan)
    return Figure(
        "appendix-recipes",
        f"{words.count(len(fitted), 'run')} of {len(plan)} meet their printed figures to "
        f"{words.percent(worst)}; at most {words.number(catch_all)} s of a request are unexplained",
        subtitle="One row per run. Catch-all: seconds per request that no part of the engine "
        "model explains (the pause between requests and the delay before the engine).",
        table=pd.DataFrame([_row(planned) for planned in plan]),
        source="model: the engine model, fitted to the printed figures",
        notes=(
            (
                "Whole prompts make a batch, or, where a full prefill step is given, prompts span "
                "steps of that much prompt work."
            ),
            "What each parameter means stands in docs/reconstruction.md.",
        ),
    )


def _row(planned: Planned) -> dict[str, object]:
    recipe, condition = planned.recipe, planned.condition
    return {
        "run": condition.run.removesuffix(".json.gz"),
        "fitted to": ", ".join(sorted(condition.targets)) or "nothing printed: the model alone",
        "free": ", ".join(_WORDS.get(name, name) for name in planned.free) or "nothing",
        "decode step (ms)": recipe.decode_s * 1e3,
        "prefill rate (tokens/s)": recipe.prefill_tok_s,
        "prompts per batch": None if recipe.full_step_s > 0 else recipe.prompts_per_batch,
        "full prefill step (s)": recipe.full_step_s if recipe.full_step_s > 0 else None,
        "spread of decode steps": recipe.spread_up,
        "slow start": recipe.slow_start,
        "catch-all (s)": recipe.catch_all_s(),
        "worst deviation": planned.worst_deviation if condition.targets else None,
    }
