"""Make the raw dumps of a reconstructed campaign from its plan: ``make data``.

``reconstruction.yaml`` says when the campaign begins, how far its runs are apart, and how the
leaf's counters are polled; the runs and their recipes are in ``recipes.csv``, the printed link
utilisations in ``published.csv``. The same plan gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path

import numpy as np

from servebook.errors import DumpError
from servebook.explain.engine import Run
from servebook.explain.reconstruct import plan as plans
from servebook.explain.reconstruct.condition import even, replay
from servebook.explain.reconstruct.dumps import aiperf_folder, vllm_object
from servebook.explain.reconstruct.link_levels import levels
from servebook.explain.reconstruct.plan import Planned, read_plan
from servebook.explain.reconstruct.settings import SETTINGS, Settings, read_settings
from servebook.explain.reconstruct.wire import Counters, Watched, counters, utilisation
from servebook.explain.reconstruct.wire_files import WRITERS

__all__ = [
    "SETTINGS",
    "SUMS",
    "Settings",
    "generate",
    "read_settings",
    "reconstruct",
    "sums",
    "timeline",
    "write",
]

SUMS = "SHA256SUMS"
_JITTER = 0.02  # of the poll interval, by which a poll comes late


def timeline(settings: Settings, runs: Sequence[Run]) -> list[float]:
    """When each run starts, in whole seconds after the campaign's start."""
    starts, at = [], settings.idle_s
    for run in runs:
        starts.append(at)
        at += ceil(float(run.end_s.max() - run.start_s.min())) + settings.idle_s
    return starts


def generate(campaign: Path) -> dict[str, bytes]:
    """Every raw file of the campaign, by its path below the campaign's folder."""
    settings, plan = read_settings(campaign), read_plan(campaign)
    runs = [_from_zero(replay(planned.condition, planned.recipe)) for planned in plan]
    starts = timeline(settings, runs)
    files: dict[str, bytes] = {}
    for planned, run, start in zip(plan, runs, starts, strict=True):
        condition = planned.condition
        if condition.run.endswith(".json.gz"):
            files[condition.run] = vllm_object(run, condition, settings.model)
            continue
        at = settings.start_ns + round(start) * 10**9
        folder = aiperf_folder(run, condition, at, settings.model)
        files |= {f"{condition.run}/{name}": content for name, content in folder.items()}
    name, writer = WRITERS[settings.counters]
    found = _counters(settings, plan, runs, starts, campaign)
    files[f"raw/switch/{name}"] = writer(found, settings.device)
    return files


def write(campaign: Path, files: Mapping[str, bytes]) -> None:
    """Put the files and their SHA256SUMS into the campaign's folder."""
    for name, content in files.items():
        path = campaign / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (campaign / SUMS).write_text(sums(files), encoding="utf-8")


def sums(files: Mapping[str, bytes]) -> str:
    """The text of SHA256SUMS: one line per file, in path order."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))


def reconstruct(campaigns: Sequence[Path], *, refit: bool = False) -> str:
    """Make the dumps of the campaigns (all with a plan below ``data`` by default); what was done.

    ``refit`` fits the recipes first, which takes minutes per run with a tail.
    """
    chosen = list(campaigns) or sorted(path.parent for path in Path("data").glob(f"*/{SETTINGS}"))
    done = []
    for campaign in chosen:
        for name in (SETTINGS, plans.RECIPES, plans.PUBLISHED):
            if not (campaign / name).is_file():
                raise _no_plan(campaign, name)
        if refit:
            plan = plans.refit(read_plan(campaign))
            (campaign / plans.RECIPES).write_text(plans.recipes_csv(plan), encoding="utf-8")
        before = (campaign / SUMS).read_text("utf-8") if (campaign / SUMS).is_file() else ""
        files = generate(campaign)
        write(campaign, files)
        same = "the same bytes as before" if sums(files) == before else "bytes that differ"
        done.append(f"{campaign}: {len(files)} files, {same}")
    return "\n".join(done) or f"no folder below data/ has a {SETTINGS}"


def _no_plan(campaign: Path, name: str) -> DumpError:
    return DumpError(
        campaign,
        f"the plan of a reconstructed campaign ({SETTINGS}, {plans.RECIPES}, {plans.PUBLISHED})",
        f"no {name}" if campaign.is_dir() else "no such folder",
        "dumps that were measured need no plan: use inspect, init or build for them",
    )


def _from_zero(run: Run) -> Run:
    """The run with its first start at 0: a delay before the engine moves starts before it."""
    shift = float(run.start_s.min())
    return run if shift == 0 else run.moved(-shift)


def _counters(
    settings: Settings,
    plan: Sequence[Planned],
    runs: Sequence[Run],
    starts: Iterable[float],
    campaign: Path,
) -> Counters:
    chosen = levels(campaign, plan, settings.watched)
    interface, within = settings.reset
    ports = [f"Ethernet{node}/{rail}" for node in (1, 2) for rail in range(1, settings.rails + 1)]
    for what, name, known in (
        ("reset: interface", interface, ports),
        ("reset: run", within, chosen),
    ):
        if name not in known:
            raise DumpError(
                campaign / SETTINGS,
                f"'{what}' as one that is watched",
                ascii(name),
                f"name one of {', '.join([*known][:3]) or 'the runs of a watched configuration'}",
            )
    watched, names = [], []
    for planned, run, start in zip(plan, runs, starts, strict=True):
        if planned.condition.run not in chosen:
            continue
        begin = np.concatenate([[0.0], run.step_end_s[:-1]])
        prefill = run.step_prefill_tok > 0
        steps = np.column_stack([begin[prefill], run.step_end_s[prefill]]) + start
        watched.append(
            Watched(
                start,
                start + float(run.end_s.max()),
                planned.condition.workload,
                chosen[planned.condition.run],
                steps,
            )
        )
        names.append(planned.condition.run)
    first, last = watched[0].start_s - settings.idle_s, watched[-1].end_s + settings.idle_s
    polls = int((last - first) / settings.poll_s) + 1
    edges = first + settings.poll_s * (np.arange(polls) + _JITTER * even(polls))
    cleared = watched[names.index(within)]
    middle = int(np.searchsorted(edges, (cleared.start_s + cleared.end_s) / 2))
    return counters(
        edges,
        utilisation(edges, watched),
        start_ns=settings.start_ns,
        rails=settings.rails,
        speed_bps=settings.speed_bps,
        skew=settings.skew,
        reset=(interface, middle),
    )
