"""Chapter 01: what was measured, with which configurations and workloads, by whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from servebook.measure.settings import SETTINGS, compare
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.charts.matrix import column_letters, heads_of, of_settings
from servebook.publish.known_issues import known_issues
from servebook.publish.output import Figure, Section, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["configurations", "measured", "provenance", "runs", "workloads"]

_QUANTITIES: Mapping[str, Callable[[Configuration], float | None]] = {
    "nodes": lambda c: c.nodes,
    "GPUs": lambda c: c.gpus,
    "memory per GPU": lambda c: c.hbm_gb,
    "slots per replica": lambda c: c.max_num_seqs,
    "tokens per step": lambda c: c.max_num_batched_tokens,
}


def provenance(campaign: Campaign) -> Statement:
    """Whether the numbers are measured or reconstructed, and by what."""
    kind = campaign.manifest.provenance
    table = common.metrics(campaign)
    clients = sorted(
        {
            " ".join(str(part) for part in pair if part is not None and part == part)
            for pair in table[["client", "client_version"]].itertuples(index=False)
        }
    )
    opening = {
        "measured": say("setup.provenance.measured"),
        "reconstructed": say("setup.provenance.reconstructed"),
    }.get(kind, say("setup.provenance.opening"))
    return Statement(
        id="setup-provenance",
        sentence=f"{opening} {words.plural(len(clients), 'Client')}: {words.listed(clients)}.",
        n=len(table),
        n_of="runs",
        runs=tuple(sorted(table["run_id"])),
        figure="setup-runs",
        marks=common.marks(campaign),
    )


def measured(campaign: Campaign) -> Section:
    """What was measured, in two or three sentences with the counts."""
    table = common.metrics(campaign)
    per = table["workload"].fillna("other").value_counts()
    order = [w for w in ("prefill", "decode", "mixed", "other") if w in per]
    parts = [say("setup.measured.part", runs=words.count(int(per[w]), "run"), w=w) for w in order]
    requests, gaps = table["n_requests"].sum(), table["n_gaps"].sum()
    model = campaign.manifest.model.name or words.listed(sorted(set(table["model"].dropna())))
    first = say(
        "setup.measured.first_campaign_holds_between",
        runs=words.count(len(table), "run"),
        parts=words.listed(parts),
        requests=words.count(int(requests), "request"),
        gaps=words.count(int(gaps), "gap"),
    )
    lacking = [w for w in ("prefill", "decode", "mixed") if w not in per]
    if lacking:
        first += say("setup.measured.first_run", lacking=words.listed(lacking, last="or"))
    second = (
        say("setup.measured.second_model", model=model)
        if model
        else say("setup.measured.second_model_stated")
    )
    span = table.loc[table["clock"] == "epoch", ["start_ns", "end_ns"]].dropna()
    if len(span):
        told = campaign.manifest.provenance == "measured"
        second += say(
            "setup.measured.measured_from_to" if told else "setup.measured.times_from_to",
            start_ns=words.utc(int(span["start_ns"].min())),
            end_ns=words.utc(int(span["end_ns"].max())),
        )
    notes = [
        f"{one['about']}: {one['text']}" for one in known_issues(campaign) if not one["figure"]
    ]
    return Section(id="setup-measured", paragraphs=(f"{first} {second}", *notes))


def configurations(campaign: Campaign) -> Figure:
    """The configurations side by side; what differs is bold."""
    settings = campaign.manifest.configurations
    name = "setup-configurations"
    if not settings:
        return Figure(
            id=name,
            title=say("setup.configurations.title"),
            missing=say("setup.configurations.missing_manifest_describes_configuration"),
        )
    texts = {key: [read(c) for c in settings] for key, read in SETTINGS.items()}
    texts = {key: values for key, values in texts.items() if any(v is not None for v in values)}
    unstated = [key for key in SETTINGS if key not in texts]
    differing = [key for key, values in texts.items() if len(set(values)) > 1]
    ordered = [*differing, *(key for key in texts if key not in differing)]
    looks = theme.looks(settings)
    room = column_letters(len(settings))
    cells = []
    for key in ordered:
        sizes = [_QUANTITIES[key](c) if key in _QUANTITIES else None for c in settings]
        top = max((s for s in sizes if s is not None), default=0)
        for column, (c, text, size) in enumerate(zip(settings, texts[key], sizes, strict=True)):
            if key not in differing and column:
                continue  # what is the same for all is said once
            text = say("shared.not_stated") if text is None else words.told(text)
            if key not in differing and len(settings) > 1:
                text += say("setup.configurations.text")
            bar = key in differing and size is not None and top > 0
            cells.append(
                {
                    "setting": words.told(key),
                    "column": column,
                    "text": _fitted(text, room) if key in differing else text,
                    "bold": key in differing,
                    "share": size / top if bar and size is not None else math.nan,
                    "colour": looks[c.name].colour,
                }
            )
    title = _what_differs(campaign, differing)
    table = pd.DataFrame(
        {
            "setting": ordered,
            "differs": [key in differing for key in ordered],
            **{
                c.label: [
                    say("shared.not_stated") if texts[k][at] is None else texts[k][at]
                    for k in ordered
                ]
                for at, c in enumerate(settings)
            },
        }
    )
    notes = [f"{c.label}: {c.note.strip()}" for c in settings if c.note]
    if unstated:
        notes.append(
            say("setup.configurations.note", unstated=words.listed(map(words.told, unstated)))
        )
    drawable = bool(ordered) and len(settings) <= 6
    return Figure(
        id=name,
        title=title,
        subtitle=_marks(campaign) + say("setup.configurations.subtitle"),
        chart=of_settings(pd.DataFrame(cells), heads_of(settings, settings)) if drawable else None,
        table=table if ordered else None,
        alt=f"{title}. {_marks(campaign)}",
        source=say("shared.manifest"),
        notes=tuple(notes),
        missing="" if ordered else say("setup.configurations.missing_manifest_states_setting"),
        open_table=not drawable,
    )


def _fitted(text: str, room: int) -> str:
    """A setting in lines of a column's width: a layout such as TP8/DP1/EP8 breaks at a slash."""
    if len(text) > room and " " not in text and "/" in text:
        first, _, rest = text.rpartition("/")
        return f"{first}\n{rest}"
    return words.wrapped(text, room)


