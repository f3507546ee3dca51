"""Thinning: extremes survive, nothing is joined across a gap, small series stay as they are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.thin import envelope, segments, steps

BY = ("device", "direction")


def series(values, *, flags=None, step=10, device="leaf", direction="tx", interface="e1"):
    n = len(values)
    return pd.DataFrame(
        {
            "device": device,
            "interface": interface,
            "direction": direction,
            "t0_ns": np.arange(n, dtype=np.int64) * step,
            "t1_ns": (np.arange(n, dtype=np.int64) + 1) * step,
            "rate_bps": np.asarray(values, dtype=float),
            "flags": flags or [[] for _ in range(n)],
        }
    )


def thin(frame, limit):
    return envelope(segments(frame, BY), BY, "rate_bps", limit)


def test_a_short_series_keeps_its_intervals():
    got = thin(series([5, 1, 7]), 3)
    assert got[["t0_ns", "t1_ns", "low", "mid", "high", "n"]].to_numpy().tolist() == [
        [0, 10, 5, 5, 5, 1],
        [10, 20, 1, 1, 1, 1],
        [20, 30, 7, 7, 7, 1],
    ]


def test_bins_hold_minimum_median_and_maximum():
    got = thin(series([1, 2, 90, 4, 5, 6]), 2)
    assert got[["t0_ns", "t1_ns", "low", "mid", "high", "n"]].to_numpy().tolist() == [
        [0, 30, 1, 2, 90, 3],
        [30, 60, 4, 5, 6, 3],
    ]


@pytest.mark.parametrize("flag", ["gap", "reset"])
def test_a_break_is_left_out_and_ends_the_line(flag):
    frame = series([1, 2, 999, 4], flags=[[], [], [flag], ["wrap"]])
    got = segments(frame, BY)
    assert got[["rate_bps", "segment"]].to_numpy().tolist() == [[1, 0], [2, 0], [4, 1]]


def test_time_that_no_interval_covers_ends_the_line():
    frame = series([1, 2, 3]).drop(index=1)
    assert segments(frame, BY)["segment"].tolist() == [0, 1]


def test_ports_of_one_series_cover_for_each_other():
    other = series([7, 8, 9], interface="e2")
    frame = pd.concat([series([1, 2, 3]).drop(index=1), other], ignore_index=True)
    got = thin(frame, 10)
    assert got["segment"].tolist() == [0, 0, 0]
    assert got[["low", "mid", "high", "n"]].to_numpy().tolist() == [
        [1, 4, 7, 2],
        [8, 8, 8, 1],
        [3, 6, 9, 2],
    ]


def test_ports_read_at_different_instants_share_bins():
    late = series([7, 8, 9], interface="e2").assign(t0_ns=[4, 14, 24], t1_ns=[14, 24, 34])
    got = thin(pd.concat([series([1, 2, 3]), late], ignore_index=True), 100)
    assert got[["t0_ns", "t1_ns", "low", "high", "n"]].to_numpy().tolist() == [
        [0, 14, 1, 7, 2],
        [10, 24, 2, 8, 2],
        [20, 34, 3, 9, 2],
    ]


def test_no_bin_crosses_a_segment():
    frame = series([1, 1, 1, 9, 9, 9, 9, 9]).drop(index=[2])
    got = thin(frame, 1)
    assert got[["segment", "high", "n"]].to_numpy().tolist() == [[0, 1, 2], [1, 9, 5]]


def test_values_that_are_not_known_are_left_out_and_nothing_gives_nothing():
    assert thin(series([np.nan, np.nan]), 5).empty
    assert steps(thin(series([]), 5), BY).empty


def test_steps_close_each_segment_at_its_end():
    frame = series([1, 2, 3]).drop(index=1)
    got = steps(thin(frame, 5), BY)
    assert got[["segment", "t_ns", "mid"]].to_numpy().tolist() == [
        [0, 0, 1],
        [0, 10, 1],
        [1, 20, 3],
        [1, 30, 3],
    ]


def test_steps_leave_out_what_repeats_and_keep_the_line():
    got = steps(thin(series([1, 1, 1, 5, 5, 1]), 10), BY)
    assert got[["t_ns", "mid"]].to_numpy().tolist() == [[0, 1], [30, 5], [50, 1], [60, 1]]


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        thin(series([1]), 0)


@given(
    values=st.lists(st.floats(0, 1e12), min_size=1, max_size=120),
    limit=st.integers(1, 60),
    broken=st.sets(st.integers(0, 119), max_size=6),
)
def test_extremes_and_counts_survive_whatever_the_series(values, limit, broken):
    flags = [["gap"] if i in broken else [] for i in range(len(values))]
    kept = [v for i, v in enumerate(values) if i not in broken]
    got = thin(series(values, flags=flags), limit)
    if not kept:
        assert got.empty
        return
    assert got["n"].sum() == len(kept)
    assert got["high"].max() == max(kept)
    assert got["low"].min() == min(kept)
    assert len(got) <= limit + got["segment"].nunique()
    assert (got["low"] <= got["mid"]).all()
    assert (got["mid"] <= got["high"]).all()
