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
from servebook.read.campaign import Campaign

__all__ = ["bounds", "bounds_statement"]

_ID = "decomposition-split"
_RANGE = "range over concurrencies, one run each: no interval"


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
        return "The manifest names no baseline and candidate, so there is no ratio to split."
    one = manifest.configuration(manifest.candidate)
    two = manifest.configuration(manifest.baseline)
    if one is None or two is None:
        return "The manifest's baseline or candidate is not among its configurations."
    names = differing([one, two])
    if not {"precision", "nodes"} <= set(names):
        return (
            f"{one.label} and {two.label} do not differ in precision and in nodes at once "
            f"({words.listed(names) or 'no stated setting'} differs), so there is nothing to split "
            "between the two."
        )
    every = plain(campaign)
    prefill = ratios(every, "prefill", "input_throughput_tok_s", one.name, two.name)
    decode = ratios(every, "decode", "tpot_mean_ms", one.name, two.name)
    free = unsaturated(prefill)
    if free.empty or decode.empty:
        lacking = [w for w, f in (("prefill", free), ("decode", decode)) if f.empty]
        return (
            f"{one.label} and {two.label} share no {' and no '.join(lacking)} condition, which the "
            "split needs."
        )
    parted = split(list(free["ratio"]), list(decode["ratio"]), bytes_ratio(one, two))
    mark = common.comparison(campaign, (two.name, one.name)).mark
    return _Found((one.name, two.name), free, decode, parted, mark)


