"""What a figure over concurrency rests on: its rows, its lengths and n, its comparison in words."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from servebook.measure.conditions import factors
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "Sweep",
    "condition_words",
    "described",
    "evidence",
    "factor_rows",
    "points",
    "rows_of",
    "versus",
]


@dataclass(frozen=True)
class Sweep:
    """One workload as it is drawn over concurrency."""

    workload: str
    throughput: str  # metric
    unit: str  # "input tokens/s"

    @property
    def noun(self) -> str:
        """The workload at the head of a title: "Prefill"."""
        return say(f"evidence.noun.{self.workload}")

    @property
    def unit_words(self) -> str:
        """The unit as it is shown."""
        return words.unit(self.unit)


def rows_of(campaign: Campaign, workload: str, metric: str) -> pd.DataFrame:
    """The styled conditions of a workload that have the metric."""
    every = common.by_condition(campaign)
    rows = every[(every["workload"] == workload) & every[metric].notna() & (every[metric] > 0)]
    return common.styled(campaign, rows)


def points(rows: pd.DataFrame, metric: str, unit: str, x: str = "concurrency") -> pd.DataFrame:
    """What ``charts.lines`` draws: one row per condition."""
    low, high = rows[f"{metric}_low"], rows[f"{metric}_high"]
    tips = []
    for row in rows.to_dict("records"):
        tip = words.rate(row[metric], unit)
        if row["n_runs"] > 1:
            span = words.span([row[f"{metric}_low"], row[f"{metric}_high"]])
            tip += f" ({span}, {words.spread(row['n_runs'])})"
        tips.append(say("evidence.points.tip", tip=tip, n_ok=row["n_ok"]))
    columns = ["series", "name", "label", "colour", "ink", "shape", "dash"]
    return rows[columns].assign(
        concurrency=rows[x].astype(float), value=rows[metric], low=low, high=high, tip=tips
    )


def factor_rows(campaign: Campaign, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """``factors`` of the campaign's two opponents in these rows; empty where there are none."""
    pair = common.opponents(campaign, rows)
    return factors(rows, metric, *(pair or ("", "")))


def versus(campaign: Campaign, pair: tuple[str, str], found: pd.DataFrame, key: str) -> str:
    """The finding of a comparison: who does better, by how much, where.

    ``key``: the catalogue's text on the side that is ahead, with ``{first}``, ``{f}`` (how many
    times), ``{second}`` and ``{where}``, the same for metrics of which lower is better.
    """
    first, second = (common.label(campaign, name) for name in pair)
    low, high = found["factor"].min(), found["factor"].max()
    where = say("shared.at_in_flight", concurrency=words.span(found["concurrency"]))
    if low > 1.05:
        return say(key, first=first, f=words.span([low, high], 2), second=second, where=where)
    if high < 1 / 1.05:
        ratio = words.span([1 / high, 1 / low], 2)
        return say(key, first=second, f=ratio, second=first, where=where)
    if low >= 1 / 1.05 and high <= 1.05:
        most = max(high - 1, 1 - low)
        return say(
            "evidence.versus.within",
            first=first,
            second=second,
            most=words.percent(most),
            where=where,
        )
    up, down = found[found["factor"] > 1.05], found[found["factor"] < 1 / 1.05]
    near = found.drop([*up.index, *down.index])
    parts = []
    for rows, who, ratios in ((up, first, up["factor"]), (down, second, 1 / down["factor"])):
        if len(rows):
            ahead = say("evidence.versus.ahead", ratios=words.span(ratios, 2))
            parts.append(
                say(
                    "evidence.versus.flight",
                    who=who,
                    ahead=ahead,
                    concurrencies=_concurrencies(rows),
                )
            )
    if len(near):
        most = (near["factor"] - 1).abs().max()
        parts.append(
            say(
                "evidence.versus.part_within",
                concurrencies=_concurrencies(near),
                most=words.percent(most),
            )
        )
    return "; ".join(parts)


def _concurrencies(rows: pd.DataFrame) -> str:
    return words.listed(str(c) for c in rows["concurrency"])


def condition_words(rows: pd.DataFrame) -> str:
    """Lengths and client of the rows, for a subtitle."""
    pairs = rows[["isl", "osl"]].drop_duplicates().sort_values(["isl", "osl"])
    lengths = [words.lengths(a, b) for a, b in pairs.itertuples(index=False)]
    text = say("evidence.condition_words.text", lengths=words.listed(lengths, most=4))
    clients = sorted(set(rows["client"]))
    return f"{text} {words.plural(len(clients), 'Client')}: {words.listed(clients)}."


def evidence(campaign: Campaign, rows: pd.DataFrame) -> str:
    """N and the kind of interval, and for a pair what differs, for a subtitle."""
    text = (
        say(
            "evidence.evidence.requests_bars",
            n_ok=rows["n_ok"].sum(),
            runs=words.count(len(common.runs_of(rows)), "run"),
            interval=common.interval(rows["n_runs"]),
        )
        if rows["n_runs"].max() > 1
        else say(
            "evidence.evidence.requests_interval_run",
            n_ok=rows["n_ok"].sum(),
            runs=words.count(len(common.runs_of(rows)), "run"),
        )
    )
    pair = common.opponents(campaign, rows)
    return f"{text} {common.marked(common.comparison(campaign, pair))}" if pair else text


def described(rows: pd.DataFrame, metric: str, unit: str) -> str:
    """The lines in words, for those who do not see them."""
    parts = []
    for _, line in rows.groupby("series", sort=False):
        line = line.sort_values("concurrency", kind="stable")
        first, last = line.iloc[0], line.iloc[-1]
        text = say(
            "evidence.described.at",
            name=first["name"],
            first=words.number(first[metric]),
            unit=words.unit(unit),
            concurrency=first["concurrency"],
        )
        if len(line) > 1:
            text += say(
                "evidence.described.flight",
                last=words.number(last[metric]),
                concurrency=last["concurrency"],
            )
        parts.append(text + ".")
    return " ".join(parts)
