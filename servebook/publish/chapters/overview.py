"""Chapter 00: the configurations against a handful of headline metrics, on one screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.charts.matrix import heads_of, of_settings
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["CLOSE", "glance"]

#: Values nearer than this share are not said to be ahead of one another.
CLOSE = 0.05
_MOST_COLUMNS = 6
_ROW_PX = 40
_ID = "overview"


@dataclass(frozen=True)
class _Headline:
    workload: str
    metric: str
    noun: str  # key of its words in the title
    unit: str  # key of those below the workload in the picture


_HEADLINES = (
    _Headline(
        "prefill", "input_throughput_tok_s", "shared.prefill_rate", "overview.headlines.input"
    ),
    _Headline(
        "decode",
        "output_throughput_tok_s",
        "overview.headlines.decode",
        "overview.headlines.output",
    ),
    _Headline(
        "mixed", "output_throughput_tok_s", "overview.headlines.mixed", "overview.headlines.output"
    ),
    _Headline("mixed", "ttft_mean_ms", "overview.headlines.ttft", "overview.headlines.ttft_mean"),
    _Headline(
        "mixed", "itl_p99_over_p50", "overview.headlines.tail", "overview.headlines.itl_tail"
    ),
)
_CONDITION = ["client", "isl", "osl", "reuse", "concurrency"]


def _shared(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the one condition that most configurations ran; of several the highest load."""
    groups = [(key, part) for key, part in rows.groupby(_CONDITION, sort=True, dropna=False)]
    best = max(
        groups,
        key=lambda item: (item[1]["configuration"].nunique(), not item[0][3], item[0][4],
                          item[1]["n_ok"].sum()),
    )  # fmt: skip
    return best[1]


