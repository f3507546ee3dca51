"""What all chapters share: measured tables computed once, looks and labels, words on evidence."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from servebook.measure import conditions as _conditions
from servebook.measure import gate as _gate
from servebook.measure import runs as _runs
from servebook.measure import settings as _settings
from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.output import Figure, Statement
from servebook.publish.text import as_written, say, spoken
from servebook.read.campaign import Campaign
from servebook.read.manifest_schema import Configuration

__all__ = [
    "ONE_CONFIGURATION",
    "absent",
    "absent_statement",
    "bottom",
    "by_condition",
    "comparison",
    "counted",
    "defined",
    "difference",
    "dumps_of",
    "in_flight",
    "interval",
    "label",
    "labels",
    "left_out_notes",
    "marked",
    "marks",
    "memo",
    "metrics",
    "opponents",
    "provenance",
    "records_of",
    "runs_of",
    "several",
    "source",
    "standing",
    "styled",
    "table",
    "top",
]

ONE_CONFIGURATION = "ONE CONFIGURATION"
_LINE = 20  # letters of a name at a line's end

T = TypeVar("T")


def memo(function: Callable[[Campaign], T]) -> Callable[[Campaign], T]:
    """Computes once per campaign object: the cells of a notebook ask for the same tables."""
    kept: dict[int, tuple[weakref.ref[Campaign], T]] = {}

    @functools.wraps(function)
    def once(campaign: Campaign) -> T:
        known = kept.get(id(campaign))
        if known is None or known[0]() is not campaign:
            known = (weakref.ref(campaign), function(campaign))
            kept[id(campaign)] = known
        return known[1]

    return once


@memo
def metrics(campaign: Campaign) -> pd.DataFrame:
    """``run_metrics`` of the campaign, with ``cache_reuse``: one row per run."""
    reuse = campaign.tables.runs["cache_reuse"].to_pylist()
    return _runs.run_metrics(campaign.tables).assign(cache_reuse=pd.array(reuse, dtype="boolean"))


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``metrics`` that tell how many requests there were and how many of them were ok.

    A summary may tell one without the other; nothing may be said of their difference then.
    """
    return table[table["n_requests"].notna() & table["n_ok"].notna()]


@memo
def by_condition(campaign: Campaign) -> pd.DataFrame:
    """``conditions`` of the campaign: one row per condition, repeats together."""
    return _conditions.conditions(metrics(campaign))


def provenance(campaign: Campaign) -> str:
    """Whether the campaign was measured or reconstructed, as a word at the head of a source."""
    return words.told(campaign.manifest.provenance)


def standing(campaign: Campaign) -> str:
    """What the campaign's values are, in a sentence: measured, or reconstructed by a model."""
    known = {"measured": "common.standing.measured", "reconstructed": "common.standing.made"}
    return say(known.get(campaign.manifest.provenance, "common.standing.not_stated"))


def _lines(parts: Sequence[str]) -> list[str]:
    """The configuration's name, then what tells the series apart: several to a line that fit."""
    lines = list(parts[:1])
    for part in parts[1:]:
        joined = f"{lines[-1]} · {part}"
        if len(lines) > 1 and len(joined) <= _LINE:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def label(campaign: Campaign, name: str | None) -> str:
    """The configuration's label as charts show it."""
    found = campaign.manifest.configuration(name) if name else None
    if found and found.label not in spoken().names:
        as_written(one.label for one in campaign.manifest.configurations)
    return found.label if found else (name or say("common.label"))


def _order(campaign: Campaign) -> dict[str, int]:
    return {c.name: i for i, c in enumerate(campaign.manifest.configurations)}


