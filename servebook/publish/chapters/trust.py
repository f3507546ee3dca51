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
from servebook.publish.text import say
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


def isolation(campaign: Campaign) -> Figure:
    """Whether prefill runs held no decode and decode runs all of theirs."""
    found = trust.isolation(campaign.tables, common.metrics(campaign))
    if found.empty:
        return Figure(
            id="trust-isolation",
            title=say("trust.isolation.title_isolation_workloads"),
            missing=say("trust.isolation.missing"),
        )
    broken = found[found["holds"].eq(False).fillna(False)]
    unknown = found[found["holds"].isna()]
    parts = []
    for kind, said in (
        ("prefill", say("trust.isolation.prefill_run_inter")),
        ("decode", say("trust.isolation.every_decode_run")),
    ):
        rows = found[found["workload"] == kind]
        bad = rows["holds"].eq(False).fillna(False)
        if bad.any():
            parts.append(
                say("trust.isolation.of", bad=bad.sum(), runs=words.count(len(rows), f"{kind} run"))
                + (
                    say("trust.isolation.hold_inter_token")
                    if kind == "prefill"
                    else say("trust.isolation.missed_tokens_asked")
                )
            )
        elif len(rows) and rows["holds"].notna().all():
            parts.append(said)
    title = (
        words.capital("; ".join(parts))
        if parts
        else say("trust.isolation.title_isolation_cannot_checked")
    )
    return Figure(
        id="trust-isolation",
        title=title,
        subtitle=say(
            "trust.isolation.subtitle",
            runs=words.count(len(found), "run"),
            n_broken=len(broken),
            n_unknown=len(unknown),
        ),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "holds": [
                    words.unknown()
                    if pd.isna(h)
                    else say("trust.isolation.holds_yes")
                    if h
                    else say("trust.isolation.holds_no")
                    for h in found["holds"]
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
    "ok": "trust.kinds.ok",
    "failed": "trust.kinds.failed",
    "stream_error": "trust.kinds.stream_error",
    "cancelled": "trust.kinds.cancelled",
    "lost": "trust.kinds.lost",
}


def _named(kind: str) -> str:
    """A kind of failure as people write it: "HTTP 500", "stream broken"."""
    return kind.replace("_", " ").replace("http ", "HTTP ", 1)


def failures(campaign: Campaign) -> Figure:
    """How failed, stream-error, cancelled and lost requests were told apart, per run."""
    table = common.metrics(campaign)
    found = trust.failures(campaign.tables, table)
    bad = found[found["counted_as"] != "ok"]
    total, n_bad = common.counted(table)["n_requests"].sum(), int(bad["n"].sum())
    rules = [
        say("trust.rule"),
        say("trust.failures.rules"),
    ]
    unknown_lost = int(table["n_lost"].isna().sum())
    if unknown_lost:
        rules.append(
            say("trust.failures.rule_cannot_tell_lost", runs=words.count(unknown_lost, "run"))
        )
    if untold := len(table) - len(common.counted(table)):
        rules.append(say("trust.failures.rule_cannot_tell_many", runs=words.count(untold, "run")))
    shown = pd.DataFrame(
        {
            "run": found["run_id"],
            "configuration": common.labels(campaign, found["configuration"]),
            "kind": found["kind"].map(_named),
            "requests": found["n"],
            "share of the run (%)": 100 * found["share"],
            "counted as": found["counted_as"],
            "meaning": found["meaning"],
        }
    )
    if bad.empty:
        return Figure(
            id="trust-failures",
            title=say("trust.failures.title_request_failed_cancelled", total=total)
            if total
            else say("trust.failures.title_requests_failed_known"),
            table=shown if len(shown) else None,
            missing="" if len(shown) else say("trust.failures.missing"),
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
        said = ", ".join(f"{n:.0f} {say(_KIND_WORDS[kind])}" for kind, n in counts.items() if n)
        start = 0.0
        for kind, n in counts.items():
            if n and whole:
                parts.append(
                    {
                        "row": run["run_id"],
                        "label": f"{str(run['run_id']).removeprefix('raw/')}: {said}",
                        "part": say(_KIND_WORDS[kind]),
                        "start": start / whole,
                        "end": (start + n) / whole,
                        "colour": _KINDS[kind],
                        "tip": say("trust.failures.tip", n=n, whole=whole),
                    }
                )
                start += n
    n_runs = bad["run_id"].nunique()
    title = say(
        "trust.failures.title_succeed",
        requests=words.capital(words.count(n_bad, "request")),
        total=total,
        runs=words.count(n_runs, "run", spelled=True),
    ) + words.listed(
        f"{n:,} {words.told(_named(str(kind)))}"
        for kind, n in bad.groupby("kind", sort=True)["n"].sum().items()
    )
    return Figure(
        id="trust-failures",
        title=title,
        subtitle=say("trust.failures.subtitle"),
        chart=of_a_whole(pd.DataFrame(parts), say("trust.failures.chart")),
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
                *(
                    say("trust.accounting.reason") + words.told(reason)
                    for reason in refused["reason"]
                ),
            ],
        }
    )
    title = (
        say("trust.accounting.title_records_used_set", used=used + aside, used_2=used, aside=aside)
        if aside
        else say("trust.accounting.title_records_used_none", used=used)
    )
    title += (
        say("trust.accounting.title_refused", files=words.count(len(refused), "file"))
        if len(refused)
        else ""
    )
    return Figure(
        id="trust-accounting",
        title=title,
        subtitle=say("trust.accounting.subtitle"),
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
    share = say("trust.verdict.share", met=met) if off else say("trust.verdict.all")
    if len(same):
        parts.append(
            say(
                "trust.verdict.rates_latencies_share",
                share=share,
                n_same=len(same),
                agreement=words.percent(AGREEMENT, 1),
            )
        )
    else:
        parts.append(say("trust.verdict.client_figure_definition"))
    held = int(checks["holds"].eq(True).fillna(False).sum())
    if broken:
        parts.append(
            say(
                "trust.verdict.isolation_broken",
                broken=broken,
                runs=words.count(len(checks), "run"),
            )
        )
    elif held:
        parts.append(
            say(
                "trust.verdict.name_says",
                prefill_and_decode_runs=words.count(held, "prefill and decode run"),
            )
        )
    succeeded = total - failed
    parts.append(
        say("trust.verdict.requests_succeeded", succeeded=succeeded, total=total + lost)
        if failed + lost
        else say("trust.verdict.part_requests_succeeded", total=total)
        if total
        else say("trust.verdict.many_requests_succeeded")
    )
    if total and len(told) < len(table):
        parts.append(
            say("trust.verdict.cannot_tell", runs=words.count(len(table) - len(told), "run"))
        )
    return Statement(
        id="trust-verdict",
        sentence=words.capital("; ".join(parts)) + ".",
        metric="deviation" if len(same) else "n_requests",
        value=float(met) if len(same) else float(succeeded),
        unit="figures" if len(same) else "requests",
        caption=(
            say("trust.verdict.caption_client_figures_met", n_same=len(same))
            if len(same)
            else say("trust.verdict.caption_requests", total=total + lost)
        ),
        n=len(table),
        n_of="runs",
        interval=say("trust.verdict.interval"),
        runs=tuple(sorted(table["run_id"])),
        figure="trust-native",
        would_change=say("trust.verdict.would_change"),
        verdict=True,
        # A reconstruction agrees with itself: there it says little.
        rank=35 if campaign.manifest.provenance == "measured" else 60,
        marks=(*common.marks(campaign), say("trust.verdict.marks")),
    )
