"""Causes of stalls on the page: shown for measured campaigns, said in words for all others."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small import MANIFEST, campaign, loopback

from servebook.publish.chapters import mixed, stalled
from servebook.publish.chapters.mixed_stalls import _lost_to
from servebook.publish.chapters.mixed_timeline import _clock
from servebook.publish.chapters.mixed_windows import GRID, MOST_LANES, window
from servebook.publish.output import Figure
from servebook.publish.pack import pack
from servebook.publish.spec import specification
from servebook.read.campaign import Campaign

FIGURES = (mixed.stall_anatomy, mixed.stall_causes, mixed.stall_control, mixed.engine_timeline)


def table(figure: Figure) -> pd.DataFrame:
    assert figure.table is not None
    return figure.table


@pytest.mark.parametrize("function", FIGURES)
def test_causes_are_not_analysed_on_reconstructed_data(
    function: Callable[[Campaign], Figure],
) -> None:
    modelled = MANIFEST.replace("measured", "reconstructed\nprovenance_note: made by a model")
    figure = function(campaign({"r": {"gaps_ms": [5.0] * 300}}, modelled))
    assert "not analysed on reconstructed data" in figure.missing
    assert figure.table is None
    assert figure.chart is None


@pytest.mark.parametrize("function", FIGURES)
def test_without_a_common_clock_no_cause_is_told(function: Callable[[Campaign], Figure]) -> None:
    figure = function(campaign({"r": {"gaps_ms": [5.0] * 300, "clock": "none"}}))
    assert "no common clock" in figure.missing


def test_the_rate_is_that_of_the_engine_s_own_log() -> None:
    """The manifest says what the imitation engine logged: about 43,000 tokens/s."""
    rows = table(mixed.stall_anatomy(loopback())).set_index("configuration")
    assert rows.loc["16 slots", "prefill rate (tokens/s)"] == pytest.approx(43_000, rel=0.05)
    assert "16 slots, chunked" not in rows.index


def test_the_control_of_the_only_run_is_called_none_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = mixed.stall_control(loopback())
    assert "with first tokens of another run the same count" in both.title
    assert "those of another mixed run" in both.subtitle
    known = [one for one in stalled.mixed(loopback()) if one.run_id.endswith("spread/mixed_c8")]
    assert len(known) == 1
    monkeypatch.setattr(stalled, "mixed", lambda _: tuple(known))
    alone = mixed.stall_control(loopback())
    assert len(table(alone)) == 1
    assert "another" not in alone.title + alone.subtitle
    assert "mirrored in time" in alone.title
    assert "the same, mirrored in time" in alone.subtitle
    assert {"mirrored (% of steps long)", "steps, mirrored"} <= set(table(alone).columns)
    assert not any("other" in one for one in (*table(alone).columns, alone.alt))
    assert "the other run" in table(both).columns


def test_the_runs_whose_steps_are_drawn_are_counted() -> None:
    figure = mixed.stall_anatomy(loopback())
    assert len(figure.runs) > 1
    assert f" of {len(figure.runs)} mixed runs;" in figure.subtitle


@pytest.mark.parametrize(
    ("cut", "told"),
    [(None, "of all 208 requests of the run;"),
     (9, "of 208 requests, those of the part of the run that was looked at;")],
)  # fmt: skip
def test_of_a_long_run_the_clock_rests_on_a_part(cut: int | None, told: str) -> None:
    one: Any = SimpleNamespace(n_requests=208, cut=cut)
    assert f"the token times {told}" in _clock(one)


def test_every_stall_has_one_cause_and_stands_in_the_table() -> None:
    rows = table(mixed.stall_causes(loopback()))
    causes = rows["by prefill"] + rows["by link"].fillna(0) + rows["unexplained"]
    assert (causes == rows["stalls"]).all()
    assert (rows["stalls"] / rows["gaps"] * 100).tolist() == pytest.approx(
        rows["stalls (% of gaps)"].tolist()
    )
    chunked = rows[rows["run"].str.contains("chunked")]
    assert len(chunked) == 1
    assert chunked["stalls"].sum() == 0
    assert chunked["expected (% of gaps)"].isna().all()
    few = rows["gaps"] < 6636
    assert rows.loc[few, "ITL p99.9 (ms)"].isna().all()
    assert rows.loc[~few, "ITL p99.9 (ms)"].notna().all()


def test_runs_that_no_counter_watched_have_no_count_of_link_stalls() -> None:
    rows = table(mixed.stall_causes(loopback()))
    assert rows["by link"].isna().any()
    without = table(mixed.stall_causes(campaign({"r": {"gaps_ms": [5.0] * 300}})))
    assert without["by link"].isna().all()


def test_first_tokens_of_another_run_explain_no_more_than_chance() -> None:
    figure = mixed.stall_control(loopback())
    rows = table(figure)
    assert (rows["own first tokens (% of steps long)"] > 90).all()
    assert (rows["another run's (% of steps long)"] < 50).all()
    assert (rows["run"] != rows["the other run"]).all()
    assert "does not fail" not in figure.title


def test_the_timeline_is_small_and_has_no_more_lanes_than_requests_in_flight() -> None:
    figure = mixed.engine_timeline(loopback())
    assert figure.chart is not None
    spec = json.dumps(specification(figure.chart))
    packed = json.dumps(pack(json.loads(spec), {}), separators=(",", ":"))
    assert len(packed) < 2_500 * len(figure.runs) < 200_000
    shown = json.loads(spec)
    facts = next(p["expr"] for p in shown["params"] if p["name"] == "shown")
    lanes = {run: fact[3] for run, fact in json.loads(facts[1:].removesuffix(")[run]")).items()}
    assert tuple(lanes) == figure.runs
    assert lanes[figure.runs[0]] == 16
    # A run has as many lanes as it had requests in flight at once, which its client set.
    levels = {run: int(run.rpartition("_c")[2].partition("_")[0]) for run in lanes}
    assert all(n <= min(levels[run], MOST_LANES) for run, n in lanes.items())
    choices = shown["usermeta"]["choices"]["values"]
    assert [run for run, _ in choices] == list(figure.runs)
    for _, rows in table(figure).groupby("run"):
        shares = rows.set_index("what")["share of all lanes' time (%)"]
        stalls = shares.index.str.contains("within decode")
        assert shares[~stalls].sum() == pytest.approx(100)
        assert 0 <= shares[stalls].sum() < 100


@pytest.mark.parametrize("most", [450, 60, 10])
def test_a_window_is_halved_until_its_blocks_fit(most: int) -> None:
    campaign = loopback()
    one = max(stalled.mixed(campaign), key=lambda run: run.segments.size)
    found = window(one, most)
    assert len(found.blocks) <= most
    halvings = np.log2(2e9 / (found.end_ns - found.begin_ns))
    assert halvings == pytest.approx(round(halvings))
    assert found.blocks["t0"].ge(0).all()
    assert found.blocks["t1"].le(GRID + 1).all()


@pytest.mark.parametrize(
    ("stalls", "by_prefill", "words"),
    [
        (12, 12, "Waiting for other requests' prefills takes"),
        (1200, 1100, "Stalls, 1,100 of 1,200 of them by other requests' prefills, take"),
    ],
)
def test_time_is_put_down_to_prefills_only_where_they_are_all(
    stalls: int, by_prefill: int, words: str
) -> None:
    row = pd.Series({"all_n_stalls": stalls, "all_n_prefill_stalls": by_prefill})
    assert _lost_to(row) == words
