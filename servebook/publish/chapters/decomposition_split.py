"""Chapter 07, the published split: precision against crossing nodes, as ranges and as bounds."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from servebook.explain.bounds import Split, bytes_ratio, ratios, split, unsaturated
from servebook.explain.decompose import separated
from servebook.explain.factors import differing
from servebook.explain.memory import Fit, crossed, fit
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.charts.factor_ranges import ranges
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["bounds", "bounds_statement"]

_ID = "decomposition-split"


@dataclass(frozen=True)
class _Found:
    pair: tuple[str, str]  # faster, other
    prefill: pd.DataFrame
    decode: pd.DataFrame
    split: Split
    mark: str


@common.memo
def _found(campaign: Campaign) -> _Found | str:
    """The split of the manifest's pair, or in words why there is none."""
    manifest = campaign.manifest
    if not (manifest.baseline and manifest.candidate):
        return say("decomposition_split.found.manifest_names_baseline")
    one = manifest.configuration(manifest.candidate)
    two = manifest.configuration(manifest.baseline)
    if one is None or two is None:
        return say("decomposition_split.found.manifest_baseline_candidate")
    names = differing([one, two])
    if not {"precision", "nodes"} <= set(names):
        return say(
            "decomposition_split.found.differ_precision_nodes",
            one=one.label,
            two=two.label,
            names=words.listed(names) or say("decomposition_split.found.stated_setting"),
        )
    every = plain(campaign)
    prefill = ratios(every, "prefill", "input_throughput_tok_s", one.name, two.name)
    decode = ratios(every, "decode", "tpot_mean_ms", one.name, two.name)
    free = unsaturated(prefill)
    if free.empty or decode.empty:
        lacking = [w for w, f in (("prefill", free), ("decode", decode)) if f.empty]
        return say(
            "decomposition_split.found.share_condition_split",
            one=one.label,
            two=two.label,
            lacking=say("decomposition_split.found.and_no").join(lacking),
        )
    parted = split(list(free["ratio"]), list(decode["ratio"]), bytes_ratio(one, two))
    mark = common.comparison(campaign, (two.name, one.name)).mark
    return _Found((one.name, two.name), free, decode, parted, mark)


def bounds(campaign: Campaign) -> Figure:
    """The published split with its assumption, the bounds without it, and what settles it."""
    found = _found(campaign)
    if isinstance(found, str):
        return Figure(
            id=_ID,
            title=say("decomposition_split.bounds.title_ratio_split_precision"),
            missing=found,
        )
    s = found.split
    looks = theme.looks(campaign.manifest.configurations)
    fast, slow = (looks[n] for n in found.pair)
    alone = _measured_alone(campaign, found)
    grey = theme.CONTEXT, theme.INK
    one, other = (fast.colour, fast.text), (slow.colour, slow.text)
    rows = [
        ("total", say("decomposition_split.bounds.label_prefill_ratio_before"), s.total, grey),
        (
            "precision",
            say("decomposition_split.bounds.label_precision_decode_tpot"),
            s.precision,
            one,
        ),
        (
            "rest",
            say(
                "decomposition_split.bounds.label_crossing_nodes_leaves",
                precision_centre=words.number(s.precision_centre, 2),
            ),
            s.rest,
            other,
        ),
        (
            "precision-bound",
            say("decomposition_split.bounds.label_precision_bounds_without"),
            s.precision_bounds,
            one,
        ),
        (
            "rest-bound",
            say("decomposition_split.bounds.label_crossing_nodes_bounds"),
            s.rest_bounds,
            other,
        ),
        *(
            (
                f"alone-{row['factor']}",
                say(
                    "decomposition_split.bounds.label_alone_measured",
                    factor=row["factor"],
                    standing=common.standing(campaign),
                ),
                (row["low"], row["high"]),
                grey,
            )
            for row in alone.to_dict("records")
        ),
    ]
    frame = pd.DataFrame(
        [
            {
                "row": row,
                "label": label,
                "low": low,
                "high": high,
                "open": row.endswith("-bound"),
                "colour": colour,
                "ink": ink,
            }
            for row, label, (low, high), (colour, ink) in rows
        ]
    )
    frame["text"] = [
        words.span([a, b], 2) for a, b in zip(frame["low"], frame["high"], strict=True)
    ]
    dots = [
        {"row": row, "value": r["ratio"], "text": common.in_flight(r["concurrency"]), "colour": c}
        for row, part, c in (
            ("total", found.prefill, theme.INK),
            ("precision", found.decode, fast.colour),
        )
        for r in part.to_dict("records")
    ]
    title = say(
        "decomposition_split.bounds.title_split_about_precision",
        total=words.span(s.total, 2),
        precision_centre=words.number(s.precision_centre, 2),
        rest_centre=words.number(s.rest_centre, 2),
    )
    if len(alone):
        title = say(
            "decomposition_split.bounds.title_measured_alone", standing=common.standing(campaign)
        ) + words.listed(
            say(
                "decomposition_split.bounds.title_times",
                factor=a["factor"],
                low=words.span([a["low"], a["high"]], 2),
            )
            for a in alone.to_dict("records")
        )
    runs = tuple(
        sorted({r for f in (found.prefill, found.decode) for runs in f["runs"] for r in runs})
    )
    return Figure(
        id=_ID,
        title=title,
        subtitle=f"{_pair_words(campaign, found)} {_contradiction(campaign, found)}",
        chart=ranges(frame, pd.DataFrame(dots), say("decomposition_split.bounds.chart")),
        table=_table(found, frame),
        alt=f"{title}. "
        + " ".join(f"{r['label']}: {r['text']}." for r in frame.to_dict("records")),
        source=say(
            "decomposition_split.bounds.source", records_of=common.records_of(campaign, len(runs))
        ),
        runs=runs,
        notes=(*_assumptions(found), "".join(_settles(campaign, found, alone))),
    )


