"""Chapter 07, decode at an equal running batch, per deployment and per GPU; the slots behind it."""

from __future__ import annotations

from itertools import permutations

import pandas as pd

from servebook.explain.bounds import ratios
from servebook.measure.settings import Comparison
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import condition_words, evidence, points
from servebook.publish.chapters.reuse import plain
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["matched", "parity"]

_RATE = "output_throughput_tok_s"
_EQUAL = 0.05  # rates within this share are called equal
_NEAR = 1.1  # running batches within this ratio are called equal
_FULL = 0.9  # fewer of the requests in flight than this decode: the rest waits


def matched(campaign: Campaign, *, per_gpu: bool = False) -> Figure:
    """Output rate against the running batch (output rate x TPOT), whole or per GPU."""
    name = "matched-decode" + ("-per-gpu" if per_gpu else "")
    every = plain(campaign)
    rows = common.styled(campaign, every[(every["workload"] == "decode") & (every[_RATE] > 0)])
    rows = rows[rows["running_batch"].notna() & (rows["running_batch"] > 0)]
    if rows.empty:
        return common.absent(campaign, name, "Decode at an equal running batch", "decode")
    unit = "output tokens/s"
    if per_gpu:
        gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
        count = rows["configuration"].map(gpus)
        if count.isna().any():
            return Figure(
                id=name,
                title="Decode per GPU",
                missing=(
                    "The manifest does not state the GPUs of every configuration that decodes, "
                    "so nothing can be given per GPU."
                ),
            )
        unit = "output tokens/s per GPU"
        for column in (_RATE, f"{_RATE}_low", f"{_RATE}_high", "running_batch"):
            rows[column] = rows[column] / count.astype(float)
    held = rows["running_batch"] * (rows["configuration"].map(gpus) if per_gpu else 1)
    waiting = rows[(held / rows["concurrency"]) < _FULL]
    title = _title(rows, per_gpu)
    per = " per GPU" if per_gpu else ""
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{condition_words(rows)} One dot per concurrency. At one height on one vertical, two "
            f"configurations are equal at the same batch. {evidence(campaign, rows)}"
        ),
        chart=over_concurrency(
            points(rows, _RATE, unit, x="running_batch"),
            f"{unit} (log)",
            x_title=f"running batch{per}: output rate × TPOT (log)",
            y_format=",~g",
        ),
        table=common.table(
            rows,
            [
                ("name", "configuration"),
                ("concurrency", "requests in flight"),
                ("running_batch", f"running batch{per}"),
                (_RATE, unit),
                ("tpot_mean_ms", "TPOT mean (ms)"),
                ("n_ok", "ok requests"),
                ("n_runs", "runs"),
            ],
        ),
        alt=f"{title}. "
        + " ".join(
            f"{r['name']} at {r['concurrency']} in flight: {words.number(r['running_batch'])} "
            f"running{per}, {words.number(r[_RATE])} {unit}."
            for r in rows.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=tuple(
            f"{r['name']}: {words.number(h)} of {r['concurrency']} requests in flight decode at a "
            f"time; {_slots(campaign, r['configuration'])}."
            for r, h in zip(waiting.to_dict("records"), held[waiting.index], strict=True)
        ),
    )


def _slots(campaign: Campaign, name: str) -> str:
    c = campaign.manifest.configuration(name)
    if c is None or c.max_num_seqs is None:
        return "the manifest states no slots"
    replicas = c.dp or 1
    if replicas == 1:
        return f"it has {c.max_num_seqs} slots"
    total = c.max_num_seqs * replicas
    return f"it has {c.max_num_seqs} slots in each of {replicas} replicas, {total} in all"


def _title(rows: pd.DataFrame, per_gpu: bool) -> str:
    """The factors between two configurations wherever their batches are nearly equal."""
    unit = " per GPU" if per_gpu else ""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _, same in rows.groupby(["client", "isl", "osl"], sort=True):
        for a, b in permutations(same.to_dict("records"), 2):
            both = (a["running_batch"], b["running_batch"])
            apart = a["configuration"] != b["configuration"]
            if apart and max(both) <= _NEAR * min(both) and a[_RATE] >= b[_RATE]:
                batch = (both[0] * both[1]) ** 0.5
                found.setdefault((a["name"], b["name"]), []).append((batch, a[_RATE] / b[_RATE]))
    if found:
        one, two = max(found, key=lambda pair: max(ratio for _, ratio in found[pair]))
        told = {f"{words.number(batch, 2)}": ratio for batch, ratio in sorted(found[one, two])}
        factors = words.listed(f"{words.number(r, 3)} (at {b})" for b, r in told.items())
        return f"At an equal running batch{unit}, {one} decodes {factors} times as fast as {two}"
    if not common.several(rows["configuration"]):
        batches = words.span(rows["running_batch"])
        return f"One configuration decodes, at running batches of {batches}{unit}"
    return f"No two configurations decode at the same lengths and running batch{unit}"