def bounds(campaign: Campaign) -> Figure:
    """The published split with its assumption, the bounds without it, and what settles it."""
    found = _found(campaign)
    if isinstance(found, str):
        return Figure(id=_ID, title="No ratio to split into precision and nodes", missing=found)
    s = found.split
    looks = theme.looks(campaign.manifest.configurations)
    fast, slow = (looks[n] for n in found.pair)
    alone = _measured_alone(campaign, found)
    grey = {"colour": theme.CONTEXT, "ink": theme.INK}
    rows = [
        {"row": "total", "label": "prefill ratio, before either side falls", "low": s.total[0],
         "high": s.total[1], "open": False, **grey},
        {"row": "precision", "label": "precision, if decode TPOT shows it alone",
         "low": s.precision[0], "high": s.precision[1], "open": False,
         "colour": fast.colour, "ink": fast.text},
        {"row": "rest", "label": f"crossing nodes: what {words.number(s.precision_centre, 2)} "
         "leaves of it", "low": s.rest[0], "high": s.rest[1], "open": False,
         "colour": slow.colour, "ink": slow.text},
        {"row": "precision-bound", "label": "precision, bounds without that assumption",
         "low": s.precision_bounds[0], "high": s.precision_bounds[1], "open": True,
         "colour": fast.colour, "ink": fast.text},
        {"row": "rest-bound", "label": "crossing nodes, bounds", "low": s.rest_bounds[0],
         "high": s.rest_bounds[1], "open": True, "colour": slow.colour, "ink": slow.text},
    ]  # fmt: skip
    rows += [
        {"row": f"alone-{one['factor']}", "label": f"{one['factor']} alone, measured",
         "low": one["low"], "high": one["high"], "open": False, **grey}
        for one in alone.to_dict("records")
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
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
    title = (
        f"The split of {words.span(s.total, 2)}: about {words.number(s.precision_centre, 2)} for "
        f"precision and {words.number(s.rest_centre, 2)} for crossing nodes, if decode shows "
        "precision alone"
    )
    if len(alone):
        title = "Measured alone: " + words.listed(
            f"{a['factor']} {words.span([a['low'], a['high']], 2)} times"
            for a in alone.to_dict("records")
        )
    runs = tuple(
        sorted({r for f in (found.prefill, found.decode) for runs in f["runs"] for r in runs})
    )
    return Figure(
        id=_ID,
        title=title,
        subtitle=f"{_pair_words(campaign, found)} {_contradiction(campaign, found)}",
        chart=ranges(frame, pd.DataFrame(dots), "factor, times (log: lengths add up)"),
        table=_table(found, frame),
        alt=f"{title}. "
        + " ".join(f"{r['label']}: {r['text']}." for r in frame.to_dict("records")),
        source=(
            f"{common.records_of(campaign, len(runs))}; model: effects multiply, decode TPOT "
            "ratio = precision"
        ),
        runs=runs,
        notes=(*_assumptions(found), _settles(campaign, found, alone)),
    )


def _pair_words(campaign: Campaign, found: _Found) -> str:
    one, two = found.pair
    compared = common.comparison(campaign, (two, one))
    return f"{common.label(campaign, one)} over {common.label(campaign, two)}. {compared.words}"


def _contradiction(campaign: Campaign, found: _Found) -> str:
    """What speaks against the assumption, from the manifest's bytes per GPU."""
    predicted = found.split.predicted
    if predicted is None:
        return (
            "Whether decode can show precision alone is not known: the manifest does not state "
            "the bytes per parameter and the GPUs of both."
        )
    one, two = (campaign.manifest.configuration(n) for n in found.pair)
    parameters = campaign.manifest.model.parameters
    load = [fit(c, parameters).weights_per_gpu_gb for c in (one, two) if c is not None]
    if abs(predicted - 1) < 0.02:
        each = (
            f"each GPU holds {words.number(load[0])} GB in both"
            if load[0]
            else ("each GPU holds the same bytes of weights in both")
        )
        return f"But {each}: decode that only reads weights would give a ratio of 1."
    return (
        f"By bytes of weights per GPU, decode that only reads weights would give "
        f"{words.number(predicted, 3)}."
    )


def _assumptions(found: _Found) -> tuple[str, ...]:
    s = found.split
    return (
        (
            "Assumption of the split: decode is bound by reading weights and hardly crosses "
            "nodes, so "
            "its TPOT ratio is the part of precision. Decode crosses nodes, too, and prefill gains "
            "from precision by computing, not by reading: nothing makes the two alike."
        ),
        (
            f"Bounds: precision {words.span(s.precision_bounds, 2)}, crossing nodes "
            f"{words.span(s.rest_bounds, 2)} (smallest prefill ratio over the largest "
            "precision part, "
            "and the reverse). Layout differs, too, where the mark names it, and is inside both."
        ),
    )


def _settles(campaign: Campaign, found: _Found, alone: pd.DataFrame) -> str:
    """The run that would tell the two apart, or that the campaign holds it."""
    if len(alone):
        return (
            "The campaign holds cells that differ in one of the two only: they replace the split."
        )
    settings = campaign.manifest.configurations
    pair = [c for c in settings if c.name in found.pair]
    able: list[Fit] = []
    unable: list[Fit] = []
    for cell in crossed(pair, campaign.manifest.model.parameters):
        if not cell.configurations and cell.fits is not None:
            (able if cell.fits else unable).append(cell)
    text = ""
    if able:
        told = [
            a.label
            + ("" if a.nodes is None else f" ({words.count(a.nodes, 'node', spelled=True)})")
            + f" fits, with {words.number(a.weights_per_gpu_gb)} GB of weights a GPU"
            for a in able
        ]
        text = (
            f"The run that would settle it: {words.listed(told, last='or')}. Its prefill ratios to "
            "the other two are precision and crossing, each alone."
        )
    if unable:
        text += f" {unable[0].label} does not fit: {words.number(unable[0].shortfall_gb)} GB short."
    return text.strip() or "Which run would settle it is not known: the manifest lacks the sizes."


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
            "Part": f"{what} at {r['concurrency']} in flight",
            "First": r["candidate"],
            "Second": r["baseline"],
            "Unit": unit,
            "Factor, low": r["ratio"],
            "Factor, high": r["ratio"],
        }
        for what, part, unit in (
            ("prefill throughput", found.prefill, "tokens/s"),
            ("decode TPOT", found.decode, "ms"),
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
        f"precision accounts for {words.span(s.precision_bounds, 2)} of it and crossing nodes"
        f"{' with the layout' if 'layout' in compared.differ else ''} for "
        f"{words.span(s.rest_bounds, 2)}, and no run here parts them"
        if alone.empty
        else "measured alone: "
        + words.listed(
            f"{a['factor']} {words.span([a['low'], a['high']], 2)}"
            for a in alone.to_dict("records")
        )
    )
    used = common.metrics(campaign).set_index("run_id").loc[list(runs)]
    return Statement(
        id=f"{_ID}-verdict",
        sentence=(
            f"Before either saturates ({at} in flight) {common.label(campaign, one)} prefills "
            f"{words.span(s.total, 2)} times as fast as {common.label(campaign, two)}, which "
            f"differs in {words.listed(compared.differ)}: {tail}."
        ),
        metric="input_throughput_tok_s",
        value=s.total[1],
        unit="ratio",
        n=int(used["n_ok"].sum()),
        n_of="requests",
        low=s.total[0],
        high=s.total[1],
        interval=_RANGE,
        runs=runs,
        figure=_ID,
        would_change=_settles(campaign, found, alone),
        verdict=True,
        rank=22,
        marks=(*common.marks(campaign), found.mark),
    )