def styled(campaign: Campaign, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``conditions`` with label, name, colour, ink, shape and dash, in manifest order.

    ``name`` is one line, ``label`` is broken into short ones. The client is named where a
    configuration has several, lengths where the rows have several.
    """
    looks = theme.looks(campaign.manifest.configurations)
    order = _order(campaign)
    clients = rows.groupby("configuration")["client"].nunique()
    several_lengths = len(rows[["isl", "osl"]].drop_duplicates()) > 1
    both = several(rows["reuse"])
    names, labels, dashes = [], [], []
    variants: dict[str, list[str]] = {}
    told = ["configuration", "client", "isl", "osl", "reuse", "series"]
    for row in rows[told].to_dict("records"):  # of more than a hundred columns
        parts = [label(campaign, row["configuration"])]
        parts += [row["client"]] if clients[row["configuration"]] > 1 else []
        parts += [words.lengths_short(row["isl"], row["osl"])] if several_lengths else []
        parts += [say("common.styled.part")] if both and row["reuse"] else []
        names.append(" · ".join(parts))
        labels.append("\n".join(words.wrapped(line, _LINE) for line in _lines(parts)))
        seen = variants.setdefault(row["configuration"], [])
        if row["series"] not in seen:
            seen.append(row["series"])
        dashes.append(seen.index(row["series"]))
    look = [looks[c] for c in rows["configuration"]]
    out = rows.assign(
        name=names,
        label=labels,
        colour=[k.colour for k in look],
        ink=[k.text for k in look],
        shape=[k.shape for k in look],
        dash=dashes,
        _order=[order[c] for c in rows["configuration"]],
    )
    out = out.sort_values(["_order", "series", "concurrency"], kind="stable", ignore_index=True)
    return out.drop(columns="_order")


def opponents(campaign: Campaign, rows: pd.DataFrame) -> tuple[str, str] | None:
    """The two configurations whose factor is shown: the manifest's pair, else the only two."""
    present = list(dict.fromkeys(rows["configuration"]))
    first, second = campaign.manifest.baseline, campaign.manifest.candidate
    if first in present and second in present and first and second:
        return first, second
    if len(present) == 2 and not (first and second):
        return present[0], present[1]
    return None


def comparison(campaign: Campaign, pair: tuple[str, str]) -> _settings.Comparison:
    """What two configurations differ in: settings, and what the dumps of shared conditions tell."""
    first, second = (campaign.manifest.configuration(name) for name in pair)
    if first is None or second is None:
        raise KeyError(f"no configuration {pair}")
    key = ["client", "workload", "isl", "osl", "reuse", "concurrency"]
    rows = by_condition(campaign)
    sides = [rows[rows["configuration"] == name] for name in pair]
    shared = sides[0].merge(sides[1], on=key, suffixes=("_a", "_b"))
    if shared.empty:
        return _settings.compare(first, second)
    used = {run for column in ("runs_a", "runs_b") for runs in shared[column] for run in runs}
    # Lengths are equal condition by condition; their means over unequal repeats need not be.
    table = metrics(campaign).drop(columns=["isl_mean", "osl_mean"])
    return _gate.gate(first, second, table[table["run_id"].isin(used)]).comparison


def defined(metric: str) -> str:
    """A metric's label and definition, as a note."""
    one = METRICS[metric]
    return say("common.defined", label=words.told(one.label), text=words.told(one.definition))


def difference(compared: _settings.Comparison, *, of_ratio: bool = True) -> str:
    """What two configurations differ in, after its mark, without a full stop.

    ``of_ratio``: whether it says that a ratio of several settings is theirs together.
    """
    if compared.differ:
        names = ", ".join(map(words.told, compared.differ))
        key = (
            "common.difference.several"
            if of_ratio and len(compared.differ) > 1
            else "common.difference.one"
        )
        text = say(key, names=names)
    else:
        text = say("common.difference.none")
    if compared.one_sided:
        names = ", ".join(map(words.told, compared.one_sided))
        text = say("common.difference.one_sided", text=text, names=names)
    return text


def marked(compared: _settings.Comparison) -> str:
    """The mark of a comparison and what stands behind it, as a sentence."""
    return say("common.marked", mark=words.mark(compared.mark), text=difference(compared))


def marks(
    campaign: Campaign, pair: tuple[str, str] | None = None, *, runs: Iterable[str] = ()
) -> tuple[str, ...]:
    """The marks of a statement: reconstructed, and how comparable its sides are.

    Its sides are a ``pair`` of configurations, or those of the ``runs`` that it rests on: then all
    settings count in which any two of them differ, and one alone is ONE CONFIGURATION.
    """
    out = [] if campaign.manifest.provenance == "measured" else [campaign.manifest.provenance]
    if pair is not None:
        out.append(comparison(campaign, pair).mark)
    elif sides := _sides(campaign, set(runs)):
        out.append(_together(sides).mark if len(sides) > 1 else ONE_CONFIGURATION)
    return tuple(out)


def _sides(campaign: Campaign, runs: set[str]) -> list[Configuration]:
    table = metrics(campaign)
    names = set(table.loc[table["run_id"].isin(runs), "configuration"].dropna())
    return [c for c in campaign.manifest.configurations if c.name in names]


def _together(sides: list[Configuration]) -> _settings.Comparison:
    pairs = [_settings.compare(a, b) for i, a in enumerate(sides) for b in sides[i + 1 :]]

    def union(part: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pair in pairs for name in getattr(pair, part)))

    return _settings.Comparison(union("differ"), union("one_sided"), union("unstated"))


