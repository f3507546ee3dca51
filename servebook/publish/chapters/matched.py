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
from servebook.publish.text import say
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
        return common.absent(campaign, name, say("matched.matched.decode_equal_running"), "decode")
    unit = "output tokens/s"
    if per_gpu:
        gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
        count = rows["configuration"].map(gpus)
        if count.isna().any():
            return Figure(
                id=name,
                title=say("matched.matched.title"),
                missing=say("matched.matched.missing"),
            )
        unit = "output tokens/s per GPU"
        for column in (_RATE, f"{_RATE}_low", f"{_RATE}_high", "running_batch"):
            rows[column] = rows[column] / count.astype(float)
    held = rows["running_batch"] * (rows["configuration"].map(gpus) if per_gpu else 1)
    waiting = rows[(held / rows["concurrency"]) < _FULL]
    title = _title(rows, per_gpu)
    per = say("matched.matched.per") if per_gpu else ""
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "matched.matched.subtitle",
            condition_words=condition_words(rows),
            evidence=evidence(campaign, rows),
        ),
        chart=over_concurrency(
            points(rows, _RATE, unit, x="running_batch"),
            say("matched.matched.chart", unit=words.unit(unit)),
            x_title=say("matched.matched.x_title", per=per),
            y_format=",~g",
        ),
        table=common.table(
            rows,
            [
                ("name", "configuration"),
                ("concurrency", "requests in flight"),
                ("running_batch", "running batch per GPU" if per_gpu else "running batch"),
                (_RATE, unit),
                ("tpot_mean_ms", "TPOT mean (ms)"),
                ("n_ok", "ok requests"),
                ("n_runs", "runs"),
            ],
        ),
        alt=f"{title}. "
        + " ".join(
            say(
                "matched.matched.alt",
                name=r["name"],
                concurrency=r["concurrency"],
                running_batch=words.number(r["running_batch"]),
                per=per,
                r=words.number(r[_RATE]),
                unit=words.unit(unit),
            )
            for r in rows.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=tuple(
            say(
                "matched.matched.note",
                name=r["name"],
                h=words.number(h),
                concurrency=r["concurrency"],
                slots=_slots(campaign, r["configuration"]),
            )
            for r, h in zip(waiting.to_dict("records"), held[waiting.index], strict=True)
        ),
    )


def _slots(campaign: Campaign, name: str) -> str:
    c = campaign.manifest.configuration(name)
    if c is None or c.max_num_seqs is None:
        return say("matched.slots.manifest_states_slots")
    replicas = c.dp or 1
    if replicas == 1:
        return say("matched.slots.slots", max_num_seqs=c.max_num_seqs)
    total = c.max_num_seqs * replicas
    return say(
        "matched.slots.slots_replicas", max_num_seqs=c.max_num_seqs, replicas=replicas, total=total
    )


def _title(rows: pd.DataFrame, per_gpu: bool) -> str:
    """The factors between two configurations wherever their batches are nearly equal."""
    unit = say("matched.matched.per") if per_gpu else ""
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
        factors = words.listed(
            say("matched.title.factors", r=words.number(r, 3), b=b) for b, r in told.items()
        )
        return say(
            "matched.title.equal_running_batch",
            unit=words.unit(unit),
            one=one,
            factors=factors,
            two=two,
        )
    if not common.several(rows["configuration"]):
        batches = words.span(rows["running_batch"])
        return say(
            "matched.title.configuration_decodes_running", batches=batches, unit=words.unit(unit)
        )
    return say("matched.title.configurations_decode_lengths", unit=words.unit(unit))


def _differing(compared: Comparison) -> str:
    """What the two differ in; how comparable that makes them says the mark beside the sentence."""
    return words.capital(f"{common.difference(compared, of_ratio=False)}.")


def parity(campaign: Campaign) -> Statement:
    """Whether an equal decode rate is one of equal engines, or of unequal slots, as a verdict."""
    name = "matched-parity"
    pair = (campaign.manifest.candidate, campaign.manifest.baseline)
    every = plain(campaign)
    if pair[0] is None or pair[1] is None:
        return Statement(
            id=name,
            sentence=say("matched.parity.sentence_manifest_names_pair"),
            marks=common.marks(campaign),
        )
    one, two = pair[0], pair[1]
    found = ratios(every, "decode", _RATE, one, two)
    labels = [common.label(campaign, n) for n in (one, two)]
    if found.empty:
        return Statement(
            id=name,
            sentence=say(
                "matched.parity.sentence_share_decode_condition",
                labels=labels[0],
                labels_2=labels[1],
            ),
            marks=common.marks(campaign),
        )
    top = found.iloc[-1]
    at = every[(every["workload"] == "decode") & (every["concurrency"] == top["concurrency"])]
    batch = at.set_index(["configuration", "client"])["running_batch"]
    held = [float(batch.loc[(n, top["client"])]) for n in (one, two)]
    below = found[found["concurrency"] < top["concurrency"]]
    text = say(
        "matched.parity.flight_decodes",
        concurrency=top["concurrency"],
        labels=labels[0],
        ratio=words.times(top["ratio"]),
    )
    text += say("matched.parity.fast", labels=labels[1])
    more = []
    if len(below):
        lower = words.listed(str(c) for c in below["concurrency"])
        more.append(say("matched.parity.times", ratio=words.span(below["ratio"], 2), lower=lower))
    apart = max(held) / min(held)
    slot = apart > 1 / _FULL
    if slot:
        text += say(
            "matched.parity.slot_effect_requests",
            held=words.number(held[0]),
            held_2=words.number(held[1]),
        )
    else:
        text += say("matched.parity.requests_running_both", held=words.span(held))
    rival = _best_rival(campaign, at, one, two, top)
    more += [rival] if rival else []
    used = at[at["configuration"].isin([one, two]) & (at["client"] == top["client"])]
    compared = common.comparison(campaign, (two, one))
    return Statement(
        id=name,
        sentence=f"{text}.",
        more=" ".join([*more, _differing(compared)]),
        metric=_RATE,
        value=float(top["ratio"]),
        unit="ratio",
        n=int(used["n_ok"].sum()),
        n_of="requests",
        low=float(found["ratio"].min()),
        high=float(found["ratio"].max()),
        interval=say("shared.range_over_concurrencies_one_run_each"),
        runs=tuple(top["runs"]),
        figure="matched-decode",
        would_change=say("matched.parity.would_change"),
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
            best = say(
                "matched.best_rival.best",
                c=c.label,
                row=words.times(row[_RATE] / float(top["baseline"]), 3),
                running_batch=words.number(row["running_batch"]),
            )
    return best
