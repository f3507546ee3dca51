"""The registry of metrics: one name, label, unit, direction, definition and source for each.

Tables, charts, tooltips, the glossary and the JSON all draw from ``METRICS``. The names are the
column names of ``servebook.measure.runs.run_metrics`` and ``servebook.measure.stalls``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from servebook.measure.metrics_stalls import STALLS, Better

__all__ = ["COUNTS", "ITL_STATISTICS", "LATENCIES", "METRICS", "STATISTICS", "VALUES", "Metric"]


@dataclass(frozen=True)
class Metric:
    """What a column means. ``better`` is "lower", "higher" or "" (no direction)."""

    name: str
    label: str
    unit: str
    better: Better
    definition: str
    source: str


RECORDS = "recomputed from the client's per-request records"
GAPS = "recomputed from the client's per-request records and their gap lists"

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
ITL_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
_IN_WORDS = {
    "mean": "mean",
    "p50": "median",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p999": "99.9th percentile",
    "max": "largest value",
}
_IN_LABELS = {"mean": "mean", "p50": "median", "p999": "p99.9"}

# family: (label, what one value is, over what, source)
LATENCIES: Mapping[str, tuple[str, str, str, str]] = {
    "ttft": (
        "TTFT",
        "time to first token: first token minus start of the request",
        "ok requests with a first-token time",
        RECORDS,
    ),
    "tpot": (
        "TPOT",
        (
            "time per output token: (end minus first token) / (output tokens - 1), one value per "
            "request; undefined below two output tokens"
        ),
        "ok requests with at least two output tokens",
        RECORDS,
    ),
    "e2e": (
        "Request latency",
        (
            "end minus start of the request, the end being the last token's arrival where the "
            "client records it"
        ),
        "ok requests",
        RECORDS,
    ),
    "itl": (
        "ITL",
        (
            "inter-token latency: gap between two response chunks; where a chunk carries several "
            "tokens it is a chunk gap and is labelled so"
        ),
        "the pooled gaps of ok requests",
        GAPS,
    ),
}

_LATENCY = [
    Metric(
        name=f"{family}_{statistic}_ms",
        label=f"{label} {_IN_LABELS.get(statistic, statistic)}",
        unit="ms",
        better="lower",
        definition=f"{_IN_WORDS[statistic]} of {one}; over {over}"
        + ("; numpy's linear interpolation" if statistic.startswith("p") else ""),
        source=source,
    )
    for family, (label, one, over, source) in LATENCIES.items()
    for statistic in (ITL_STATISTICS if family == "itl" else STATISTICS)
]


def _throughputs() -> Iterator[Metric]:
    for name, label, tokens in (
        ("input", "Input throughput", "input tokens"),
        ("output", "Output throughput", "output tokens"),
        ("total", "Total throughput", "input and output tokens"),
    ):
        yield Metric(
            f"{name}_throughput_tok_s",
            label,
            "tokens/s",
            "higher",
            f"{tokens} of ok requests / duration",
            RECORDS,
        )
    yield Metric(
        "request_throughput_req_s",
        "Request throughput",
        "requests/s",
        "higher",
        "ok requests / duration",
        RECORDS,
    )


VALUES: tuple[Metric, ...] = (
    Metric(
        "duration_s",
        "Duration",
        "s",
        "",
        "last end minus first start over profiling requests, failed and cancelled ones included; "
        "where the records carry no common clock, the client's own stopwatch (duration_from says "
        "which)",
        RECORDS,
    ),
    *_throughputs(),
    *_LATENCY,
    Metric(
        "output_per_user_tok_s",
        "Output rate per user",
        "tokens/s",
        "higher",
        "1 / mean TPOT",
        RECORDS,
    ),
    Metric(
        "itl_p99_over_p50",
        "ITL p99 / median",
        "ratio",
        "lower",
        "99th percentile over median of the pooled gaps",
        GAPS,
    ),
    Metric(
        "ttft_from_scheduled_mean_ms",
        "TTFT from schedule mean",
        "ms",
        "lower",
        "mean of first token minus the time at which the client meant to send the request: "
        "TTFT with the client's own delay in it (coordinated omission)",
        RECORDS,
    ),
    Metric(
        "ttft_from_scheduled_p99_ms",
        "TTFT from schedule p99",
        "ms",
        "lower",
        "99th percentile of first token minus the time at which the client meant to send",
        RECORDS,
    ),
    Metric(
        "send_delay_mean_ms",
        "Send delay mean",
        "ms",
        "lower",
        "mean of start minus scheduled time of profiling requests: the client's own delay",
        RECORDS,
    ),
    Metric(
        "send_delay_max_ms",
        "Send delay max",
        "ms",
        "lower",
        "largest start minus scheduled time among profiling requests",
        RECORDS,
    ),
    Metric(
        "mean_in_flight",
        "Requests in flight",
        "requests",
        "",
        "sum of (end minus start) over profiling requests, failed and cancelled ones included, "
        "/ duration: the time average of requests in flight (Little's law)",
        RECORDS,
    ),
    Metric(
        "running_batch",
        "Running batch",
        "requests",
        "",
        "output throughput x mean TPOT: the mean number of requests that decode (Little's law for "
        "the decode phase)",
        RECORDS,
    ),
    Metric(
        "stall_share_estimate",
        "Stall share (estimate)",
        "fraction",
        "lower",
        "(mean TPOT - median ITL) / mean TPOT: the share of the time per token that the typical "
        "gap does not explain; only where a gap is one token",
        GAPS,
    ),
)

_COUNTS: Mapping[str, tuple[str, str, str]] = {
    "n_requests": ("Requests", "profiling requests with a record: ok, failed, cancelled", RECORDS),
    "n_ok": ("Ok", "requests without an error and with a token count", RECORDS),
    "n_failed": (
        "Failed",
        (
            "requests with an error, and those that the client calls a success although they have "
            "no token count (an error inside the stream)"
        ),
        RECORDS,
    ),
    "n_cancelled": ("Cancelled", "requests that the client cut off", RECORDS),
    "n_lost": ("Lost", "requests that were sent but have no record", "the client's summary"),
    "n_gaps": ("Gaps", "gaps of ok requests, which the ITL figures rest on", GAPS),
    "n_ttft": ("TTFT values", "ok requests with a first-token time", RECORDS),
    "n_tpot": ("TPOT values", "ok requests with at least two output tokens", RECORDS),
    "n_e2e": ("Latency values", "ok requests with start and end", RECORDS),
    "n_short_output": ("Short outputs", "ok requests with fewer tokens than asked for", RECORDS),
}
COUNTS: tuple[Metric, ...] = tuple(
    Metric(name, label, "count", "", definition, source)
    for name, (label, definition, source) in _COUNTS.items()
)

MANIFEST = "dump or manifest"
_CONDITION: tuple[Metric, ...] = (
    Metric("isl_mean", "ISL", "tokens", "", "mean input length of ok requests", RECORDS),
    Metric("osl_mean", "OSL", "tokens", "", "mean output length of ok requests", RECORDS),
    Metric("isl_requested", "ISL asked", "tokens", "", "input length asked for", MANIFEST),
    Metric("osl_requested", "OSL asked", "tokens", "", "output length asked for", MANIFEST),
    Metric(
        "concurrency",
        "Concurrency",
        "requests",
        "",
        "requests that the client keeps in flight",
        MANIFEST,
    ),
    Metric(
        "request_rate",
        "Request rate",
        "requests/s",
        "",
        "rate at which the client sends; none in a closed loop",
        MANIFEST,
    ),
    Metric(
        "gaps_per_output_token",
        "Gaps per token",
        "ratio",
        "",
        "gaps / output tokens after the first of ok requests; 1 where each chunk is one token",
        GAPS,
    ),
)

METRICS: Mapping[str, Metric] = {
    m.name: m
    for m in (
        *VALUES,
        *COUNTS,
        *_CONDITION,
        *(
            Metric(name, label, unit, better, definition, GAPS)
            for name, (label, unit, better, definition) in STALLS.items()
        ),
    )
}
