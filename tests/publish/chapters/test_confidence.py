"""The chapter on confidence: shipped campaign against its raw files, repeats, reconstructions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small import MANIFEST, campaign, loopback
from test_loopback import SPREAD, records

from servebook.measure.runs import request_metrics
from servebook.measure.within import within_gaps
from servebook.publish.chapters import common, confidence
from servebook.publish.chapters.confidence_base import null_words, ratio_rows
from servebook.publish.chapters.confidence_floors import shortfalls
from servebook.publish.chapters.confidence_runs import _found
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

FIGURES = [n for n in confidence.__all__ if n not in ("verdict", "comparable", "glossary", "tails")]


@functools.cache
def two_arms(provenance: str = "measured") -> Campaign:
    """Four runs each of two configurations; gaps of b are 20 % longer, runs scatter by 2 %."""
    rng = np.random.default_rng(8)
    runs: dict[str, dict[str, Any]] = {
        f"{c}{k}": {
            "configuration": c,
            "concurrency": 1,
            "gaps_ms": [5.0 * (1.2 if c == "b" else 1.0) * math.exp(rng.normal(0, 0.02))] * 700,
            "n": 30,
            "length_s": 4.5,
        }
        for c in "ab"
        for k in range(4)
    }
    return campaign(runs, MANIFEST.replace("provenance: measured", f"provenance: {provenance}"))


def table(figure: Figure) -> pd.DataFrame:
    assert figure.table is not None, figure.missing
    return figure.table


def span(run: str) -> tuple[float, float]:
    """First start and last end of a run in s, from the raw records."""
    done = records(SPREAD / run)
    start = [r["metadata"]["request_start_ns"] for r in done]
    end = [
        s + r["metrics"]["request_latency"]["value"] * 1e6 for s, r in zip(start, done, strict=True)
    ]
    return min(start) / 1e9, max(end) / 1e9


def test_repeats_of_the_shipped_campaign_differ_as_their_raw_records_do() -> None:
    rates = []
    for run in ("mixed_c8", "mixed_c8_repeat2", "mixed_c8_repeat3"):
        first, last = span(run)
        tokens = sum(r["metrics"]["output_sequence_length"]["value"] for r in records(SPREAD / run))
        rates.append(tokens / (last - first))
    found = table(confidence.repeats(loopback())).set_index("metric")
    row = found.loc["Output throughput"]
    assert row["highest over lowest (%)"] == pytest.approx(100 * (max(rates) / min(rates) - 1))
    assert row["mean"] == pytest.approx(math.exp(np.log(rates).mean()))
    assert row["scatter (%)"] == pytest.approx(100 * np.log(rates).std(ddof=1))
    assert row["runs"] == 3


def test_one_run_against_three_has_no_interval_but_words() -> None:
    figure = confidence.ratios(loopback())
    found = table(figure)
    mine = found[found["configuration"].str.contains("chunked")]
    assert set(mine["runs"]) == {1}
    assert set(mine["runs of the other"]) == {3}
    assert mine["interval from"].isna().all()
    assert mine["detectable (%)"].isna().all()
    assert "No ratio of two configurations has an interval" in figure.title
    rate = mine[mine["metric"] == "Output throughput"].iloc[0]
    assert rate["no effect"].startswith("not testable (no interval exists: one run on one side")
    assert "the difference is 1.3 %" in rate["no effect"]
    assert (
        "differs by 2.6 % elsewhere (3 repeats of 16 slots, mixed, 8 in flight)"
        in (rate["no effect"])
    )


def test_a_ratio_is_told_for_the_steady_windows_too() -> None:
    found = table(confidence.ratios(loopback()))
    mine = found[found["configuration"].str.contains("chunked")].set_index("metric")
    inside = table(confidence.steady_effect(loopback()))
    rate = inside.set_index("run")["in the window"]
    three = [f"raw/aiperf/spread/mixed_c8{end}" for end in ("", "_repeat2", "_repeat3")]
    expected = rate["raw/aiperf/spread/chunk256_mixed_c8"] / np.prod(rate[three]) ** (1 / 3)
    assert mine.loc["Output throughput", "ratio in the steady windows"] == pytest.approx(expected)
    # The median TTFT is no figure of the window.
    assert mine["ratio in the steady windows"].isna()["TTFT median"]


def test_the_verdict_of_the_shipped_campaign_names_the_scatter() -> None:
    found = confidence.verdict(loopback())
    assert found.verdict
    assert found.rank == 58
    assert "has an interval, since one side ran once" in found.sentence
    assert found.n == 3
    assert found.value == pytest.approx(0.0735, abs=0.0005)


def test_the_steady_window_of_a_shipped_run_is_where_eight_are_in_flight() -> None:
    done = records(SPREAD / "mixed_c8")
    events = sorted(
        event
        for r in done
        for start in [r["metadata"]["request_start_ns"]]
        for event in (
            (start, 1),
            (start + round(r["metrics"]["request_latency"]["value"] * 1e6), -1),
        )
    )
    level, full, last = 0, [], 0
    for when, change in events:
        if level == 8:
            last = when
        level += change
        if level == 8:
            full.append(when)
    figure = confidence.steady_window(loopback(), "raw/aiperf/spread/mixed_c8")
    share = (last - full[0]) / (events[-1][0] - events[0][0])
    assert figure.title.startswith(f"{100 * share:.0f} % of the run is steady")


def test_an_unknown_run_is_said_to_be_none() -> None:
    assert "no such run" in confidence.steady_window(loopback(), "raw/nothing").missing


def test_repeats_on_both_sides_give_intervals() -> None:
    figure = confidence.ratios(two_arms())
    found = table(figure).set_index("metric")
    row = found.loc["TPOT mean"]
    assert row["interval from"] < row["ratio"] < row["interval to"]
    assert row["interval from"] < 1.2 < row["interval to"]
    assert row["interval from"] > 1
    assert row["degrees of freedom"] == pytest.approx(6, abs=2)
    assert row["no effect"].startswith("different")
    assert "SINGLE VARIABLE" in figure.subtitle
    # The first token comes after 10 ms in every run: repeats without scatter have no interval.
    assert "equal to the last digit" in str(found.loc["TTFT median", "no effect"])


def test_the_verdict_counts_what_lies_beyond_the_scatter() -> None:
    found = confidence.verdict(two_arms())
    assert found.verdict
    assert "3 of 3 ratios between configurations lie beyond" in found.sentence
    assert found.value is not None
    assert 0 < found.value < 0.2


@pytest.mark.parametrize("name", FIGURES)
def test_reconstructed_campaigns_get_words_and_no_number(name: str) -> None:
    figure = getattr(confidence, name)(two_arms("reconstructed"))
    assert figure.chart is None
    assert figure.table is None
    assert "reconstructed from a model" in figure.missing
    assert not any(letter.isdigit() for letter in figure.missing)


def test_a_reconstructed_campaign_has_no_verdict_on_noise() -> None:
    found = confidence.verdict(two_arms("reconstructed"))
    assert not found.verdict
    assert found.value is None


def test_settings_that_differ_weaken_the_ratio_wherever_it_stands() -> None:
    text = MANIFEST.replace("chunked_prefill: true", "chunked_prefill: true, nodes: 2").replace(
        "chunked_prefill: false", "chunked_prefill: false, nodes: 1"
    )
    runs = {c: {"configuration": c, "gaps_ms": [5.0] * 700, "n": 12} for c in "ab"}
    book = campaign(runs, text)
    said = "2 SETTINGS: they differ in nodes, chunked prefill; the ratio is theirs together."
    assert common.comparison(book, ("a", "b")).words == said
    assert said in confidence.ratios(book).subtitle
    assert said in table(confidence.ratios(book))["comparison"].iloc[0]


def test_a_client_version_that_the_dumps_tell_apart_is_a_setting() -> None:
    book = campaign({c: {"configuration": c, "gaps_ms": [5.0] * 700, "n": 12} for c in "ab"})
    runs = book.tables.runs
    versions = runs.set_column(
        runs.schema.get_field_index("client_version"),
        runs.schema.field("client_version"),
        [["0.13.0", "0.14.0"]],
    )
    import dataclasses

    other = dataclasses.replace(book, tables=dataclasses.replace(book.tables, runs=versions))
    assert common.comparison(book, ("a", "b")).mark == "SINGLE VARIABLE"
    assert common.comparison(other, ("a", "b")).mark == "2 SETTINGS"
    assert "client version" in table(confidence.comparable(other))["differs by the dumps"].iloc[0]


def test_what_no_repeat_can_tell_is_said() -> None:
    book = campaign({c: {"configuration": c, "gaps_ms": [5.0] * 700, "n": 12} for c in "ab"})
    row = ratio_rows(book).iloc[0]
    assert "no condition was repeated" in null_words(row["found"], row["noise_row"], book)
    verdict = confidence.verdict(book)
    assert isinstance(verdict, Statement)
    assert "no condition was run twice" in verdict.sentence


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"TTFT p99 (ms)": [1.0, np.nan], "ok requests": [662, 5]}, ()),
        (
            {"TTFT p99 (ms)": [1.0, 2.0], "ok requests": [662, 661]},
            ('f: "TTFT p99 (ms)" is shown in 1 of 2 rows with fewer than 662 requests',),
        ),
        (
            {"ITL p99 (ms)": [1.0], "ok requests": [9999]},
            ('f: "ITL p99 (ms)" has no column with its number of gaps',),
        ),
        ({"p99 (ms)": [1.0], "gaps": [700], "ok requests": [20]}, ()),
        ({"p99 / median": [1.0], "ok requests": [20]}, ()),
        ({"TTFT mean (ms)": [1.0]}, ()),
        (
            {"TTFT median (ms)": [1.0], "requests": [10]},
            ('f: "TTFT median (ms)" is shown in 1 of 1 rows with fewer than 11 requests',),
        ),
    ],
)
def test_percentiles_without_their_n_are_found(
    columns: dict[str, list[float]], expected: tuple[str, ...]
) -> None:
    assert shortfalls(Figure(id="f", title="F", table=pd.DataFrame(columns))) == expected


@pytest.mark.parametrize("name", [n for n in confidence.__all__ if n != "verdict"])
def test_this_chapter_keeps_the_floors(name: str) -> None:
    assert shortfalls(getattr(confidence, name)(loopback())) == ()


def test_the_cost_line_of_the_shipped_campaign_has_an_interval_from_four_conditions_on() -> None:
    found = table(confidence.cost_lines(loopback()))
    gross = found[found["bytes"] == "gross"]
    known = gross["slope, interval from (B/token)"].notna()
    assert (gross.loc[known, "conditions"] >= 4).all()
    assert known.any()
    assert gross.loc[~known, "why no interval"].ne("").all()
    assert "1 condition, 3 are needed" in " ".join(confidence.cost_lines(loopback()).notes)


def test_matched_batches_are_not_extrapolated() -> None:
    found = table(confidence.matched(loopback()))
    chunked = found[found["pair"].str.startswith("16 slots, chunked")]
    assert len(chunked) == 1
    assert chunked["measured at"].iloc[0] == "the second's point"
    assert 0.9 < chunked["ratio"].iloc[0] < 1.0


def test_what_swings_within_a_run_is_the_runs_own_figures() -> None:
    campaign = loopback()
    run = common.metrics(campaign).set_index("run_id").loc["raw/aiperf/spread/decode_c8"]
    requests = request_metrics(campaign.tables)
    own = requests[(requests["run_id"] == run.name) & (requests["status"] == "ok")]
    gaps = within_gaps(campaign.tables, requests, {str(run.name): 1.0})[str(run.name)]
    found = {metric: (of, swing) for metric, of, swing in _found(own, gaps, 1.0)}
    assert {m: of for m, (of, _) in found.items()} == {
        "ttft_mean_ms": "requests",
        "tpot_mean_ms": "requests",
        "itl_mean_ms": "gaps",
        "output_throughput_tok_s": "slices of time",
    }
    # The rate is over the time from the first token on, not from the first request on.
    for metric, (_, swing) in found.items():
        near = 0.02 if metric.endswith("tok_s") else 1e-6
        assert swing.value == pytest.approx(run[metric], rel=near), metric
    assert [m for m, *_ in _found(own, {}, 1.0)] == ["ttft_mean_ms", "tpot_mean_ms"]
