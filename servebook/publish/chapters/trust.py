"""Chapter 02: may these numbers be believed? Isolation, failures, accounting, clients, load."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure import trust
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.trust_clients import (
    AGREEMENT,
    clients,
    compared,
    own_against_native,
)
from servebook.publish.chapters.trust_load import clocks, load_held
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = [
    "accounting",
    "clients",
    "clocks",
    "failures",
    "isolation",
    "load_held",
    "own_against_native",
    "verdict",
]

_RULE = (
    "ok: the client recorded no error and a token count. failed: it recorded an error. stream "
    "error: it calls the request a success, but no token count came (an error inside the stream). "
    "cancelled: the client cut it off. lost: sent, but without a record."
)


def isolation(campaign: Campaign) -> Figure:
    """Whether prefill runs held no decode and decode runs all of theirs."""
    found = trust.isolation(campaign.tables, common.metrics(campaign))
    if found.empty:
        return Figure(
            id="trust-isolation",
            title="Isolation of workloads",
            missing="This campaign has neither a prefill nor a decode run to check.",
        )
    broken = found[found["holds"].eq(False).fillna(False)]
    unknown = found[found["holds"].isna()]
    parts = []
    for kind, said in (
        ("prefill", "no prefill run has an inter-token gap"),
        ("decode", "every decode run produced exactly the tokens asked for"),
    ):
        rows = found[found["workload"] == kind]
        bad = rows["holds"].eq(False).fillna(False)
        if bad.any():
            parts.append(
                f"{bad.sum()} of {words.count(len(rows), f'{kind} run')} "
                + ("hold inter-token gaps" if kind == "prefill" else "missed the tokens asked for")
            )
        elif len(rows) and rows["holds"].notna().all():
            parts.append(said)
    title = (
        words.capital("; ".join(parts)) if parts else "Isolation cannot be checked from the dumps"
    )
    return Figure(
        id="trust-isolation",
        title=title,
        subtitle=(
            f"{words.count(len(found), 'run')} checked: {len(broken)} broken, {len(unknown)} where "
            "the dump does not say what was asked for."
        ),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "holds": [
                    words.UNKNOWN if pd.isna(h) else "yes" if h else "no" for h in found["holds"]
                ],
                "expected": found["expected_value"],
                "found": found["found_value"],
                "check": found["expected"],
                "ok requests": found["n_ok"],
                "requests in flight": found["concurrency"],
                "workload": found["workload"],
                "configuration": common.labels(campaign, found["configuration"]),
            }
        ),
        source=common.records_of(campaign, len(found)),
        runs=tuple(sorted(found["run_id"])),
    )


_KINDS = {
    "ok": "#d9d9d9",
    "failed": theme.ALARM,
    "stream_error": "#EF8A62",
    "cancelled": "#8a8a8a",
    "lost": "#333333",
}
_KIND_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "stream_error": "stream errors",
    "cancelled": "cancelled",
    "lost": "lost",
}


def failures(campaign: Campaign) -> Figure:
    """How failed, stream-error, cancelled and lost requests were told apart, per run."""
    table = common.metrics(campaign)
    found = trust.failures(campaign.tables, table)
    bad = found[found["counted_as"] != "ok"]
    total, n_bad = common.counted(table)["n_requests"].sum(), int(bad["n"].sum())
    rules = [
        _RULE,
        "Short outputs (fewer tokens than asked for) stay ok and are counted in the table.",
    ]
    unknown_lost = int(table["n_lost"].isna().sum())
    if unknown_lost:
        rules.append(
            f"{words.count(unknown_lost, 'run')} cannot tell lost requests: their dumps do not say "
            "how many were sent."
        )
    if untold := len(table) - len(common.counted(table)):
        rules.append(
            f"{words.count(untold, 'run')} cannot tell how many requests there were, or how many "
            "of them were ok."
        )
    shown = pd.DataFrame(
        {
            "run": found["run_id"],
            "configuration": common.labels(campaign, found["configuration"]),
            "kind": found["kind"].str.replace("_", " "),
            "requests": found["n"],
            "share of the run (%)": 100 * found["share"],
            "counted as": found["counted_as"],
            "meaning": found["meaning"],
        }
    )
    if bad.empty:
        return Figure(
            id="trust-failures",
            title=f"No request failed, was cancelled or got lost, of {total:,.0f}"
            if total
            else "Which requests failed is not known",
            table=shown if len(shown) else None,
            missing="" if len(shown) else "There is no failed, cancelled or lost request to list.",
            source=common.dumps_of(campaign, table["run_id"]),
            runs=tuple(sorted(table["run_id"])),
            notes=tuple(rules),
        )
    parts = []
    for run in table[table["run_id"].isin(bad["run_id"])].to_dict("records"):
        own = bad[bad["run_id"] == run["run_id"]]
        counts = dict.fromkeys(_KINDS, 0.0)
        counts["ok"] = run["n_ok"]
        for row in own.to_dict("records"):
            key = row["kind"] if row["kind"] == "stream_error" else row["counted_as"]
            counts[key] += row["n"]
        whole = sum(counts.values())
        said = ", ".join(f"{n:.0f} {_KIND_WORDS[kind]}" for kind, n in counts.items() if n)
        start = 0.0
        for kind, n in counts.items():
            if n and whole:
                parts.append(
                    {
                        "row": run["run_id"],
                        "label": f"{str(run['run_id']).removeprefix('raw/')}: {said}",
                        "part": _KIND_WORDS[kind],
                        "start": start / whole,
                        "end": (start + n) / whole,
                        "colour": _KINDS[kind],
                        "tip": f"{n:.0f} of {whole:.0f}",
                    }
                )
                start += n
    n_runs = bad["run_id"].nunique()
    title = (
        f"{words.capital(words.count(n_bad, 'request'))} of {total:,.0f} did not succeed, in "
        f"{words.count(n_runs, 'run', spelled=True)}: "
        + words.listed(
            f"{n} {str(kind).replace('_', ' ')}"
            for kind, n in bad.groupby("kind", sort=True)["n"].sum().items()
        )
    )
    return Figure(
        id="trust-failures",
        title=title,
        subtitle=(
            "Runs with such requests only. Runs in which more than 1 % failed are left out of all "
            "comparisons; their latencies are those of other work."
        ),
        chart=of_a_whole(pd.DataFrame(parts), "share of the run's requests, lost ones included"),
        table=shown,
        alt=f"{title}. " + " ".join(f"{p}." for p in dict.fromkeys(q["label"] for q in parts)),
        source=common.dumps_of(campaign, table["run_id"]),
        runs=tuple(sorted(set(bad["run_id"]))),
        notes=tuple(rules),
    )


def accounting(campaign: Campaign) -> Figure:
    """Records in = used + set aside, per file; files refused with their reasons."""
    found = trust.accounting(campaign.tables)
    refused = campaign.tables.refused.to_pandas()
    used, aside = int(found["n_used"].sum()), int(found["n_set_aside"].sum())
    rows = pd.DataFrame(
        {
            "file": [*found["path"], *refused["path"]],
            "records in": [*found["n_in"], *([np.nan] * len(refused))],
            "used": [*found["n_used"], *([np.nan] * len(refused))],
            "of these warm-up": [*found["n_warmup"], *([np.nan] * len(refused))],
            "set aside": [*found["n_set_aside"], *([np.nan] * len(refused))],
            "reason": [
                *("; ".join(r) for r in found["reasons"]),
                *("file refused: " + refused["reason"]),
            ],
        }
    )
    title = (
        f"{used + aside:,} records in = {used:,} used + {aside:,} set aside"
        if aside
        else f"All {used:,} records were used; none was set aside"
    )
    title += f"; {words.count(len(refused), 'file')} refused" if len(refused) else ""
    return Figure(
        id="trust-accounting",
        title=title,
        subtitle="Requests of all phases. Warm-up is read and kept out of the metrics.",
        table=rows,
        source=common.dumps_of(campaign, common.metrics(campaign)["run_id"]),
        runs=tuple(sorted(common.metrics(campaign)["run_id"])),
    )


def verdict(campaign: Campaign) -> Statement:
    """May the numbers be believed, in one sentence."""
    table = common.metrics(campaign)
    checks = trust.isolation(campaign.tables, table)
    broken = int(checks["holds"].eq(False).fillna(False).sum())
    own = compared(campaign)
    same = own[own["same_definition"] & own["deviation"].notna()]
    off = int((same["deviation"].abs() > AGREEMENT).sum())
    failed = int((table["n_failed"].fillna(0) + table["n_cancelled"].fillna(0)).sum())
    lost = int(table["n_lost"].fillna(0).sum())
    told = common.counted(table)
    total = int(told["n_requests"].sum())
    parts = []
    met = len(same) - off
    share = "all" if not off else f"{met:,} of"
    if len(same):
        parts.append(
            f"{share} {len(same):,} rates and latencies that share a definition with ours are met "
            f"to {words.percent(AGREEMENT, 1)} by the clients' own summaries"
        )
    else:
        parts.append("no client figure of one definition exists to compare with")
    held = int(checks["holds"].eq(True).fillna(False).sum())
    if broken:
        parts.append(f"isolation is broken in {broken} of {words.count(len(checks), 'run')}")
    elif held:
        parts.append(f"{words.count(held, 'prefill and decode run')} did only what their name says")
    succeeded = total - failed
    parts.append(
        f"{succeeded:,} of {total + lost:,} requests succeeded"
        if failed + lost
        else f"all {total:,} requests succeeded"
        if total
        else "how many requests succeeded is not known"
    )
    if total and len(told) < len(table):
        parts.append(f"{words.count(len(table) - len(told), 'run')} cannot tell")
    return Statement(
        id="trust-verdict",
        sentence=words.capital("; ".join(parts)) + ".",
        metric="deviation" if len(same) else "n_requests",
        value=float(met) if len(same) else float(succeeded),
        unit="figures" if len(same) else "requests",
        caption=(
            f"of {len(same):,} client figures met" if len(same) else f"of {total + lost:,} requests"
        ),
        n=len(table),
        n_of="runs",
        interval="no interval: a count",
        runs=tuple(sorted(table["run_id"])),
        figure="trust-native",
        would_change="a dump in which the client's own summary contradicts its records",
        verdict=True,
        # A reconstruction agrees with itself: there it says little.
        rank=35 if campaign.manifest.provenance == "measured" else 60,
        marks=(*common.marks(campaign), "NO COMPARISON"),
    )
