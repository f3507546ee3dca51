"""The chapters on the shipped campaign, against numbers computed here from its raw files."""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from small import LOOPBACK, loopback

from servebook.publish.chapters import decode, mixed, prefill, setup, trust

SPREAD = LOOPBACK / "raw" / "aiperf" / "spread"


def records(run: Path) -> list[dict[str, Any]]:
    """The profiling records of an AIPerf run, parsed here and by nothing of ours."""
    (path,) = run.glob("profile_export.jsonl*")
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    lines = [json.loads(line) for line in text.splitlines()]
    return [r for r in lines if r["metadata"]["benchmark_phase"] == "profiling"]


def gaps(run: Path) -> list[float]:
    return [g for r in records(run) for g in r["metrics"]["inter_chunk_latency"]["value"]]


def linear(values: list[float], q: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * q
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def test_the_tail_of_the_repeated_condition_is_the_median_of_its_three_runs() -> None:
    runs = [SPREAD / name for name in ("mixed_c8", "mixed_c8_repeat2", "mixed_c8_repeat3")]
    p99 = sorted(linear(gaps(run), 0.99) for run in runs)
    table = mixed.tail(loopback()).table
    assert table is not None
    row = table[
        table["configuration"].str.startswith("16 slots · ") & (table["requests in flight"] == 8)
    ].iloc[0]
    assert row["ITL p99 (ms)"] == pytest.approx(p99[1], rel=1e-6)
    assert row["p99, lowest repeat"] == pytest.approx(p99[0], rel=1e-6)
    assert row["p99, highest repeat"] == pytest.approx(p99[2], rel=1e-6)
    assert row["runs"] == 3
    assert row["gaps"] == sum(len(gaps(run)) for run in runs)


def test_prefill_throughput_is_tokens_over_the_span() -> None:
    done = records(SPREAD / "prefill_c8")
    start = min(r["metadata"]["request_start_ns"] for r in done)
    # The end of a request is its last token: start plus latency, not the client's bookkeeping.
    end = max(
        r["metadata"]["request_start_ns"] + r["metrics"]["request_latency"]["value"] * 1e6
        for r in done
    )
    tokens = sum(r["metrics"]["input_sequence_length"]["value"] for r in done)
    table = prefill.throughput(loopback()).table
    assert table is not None
    row = table[
        table["configuration"].str.startswith("16 slots") & (table["requests in flight"] == 8)
    ].iloc[0]
    assert row["throughput (input tokens/s)"] == pytest.approx(
        tokens / ((end - start) / 1e9), rel=1e-6
    )


def test_twin_compares_medians_of_the_runs() -> None:
    base = statistics.median(
        linear([r["metrics"]["time_to_first_token"]["value"] for r in records(SPREAD / name)], 0.5)
        for name in ("mixed_c8", "mixed_c8_repeat2", "mixed_c8_repeat3")
    )
    twin = linear(
        [
            r["metrics"]["time_to_first_token"]["value"]
            for r in records(SPREAD / "chunk256_mixed_c8")
        ],
        0.5,
    )
    figure = mixed.twin(loopback())
    assert figure.table is not None
    row = figure.table.set_index("metric").loc["TTFT median"]
    assert row["16 slots"] == pytest.approx(base, rel=1e-6)
    assert row["ratio"] == pytest.approx(twin / base, rel=1e-6)
    assert figure.title == (
        "16 slots, chunked against 16 slots: ITL p99 is 2.0 times better, TTFT median 1.7 times "
        "worse"
    )
    assert figure.subtitle.startswith("SINGLE VARIABLE: they differ in chunked prefill.")


def test_titles_state_what_these_data_hold() -> None:
    book = loopback()
    assert prefill.throughput(book).title.startswith("Prefill throughput levels off near 41,")
    assert "is a lower bound" in decode.throughput(book).title
    assert mixed.stall_frequency(book).title == (
        "Stalls are there at 2 in flight already; p99 sees them only from 4 on, where they pass "
        "1 % of gaps"
    )
    assert "HTTP 500" in trust.failures(book).title
    assert "4 stream error" in trust.failures(book).title
    assert "slots per replica and chunked prefill" in setup.configurations(book).title


def test_the_server_s_log_agrees_with_the_frequency_of_stalls() -> None:
    """The server logged 0.6 / 2.0 / 3.9 / 7.8 / 10.0 % of the gaps inside requests."""
    table = mixed.stall_frequency(loopback()).table
    assert table is not None
    rows = table[table["configuration"].str.startswith("16 slots · ")]
    found = rows["stalls inside requests (% of their gaps)"].tolist()
    assert found == pytest.approx([0.6, 2.0, 3.9, 7.8, 10.0], abs=0.15)


def test_verdicts_carry_their_evidence() -> None:
    book = loopback()
    for statement in (
        trust.verdict(book),
        prefill.verdict(book),
        decode.verdict(book),
        mixed.tail_statement(book),
        mixed.twin_statement(book),
    ):
        assert statement.verdict
        assert statement.n
        assert statement.figure
        assert statement.runs
        assert (
            statement.interval.startswith("no interval: one run")
            or statement.low is not None
            or statement.interval == "no interval: a count"
        )


def test_runs_in_which_requests_failed_are_in_no_comparison() -> None:
    book = loopback()
    for figure in (mixed.tail(book), mixed.stall_time(book), prefill.throughput(book)):
        assert not any("failures" in run for run in figure.runs)
    assert any("failures" in note for note in mixed.tail(book).notes)
