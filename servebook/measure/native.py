"""The client's own summary beside ours: where it must agree, where it means something else.

Whether two figures share a definition is decided from what the client counts and what this run
holds (failed, cancelled and stream-error requests, the clock, the window that the client divides
by), never from whether the two numbers happen to agree. Where the definitions differ, the
client's definition is recomputed from our records too, as far as the records allow, so that the
difference is explained and not only excused.

Readers put the client's values into ``runs.native`` under our metric names and units (a second
figure that the client has of one metric as "tpot_mean_ms@its_name"), and beside them
``_definition``: what the client does, as a code per metric or family. The codes that several
clients share are the keys of ``CODES``; those of one client alone stand beside its reader, in
``Format.definitions`` (``servebook.read.definition``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.client_records import client_records
from servebook.measure.metrics import METRICS
from servebook.measure.once import once
from servebook.measure.runs import run_metrics
from servebook.read.definition import Definition, Records, family
from servebook.read.registry import FORMATS
from servebook.tables import Tables

__all__ = ["CODES", "WINDOW_TOLERANCE", "client_view", "compare", "native"]

#: Two windows of one client that differ by more than this (relative) are two definitions. The
#: client's own figures are exact to far more digits.
WINDOW_TOLERANCE = 1e-6

#: What a client does, by the code that its reader writes into ``_definition``.
CODES: Mapping[str, str] = {
    "valid_only": "the span of the requests that the client calls valid",
    "stopwatch_with_failures": "the client's stopwatch around sending and gathering all requests",
    "stream_errors_count_as_ok": "requests with an error inside the stream count as successes",
    "includes_cancelled": "cancelled requests count as failed",
    "no_error_recorded": "requests without an error text are successes",
    "mean_of_requests": "one value per request, as ours",
    "pooled_gaps": "all gaps pooled, as ours",
    "same": "as ours",
}
_COLUMNS = [
    "run_id",
    "metric",
    "variant",
    "ours",
    "native",
    "deviation",
    "same_definition",
    "reason",
    "theirs_recomputed",
    "theirs_deviation",
]


@dataclass(frozen=True)
class _Facts:
    """What a run holds that makes two definitions part, or not."""

    client: str
    clock: str
    level: str
    failed: int  # without the stream errors
    stream_errors: int
    cancelled: int
    native: Mapping[str, Any]
    codes: Mapping[str, str]
    definitions: Mapping[str, Definition]
    records: Callable[[], Records]

    def code(self, name: str) -> str:
        """By which code the client defines a metric, or a second figure ("tpot_mean_ms@its")."""
        _, at, variant = name.partition("@")
        return self.codes.get(name) or self.codes.get(at + variant or family(name)) or "same"

    @property
    def window_s(self) -> float | None:
        """What the client divides by, told by its own request count and request throughput."""
        count = _positive(self.native.get("n_ok"))
        rate = _positive(self.native.get("request_throughput_req_s"))
        return count / rate if count and rate else None

    @property
    def own_window(self) -> bool:
        """Whether that window is another one than the client's own duration."""
        duration, window = _positive(self.native.get("duration_s")), self.window_s
        return bool(duration and window and abs(window / duration - 1) > WINDOW_TOLERANCE)


