"""How each dump of a reconstructed campaign was made: what was free, and what it was fitted to."""

from __future__ import annotations

import pandas as pd

from servebook.explain.reconstruct.plan import RECIPES, Planned, read_plan
from servebook.publish import words
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["recipes"]

_WORDS = {
    "decode_s": "recipes.decode_s",
    "prefill_tok_s": "shared.prefill_rate",
    "spread_up": "recipes.spread_up",
    "slow_start": "recipes.slow_start",
    "pause_s": "recipes.pause",
    "delay_s": "recipes.delay",
}


def recipes(campaign: Campaign) -> Figure:
    """The free parameters of every run beside the figures that they were fitted to."""
    if not (campaign.root / RECIPES).is_file():
        return Figure(
            "appendix-recipes",
            say("recipes.recipes.dump_campaign_comes"),
            missing=say("recipes.recipes.missing", recipes=RECIPES),
            source=say("recipes.recipes.source_campaign_folder"),
        )
    plan = read_plan(campaign.root)
    fitted = [planned for planned in plan if planned.condition.targets]
    worst = max((planned.worst_deviation or 0.0 for planned in fitted), default=0.0)
    catch_all = max(planned.recipe.catch_all_s() for planned in plan)
    return Figure(
        "appendix-recipes",
        say(
            "recipes.recipes.meet_printed_figures",
            runs=words.count(len(fitted), "run"),
            n_plan=len(plan),
            worst=words.percent(worst),
            catch_all=words.number(catch_all),
        ),
        subtitle=say("recipes.recipes.subtitle"),
        table=pd.DataFrame([_row(planned) for planned in plan]),
        source=say("recipes.recipes.source_model_engine_model"),
        notes=(
            say("recipes.recipes.note_whole_prompts_make"),
            say("recipes.recipes.note_parameter_means_stands"),
        ),
    )


def _row(planned: Planned) -> dict[str, object]:
    recipe, condition = planned.recipe, planned.condition
    return {
        "run": condition.run.removesuffix(".json.gz"),
        "fitted to": ", ".join(sorted(condition.targets)) or say("recipes.row.fitted_to"),
        "free": ", ".join(say(_WORDS[name]) if name in _WORDS else name for name in planned.free)
        or say("recipes.row.free"),
        "decode step (ms)": recipe.decode_s * 1e3,
        "prefill rate (tokens/s)": recipe.prefill_tok_s,
        "prompts per batch": None if recipe.full_step_s > 0 else recipe.prompts_per_batch,
        "full prefill step (s)": recipe.full_step_s if recipe.full_step_s > 0 else None,
        "spread of decode steps": recipe.spread_up,
        "slow start": recipe.slow_start,
        "catch-all (s)": recipe.catch_all_s(),
        "worst deviation": planned.worst_deviation if condition.targets else None,
    }
