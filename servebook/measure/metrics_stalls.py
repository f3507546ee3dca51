"""The columns of ``servebook.measure.stalls``, for the registry of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["STALLS", "Better"]

Better = Literal["lower", "higher", ""]

# name: (label, unit, better, definition)
STALLS: Mapping[str, tuple[str, str, Better, str]] = {
    "n_stalls": (
        "Stalls",
        "count",
        "",
        (
            "gaps in which the engine did something other than decode: by its recovered steps a "
            "prompt was prefilled between the two tokens, or it paused far beyond any decode step"
        ),
    ),
    "n_inside_gaps": ("Inside gaps", "count", "", "gaps other than the first of their request"),
    "n_inside_stalls": ("Inside stalls", "count", "", "stalls among the inside gaps"),
    "stall_fraction_of_gaps": ("Stalled gaps", "fraction", "lower", "stalls / gaps"),
    "inside_stall_fraction": (
        "Stalled gaps inside requests",
        "fraction",
        "lower",
        "inside stalls / inside gaps",
    ),
    "first_stall_fraction": (
        "Stalled first gaps",
        "fraction",
        "lower",
        "stalls among first gaps / first gaps; a first gap follows the request's own first token",
    ),
    "stall_share_of_decode_time": (
        "Decode time in stalls",
        "fraction",
        "lower",
        "time of the stalls beyond the run's median gap / time of all gaps",
    ),
    "longest_stall_ms": ("Longest stall", "ms", "lower", "longest gap that is a stall"),
    "median_stall_ms": ("Median stall", "ms", "lower", "median length of the stalls"),
    "expected_stall_frequency": (
        "Expected stall frequency",
        "fraction",
        "",
        (
            "(c - k) / (k (OSL - 1)): stalls per gap if c requests run all the time and are "
            "prefilled k at a time; k is the mean seen in the run"
        ),
    ),
    "prefill_batch_mean": (
        "Requests per prefill",
        "requests",
        "",
        "mean number of first tokens per recovered prefill batch: the k of the expectation",
    ),
    "n_prefill_batches": (
        "Prefill batches",
        "count",
        "",
        "groups of first tokens that no running request's token separates",
    ),
    "n_first_gaps": ("First gaps", "count", "", "gaps after the first token of their request"),
    "n_first_stalls": ("First-gap stalls", "count", "", "stalls among the first gaps"),
    "n_requests_with_gaps": ("Requests with gaps", "count", "", "ok requests that have a gap"),
    "baseline_median_ms": (
        "Baseline gap",
        "ms",
        "",
        "median gap when the engine only decodes; the baseline says where it is from",
    ),
    "baseline_p99_ms": ("Baseline p99", "ms", "", "99th percentile of the baseline's gaps"),
    "n_slow_gaps": (
        "Slow gaps",
        "count",
        "",
        (
            "gaps whose engine step carried a part of a prompt beside its decodes (chunked "
            "prefill): slower, not stalled. Such a step brings a first token, or is far longer "
            "than steps in which nobody waits for one"
        ),
    ),
    "slow_fraction_of_gaps": ("Slowed gaps", "fraction", "lower", "slow gaps / gaps"),
    "slow_share_of_decode_time": (
        "Decode time in slow gaps",
        "fraction",
        "lower",
        "time of the slow gaps beyond the run's median gap / time of all gaps",
    ),
    "n_long_unexplained": (
        "Long gaps unexplained",
        "count",
        "lower",
        "gaps above the baseline's p99 that are neither stalls nor slow: late deliveries mostly",
    ),
    "n_prefill_stalls": (
        "Stalls by prefill",
        "count",
        "",
        "stalls in which a prompt with a step of its own was prefilled",
    ),
    "n_link_stalls": (
        "Stalls by a link",
        "count",
        "",
        "stalls without a prefill while a counter shows a congested or paused link",
    ),
    "n_unexplained_stalls": (
        "Stalls unexplained",
        "count",
        "lower",
        "pauses of the engine far beyond any ordinary step of the run, without prefill or link",
    ),
    "n_engines": (
        "Engine clocks",
        "count",
        "",
        "step clocks that the tokens follow: replicas that do not run in lockstep",
    ),
    "n_decode_steps": (
        "Decode steps",
        "count",
        "",
        "recovered engine steps in which a request decodes that also decoded in the step before",
    ),
    "n_stalled_steps": (
        "Stalled steps",
        "count",
        "",
        "decode steps ahead of which a prompt was prefilled: the n of a statement on stalls",
    ),
    "stall_fraction_of_steps": ("Stalled steps", "fraction", "lower", "stalled / decode steps"),
    "n_unseen_prefills": (
        "Prefills unseen",
        "count",
        "",
        (
            "prefills of requests without a first token in the dump (cancelled, broken, lost), "
            "placed where a step took a prefill's time too long"
        ),
    ),
    "n_told_gaps": (
        "Gaps looked at",
        "count",
        "",
        "gaps of any phase and status in which stalls were looked for",
    ),
    "n_run_gaps": (
        "Gaps of the run",
        "count",
        "",
        "all gaps of any phase and status: more than were looked at where a run is too long",
    ),
    "told_s": (
        "Time looked at",
        "s",
        "",
        "from the run's start to the end of the gaps in which stalls were looked for",
    ),
    "n_first_tokens": ("First tokens", "count", "", "requests that got a first token"),
    "running_peak": (
        "Most requests decoding",
        "requests",
        "",
        "the most requests between first and last token at once: the c of the expectation",
    ),
}
