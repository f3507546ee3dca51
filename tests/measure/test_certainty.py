"""Runs whose stalls are not to be relied on are told of; planted truth says which those are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_stalls_planted import lengths, scores, truth
from toy_engine import Toy, as_tables, delivered

from servebook.measure.certainty import doubts
from servebook.measure.runs import run_metrics
from servebook.measure.stalled_gaps import classify, gap_stalls
from servebook.measure.stalls import stall_summary
from servebook.measure.steps import timelines
from servebook.read.discover import read_tree

RAW = Path(__file__).parents[2] / "data" / "loopback" / "raw" / "aiperf"


def replicas(seed: int, engines: int, concurrency: int, isl: int, base_s: float):  # type: ignore[no-untyped-def]
    """Tables of engines out of lockstep, and the prefills before each token."""
    rng = np.random.default_rng(seed)
    start: list[float] = []
    emitted, prefills, isls, osls = [], [], [], []
    for _ in range(engines):
        own_isl, own_osl = lengths(rng, 6 * concurrency, isl, 48)
        toy = Toy(own_isl, own_osl, concurrency, base_s=base_s).run(rng)
        shift = rng.uniform(0, 0.02)
        start += (toy.start + shift).tolist()
        emitted += [[t + shift for t in times] for times in toy.emitted]
        prefills += toy.prefills
        isls, osls = isls + own_isl, osls + own_osl
    return as_tables(np.array(start), delivered(emitted, rng), isls, osls), prefills


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("engines", "concurrency", "isl", "base_s"),
    [
        (1, 8, 512, 0.002),
        (2, 4, 32, 0.0005),
        (2, 8, 32, 0.002),
        (4, 2, 200, 0.002),
        (4, 4, 32, 0.002),
        (4, 8, 512, 0.002),
    ],
)
def test_what_planted_truth_finds_wrong_is_told_of(
    seed: int, engines: int, concurrency: int, isl: int, base_s: float
) -> None:
    tables, prefills = replicas(seed, engines, concurrency, isl, base_s)
    gaps = gap_stalls(tables)
    found = scores(gaps, truth(gaps, prefills))
    (line,) = timelines(tables)
    told = doubts(line)
    if min(found.values()) < 0.95:
        assert told, found
    if engines == 1:
        assert not told
    (summary,) = stall_summary(tables, run_metrics(tables)).to_dict("records")
    assert summary["doubt"] == "; ".join(told)


def test_engines_that_cannot_be_told_apart_are_told_of_in_the_summary() -> None:
    tables, prefills = replicas(1, 2, 4, 32, 0.0005)
    gaps = gap_stalls(tables)
    assert min(scores(gaps, truth(gaps, prefills)).values()) < 0.95  # the case is a hard one
    (one,) = classify(tables)
    assert one.line is not None
    assert doubts(one.line)


@pytest.mark.parametrize(
    "run", ["spread/mixed_c16", "spread/decode_c8", "spread/chunk256_mixed_c8"]
)
def test_runs_that_the_engines_log_confirms_are_not_doubted(run: str) -> None:
    (line,) = timelines(read_tree(RAW / run))
    assert doubts(line) == ()