def _lines(campaign: Campaign) -> pd.DataFrame:
    """One row per headline and configuration that ran its condition."""
    every = common.by_condition(campaign)
    parts = []
    for place, head in enumerate(_HEADLINES):
        rows = every[(every["workload"] == head.workload) & every[head.metric].notna()]
        if rows.empty:
            continue
        rows = _shared(rows)
        # Of repeats the page shows p99 and median, each the median over them; so their ratio here.
        value = (
            rows["itl_p99_ms"] / rows["itl_p50_ms"]
            if head.metric == "itl_p99_over_p50"
            else rows[head.metric]
        )
        columns = [*_CONDITION, "configuration", "workload", "n_runs", "n_ok", "runs"]
        parts.append(
            rows[columns].assign(
                place=place,
                metric=head.metric,
                value=value,
                low=rows[f"{head.metric}_low"],
                high=rows[f"{head.metric}_high"],
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _winners(lines: pd.DataFrame) -> dict[str, list[str]]:
    """Per configuration the headlines in which it is ahead of all others by more than ``CLOSE``."""
    ahead: dict[str, list[str]] = {}
    for place, rows in lines.groupby("place", sort=True):
        if len(rows) < 2:
            continue
        head = _HEADLINES[int(str(place))]
        lower = METRICS[head.metric].better == "lower"
        ordered = rows.sort_values(["value", "configuration"], ascending=lower, kind="stable")
        first, second = ordered["value"].iloc[:2]
        if max(first, second) > (1 + CLOSE) * min(first, second):
            ahead.setdefault(str(ordered["configuration"].iloc[0]), []).append(say(head.noun))
    return ahead


def _title(campaign: Campaign, lines: pd.DataFrame) -> str:
    names = [c.name for c in campaign.manifest.configurations]
    if not common.several(lines["configuration"]):
        only = common.label(campaign, str(lines["configuration"].iloc[0]))
        values = [
            say(
                "overview.title.value",
                noun=say(_HEADLINES[place].noun),
                value=words.number(value),
                unit=say(_HEADLINES[place].unit),
            )
            for place, metric, value in zip(
                lines["place"], lines["metric"], lines["value"], strict=True
            )
            if metric in ("input_throughput_tok_s", "output_throughput_tok_s")
        ]
        return say("overview.title.headline_values_highest", only=only, values=words.listed(values))
    ahead = _winners(lines)
    if not ahead:
        return say("overview.title.configuration_ahead_others", close=words.percent(CLOSE))
    said = [
        say(
            "overview.title.said",
            name=common.label(campaign, name),
            ahead=words.listed(ahead[name]),
        )
        for name in names
        if name in ahead
    ]
    return say("overview.title.ahead", close=words.percent(CLOSE), said="; ".join(said))


def _shown(value: float, metric: str) -> str:
    return words.factor(value) if metric == "itl_p99_over_p50" else words.number(value)


def _lacking(name: str, head: _Headline, every: pd.DataFrame) -> str:
    ran = (every["configuration"] == name) & (every["workload"] == head.workload)
    return say("overview.lacking") if ran.any() else say("shared.not_run")


def _picture(campaign: Campaign, lines: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    settings = [
        c for c in campaign.manifest.configurations if c.name in set(lines["configuration"])
    ]
    looks = theme.looks(campaign.manifest.configurations)
    heads = heads_of(settings, campaign.manifest.configurations)
    every = common.by_condition(campaign)
    cells = []
    for place, rows in lines.groupby("place", sort=True):
        head = _HEADLINES[int(str(place))]
        lower = METRICS[head.metric].better == "lower"
        best = rows["value"].min() if lower else rows["value"].max()
        row = say(
            "overview.picture.row",
            workload=head.workload,
            concurrency=rows["concurrency"].iloc[0],
            unit=say(head.unit),
            text=" ↓" if lower else "",
        )
        by = dict(zip(rows["configuration"], rows["value"].astype(float), strict=True))
        for column, c in enumerate(settings):
            ran = c.name in by
            value = by.get(c.name, np.nan)
            cells.append(
                {
                    "setting": row,
                    "column": column,
                    "text": _shown(value, head.metric) if ran else _lacking(c.name, head, every),
                    "bold": ran and value == best and len(rows) > 1,
                    "share": value / rows["value"].max() if len(settings) > 1 else np.nan,
                    "colour": looks[c.name].colour,
                }
            )
    return pd.DataFrame(cells), heads


def glance(campaign: Campaign) -> Figure:
    """Configurations against headline metrics, each row at one condition."""
    lines = _lines(campaign)
    if lines.empty:
        return Figure(
            id=_ID,
            title=say("overview.glance.title"),
            missing=" ".join(
                [say("shared.this_campaign_has_no_run_that"), *common.left_out_notes(campaign)]
            ),
        )
    title = _title(campaign, lines)
    several = common.several(lines["configuration"])
    first, second = campaign.manifest.baseline, campaign.manifest.candidate
    present = set(lines["configuration"])
    mark = ""
    if first in present and second in present and first and second:
        pair = say(
            "overview.glance.pair",
            second=common.label(campaign, second),
            first=common.label(campaign, first),
        )
        mark = f" {pair}: {common.marked(common.comparison(campaign, (first, second)))}."
        mark = mark.replace("..", ".")
    rule = (
        say("overview.glance.rule_row_client_lengths")
        if several
        else say("overview.glance.rule_number_beside_workload")
    )
    cells, heads = _picture(campaign, lines)
    drawable = len(heads) <= _MOST_COLUMNS
    table = pd.DataFrame(
        {
            "workload": lines["workload"],
            "metric": [words.told(METRICS[m].label) for m in lines["metric"]],
            "configuration": common.labels(campaign, lines["configuration"]),
            "value": lines["value"],
            "unit": [METRICS[m].unit for m in lines["metric"]],
            "lowest repeat": lines["low"],
            "highest repeat": lines["high"],
            "requests in flight": lines["concurrency"],
            "input tokens": lines["isl"],
            "output tokens": lines["osl"],
            "client": lines["client"],
            "runs": lines["n_runs"],
            "ok requests": lines["n_ok"],
        }
    )
    used = lines.drop_duplicates("runs")
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            rule
            + (say("overview.glance.subtitle_bars_share_row") if several else "")
            + say("overview.glance.subtitle_lower_better")
            + f"{words.capital(common.interval(lines['n_runs']))}.{mark}"
        ),
        chart=of_settings(cells, heads, row_px=_ROW_PX, bold_names=False) if drawable else None,
        table=table,
        alt=f"{title}. "
        + " ".join(
            f"{r['workload']}, {words.told(METRICS[r['metric']].label)}: "
            f"{common.label(campaign, r['configuration'])} {_shown(r['value'], r['metric'])}."
            for r in lines.to_dict("records")
        ),
        source=common.source(campaign, used),
        runs=common.runs_of(used),
        open_table=not drawable,
    )
