"""Chapter 07, reproducibility: the same nominal condition in another campaign, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from servebook.errors import ServebookError
from servebook.measure.metrics import METRICS
from servebook.measure.settings import SETTINGS, compare
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import noise, plain
from servebook.publish.charts.differences import around_zero
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign, load
from servebook.read.manifest import FILENAME

__all__ = ["side_by_side", "side_by_side_statement"]

_ID = "reproducibility"
_METRIC = {
    "prefill": ("input_throughput_tok_s", "ttft_mean_ms"),
    "decode": ("output_throughput_tok_s", "tpot_mean_ms"),
    "mixed": ("output_throughput_tok_s", "tpot_mean_ms"),
}
_ON = ["workload", "isl", "osl", "concurrency"]
_loaded: dict[Path, Campaign] = {}


def _sibling(campaign: Campaign, other: str) -> Campaign | str:
    """The other campaign: the argument, else the manifest's ``sibling``; words where none."""
    named = other or campaign.manifest.sibling
    if not named:
        return say("reproducibility.sibling.manifest_names_sibling")
    path = (Path(other) if other else campaign.root / named).resolve()
    if path == campaign.root.resolve():
        return say("reproducibility.sibling.sibling_campaign_itself")
    if not (path / FILENAME).is_file():
        return say("reproducibility.sibling.sibling_holds_here", named=named, filename=FILENAME)
    if path not in _loaded:
        try:
            _loaded[path] = load(path, runs_alone=True)  # only runs are compared
        except ServebookError as error:
            return say(
                "reproducibility.sibling.sibling_cannot_read",
                named=named,
                error=str(error).replace(str(path), named),
            )
    return _loaded[path]


