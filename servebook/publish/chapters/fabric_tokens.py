"""Bytes on the wire per token, and what came in against what went out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.run_bytes import above_idle, run_totals
from servebook.publish import theme, words
from servebook.publish.chapters.common import label, marks, memo
from servebook.publish.chapters.fabric_base import (
    colour,
    evidence,
    measured,
    named,
    nothing,
    ordered,
    run_words,
    way,
)
from servebook.publish.charts.fabric_balance import balance
from servebook.publish.charts.fabric_tokens import per_token
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["bytes_per_token", "cost", "in_and_out"]

_BASIS = {
    "input": "fabric_tokens.input",
    "output": "fabric_tokens.output",
    "total": "fabric_tokens.total",
}


@memo
def _totals(campaign: Campaign) -> pd.DataFrame:
    """Every run with its busier direction first; empty without counters."""
    fabric = measured(campaign)
    if fabric is None:
        return pd.DataFrame()
    found = run_totals(fabric.tokens)
    return ordered(campaign, found.sort_values(["bytes", "direction"], kind="stable")[::-1])


def _busier(totals: pd.DataFrame) -> pd.DataFrame:
    known = totals.dropna(subset=["gross"])
    return known.drop_duplicates("run_id", keep="first").reset_index(drop=True)


def bytes_per_token(campaign: Campaign) -> Figure:
    """Link bytes per token, gross and net of idle, per run and per workload."""
    name = "fabric-bytes-per-token"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_tokens.bytes_per_token.bytes_token_counters"))
    totals = _totals(campaign)
    runs = _busier(totals) if len(totals) else totals
    if runs.empty:
        return nothing(
            name, say("fabric_tokens.bytes_per_token.bytes_token_run"), say("fabric_tokens.none")
        )
    rows = _rows(campaign, runs)
    dots = _dots(campaign, runs)
    title = _title(rows)
    return Figure(
        id=name,
        title=title,
        subtitle=say("fabric_tokens.bytes_per_token.subtitle"),
        chart=per_token(dots, rows, say("fabric_tokens.bytes_per_token.chart")),
        table=_table(campaign, totals),
        alt=f"{title}. "
        + " ".join(
            say("fabric_tokens.bytes_per_token.alt", label=r["label"], per=r["per"], text=r["text"])
            for r in rows.to_dict("records")
        ),
        source=evidence(campaign, fabric.tokens),
        runs=tuple(sorted(runs["run_id"])),
        notes=_notes(runs),
    )


def _rows(campaign: Campaign, runs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    keys = ["workload", "configuration", "basis"]
    for (workload, configuration, basis), group in runs.groupby(keys, sort=False, dropna=False):
        tokens = float(group["tokens"].sum())
        gross = float(group["bytes"].sum()) / tokens
        idle = float(group["idle_bytes"].sum(skipna=False))
        net = above_idle(float(group["bytes"].sum()), idle) / tokens
        best = net if net > 0 else np.nan
        rows.append(
            {
                "row": f"{workload}\t{configuration}\t{basis}",
                "workload": workload,
                "basis": basis,
                "label": f"{workload} · {label(campaign, named(configuration))} "
                f"({words.count(len(group), 'run')})",
                "per": say(_BASIS[str(basis)]),
                "total": best,
                "gross": gross,
                "net": net,
                "text": _row_words(gross, net),
            }
        )
    return pd.DataFrame(rows)


def _row_words(gross: float, net: float) -> str:
    if np.isnan(net):
        return say("fabric_tokens.row_words.idle_known", gross=words.bytes_size(gross))
    if net < 0 or words.number(gross) == words.number(net):
        return words.bytes_size(gross)
    (less, unit), (all_of_it, whole) = (words.bytes_size(v).split(" ") for v in (net, gross))
    # One unit said once: on a narrow screen every letter counts.
    return say(
        "fabric_tokens.row_words.net_gross",
        less=less,
        unit=unit,
        all_of_it=all_of_it,
        text="" if unit == whole else " " + whole,
    )


def _dots(campaign: Campaign, runs: pd.DataFrame) -> pd.DataFrame:
    dots = [
        {
            "row": f"{run['workload']}\t{run['configuration']}\t{run['basis']}",
            "kind": kind,
            "value": run[kind],
            "colour": colour(campaign, named(run["configuration"])),
            "tip": f"{run_words(campaign, run)}: {words.bytes_size(run[kind])} {words.told(kind)}",
        }
        for run in runs.to_dict("records")
        for kind in ("gross", "net")
        if run[kind] > 0
    ]
    return pd.DataFrame(dots, columns=["row", "kind", "value", "colour", "tip"])


def _title(rows: pd.DataFrame) -> str:
    value = _best(rows)
    by = {b: value[rows["basis"] == b] for b in ("input", "output", "total")}
    names = {
        "input": say("fabric_tokens.title.input"),
        "output": say("fabric_tokens.title.output_decoded"),
        "total": say("fabric_tokens.title.total_mixed_run"),
    }
    lone = {
        "input": say("fabric_tokens.title.input"),
        "output": say("fabric_tokens.title.output_decoded_token"),
        "total": say("fabric_tokens.title.total_token"),
    }
    present = [basis for basis in by if len(by[basis])]
    names[present[0]] = lone[present[0]]
    told = [(names[b], words.bytes_span(by[b])) for b in present]
    first = say("fabric_tokens.title.first", told=told[0][0], told_2=told[0][1])
    return words.capital(words.listed([first, *(f"{what} {much}" for what, much in told[1:])]))


def _table(campaign: Campaign, totals: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Run": totals["run_id"],
            "Workload": totals["workload"],
            "Configuration": [label(campaign, named(c)) for c in totals["configuration"]],
            "Concurrency": totals["concurrency"],
            "Direction": [way(d) for d in totals["direction"]],
            "Links": totals["n_links"],
            "Bytes": totals["bytes"].round(),
            "Idle bytes in it": totals["idle_bytes"].round(),
            "Tokens": totals["tokens"],
            "Per": [say(_BASIS[b]) for b in totals["basis"]],
            "Gross (B/token)": totals["gross"],
            "Net of idle (B/token)": totals["net"],
            "Idle level steady": totals["idle_steady"],
            "Why not": totals["why"],
        }
    )


def _notes(runs: pd.DataFrame) -> tuple[str, ...]:
    notes = [say("fabric_tokens.shared")]
    if unsteady := int(_unsteady(runs).sum()):
        notes.append(
            say("fabric_tokens.notes.note_idle_level_steady", runs=words.count(unsteady, "run"))
        )
    if unknown := int(runs["net"].isna().sum()):
        notes.append(
            say("fabric_tokens.notes.note_idle_level_known", runs=words.count(unknown, "run"))
        )
    return tuple(notes)


def _unsteady(runs: pd.DataFrame) -> pd.Series[bool]:
    """Runs whose idle level is known, but moves: something else used the links."""
    return runs["net"].notna() & ~runs["idle_steady"].astype(bool)


def cost(campaign: Campaign) -> Statement:
    """Bytes per token by workload, as a sentence."""
    name = "fabric-cost"
    totals = _totals(campaign)
    runs = _busier(totals) if len(totals) else totals
    if runs.empty:
        why = (
            say("fabric_tokens.cost.why_holds_byte_counters")
            if totals.empty
            else say("fabric_tokens.cost.why_run_watched_throughout")
        )
        return Statement(
            id=name,
            sentence=say("fabric_tokens.cost.sentence_bytes_token_known", why=why),
            marks=marks(campaign),
        )
    rows = _rows(campaign, runs)
    ratio = _decode_over_prefill(rows)
    sentence = (
        say("fabric_tokens.cost.sentence_net_idle", title=_title(rows))
        if (rows["net"] > 0).all()
        else _title(rows)
    )
    if ratio is not None:
        sentence += say("fabric_tokens.cost.sentence_decode_moves_bytes", ratio=words.times(ratio))
    if unsteady := int(_unsteady(runs).sum()):
        sentence += say(
            "fabric_tokens.cost.sentence_rough_something_else",
            unsteady=unsteady,
            runs=words.count(len(runs), "run"),
        )
    spread = _spread(runs, ratio is not None)
    return Statement(
        id=name,
        sentence=sentence + ".",
        metric="bytes per token, decode over prefill" if ratio is not None else "bytes per token",
        value=ratio if ratio is not None else float(_best(rows).median()),  # as in the sentence
        unit="ratio" if ratio is not None else "B/token",
        n=len(runs),
        n_of="runs",
        low=spread[0],
        high=spread[1],
        interval=say("fabric_tokens.cost.interval_range_pairs_runs")
        if ratio is not None
        else say("fabric_tokens.cost.interval_range_runs"),
        runs=tuple(sorted(runs["run_id"])),
        figure="fabric-bytes-per-token",
        would_change=say("fabric_tokens.cost.would_change"),
        verdict=True,
        rank=65,
        marks=marks(campaign),
    )


def _best(rows: pd.DataFrame) -> pd.Series[Any]:
    """Net of idle where that is known and positive in all rows, else gross for all: one kind."""
    return rows["net"] if (rows["net"] > 0).all() else rows["gross"]


def _spread(runs: pd.DataFrame, ratio: bool) -> tuple[float, float]:
    """Least and most: of the bytes per token, or of decode over prefill in any pair of runs."""
    value = _best(runs)
    if not ratio:
        return float(value.min()), float(value.max())
    decode, prefill = (value[runs["basis"] == basis] for basis in ("output", "input"))
    return float(decode.min() / prefill.max()), float(decode.max() / prefill.min())


def _decode_over_prefill(rows: pd.DataFrame) -> float | None:
    """Bytes per output token over bytes per input token, medians over the configurations."""
    value = _best(rows)
    decode, prefill = (value[rows["basis"] == basis] for basis in ("output", "input"))
    if decode.empty or prefill.empty or not prefill.median() > 0:
        return None
    return float(decode.median() / prefill.median())


def in_and_out(campaign: Campaign) -> Figure:
    """Bytes into the ports against bytes out of them, per place and workload."""
    name = "fabric-in-and-out"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_tokens.in_and_out.against_counters"))
    frame = fabric.tokens
    keys = ["workload", "configuration", "place", "scope"]
    rows = []
    for (workload, configuration, place, scope), group in ordered(campaign, frame).groupby(
        keys, sort=False, dropna=False
    ):
        both = {d: float(g["bytes"].sum()) for d, g in group.groupby("direction", sort=True)}
        if set(both) == {"rx", "tx"}:
            rows.append(
                {
                    "workload": workload,
                    "configuration": named(configuration),
                    "place": place if scope == "port" else f"{place} ({scope})",
                    "rx": both["rx"],
                    "tx": both["tx"],
                    "runs": sorted(set(group["run_id"])),
                }
            )
    if not rows:
        return nothing(
            name,
            say("fabric_tokens.in_and_out.against_link_counted"),
            say("fabric_tokens.in_and_out.counters_hold_direction"),
        )
    return _balance_figure(campaign, name, rows)


def _balance_figure(campaign: Campaign, name: str, rows: list[dict[str, Any]]) -> Figure:
    top = max(max(row["rx"], row["tx"]) for row in rows)
    unit, size = next(
        ((u, s) for u, s in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if top >= s),
        ("B", 1.0),
    )
    ratios = [row["tx"] / row["rx"] for row in rows if row["rx"] > 0]
    drawn = pd.DataFrame(
        [
            {
                "row": f"{row['workload']}\t{row['configuration']}\t{row['place']}",
                "label": f"{row['workload']} · {label(campaign, row['configuration'])} · "
                f"{row['place']}",
                "received": -row["rx"] / size,
                "sent": row["tx"] / size,
                "colour": colour(campaign, row["configuration"])
                if row["configuration"]
                else theme.CONTEXT,
                "text": words.factor(row["tx"] / row["rx"], 3) if row["rx"] > 0 else "",
                "tip": say(
                    "fabric_tokens.balance_figure.tip",
                    rx=words.bytes_size(row["rx"]),
                    tx=words.bytes_size(row["tx"]),
                ),
            }
            for row in rows
        ]
    )
    title = _balance_title(ratios)
    n = len({run for row in rows for run in row["runs"]})
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "fabric_tokens.balance_figure.subtitle",
            runs=words.count(n, "run"),
            sees=say("fabric_base.sees"),
        ),
        chart=balance(drawn, unit, limit=top / size * 1.2),
        table=pd.DataFrame(
            [
                {
                    "Workload": row["workload"],
                    "Configuration": label(campaign, row["configuration"]),
                    "Place": row["place"],
                    "Runs": len(row["runs"]),
                    f"In ({unit})": row["rx"] / size,
                    f"Out ({unit})": row["tx"] / size,
                    "Out over in": row["tx"] / row["rx"] if row["rx"] > 0 else np.nan,
                }
                for row in rows
            ]
        ),
        alt=f"{title}. " + " ".join(f"{d['label']}: {d['tip']}." for d in drawn.to_dict("records")),
        source=say(
            "fabric_tokens.balance_figure.source",
            provenance=words.told(campaign.manifest.provenance),
        ),
        runs=tuple(sorted({run for row in rows for run in row["runs"]})),
        notes=(say("fabric_tokens.equal"),)
        if ratios and max(abs(r - 1) for r in ratios) < 0.01
        else (),
    )


def _balance_title(ratios: list[float]) -> str:
    if not ratios:
        return say("fabric_tokens.balance_title.nothing_came_while")
    far = max(ratios, key=lambda r: abs(np.log(r)) if r > 0 else np.inf)
    if abs(far - 1) < 1e-9:
        return say("fabric_tokens.balance_title.exactly_much_went")
    if abs(far - 1) < 0.01:
        return say("fabric_tokens.balance_title.much_went_came", far=words.percent(abs(far - 1)))
    low, high = min(ratios), max(ratios)
    if words.number(low) == words.number(high):
        return say(
            "fabric_tokens.balance_title.much_went_ports", high=words.capital(words.times(high, 3))
        )
    return say("fabric_tokens.balance_title.times_much_went", ratios=words.span(ratios))