def _pair_words(campaign: Campaign, found: _Found) -> str:
    one, two = found.pair
    compared = common.comparison(campaign, (two, one))
    return say(
        "decomposition_split.pair_words",
        one=common.label(campaign, one),
        two=common.label(campaign, two),
        compared=common.marked(compared),
    )


def _contradiction(campaign: Campaign, found: _Found) -> str:
    """What speaks against the assumption, from the manifest's bytes per GPU."""
    predicted = found.split.predicted
    if predicted is None:
        return say("decomposition_split.contradiction.whether_decode_can")
    one, two = (campaign.manifest.configuration(n) for n in found.pair)
    parameters = campaign.manifest.model.parameters
    load = [fit(c, parameters).weights_per_gpu_gb for c in (one, two) if c is not None]
    if abs(predicted - 1) < 0.02:
        each = (
            say("decomposition_split.contradiction.each_gpu_holds_gb", load=words.number(load[0]))
            if load[0]
            else say("decomposition_split.contradiction.each_gpu_holds_bytes")
        )
        return say("decomposition_split.contradiction.decode_reads_weights", each=each)
    return say(
        "decomposition_split.contradiction.bytes_weights_gpu", predicted=words.number(predicted, 3)
    )


def _assumptions(found: _Found) -> tuple[str, ...]:
    s = found.split
    return (
        say("decomposition_split.assumptions.assumption_split_decode"),
        say(
            "decomposition_split.assumptions.bounds_precision_crossing",
            precision_bounds=words.span(s.precision_bounds, 2),
            rest_bounds=words.span(s.rest_bounds, 2),
        ),
    )


def _settles(campaign: Campaign, found: _Found, alone: pd.DataFrame) -> tuple[str, str]:
    """The run that would tell the two apart, or that the campaign holds it; and what is no way."""
    if len(alone):
        return say("decomposition_split.settles.campaign_holds_cells"), ""
    settings = campaign.manifest.configurations
    pair = [c for c in settings if c.name in found.pair]
    able: list[Fit] = []
    unable: list[Fit] = []
    for cell in crossed(pair, campaign.manifest.model.parameters):
        if not cell.configurations and cell.fits is not None:
            (able if cell.fits else unable).append(cell)
    text, short = "", ""
    if able:
        told = [
            a.label
            + ("" if a.nodes is None else f" ({words.count(a.nodes, 'node', spelled=True)})")
            + say(
                "decomposition_split.settles.told",
                weights_per_gpu_gb=words.number(a.weights_per_gpu_gb),
            )
            for a in able
        ]
        text = say(
            "decomposition_split.settles.run_would_settle", told=words.listed(told, last="or")
        )
    if unable:
        short = say(
            "decomposition_split.settles.fit_gb_short",
            unable=unable[0].label,
            shortfall_gb=words.number(unable[0].shortfall_gb),
        )
    if text or short:
        return (text, short) if text else (short.strip(), "")
    return say("decomposition_split.settles.run_would_settle_known_manifest_lacks"), ""