def _what_differs(campaign: Campaign, differing: list[str]) -> str:
    n = len(campaign.manifest.configurations)
    if n == 1:
        return say(
            "setup.what_differs.configuration",
            configurations=campaign.manifest.configurations[0].label,
        )
    count = words.count(n, "configuration", spelled=True)
    if not differing:
        return say("setup.what_differs.manifest_states_nothing", count=words.capital(count))
    return say(
        "setup.what_differs.differ",
        count=words.capital(count),
        differing=words.listed(map(words.told, differing), most=5),
    )


def _marks(campaign: Campaign) -> str:
    first, second = campaign.manifest.baseline, campaign.manifest.candidate
    settings = campaign.manifest.configurations
    if first and second:
        pair = common.comparison(campaign, (first, second))
        names = say(
            "setup.marks.names",
            first=common.label(campaign, first),
            second=common.label(campaign, second),
        )
        return f"{names}: {common.marked(pair)}"
    if len(settings) == 2:
        return common.marked(compare(*settings))
    return say("setup.marks.manifest_names_pair") if len(settings) > 2 else ""


def workloads(campaign: Campaign) -> Figure:
    """Which loads each configuration got: lengths, concurrencies, clients."""
    rows = common.by_condition(campaign)
    name = "setup-workloads"
    if rows.empty:
        return Figure(
            id=name,
            title=say("setup.workloads.title_run_can_compared"),
            missing=" ".join(
                [say("shared.this_campaign_has_no_run_that"), *common.left_out_notes(campaign)]
            ),
        )
    rows = common.styled(campaign, rows)
    rank = {w: i for i, w in enumerate(("prefill", "decode", "mixed", "other"))}
    rows = rows.assign(_rank=rows["workload"].map(rank)).sort_values("_rank", kind="stable")
    lines = []
    for _, part in rows.groupby("series", sort=False):
        first = part.iloc[0]
        lines.append(
            {
                "configuration": common.label(campaign, first["configuration"]),
                "workload": first["workload"],
                "client": first["client"],
                "input tokens": first["isl"],
                "output tokens": first["osl"],
                "requests in flight": words.listed(str(c) for c in part["concurrency"]),
                "runs": int(part["n_runs"].sum()),
                "most repeats": int(part["n_runs"].max()),
                "ok requests": int(part["n_ok"].sum()),
                "gaps": int(part["n_gaps"].sum()),
            }
        )
    table = pd.DataFrame(lines)
    kinds = list(dict.fromkeys(table["workload"]))
    repeats = int(table["most repeats"].max())
    title = say(
        "setup.workloads.title_requests_flight",
        loads=words.capital(words.count(len(table), "load", spelled=True)),
        kinds=words.listed(kinds),
        concurrency=rows["concurrency"].min(),
        concurrency_2=rows["concurrency"].max(),
    )
    if repeats < 2:
        title += say("setup.workloads.title_nothing_repeated")
    return Figure(
        id=name,
        title=title,
        subtitle=say("setup.workloads.subtitle"),
        table=table,
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=common.left_out_notes(campaign),
        open_table=True,
    )


