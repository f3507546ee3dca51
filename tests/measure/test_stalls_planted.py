"""Stalls against planted truth: a toy engine whose every step is known, and an unruly client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from toy_engine import Toy, as_tables, delivered

from servebook.explain.engine import Client, Engine, simulate
from servebook.measure.attribution import prefill_rate, shuffled_control
from servebook.measure.runs import run_metrics
from servebook.measure.stalls import gap_stalls, stall_summary
from servebook.measure.step_quality import step_quality
from servebook.measure.steps import timelines
from servebook.tables import Tables

Bools = npt.NDArray[np.bool_]
ENGINE = Engine(
    decode_base_s=0.008,
    decode_per_seq_s=0.0002,
    prefill_rate_tok_s=40_000,
    prefill_budget_tok=512,
    max_num_seqs=16,
)


def lengths(rng: np.random.Generator, n: int, isl: int, osl: int) -> tuple[list[int], list[int]]:
    return (
        rng.integers(isl // 2, 2 * isl, n).tolist(),
        rng.integers(osl // 2, 3 * osl // 2, n).tolist(),
    )


def truth(gaps: pd.DataFrame, prefills: list[list[int]]) -> Bools:
    """A gap is stalled exactly if a prefill step ran between its two emissions."""
    at = zip(gaps["request_id"].astype(int), gaps["index"], strict=True)
    return np.array([prefills[i][k + 1] > prefills[i][k] for i, k in at], dtype=bool)


def scores(gaps: pd.DataFrame, true: Bools) -> dict[str, float]:
    said, out = gaps["is_stall"].to_numpy(dtype=bool), {}
    for name, part in (
        ("all", np.ones(len(gaps), dtype=bool)),
        ("inside", gaps["index"].to_numpy() > 0),
    ):
        hits = (said & true & part).sum()
        out[f"precision {name}"] = hits / (said & part).sum()
        out[f"recall {name}"] = hits / (true & part).sum()
    return out


@pytest.mark.parametrize(("pauses", "least"), [(0.3, 0.99), (3.0, 0.93)])
@pytest.mark.parametrize(
    ("concurrency", "max_seqs", "rate", "decode_s", "isl", "osl"),
    [
        (8, 16, 50_000, 0.006, 768, 64),
        (8, 4, 20_000, 0.005, 512, 40),
        (24, 32, 100_000, 0.020, 1024, 60),
        (4, 8, 100_000, 0.005, 64, 32),
    ],
)
def test_separate_prefills_under_late_deliveries(
    concurrency: int,
    max_seqs: int,
    rate: float,
    decode_s: float,
    isl: int,
    osl: int,
    pauses: float,
    least: float,
) -> None:
    rng = np.random.default_rng(7)
    isls, osls = lengths(rng, 8 * concurrency, isl, osl)
    toy = Toy(isls, osls, concurrency, max_seqs, rate, decode_s=decode_s).run(rng)
    times = delivered(toy.emitted, rng, pauses_per_s=pauses)
    gaps = gap_stalls(as_tables(toy.start, times, isls, osls))
    assert set(gaps["prefill_style"]) == {"separate"}
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= least, found


@pytest.mark.parametrize("pauses", [0.3, 3.0])
@pytest.mark.parametrize(
    ("part", "concurrency", "max_seqs", "isl"),
    [
        (512, 8, 16, 2048),
        (512, 16, 8, 2048),
        (2048, 4, 8, 4096),
        (128, 8, 16, 1024),
        (512, 8, 8, 400),
    ],
)
def test_prompts_in_parts_with_decode_steps_in_between(
    part: int, concurrency: int, max_seqs: int, isl: int, pauses: float
) -> None:
    rng = np.random.default_rng(17)
    isls, osls = lengths(rng, 8 * concurrency, isl, 64)
    toy = Toy(isls, osls, concurrency, max_seqs, part_tokens=part).run(rng)
    times = delivered(toy.emitted, rng, pauses_per_s=pauses)
    tables = as_tables(toy.start, times, isls, osls)
    gaps = gap_stalls(tables)
    assert set(gaps["prefill_style"]) == {"separate"}
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.99, found
    (line,) = timelines(tables)
    assert line.prefills.part.any()
    (summary,) = stall_summary(tables, run_metrics(tables)).to_dict("records")
    assert summary["n_unseen_prefills"] == 0
    # A prompt's parts together lost what its tokens take, besides what each step costs.
    run, _ = prefill_rate(tables).to_dict("records")
    fixed = 1 / (1 / toy.rate + toy.base_s / part)
    assert fixed * 0.9 <= run["rate_tok_s"] <= toy.rate * 1.1
    assert gaps["prefill_tokens"].notna().all()


@pytest.mark.parametrize("pauses", [0.3, 3.0])
@pytest.mark.parametrize("concurrency", [8, 16, 24])
def test_batched_prefills_of_equal_lengths(concurrency: int, pauses: float) -> None:
    # In lockstep nearly all stalls are those of the few that were prefilled ahead of their batch.
    rng = np.random.default_rng(1)
    isls, osls = [512] * 8 * concurrency, [64] * 8 * concurrency
    toy = Toy(isls, osls, concurrency, batched=True, part_tokens=10**9).run(rng)
    times = delivered(toy.emitted, rng, pauses_per_s=pauses)
    gaps = gap_stalls(as_tables(toy.start, times, isls, osls))
    said, true = gaps["is_stall"].to_numpy(dtype=bool), truth(gaps, toy.prefills)
    assert 0 < true.sum() < 0.1 * len(true)
    assert (said & true).sum() >= 0.95 * max(said.sum(), true.sum())


def test_without_late_deliveries_nothing_is_missed() -> None:
    rng = np.random.default_rng(3)
    isls, osls = lengths(rng, 60, 512, 48)
    toy = Toy(isls, osls, 6).run(rng)
    tables = as_tables(toy.start, [np.array(t) for t in toy.emitted], isls, osls)
    gaps = gap_stalls(tables)
    true = truth(gaps, toy.prefills)
    assert (gaps["is_stall"].to_numpy(dtype=bool) == true).all()
    assert (gaps["cause"].to_numpy() == np.where(true, "prefill", "none")).all()
    assert (gaps.loc[~true, "prefill_tokens"] == 0).all()
    # Each prompt between the two emissions, and no other, is in the gap's tokens.
    begun = {t[0]: isl for t, isl in zip(toy.emitted, isls, strict=True)}
    times = np.array(sorted(begun))
    sums = np.concatenate([[0], np.cumsum([begun[t] for t in times])])
    expected = []
    for i, k in zip(gaps["request_id"].astype(int), gaps["index"], strict=True):
        low, high = np.searchsorted(times, toy.emitted[i][k : k + 2], side="right")
        expected.append(sums[high] - sums[low])
    assert gaps["prefill_tokens"].tolist() == expected


@pytest.mark.parametrize(("replicas", "rate"), [(2, 50_000), (3, 50_000), (2, 300_000)])
def test_replicas_with_clocks_of_their_own(replicas: int, rate: float) -> None:
    rng = np.random.default_rng(11)
    start, emitted, prefills, isls, osls = [], [], [], [], []
    for _ in range(replicas):
        isl, osl = lengths(rng, 40, 768, 80)
        toy = Toy(isl, osl, 6, 8, rate, decode_s=0.010, per_seq_s=0.0003).run(rng)
        shift = rng.uniform(0, 0.02)
        start += (toy.start + shift).tolist()
        emitted += [[t + shift for t in times] for times in toy.emitted]
        prefills += toy.prefills
        isls, osls = isls + isl, osls + osl
    tables = as_tables(np.array(start), delivered(emitted, rng), isls, osls)
    gaps = gap_stalls(tables)
    found = scores(gaps, truth(gaps, prefills))
    assert min(found.values()) >= 0.97, found
    row = step_quality(timelines(tables)).iloc[0]
    assert row["n_engines"] == replicas
    assert row["on_time_fraction"] > 0.9


def test_a_client_that_reads_late_is_no_replica() -> None:
    # Its three workers sleep a third of the time, and wake one after the other.
    rng = np.random.default_rng(1)
    isls, osls = lengths(rng, 120, 768, 80)
    toy = Toy(isls, osls, 12).run(rng)
    times = delivered(toy.emitted, rng, pauses_per_s=20, pause_s=0.03)
    tables = as_tables(toy.start, times, isls, osls)
    gaps = gap_stalls(tables)
    assert step_quality(timelines(tables)).iloc[0]["n_engines"] == 1
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.97, found


def test_prompts_that_share_a_prefill_step_do_not_stall_each_other() -> None:
    rng = np.random.default_rng(5)
    isls, osls = lengths(rng, 90, 512, 60)
    toy = Toy(isls, osls, 12, batched=True, decode_s=0.010).run(rng)
    gaps = gap_stalls(as_tables(toy.start, delivered(toy.emitted, rng), isls, osls))
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.97, found


def test_requests_of_one_token_stall_the_others() -> None:
    rng = np.random.default_rng(12)
    isls, osls = lengths(rng, 90, 512, 60)
    osls[::5] = [1] * 18  # a first token, and no gap that could place it
    toy = Toy(isls, osls, 8, 8).run(rng)
    gaps = gap_stalls(as_tables(toy.start, delivered(toy.emitted, rng), isls, osls))
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.98, found


@pytest.mark.parametrize("lost", [0, 6])
def test_prefills_of_requests_without_a_token_or_a_record(lost: int) -> None:
    rng = np.random.default_rng(2)
    n = 120
    isls, osls = lengths(rng, n, 512, 60)
    cancel = np.where(rng.random(n) < 0.15, 0.2, np.inf)
    toy = Toy(isls, osls, 8, 8, cancel_s=cancel.tolist()).run(rng)
    times = delivered(toy.emitted, rng)
    end = toy.start + np.where(np.isfinite(cancel), cancel, 0)
    tables = as_tables(toy.start, times, isls, osls, end=end, lost=range(n - lost, n))
    gaps = gap_stalls(tables)
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.97, found
    summary = stall_summary(tables, run_metrics(tables)).iloc[0]
    assert summary["n_unseen_prefills"] > 5
    # Without the cancelled records nothing says that somebody was prefilled there.
    known = tables.requests.filter([s == "ok" for s in tables.requests["status"].to_pylist()])
    blind = gap_stalls(Tables(runs=tables.runs, requests=known, gaps=tables.gaps))
    if not lost:
        assert scores(blind, truth(blind, toy.prefills))["recall all"] < found["recall all"]


@pytest.mark.parametrize("stride", [2, 8])
def test_chunks_of_several_tokens_go_by_first_tokens(stride: int) -> None:
    rng = np.random.default_rng(4)
    isls, osls = lengths(rng, 60, 768, 96)
    toy = Toy(isls, osls, 8).run(rng)
    keep = [
        np.unique(np.append(np.arange(0, len(times), stride), len(times) - 1))
        for times in toy.emitted
    ]
    times = [np.asarray(t)[k] for t, k in zip(delivered(toy.emitted, rng), keep, strict=True)]
    gaps = gap_stalls(as_tables(toy.start, times, isls, osls))
    assert gaps["step_end_ns"].isna().all()
    prefills = [np.asarray(p)[k].tolist() for p, k in zip(toy.prefills, keep, strict=True)]
    found = scores(gaps, truth(gaps, prefills))
    assert min(found.values()) >= 0.97, found


@pytest.mark.parametrize("stride", [2, 8])
@pytest.mark.parametrize("budget", [256, 2048])
def test_chunks_of_several_tokens_and_chunked_prefill_make_no_stall(
    stride: int, budget: int
) -> None:
    rng = np.random.default_rng(1)
    isl, osl = lengths(rng, 100, 900, 60)
    engine = Engine(0.008, 40_000, 0.0002, 0.0, budget, 16, chunked=True)
    run = simulate(engine, Client(isl, osl, concurrency=12, overhead_s=0.003))
    emitted = [run.token_times_s(i) for i in range(len(osl))]
    times = [
        one[np.unique(np.append(np.arange(0, len(one), stride), len(one) - 1))]
        for one in delivered(emitted, rng)
    ]
    gaps = gap_stalls(as_tables(run.start_s, times, isl, osl))
    assert set(gaps["prefill_style"]) == {"shared"}
    assert gaps["step_end_ns"].isna().all()
    assert not gaps["is_stall"].any()


def test_chunks_of_several_tokens_that_are_one_step_each_have_steps() -> None:
    # As with speculative decoding: more tokens than chunks, and a chunk in every step.
    rng = np.random.default_rng(4)
    isls, osls = lengths(rng, 60, 768, 96)
    toy = Toy(isls, osls, 8).run(rng)
    counted = [round(1 + 2.3 * (n - 1)) for n in osls]
    gaps = gap_stalls(as_tables(toy.start, delivered(toy.emitted, rng), isls, counted))
    assert gaps["step_end_ns"].notna().all()
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.98, found


def test_chunks_read_at_once_in_some_requests() -> None:
    rng = np.random.default_rng(6)
    isls, osls = lengths(rng, 60, 768, 96)
    toy = Toy(isls, osls, 8).run(rng)
    keep = [
        np.flatnonzero((rng.random(len(t)) > 0.03) | (i % 5 > 0) | (np.arange(len(t)) < 1))
        for i, t in enumerate(toy.emitted)
    ]
    times = [np.asarray(t)[k] for t, k in zip(delivered(toy.emitted, rng), keep, strict=True)]
    gaps = gap_stalls(as_tables(toy.start, times, isls, osls))
    prefills = [np.asarray(p)[k].tolist() for p, k in zip(toy.prefills, keep, strict=True)]
    found = scores(gaps, truth(gaps, prefills))
    assert min(found.values()) >= 0.93, found


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_engine_models_steps_are_recovered(chunked: bool, replicas: int) -> None:
    # The model shares steps between prompts and decodes: slower steps, no stall.
    rng = np.random.default_rng(8)
    isl, osl = lengths(rng, 80, 900, 60)
    budget = 512 if chunked else 4096
    engine = replace(ENGINE, prefill_budget_tok=budget, replicas=replicas, chunked=chunked)
    run = simulate(engine, Client(isl, osl, concurrency=12, overhead_s=0.003))
    emitted = [run.token_times_s(i) for i in range(len(osl))]
    tables = as_tables(run.start_s, delivered(emitted, rng, pauses_per_s=0.2), isl, osl)
    (line,) = timelines(tables)
    assert line.style == "shared"
    assert not gap_stalls(tables)["is_stall"].any()
    # Every decode step of the model is one recovered step, in order, and ends when it ended.
    decoded = run.step_end_s[run.step_running > 0]
    found = line.ends[line.decoded > 0] / 1e9 + run.start_s[0]
    assert len(found) == len(decoded)
    assert np.median(np.abs(found - decoded)) < 0.0005
    assert np.percentile(np.abs(found - decoded), 95) < 0.003
    row = step_quality([line]).iloc[0]
    assert row["n_engines"] == 1  # lockstep: one clock
    assert row["on_time_fraction"] > 0.9


@pytest.mark.parametrize("jitter_s", [0.001, 0.002, 0.005])
@pytest.mark.parametrize("budget", [128, 512, 2048])
def test_chunked_prefill_is_known_whatever_the_clients_jitter(jitter_s: float, budget: int) -> None:
    rng = np.random.default_rng(1)
    isl, osl = lengths(rng, 100, 900, 60)
    engine = replace(ENGINE, prefill_budget_tok=budget, chunked=True)
    run = simulate(engine, Client(isl, osl, concurrency=12, overhead_s=0.003))
    times = [
        np.maximum.accumulate(one + np.abs(rng.normal(0, jitter_s, len(one))))
        for one in (run.token_times_s(i) for i in range(len(osl)))
    ]
    gaps = gap_stalls(as_tables(run.start_s, times, isl, osl))
    assert set(gaps["prefill_style"]) == {"shared"}
    assert gaps["is_stall"].mean() < 0.005


@pytest.mark.parametrize("jitter_s", [0.001, 0.003, 0.006])
@pytest.mark.parametrize(("rate", "isl"), [(50_000, 768), (300_000, 768), (50_000, 16)])
def test_so_are_separate_prefills(jitter_s: float, rate: float, isl: int) -> None:
    rng = np.random.default_rng(1)
    isls, osls = lengths(rng, 100, isl, 60)
    toy = Toy(isls, osls, 8, 16, rate).run(rng)
    times = [
        np.maximum.accumulate(np.array(one) + np.abs(rng.normal(0, jitter_s, len(one))))
        for one in toy.emitted
    ]
    gaps = gap_stalls(as_tables(toy.start, times, isls, osls))
    assert set(gaps["prefill_style"]) == {"separate"}
    found = scores(gaps, truth(gaps, toy.prefills))
    assert min(found.values()) >= 0.98, found


def test_the_planted_prefill_rate_and_a_control_that_fails() -> None:
    rng = np.random.default_rng(9)
    parts = []
    for name in ("a", "b"):
        isls, osls = lengths(rng, 120, 900, 60)
        toy = Toy(isls, osls, 6, rate=40_000, base_s=0.003).run(rng)
        times = delivered(toy.emitted, rng)
        parts.append(as_tables(toy.start, times, isls, osls, run_id=name))
    tables = Tables.concat(parts)
    rates = prefill_rate(tables)
    assert rates["level"].tolist() == ["run", "run", "configuration"]
    pooled = rates.iloc[-1]
    assert pooled["n_steps"] == rates["n_steps"].iloc[:2].sum()
    # Steps take 1.6 % longer than their formula on average.
    assert pooled["rate_tok_s"] == pytest.approx(40_000 / 1.016, rel=0.02)
    assert pooled["base_ms"] == pytest.approx(3, abs=1.0)
    assert pooled["rate_low_tok_s"] < pooled["rate_tok_s"] < pooled["rate_high_tok_s"]
    control = shuffled_control(tables)
    assert control["other_run_id"].tolist() == ["b", "a"]
    assert (control["long_fraction"] > 0.85).all()  # prompts differ fourfold in length
    assert (control["shuffled_long_fraction"] < 0.4).all()
    alone = shuffled_control(parts[0]).iloc[0]
    assert alone["other_run_id"] == "a"
    assert alone["shuffled_long_fraction"] < 0.4
