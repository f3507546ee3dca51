"""The engine model against runs worked out by hand, and against its own conservation laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.explain.engine import Client, Engine, simulate


def test_one_request_alone() -> None:
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000, prefill_base_s=0.5),
        Client(isl=[500], osl=[4], concurrency=1),
    )
    assert run.token_times_s(0) == pytest.approx([1.0, 1.01, 1.02, 1.03])
    assert run.first_token_s[0] == pytest.approx(1.0)
    assert run.end_s[0] == pytest.approx(1.03)


def test_prefill_stalls_the_running_request() -> None:
    """The second prompt arrives at 1.015: it is taken at the next step end and costs 1 s."""
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000),
        Client(isl=[1000, 1000], osl=[5, 2], arrivals_s=[0.0, 1.015]),
    )
    # step ends: 1.00 (prefill), 1.01, 1.02, then prefill + decode together 1.01 s, then 0.01
    assert run.token_times_s(0) == pytest.approx([1.00, 1.01, 1.02, 2.03, 2.04])
    assert run.token_times_s(1) == pytest.approx([2.03, 2.04])
    assert list(run.step_prefill_tok) == [1000, 0, 0, 1000, 0]


def test_slots_make_requests_wait() -> None:
    """Two slots, three requests of one second of decode each: the third waits for a slot."""
    run = simulate(
        Engine(decode_base_s=0.1, prefill_rate_tok_s=1e9, max_num_seqs=2),
        Client(isl=[1, 1, 1], osl=[11, 11, 11], concurrency=3),
    )
    assert run.start_s == pytest.approx([0, 0, 0])
    assert run.admitted_s == pytest.approx([0, 0, 1.0])
    assert run.end_s == pytest.approx([1.0, 1.0, 2.0])


def test_budget_splits_the_batch() -> None:
    """Four prompts of 100 tokens, 200 a step: first tokens come in pairs, 0.2 s apart."""
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000, prefill_budget_tok=200),
        Client(isl=[100] * 4, osl=[1] * 4, concurrency=4),
    )
    assert run.first_token_s == pytest.approx([0.2, 0.2, 0.4, 0.4])


def test_a_prompt_above_the_budget_goes_alone() -> None:
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000, prefill_budget_tok=50),
        Client(isl=[100, 100], osl=[1, 1], concurrency=2),
    )
    assert run.first_token_s == pytest.approx([0.1, 0.2])


def test_chunks_slow_the_decode_instead_of_stopping_it() -> None:
    """300 prompt tokens in chunks of 100: three steps of 0.11 s instead of one of 0.31 s."""
    whole = Engine(decode_base_s=0.01, prefill_rate_tok_s=1000, prefill_budget_tok=100)
    chunked = Engine(
        decode_base_s=0.01, prefill_rate_tok_s=1000, prefill_budget_tok=100, chunked=True
    )
    client = Client(isl=[100, 300], osl=[8, 2], arrivals_s=[0.0, 0.105])
    assert np.diff(simulate(whole, client).token_times_s(0)).max() == pytest.approx(0.31)
    sliced = simulate(chunked, client)
    assert np.diff(sliced.token_times_s(0)).max() == pytest.approx(0.11)
    assert list(sliced.step_prefill_tok[:5]) == [100, 0, 100, 100, 100]
    assert sliced.first_token_s[1] == pytest.approx(0.44)


def test_replicas_run_in_lockstep() -> None:
    """The second replica only decodes, yet its step lasts as long as the first one's prefill."""
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000, replicas=2),
        Client(isl=[100, 100, 500], osl=[9, 9, 1], arrivals_s=[0.0, 0.0, 0.115]),
    )
    assert list(run.replica) == [0, 1, 0]
    assert run.token_times_s(0) == pytest.approx(run.token_times_s(1))
    assert np.diff(run.token_times_s(1)).max() == pytest.approx(0.51)


def test_the_client_pauses_between_requests() -> None:
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000),
        Client(isl=[100] * 3, osl=[1] * 3, concurrency=1, overhead_s=0.4, reply_s=0.1),
    )
    assert run.start_s == pytest.approx([0.0, 0.6, 1.2])
    assert run.end_s == pytest.approx([0.2, 0.8, 1.4])


def test_pauses_can_differ_by_request_and_the_start_can_be_spread() -> None:
    run = simulate(
        Engine(decode_base_s=0.01, prefill_rate_tok_s=1000),
        Client(isl=[100] * 4, osl=[1] * 4, concurrency=2, overhead_s=[0, 0, 0.4, 0.2], ramp_s=1.0),
    )
    assert run.start_s == pytest.approx([0.0, 0.5, 0.5, 0.9])
    # at 0.5 requests 1 and 2 arrive together and share a batch of 200 tokens
    assert run.end_s == pytest.approx([0.1, 0.7, 0.7, 1.0])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Engine(decode_base_s=0.01, prefill_rate_tok_s=0), "prefill_rate_tok_s"),
        (lambda: Engine(decode_base_s=-1, prefill_rate_tok_s=1), "decode_base_s"),
        (lambda: Engine(decode_base_s=0, prefill_rate_tok_s=1), "must take time"),
        (lambda: Client(isl=[1], osl=[1]), "either concurrency"),
        (lambda: Client(isl=[1], osl=[1, 2], concurrency=1), "1 input lengths for 2"),
        (lambda: Client(isl=[1], osl=[0], concurrency=1), "at least one"),
        (lambda: Client(isl=[1], osl=[1], arrivals_s=[0, 1]), "2 arrivals for 1"),
    ],
)
def test_impossible_settings_are_refused(build, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40)), min_size=1, max_size=40),
    concurrency=st.integers(1, 12),
    slots=st.integers(1, 6),
    replicas=st.integers(1, 3),
    budget=st.integers(1, 400),
    chunked=st.booleans(),
)
def test_nothing_is_lost_and_time_runs_forward(
    lengths, concurrency, slots, replicas, budget, chunked
) -> None:
    isl, osl = zip(*lengths, strict=True)
    engine = Engine(
        decode_base_s=0.005,
        decode_per_seq_s=0.0002,
        prefill_rate_tok_s=5000,
        prefill_budget_tok=budget,
        max_num_seqs=slots,
        replicas=replicas,
        chunked=chunked,
    )
    run = simulate(engine, Client(isl=isl, osl=osl, concurrency=concurrency, overhead_s=0.001))
    assert int(run.step_prefill_tok.sum()) == sum(isl)
    assert len(run.gaps_s()) == sum(osl) - len(osl)
    assert int(run.step_running.sum()) == sum(osl) - len(osl)  # a first token is no decode
    assert int(run.step_running.max(initial=0)) <= slots * replicas
    assert (np.diff(run.step_end_s) > 0).all()
    assert (run.start_s <= run.admitted_s).all()
    assert (run.admitted_s < run.first_token_s).all()
    assert (run.first_token_s <= run.end_s).all()
    in_flight = [(run.start_s <= t).sum() - (run.end_s <= t).sum() for t in run.start_s]
    assert max(in_flight) <= concurrency