def runs(campaign: Campaign) -> Figure:
    """Every run with what it asked for and what came of it."""
    table = common.metrics(campaign)
    raw = campaign.tables.runs.to_pandas().set_index("run_id")
    shown = pd.DataFrame(
        {
            "run": table["run_id"],
            "workload": table["workload"],
            "requests in flight": table["concurrency"],
            "requests/s asked": table["request_rate"],
            "input tokens (mean)": table["isl_mean"],
            "output tokens (mean)": table["osl_mean"],
            "requests": table["n_requests"],
            "ok": table["n_ok"],
            "failed": table["n_failed"],
            "cancelled": table["n_cancelled"],
            "lost": table["n_lost"],
            "duration (s)": table["duration_s"],
            "repeat": table["repeat"],
            "configuration": common.labels(campaign, table["configuration"]),
            "client": table["client"],
            "start": [words.utc(None if pd.isna(t) else int(t)) for t in table["start_ns"]],
            "level": table["level"],
        }
    ).reset_index(drop=True)
    shown["start"] = shown["start"].where(np.array(table["clock"] == "epoch"), words.unknown())
    shown = shown.dropna(axis="columns", how="all")  # settings that no run has
    told = common.counted(table)
    n_ok, n = told["n_ok"].sum(), told["n_requests"].sum()
    title = words.count(len(table), "run")
    if len(told):
        title += say("setup.runs.title_requests_ok", n=n, n_ok=n_ok)
    if untold := len(table) - len(told):
        title += say("setup.runs.title_without_count", runs=words.count(untold, "run"))
    by_note: dict[str, list[str]] = {}
    for run, found in raw["notes"].items():
        for note in found if found is not None else ():
            by_note.setdefault(note.strip(), []).append(str(run))
    notes = [f"{words.listed(who, most=2)}: {words.told(note)}" for note, who in by_note.items()]
    return Figure(
        id="setup-runs",
        title=title,
        subtitle=say("setup.runs.subtitle"),
        table=shown,
        source=common.source(
            campaign, pd.DataFrame({"runs": [(r,) for r in table["run_id"]], "n_ok": table["n_ok"]})
        ),
        runs=tuple(sorted(table["run_id"])),
        notes=tuple(notes),
    )
