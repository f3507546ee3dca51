"""Chapter 07: the run that would part what changed together, as commands to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servebook.explain.factors import differing, level
from servebook.explain.memory import crossed
from servebook.explain.next_run import (
    CLIENTS,
    Run,
    client_command,
    configuration_lines,
    proposed,
    run_line,
)
from servebook.publish import words
from servebook.publish.chapters.decomposition_grid import METRIC, grid, memory
from servebook.publish.chapters.reuse import plain
from servebook.publish.output import Section
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["commands"]

_ID = "decomposition-next-run"
_MOST = 8  # runs in one script


def commands(campaign: Campaign) -> Section:
    """The missing cell that fits: client commands and manifest lines, or why there is none."""
    found = _crossed(campaign) or _cell(campaign)
    if found is None:
        return Section(_ID, (_nothing(campaign),))
    base, new = found
    stated = [c for c in campaign.manifest.configurations if not differing([c, new])]
    new = stated[0] if stated else new
    # Where the nearest configuration has no run itself, another one's are repeated.
    like = [base, *(c for c in campaign.manifest.configurations if c is not base)]
    beside = next((c for c in like if _runs(campaign, c)), base)
    runs = _runs(campaign, beside)
    known = [r for r in runs if r.client in CLIENTS]
    changed = differing([base, new])
    what = say(
        "next_run.commands.what", new=new.label, base=base.label, changed=words.listed(changed)
    )
    if not known:
        clients = words.listed(sorted({r.client for r in runs}))
        why = (
            say("next_run.commands.why_runs_options_known", beside=beside.label, clients=clients)
            if runs
            else say("next_run.commands.why_run_campaign_states")
        )
        return Section(_ID, (say("next_run.commands.command_give", what=what, why=why),))
    left = len(runs) - len(known[:_MOST])
    repeated = words.count(len(known[:_MOST]), "run")
    text = say(
        "next_run.commands.commands_repeat_client",
        what=what,
        repeated=repeated,
        beside=beside.label,
    )
    if left:
        text += say(
            "next_run.commands.can_repeated_way", further_runs=words.count(left, "further run")
        )
    return Section(_ID, (text,), code=_script(campaign, base, new, known[:_MOST]))


def _script(campaign: Campaign, base: Configuration, new: Configuration, runs: list[Run]) -> str:
    lines = [
        say(
            "next_run.script.serve_rest",
            one_line=_one_line(new.label),
            one_line_2=_one_line(base.label),
        ),
        say("next_run.script.folder_server_address", one_line=_one_line(campaign.root.name)),
        "URL=http://HOST:PORT",
    ]
    if any(r.model is None for r in runs):
        lines.append("MODEL=NAME-OF-THE-MODEL")
    lines += [told for r in runs if (told := client_command(r, new.name))]
    lines += ["", say("next_run.script.add_campaign_yaml")]
    if campaign.manifest.configuration(new.name) is None:
        lines += [say("next_run.script.below_configurations"), _comment(configuration_lines(new))]
    lines += [say("next_run.script.below_runs")]
    lines += [_comment(run_line(r, new.name)) for r in runs]
    return "\n".join(lines)


def _comment(text: str) -> str:
    # So that the whole block can be pasted into a shell: the manifest's lines do nothing there.
    return "\n".join(f"# {line}" for line in text.splitlines())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _crossed(campaign: Campaign) -> tuple[Configuration, Configuration] | None:
    """For a pair that differs in precision and nodes: one's precision on the other's nodes."""
    manifest = campaign.manifest
    pair = [manifest.configuration(n or "") for n in (manifest.candidate, manifest.baseline)]
    settings = [c for c in pair if c is not None]
    if len(settings) < 2 or not {"precision", "nodes"} <= set(differing(settings)):
        return None
    taken = {c.name for c in manifest.configurations}
    used = set(campaign.tables.runs["configuration"].to_pylist())
    ran = [
        (level(c, "precision"), level(c, "nodes"))
        for c in manifest.configurations
        if c.name in used
    ]
    for cell in crossed(settings, manifest.model.parameters):
        if cell.configurations or not cell.fits:
            continue
        base = next(c for c in settings if c.nodes == cell.nodes)
        other = next(c for c in settings if c is not base)
        wanted = {"precision": level(other, "precision")}
        if (wanted["precision"], level(base, "nodes")) in ran:
            continue
        new = proposed(base, settings, wanted, taken)
        if new is not None:
            return base, new
    return None


def _cell(campaign: Campaign) -> tuple[Configuration, Configuration] | None:
    """The first combination of measured levels that nobody ran and that is not known not to fit."""
    taken = {c.name for c in campaign.manifest.configurations}
    for workload in METRIC:
        made = grid(campaign, workload)
        if isinstance(made, str):
            continue
        for cell in made.cells:
            room = None if cell.configurations else memory(campaign, cell.levels)
            if cell.configurations or (room is not None and room.fits is False):
                continue
            near = [_alike(c, cell.levels) for c in made.settings]
            base = made.settings[near.index(max(near))]
            new = proposed(base, made.settings, cell.levels, taken)
            if new is not None:
                return base, new
    return None


def _alike(configuration: Configuration, levels: Mapping[str, str]) -> int:
    return sum(level(configuration, name) == at for name, at in levels.items())


def _runs(campaign: Campaign, base: Configuration) -> list[Run]:
    """The conditions of the base, as runs to be repeated: prefill, decode, mixed, by load."""
    rows = plain(campaign)
    rows = rows[
        (rows["configuration"] == base.name)
        & rows["workload"].isin(list(METRIC))
        & rows[["isl", "osl", "concurrency"]].notna().all(axis=1)
    ]
    order = {name: i for i, name in enumerate(METRIC)}
    rows = rows.sort_values(
        ["workload", "isl", "osl", "client", "concurrency"],
        key=lambda c: c.map(order) if c.name == "workload" else c,
        kind="stable",
    )
    about = {run["run_id"]: run for run in campaign.tables.runs.to_pylist()}
    return [_run(row, about[min(row["runs"])]) for row in rows.to_dict("records")]


def _run(row: Mapping[Any, Any], about: Mapping[Any, Any]) -> Run:
    return Run(
        client=str(row["client"]),
        model=about["model"],
        workload=str(row["workload"]),
        isl=round(row["isl"]),
        osl=round(row["osl"]),
        concurrency=int(row["concurrency"]),
        requests=about["n_requests"],
        warmup=about["n_warmup"] or 0,
        streaming=about["streaming"] is not False,
        server_counts=about["tokens_counted_by"] == "server",
    )


def _nothing(campaign: Campaign) -> str:
    if all(isinstance(grid(campaign, w), str) for w in METRIC):
        return say("next_run.nothing.run_would_part")
    return say("next_run.nothing.run_missing_every")