def interval(n_runs: Iterable[int]) -> str:
    """What the error bars over conditions with so many runs each are.

    >>> interval([1, 1]), interval([3]), interval([1, 3])
    ('no interval: one run', 'range over 3 repeats', 'range over 3 repeats where there are any')
    """
    counts = [int(n) for n in n_runs]
    most = max(counts, default=1)
    if most < 2:
        return words.spread(1)
    text = words.spread(most)
    return text if min(counts) == most else say("common.interval", text=text)


def top(frame: pd.DataFrame, values: pd.Series[Any]) -> pd.Series[Any]:
    """The row of ``frame`` with the largest of ``values`` (aligned with it; NaN never wins)."""
    return frame.iloc[int(np.nanargmax(values.to_numpy(dtype=np.float64)))]


def bottom(frame: pd.DataFrame, values: pd.Series[Any]) -> pd.Series[Any]:
    """The row of ``frame`` with the smallest of ``values``."""
    return frame.iloc[int(np.nanargmin(values.to_numpy(dtype=np.float64)))]


def several(values: pd.Series[Any]) -> bool:
    """Whether a column holds more than one distinct value."""
    return len(set(values)) > 1


def in_flight(concurrency: float) -> str:
    """A concurrency in a sentence: "8 requests in flight"."""
    return words.count(int(concurrency), "request") + say("common.in_flight")


def runs_of(rows: pd.DataFrame) -> tuple[str, ...]:
    """The run_ids behind rows of ``conditions``, sorted."""
    return tuple(sorted({run for runs in rows["runs"] for run in runs}))


def source(campaign: Campaign, rows: pd.DataFrame) -> str:
    """Where the numbers are from, with n."""
    of_runs = dumps_of(campaign, runs_of(rows))
    return f"{of_runs}, {words.count(int(rows['n_ok'].sum()), 'ok request')}"


def labels(campaign: Campaign, names: pd.Series[Any]) -> list[str]:
    """The configurations' labels, row by row."""
    return [label(campaign, None if pd.isna(name) else str(name)) for name in names]


def records_of(campaign: Campaign, n_runs: int) -> str:
    """Where numbers are from that rest on whole runs."""
    return say(
        "shared.records_of",
        provenance=provenance(campaign),
        runs=words.count(n_runs, "run"),
    )


def dumps_of(campaign: Campaign, runs: Iterable[str]) -> str:
    """Where numbers are from that rest on these runs, of which some may be summaries alone."""
    level = metrics(campaign).set_index("run_id")["level"]
    levels = [level.get(run) for run in runs]
    alone = levels.count("summary")
    text = records_of(campaign, len(levels) - alone)
    if alone == len(levels) and alone:
        return say(
            "common.dumps_of.summaries",
            provenance=provenance(campaign),
            runs=words.count(alone, "run"),
        )
    return text + (
        say("common.dumps_of.summaries_2", runs=words.count(alone, "run")) if alone else ""
    )


def left_out_notes(campaign: Campaign, workload: str | None = None) -> tuple[str, ...]:
    """Sentences on the runs of a workload that no comparison uses, one per reason."""
    all_runs = metrics(campaign)
    gone = _conditions.left_out(all_runs)
    if workload is not None:
        names = all_runs.loc[all_runs["workload"] == workload, "run_id"]
        gone = gone[gone["run_id"].isin(names)]
    return tuple(
        say("common.left_out_notes", map=words.listed(list(map(str, runs)), most=8), reason=reason)
        for reason, runs in gone.groupby("reason", sort=False)["run_id"]
    )


def absent(campaign: Campaign, figure: str, title: str, workload: str) -> Figure:
    """The figure of a workload that the campaign cannot show, with the reason in words."""
    why = say("common.absent.why_campaign_run_can", workload=workload)
    notes = left_out_notes(campaign, workload)
    all_runs = metrics(campaign)
    own = all_runs[all_runs["workload"] == workload]
    usable = own[~own["run_id"].isin(_conditions.left_out(all_runs)["run_id"])]
    if own.empty:
        why = say("common.absent.why_campaign_run", workload=workload)
    elif len(usable) and usable["n_gaps"].eq(0).all():
        clients = words.listed(sorted(set(usable["client"].dropna())))
        why = say("common.absent.why_runs_campaign_hold", workload=workload, clients=clients)
    return Figure(id=figure, title=title, missing=" ".join([why, *notes]))


def absent_statement(campaign: Campaign, name: str, workload: str) -> Statement:
    """The same as a sentence."""
    missing = absent(campaign, name, "", workload).missing
    return Statement(id=name, sentence=missing, marks=marks(campaign))


def table(rows: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The columns (name in ``rows``, displayed name) as a displayed table."""
    return pd.DataFrame({shown: rows[name] for name, shown in columns})