def _differing(compared: Comparison) -> str:
    """What the two differ in; how comparable that makes them says the mark beside the sentence."""
    told = compared.words.removeprefix(f"{compared.mark}: ")
    return words.capital(told.replace("; the ratio is theirs together", ""))


def parity(campaign: Campaign) -> Statement:
    """Whether an equal decode rate is one of equal engines, or of unequal slots, as a verdict."""
    name = "matched-parity"
    pair = (campaign.manifest.candidate, campaign.manifest.baseline)
    every = plain(campaign)
    if pair[0] is None or pair[1] is None:
        return Statement(
            id=name,
            sentence="The manifest names no pair of configurations to compare in decode.",
            marks=common.marks(campaign),
        )
    one, two = pair[0], pair[1]
    found = ratios(every, "decode", _RATE, one, two)
    labels = [common.label(campaign, n) for n in (one, two)]
    if found.empty:
        return Statement(
            id=name,
            sentence=f"{labels[0]} and {labels[1]} share no decode condition.",
            marks=common.marks(campaign),
        )
    top = found.iloc[-1]
    at = every[(every["workload"] == "decode") & (every["concurrency"] == top["concurrency"])]
    batch = at.set_index(["configuration", "client"])["running_batch"]
    held = [float(batch.loc[(n, top["client"])]) for n in (one, two)]
    below = found[found["concurrency"] < top["concurrency"]]
    text = f"At {top['concurrency']} in flight {labels[0]} decodes {words.times(top['ratio'])} "
    text += f"as fast as {labels[1]}"
    if len(below):
        lower = words.listed(str(c) for c in below["concurrency"])
        text += f" ({words.span(below['ratio'], 2)} times at {lower})"
    apart = max(held) / min(held)
    slot = apart > 1 / _FULL
    if slot:
        text += (
            f", but that is a slot effect: {words.number(held[0])} requests run on the one and "
            f"{words.number(held[1])} on the other"
        )
    else:
        text += f", with {words.span(held)} requests running on both"
    rival = _best_rival(campaign, at, one, two, top)
    if rival:
        text += f"; {rival}"
    used = at[at["configuration"].isin([one, two]) & (at["client"] == top["client"])]
    compared = common.comparison(campaign, (two, one))
    return Statement(
        id=name,
        sentence=f"{text}. {_differing(compared)}",
        metric=_RATE,
        value=float(top["ratio"]),
        unit="ratio",
        n=int(used["n_ok"].sum()),
        n_of="requests",
        low=float(found["ratio"].min()),
        high=float(found["ratio"].max()),
        interval="range over concurrencies, one run each: no interval",
        runs=tuple(top["runs"]),
        figure="matched-decode",
        would_change="the same two with equal slots in all, at an equal running batch",
        verdict=slot or abs(top["ratio"] - 1) < _EQUAL,
        rank=24,
        marks=common.marks(campaign, (two, one)),
    )


def _best_rival(campaign: Campaign, at: pd.DataFrame, one: str, two: str, top: pd.Series) -> str:
    """Another configuration that shares the first's deployment and does better there."""
    first = campaign.manifest.configuration(one)
    same = at[(at["client"] == top["client"]) & (at["osl"] == top["osl"])]
    best = ""
    high = float(top["candidate"]) * (1 + _EQUAL)
    for row in same.to_dict("records"):
        c = campaign.manifest.configuration(row["configuration"])
        if c is None or first is None or c.name in (one, two) or c.nodes != first.nodes:
            continue
        if row[_RATE] > high:
            high = row[_RATE]
            best = (
                f"{c.label} reaches {words.times(row[_RATE] / float(top['baseline']), 3)} "
                "that rate, "
                f"with {words.number(row['running_batch'])} running"
            )
    return best
