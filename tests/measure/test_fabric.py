"""Link use per run, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from servebook.measure.fabric import (
    USAGE,
    attributed,
    bytes_per_token,
    idle,
    phases,
    usage,
)
from servebook.measure.intervals import COLUMNS
from servebook.tables import empty, table

S = 10**9


def link(
    rates: list[float],
    start: float = 0,
    step: float = 1,
    flags: dict[int, list[str]] | None = None,
    **names: Any,
) -> pd.DataFrame:
    """Intervals of ``step`` seconds with these byte rates (bytes/s)."""
    rows = []
    for i, rate in enumerate(rates):
        t0, t1 = round((start + i * step) * S), round((start + (i + 1) * step) * S)
        row = {
            "source": "a",
            "format": "x",
            "device": "leaf1",
            "interface": "eth0",
            "scope": "port",
            "direction": "rx",
            "t0_ns": t0,
            "t1_ns": t1,
            "bytes": rate * step,
            "packets": np.nan,
            "rate_bps": rate * 8.0,
            "speed_bps": 8000.0,
            "util_fraction": rate / 1000.0,
            "source_kind": "counter",
            "flags": (flags or {}).get(i, []),
        }
        rows.append({**row, **names})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def run(name: str, t0: float, t1: float, workload: str = "decode") -> dict[str, Any]:
    return {
        "run_id": name,
        "configuration": "c",
        "workload": workload,
        "concurrency": 8,
        "start_ns": round(t0 * S),
        "end_ns": round(t1 * S),
        "clock": "epoch",
    }


def placed(*rows: dict[str, Any]) -> pd.DataFrame:
    return phases(table("runs", list(rows)))


def test_phases_are_runs_with_a_wall_clock_in_order() -> None:
    rows = [
        run("b", 20, 30),
        run("a", 0, 10),
        {**run("c", 0, 5), "clock": "relative"},
        {**run("d", 0, 5), "end_ns": None},
    ]
    out = placed(*rows)
    assert out["run_id"].tolist() == ["a", "b"]
    assert out["t1_ns"].tolist() == [10 * S, 30 * S]
    assert out["t0_ns"].dtype == np.int64


def test_warm_up_makes_a_run_busy_for_longer() -> None:
    requests = table(
        "requests",
        [
            {"run_id": "a", "phase": "warmup", "start_ns": 5 * S, "end_ns": 8 * S},
            {"run_id": "a", "phase": "profiling", "start_ns": 10 * S, "end_ns": 21 * S},
        ],
    )
    out = phases(table("runs", [run("a", 10, 20), run("b", 30, 40)]), requests)
    assert out["busy0_ns"].tolist() == [5 * S, 30 * S]
    assert out["busy1_ns"].tolist() == [21 * S, 40 * S]
    assert out["t0_ns"].tolist() == [10 * S, 30 * S]


def test_idle_is_the_median_outside_of_runs_and_their_margins() -> None:
    rates = [10.0] * 8 + [500, 500] + [900] * 10 + [500, 500] + [10, 12, 14]
    out = idle(link(rates), placed(run("a", 10, 20)))
    [row] = out.to_dict("records")
    assert row["n_intervals"] == 11
    assert row["idle_bps"] == 80
    assert row["seconds"] == 11
    assert row["steady"]


def test_other_traffic_makes_idle_unsteady() -> None:
    out = idle(link([10, 500] * 10), placed(run("a", 50, 60)))
    assert not out["steady"].any()


def test_too_few_readings_give_no_idle_level() -> None:
    out = idle(link([10, 10, 900, 900]), placed(run("a", 4, 20)))
    assert out["n_intervals"].tolist() == [2]
    assert out["idle_bps"].isna().all()
    assert not out["steady"].any()


def test_usual_peak_and_floor() -> None:
    # The run goes from 10 to 20 s; its middle 90 % from 10.5 to 19.5 s holds 8 whole intervals.
    rates = [10.0] * 10 + [999, 100, 300, 200, 12, 400, 300, 300, 200, 999] + [10] * 5
    [row] = usage(link(rates), placed(run("a", 10, 20))).to_dict("records")
    assert row["n_inside"] == 8
    assert row["n_intervals"] == 7  # 12 bytes/s is no traffic: idle is 10
    assert row["active_share"] == 7 / 8
    assert (row["usual_bps"], row["peak_bps"], row["floor_bps"]) == (2400, 3200, 800)
    assert (row["usual_util"], row["peak_util"], row["floor_util"]) == (0.3, 0.4, 0.1)
    assert (row["peak_window_s"], row["peak_t0_ns"]) == (1.0, 15 * S)
    assert row["coverage"] == 1.0
    assert row["why"] == ""


@pytest.mark.parametrize("flag", ["reset", "gap", "over_speed"])
def test_flagged_intervals_take_no_part(flag: str) -> None:
    rates = [0.0] * 10 + [100.0] * 4 + [5000.0] + [100.0] * 5
    [row] = usage(link(rates, flags={14: [flag]}), placed(run("a", 10, 20))).to_dict("records")
    assert row["peak_bps"] == 800
    assert row["coverage"] == pytest.approx(0.9)


def test_grid_and_merged_intervals_do() -> None:
    marks = {i: ["grid", "sticky_merged", "wrap"] for i in range(20)}
    [row] = usage(link([100.0] * 20, flags=marks), placed(run("a", 0, 20))).to_dict("records")
    assert row["n_intervals"] == 18


def test_a_short_run_has_no_usual_rate_but_words() -> None:
    rates = [0.0] * 10 + [100.0] * 4
    [row] = usage(link(rates), placed(run("a", 10.5, 13.2))).to_dict("records")
    assert np.isnan(row["usual_bps"])
    assert row["why"] == (
        "2 of 2 readings inside the run show traffic; 3 are needed "
        "(readings every 1 s, run of 2.7 s)"
    )


def test_no_speed_no_share() -> None:
    [row] = usage(link([100.0] * 20, speed_bps=np.nan), placed(run("a", 0, 20))).to_dict("records")
    assert row["usual_bps"] == 800
    assert np.isnan(row["usual_util"])


def test_sources_and_directions_stay_apart() -> None:
    frame = pd.concat([link([100.0] * 20), link([70.0] * 20, source="b", direction="tx")])
    out = usage(frame, placed(run("a", 0, 20)))
    assert out[["source", "direction", "usual_bps"]].to_numpy().tolist() == [
        ["a", "rx", 800.0],
        ["b", "tx", 560.0],
    ]


def test_runs_beside_no_counter_are_not_listed() -> None:
    out = usage(link([100.0] * 20), placed(run("a", 100, 120)))
    assert out.empty
    assert set(USAGE) <= set(out.columns)


def test_bytes_belong_to_a_run_by_time() -> None:
    out = attributed(link([100, 200, 300, 400.0]), placed(run("a", 0.5, 2.25)))
    [row] = out.to_dict("records")
    assert row["bytes"] == 50 + 200 + 75
    assert row["edge_share"] == pytest.approx(125 / 325)
    assert row["coverage"] == 1.0
    assert (row["covered_s"], row["run_s"]) == (1.75, 1.75)


def metrics(**values: float) -> pd.DataFrame:
    row = {"run_id": "a", "duration_s": 10.0}
    row |= {"input_throughput_tok_s": 30.0, "output_throughput_tok_s": 5.0}
    return pd.DataFrame([{**row, **values}])


@pytest.mark.parametrize(
    ("workload", "basis", "tokens"),
    [("prefill", "input", 300), ("decode", "output", 50), ("mixed", "total", 350)],
)
def test_bytes_per_token(workload: str, basis: str, tokens: float) -> None:
    rates = [10.0] * 10 + [100.0] * 10 + [10.0] * 10
    ph = placed(run("a", 10, 20, workload))
    [row] = bytes_per_token(link(rates), ph, metrics()).to_dict("records")
    assert (row["basis"], row["tokens"]) == (basis, tokens)
    assert (row["input_tokens"], row["output_tokens"]) == (300, 50)
    assert row["idle_bytes"] == 100
    assert row["gross_bytes_per_token"] == 1000 / tokens
    assert row["net_bytes_per_token"] == 900 / tokens
    assert row["idle_steady"]
    assert row["why"] == ""


def test_without_an_idle_level_there_is_no_net() -> None:
    [row] = bytes_per_token(link([100.0] * 10), placed(run("a", 0, 10)), metrics()).to_dict(
        "records"
    )
    assert row["gross_bytes_per_token"] == 20
    assert np.isnan(row["net_bytes_per_token"])


def test_a_run_watched_in_part_or_without_tokens_has_words() -> None:
    ph = placed(run("a", 0, 10))
    [part] = bytes_per_token(link([100.0] * 8), ph, metrics()).to_dict("records")
    assert np.isnan(part["gross_bytes_per_token"])
    assert part["why"] == "the counters cover 80 % of the run, 90 % are needed"
    [none] = bytes_per_token(
        link([100.0] * 10), ph, metrics(output_throughput_tok_s=np.nan)
    ).to_dict("records")
    assert np.isnan(none["gross_bytes_per_token"])
    assert none["why"] == "the run has no tokens to divide by"


def test_no_runs_and_no_counters() -> None:
    nothing = phases(empty("runs"))
    assert usage(link([1.0] * 5), nothing).empty
    assert idle(link([1.0] * 5), nothing)["n_intervals"].tolist() == [5]
    assert bytes_per_token(link([]), placed(run("a", 0, 9)), metrics()).empty