def native(value: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The client's values and its definition codes from ``runs.native``; both may be empty."""
    content = json.loads(value) if isinstance(value, str) and value else {}
    codes = content.get("_definition") or {}
    return {k: v for k, v in content.items() if not k.startswith("_")}, dict(codes)


@once
def _by_client(tables: Tables) -> pd.DataFrame:
    return run_metrics(client_view(tables))


def compare(tables: Tables, metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run and metric that the client's summary holds, in the order of both.

    ``metrics`` is ``run_metrics(tables)``. Columns: run_id, metric, variant (what
    the client calls a second figure that it has of the metric, else ""), ours, native, deviation
    (ours / native - 1), same_definition (bool), reason (words where not the same, else ""),
    theirs_recomputed (the client's definition applied to our records; NaN where the definition is
    ours or the records do not allow it), theirs_deviation.
    """
    facts = _facts(tables)
    ours = {str(row["run_id"]): row for row in metrics.to_dict("records")}
    theirs = {str(row["run_id"]): row for row in _by_client(tables).to_dict("records")}
    rows = []
    for run_id, fact in facts.items():
        for name, value in fact.native.items():
            metric, _, variant = name.partition("@")
            if metric not in METRICS or metric not in metrics.columns or value is None:
                continue
            mine = float(ours[run_id][metric])
            reason = _reason(name, mine, float(value), fact)
            again = np.nan
            if reason and fact.level != "summary":
                again = _recomputed(name, theirs[run_id], fact)
            rows.append(
                {
                    "run_id": run_id,
                    "metric": metric,
                    "variant": variant,
                    "ours": mine,
                    "native": float(value),
                    "deviation": _deviation(mine, float(value)),
                    "same_definition": not reason,
                    "reason": reason,
                    "theirs_recomputed": again,
                    "theirs_deviation": _deviation(again, float(value)),
                }
            )
    return pd.DataFrame(rows, columns=_COLUMNS).astype({"same_definition": bool})


def client_view(tables: Tables) -> Tables:
    """The tables as a client sees them that counts stream errors as successes, valid ones only.

    Only runs with such a code are changed: the stream errors that the client took for successes
    become ok requests of no tokens, the other failed and cancelled requests go.
    """
    runs = tables.runs
    affected = [
        run
        for run, text in zip(runs["run_id"].to_pylist(), runs["native"].to_pylist(), strict=True)
        if _OWN_COUNTING & set(native(text)[1].values())
    ]
    if not affected:
        return tables
    requests = tables.requests
    in_scope = pc.is_in(requests["run_id"], value_set=pa.array(affected, pa.string()))
    stream = pc.and_(in_scope, _taken_for_ok(requests))
    ok = pc.fill_null(pc.equal(requests["status"], "ok"), False)
    if not pc.any(pc.and_(in_scope, pc.invert(ok))).as_py():
        return tables
    for name, value in (("status", pa.scalar("ok")), ("isl", _ZERO), ("osl", _ZERO)):
        column = pc.if_else(stream, value, requests[name])
        requests = requests.set_column(requests.column_names.index(name), name, column)
    requests = requests.filter(pc.or_(pc.or_(pc.invert(in_scope), stream), ok))
    return Tables(runs=runs, requests=requests, gaps=tables.gaps)


_ZERO = pa.scalar(0, pa.int64())
_OWN_COUNTING = {"valid_only", "stream_errors_count_as_ok", "no_error_recorded"}


def _taken_for_ok(requests: pa.Table) -> Any:
    """Stream errors that the client saw as successes: they kept their first token.

    One that the client recorded as an error has lost it.
    """
    stream = pc.fill_null(pc.equal(requests["error_kind"], "stream_error"), False)
    failed = pc.fill_null(pc.equal(requests["status"], "failed"), False)
    return pc.and_(pc.and_(stream, failed), pc.is_valid(requests["first_token_ns"]))


def _facts(tables: Tables) -> dict[str, _Facts]:
    requests = tables.requests
    profiling = requests.filter(pc.equal(requests["phase"], "profiling"))
    table = profiling.select(["run_id", "status"]).to_pandas()
    table["stream"] = _taken_for_ok(profiling).to_numpy()
    counted = {
        run: (
            int((group["status"].eq("failed") & ~group["stream"]).sum()),
            int(group["stream"].sum()),
            int(group["status"].eq("cancelled").sum()),
        )
        for run, group in table.groupby("run_id", sort=False)
    }
    facts = {}
    own = {form.name: form.definitions for form in FORMATS}
    records = client_records(tables)
    for run in tables.runs.select(
        ["run_id", "format", "client", "clock", "level", "native", "n_failed", "n_cancelled"]
    ).to_pylist():
        values, codes = native(run["native"])
        failed, stream, cancelled = counted.get(
            run["run_id"], (run["n_failed"] or 0, 0, run["n_cancelled"] or 0)
        )
        facts[run["run_id"]] = _Facts(
            client=run["client"] or "the client",
            clock=run["clock"] or "none",
            level=run["level"] or "records",
            failed=failed,
            stream_errors=stream,
            cancelled=cancelled,
            native=values,
            codes=codes,
            definitions=own.get(run["format"], {}),
            records=partial(records, run["run_id"]),
        )
    return facts


def _reason(name: str, ours: float, theirs: float, fact: _Facts) -> str:
    """Why the two are not the same quantity, in words; "" where they are."""
    if fact.level == "summary":
        return f"only {fact.client}'s summary exists: nothing was recomputed"
    own = fact.definitions.get(fact.code(name))
    if own is not None:
        records = fact.records()
        if own.differs(name.partition("@")[0], records):
            return own.words
    if np.isnan(ours):
        if theirs == 0:
            return f"no request has a value; {fact.client} writes 0 for that"
        return "the records do not hold what it is computed from"
    return "; ".join(dict.fromkeys(_reasons(name, fact)))


def _reasons(name: str, fact: _Facts) -> Iterator[str]:
    code = fact.code(name)
    rate = family(name) == "throughput"
    if code in fact.definitions:
        return
    if code not in CODES:
        yield f"{fact.client} defines it otherwise ({code})"
    if rate and fact.own_window and fact.window_s is not None:
        yield (
            f"{fact.client} divides by its phase of {fact.window_s:.6g} s, which also holds the "
            "time before the first request and after the last response; ours is the requests' span"
        )
    if code == "stopwatch_with_failures" and fact.clock != "none":
        yield (
            f"{fact.client}'s duration is a stopwatch that also holds sending and gathering; ours "
            "runs from the first start to the last end"
        )
    invalid = fact.failed + fact.cancelled
    if code == "valid_only" and invalid:
        yield (
            f"{fact.client} spans valid requests only; ours includes the {invalid:,} failed or "
            "cancelled ones"
        )
    counts_requests = name in ("request_throughput_req_s", "n_ok") or not (
        rate or family(name) in ("duration", "tpot")
    )
    as_ok = {"stream_errors_count_as_ok", "no_error_recorded"} & {code, fact.codes.get("n_ok")}
    if fact.stream_errors and as_ok and counts_requests:
        yield (
            f"{fact.client} counts the {fact.stream_errors:,} requests with an error inside the "
            "stream as successes"
        )
    if name == "n_failed" and code == "includes_cancelled" and fact.cancelled:
        yield f"{fact.client} counts the {fact.cancelled:,} cancelled requests as failed"


def _recomputed(name: str, theirs: Mapping[Any, Any], fact: _Facts) -> float:
    code = fact.code(name)
    if code in fact.definitions:
        return fact.definitions[code].recompute(name.partition("@")[0], fact.records())
    if name == "n_failed":
        return float(fact.failed + fact.cancelled)
    if family(name) == "duration" and code == "stopwatch_with_failures":
        return np.nan  # a stopwatch leaves no record
    value = float(theirs[name])
    if family(name) != "throughput":
        return value
    if code == "stopwatch_with_failures":
        window = _positive(fact.native.get("duration_s"))
    elif fact.own_window:
        window = fact.window_s
        if name == "request_throughput_req_s":
            # The window is inferred from this figure, which would only prove itself: here it is
            # the one that the client's output throughput tells.
            tokens = float(theirs["output_throughput_tok_s"]) * float(theirs["duration_s"])
            rate = _positive(fact.native.get("output_throughput_tok_s"))
            window = _positive(tokens / rate) if rate else None
    else:
        return value
    return value * float(theirs["duration_s"]) / window if window else np.nan


def _deviation(ours: float, theirs: float) -> float:
    if ours == theirs:
        return 0.0
    return ours / theirs - 1 if theirs else np.nan


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