def _measured_alone(campaign: Campaign, found: _Found) -> pd.DataFrame:
    """Precision and nodes alone from the crossed cells: factor, low, high, n, as better over worse.

    Ratios point the way of the pair: of the level of its first configuration over the other.
    """
    settings = campaign.manifest.configurations
    rows = separated(plain(campaign), settings, "input_throughput_tok_s", "prefill")
    rows = rows[rows["factor"].isin(["precision", "nodes"])]
    first = campaign.manifest.configuration(found.pair[0])
    by_name = {c.name: c for c in settings}
    values: dict[str, list[float]] = {}
    for row in rows.to_dict("records"):
        other = by_name[row["candidate"]]
        turned = first is not None and row["factor"] not in differing([first, other])
        values.setdefault(row["factor"], []).append(1 / row["ratio"] if turned else row["ratio"])
    return pd.DataFrame(
        [
            {"factor": name, "low": min(v), "high": max(v), "n": len(v)}
            for name, v in sorted(values.items())
        ],
        columns=["factor", "low", "high", "n"],
    )


def _table(found: _Found, frame: pd.DataFrame) -> pd.DataFrame:
    measured = [
        {
            "Part": say("decomposition_split.table.part", what=what, concurrency=r["concurrency"]),
            "First": r["candidate"],
            "Second": r["baseline"],
            "Unit": unit,
            "Factor, low": r["ratio"],
            "Factor, high": r["ratio"],
        }
        for what, part, unit in (
            (
                say("decomposition_split.table.measured_prefill_throughput"),
                found.prefill,
                "tokens/s",
            ),
            (say("decomposition_split.table.measured_decode_tpot"), found.decode, "ms"),
        )
        for r in part.to_dict("records")
    ]
    ranges_ = [
        {"Part": r["label"], "Factor, low": r["low"], "Factor, high": r["high"]}
        for r in frame.to_dict("records")
    ]
    return pd.DataFrame([*measured, *ranges_])


def bounds_statement(campaign: Campaign) -> Statement:
    """The ratio with what it confounds, and the bounds of its parts, as a verdict."""
    found = _found(campaign)
    if isinstance(found, str):
        return Statement(id=f"{_ID}-verdict", sentence=found, marks=common.marks(campaign))
    s = found.split
    one, two = found.pair
    compared = common.comparison(campaign, (two, one))
    at = words.span(found.prefill["concurrency"])
    runs = tuple(sorted({r for runs in found.prefill["runs"] for r in runs}))
    alone = _measured_alone(campaign, found)
    tail = (
        say(
            "decomposition_split.bounds_statement.tail_precision_accounts_crossing",
            precision_bounds=words.span(s.precision_bounds, 2),
            layout=say("decomposition_split.bounds_statement.tail_layout")
            if "layout" in compared.differ
            else "",
            rest_bounds=words.span(s.rest_bounds, 2),
        )
        if alone.empty
        else say(
            "decomposition_split.bounds_statement.tail_measured_alone",
            standing=common.standing(campaign),
        )
        + words.listed(
            f"{a['factor']} {words.span([a['low'], a['high']], 2)}"
            for a in alone.to_dict("records")
        )
    )
    used = common.metrics(campaign).set_index("run_id").loc[list(runs)]
    return Statement(
        id=f"{_ID}-verdict",
        sentence=words.capital(
            say(
                "decomposition_split.bounds_statement.sentence",
                at=at,
                one=common.label(campaign, one),
                total=words.span(s.total, 2),
                two=common.label(campaign, two),
                tail=tail,
            )
        ),
        more=say(
            "decomposition_split.bounds_statement.more",
            differ=words.listed(map(words.told, compared.differ)),
        )
        + (say("decomposition_split.bounds_statement.apart") if alone.empty else ""),
        metric="input_throughput_tok_s",
        value=s.total[1],
        unit="ratio",
        n=int(used["n_ok"].sum()),
        n_of="requests",
        low=s.total[0],
        high=s.total[1],
        interval=say("shared.range_over_concurrencies_one_run_each"),
        runs=runs,
        figure=_ID,
        would_change=_settles(campaign, found, alone)[0],
        verdict=True,
        rank=22,
        marks=(*common.marks(campaign), found.mark),
    )