def _pairs(here: Campaign, there: Campaign) -> pd.DataFrame:
    """Configurations that no stated setting tells apart, at conditions that both campaigns ran.

    A setting that one side does not state does not part them; it is told. Clients may differ.
    """
    rows: list[dict[str, Any]] = []
    mine, theirs = plain(here), plain(there)
    for a in here.manifest.configurations:
        for b in there.manifest.configurations:
            compared = compare(a, b)
            if compared.differ and set(compared.differ) - {"layout"}:
                continue
            # EP alone is no layout: TP and DP stated on both sides must agree.
            if any(
                x is not None and y is not None and x != y
                for x, y in ((a.tp, b.tp), (a.dp, b.dp), (a.pp, b.pp), (a.ep, b.ep))
            ):
                continue
            if a.nodes is None or b.nodes is None:
                continue
            both = mine[mine["configuration"] == a.name].merge(
                theirs[theirs["configuration"] == b.name], on=_ON, suffixes=("_a", "_b")
            )
            for row in both.to_dict("records"):
                for metric in _METRIC.get(row["workload"], ()):
                    x, y = row[f"{metric}_a"], row[f"{metric}_b"]
                    if not (x > 0 and y > 0):
                        continue
                    rows.append(
                        {
                            **{key: row[key] for key in _ON},
                            "here": a.name,
                            "there": b.name,
                            "client_here": row["client_a"],
                            "client_there": row["client_b"],
                            "metric": metric,
                            "value_here": x,
                            "value_there": y,
                            "deviation": y / x - 1,
                            "runs": row["runs_a"],
                            "one_sided": compared.one_sided
                            + (("layout",) if "layout" in compared.differ else ()),
                        }
                    )
    columns = [*_ON, "here", "there", "client_here", "client_there", "metric", "value_here",
               "value_there", "deviation", "runs", "one_sided"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _found(campaign: Campaign, other: str) -> tuple[Campaign, pd.DataFrame] | str:
    there = _sibling(campaign, other)
    if isinstance(there, str):
        return there
    rows = _pairs(campaign, there)
    if rows.empty:
        return say("reproducibility.found", title=there.manifest.title)
    # Where several configurations here could be the one there, the fullest pair is shown.
    counts = rows.groupby(["here", "there"]).size().sort_values(kind="stable")
    pair = counts.index[-1]
    rows = rows[(rows["here"] == pair[0]) & (rows["there"] == pair[1])]
    # Where one client ran it on both sides, another client would only add its own differences.
    same = rows["client_here"] == rows["client_there"]
    one = same.groupby([rows[key] for key in _ON]).transform("any")
    place = rows["workload"].map({name: i for i, name in enumerate(_METRIC)})
    rows = rows[same | ~one].assign(_place=place)
    rows = rows.sort_values(["_place", "isl", "concurrency"], kind="stable", ignore_index=True)
    return there, rows.drop(columns="_place")


def side_by_side(campaign: Campaign, other: str = "") -> Figure:
    """Deviation of the other campaign, per condition, above the noise that this one knows."""
    found = _found(campaign, other)
    if isinstance(found, str):
        return Figure(id=_ID, title=say("reproducibility.title"), missing=found)
    there, rows = found
    first = rows.iloc[0]
    name = there.manifest.title
    around = noise(campaign)
    dots = [
        {
            "row": f"{r['workload']} {words.lengths_short(r['isl'], r['osl'])}, c{r['concurrency']}"
            + (
                ""
                if r["client_here"] == r["client_there"]
                else say("reproducibility.side_by_side.client")
            ),
            "deviation": r["deviation"],
            "kind": words.told(METRICS[r["metric"]].label),
            "tip": say(
                "reproducibility.side_by_side.tip",
                metrics=words.told(METRICS[r["metric"]].label),
                value_here=words.number(r["value_here"]),
                value_there=words.number(r["value_there"]),
            ),
            "front": True,
        }
        for r in rows.to_dict("records")
    ] + [
        {
            "row": say("reproducibility.side_by_side.here", what=r["what"]),
            "deviation": r["deviation"],
            "kind": words.told(METRICS[r["metric"]].label),
            "tip": words.told(METRICS[r["metric"]].label),
            "front": False,
        }
        for r in around.to_dict("records")
    ]
    rate = rows[rows["metric"].str.contains("throughput")]
    title = say("reproducibility.side_by_side.title_nominal_conditions_another") + words.listed(
        say(
            "reproducibility.side_by_side.title_to",
            w=w,
            deviation=words.deviation(part["deviation"].min()),
            deviation_2=words.deviation(part["deviation"].max()),
        )
        if common.several(part["deviation"])
        else f"{w} {words.deviation(part['deviation'].iloc[0])}"
        for w, part in rate.groupby("workload", sort=False)
    )
    settings = _settings_words(campaign, there, rows)
    return Figure(
        id=_ID,
        title=say("reproducibility.side_by_side.title_throughput", title=title),
        subtitle=say(
            "reproducibility.side_by_side.subtitle",
            name=name,
            here=common.label(campaign, first["here"]),
            settings=settings,
        ),
        chart=around_zero(pd.DataFrame(dots), say("reproducibility.side_by_side.chart")),
        table=pd.DataFrame(
            {
                "Workload": rows["workload"],
                "Input tokens": rows["isl"],
                "Output tokens": rows["osl"],
                "Requests in flight": rows["concurrency"],
                "Client here": rows["client_here"],
                "Client there": rows["client_there"],
                "Metric": [words.told(METRICS[m].label) for m in rows["metric"]],
                "Unit": [METRICS[m].unit for m in rows["metric"]],
                "Here": rows["value_here"],
                "There": rows["value_there"],
                "Difference (%)": 100 * rows["deviation"],
            }
        ),
        alt=f"{title}. {settings}",
        source=say(
            "reproducibility.side_by_side.source",
            provenance=common.provenance(campaign),
            runs=words.count(len(common.runs_of(rows)), "run"),
            provenance_2=there.manifest.provenance,
            there=there.name,
        ),
        runs=common.runs_of(rows),
        notes=(
            say("reproducibility.side_by_side.note_nominal_workload_lengths"),
            say(
                "reproducibility.side_by_side.note_campaign_listed_page",
                input_files=words.count(there.inputs.num_rows, "input file"),
            ),
            _cache_words(campaign, there, rows),
            *_provenance(campaign, there),
        ),
    )


def _cache_words(campaign: Campaign, there: Campaign, rows: pd.DataFrame) -> str:
    """Whether a cache could have served prompts on either side, and the runs left out for it."""
    first, told = rows.iloc[0], []
    sides = ((campaign, first["here"], "here"), (there, first["there"], "there"))
    for side, name, where in sides:
        setting = side.manifest.configuration(name)
        stated = setting.prefix_caching if setting else None
        state = say("shared.not_stated") if stated is None else "on" if stated else "off"
        reused = side.tables.runs["cache_reuse"].to_pylist().count(True)
        told.append(
            f"{state} {where}"
            + (
                say("reproducibility.cache_words.told", runs=words.count(reused, "run"))
                if reused
                else ""
            )
        )
    return say(
        "reproducibility.cache_words.prefix_cache_manifests",
        told=say("reproducibility.cache_words.and").join(told),
    )


def _settings_words(campaign: Campaign, there: Campaign, rows: pd.DataFrame) -> str:
    """What may differ between the two sides: settings stated on one side only, clients, notes."""
    first = rows.iloc[0]
    a = campaign.manifest.configuration(first["here"])
    b = there.manifest.configuration(first["there"])
    told = []
    for name in dict.fromkeys(first["one_sided"]):
        values = [SETTINGS[name](c) if c else None for c in (a, b)]
        told.append(
            say(
                "reproducibility.settings_words.told",
                name=name,
                values=values[0] or say("shared.not_stated"),
                values_2=values[1] or say("shared.not_stated"),
            )
        )
    text = (
        say("reproducibility.settings_words.unknown_may_differ", told=words.listed(told))
        if told
        else say("reproducibility.settings_words.stated_setting_differs")
    )
    pairs = rows[["client_here", "client_there"]].drop_duplicates()
    other = [
        say("reproducibility.settings_words.other", x=x, y=y)
        for x, y in pairs.itertuples(index=False)
        if x != y
    ]
    return (
        say("reproducibility.settings_words.clients", text=text, other=words.listed(other))
        if other
        else text
    )


def _provenance(campaign: Campaign, there: Campaign) -> tuple[str, ...]:
    kinds = {campaign.manifest.provenance, there.manifest.provenance}
    if kinds == {"measured"}:
        return ()
    return (say("reproducibility.provenance"),)


def side_by_side_statement(campaign: Campaign, other: str = "") -> Statement:
    """The range of differences between the campaigns, as a sentence."""
    found = _found(campaign, other)
    if isinstance(found, str):
        return Statement(id=f"{_ID}-verdict", sentence=found, marks=common.marks(campaign))
    there, rows = found
    rate = rows[rows["metric"].str.contains("throughput")]
    known = noise(campaign)
    beside = known[known["metric"].str.contains("throughput")]["deviation"].abs()
    larger = (
        say("reproducibility.side_by_side_statement.larger", beside=words.percent(beside.max()))
        if len(beside)
        else ""
    )
    return Statement(
        id=f"{_ID}-verdict",
        sentence=say(
            "reproducibility.side_by_side_statement.sentence",
            title=there.manifest.title,
            deviation=words.deviation(rate["deviation"].min()),
            deviation_2=words.deviation(rate["deviation"].max()),
            larger=larger,
        ),
        metric="throughput",
        value=100 * float(rate["deviation"].abs().max()),
        unit="%",
        caption=say("reproducibility.side_by_side_statement.caption"),
        n=len(rate),
        n_of="conditions",
        low=100 * float(rate["deviation"].min()),
        high=100 * float(rate["deviation"].max()),
        interval=say("reproducibility.side_by_side_statement.interval"),
        runs=common.runs_of(rate),
        figure=_ID,
        would_change=say("reproducibility.side_by_side_statement.would_change"),
        verdict=True,
        rank=56,
        marks=(*common.marks(campaign), "UNKNOWN"),
    )
