"""Placing requests on engine clocks, by hand. A decode step takes 10, in any unit."""

import numpy as np
import pytest

from servebook.measure.clock import Sequence
from servebook.measure.replicas import on_few_clocks as place

STEP = 10.0


def sequence(first: float, begin: float, n: int, *, exact: bool = True) -> Sequence:
    return Sequence(first, begin + STEP * np.arange(n), exact)


def begins(*sequences: Sequence) -> list[int]:
    return [int(steps[0]) for steps in place(list(sequences), STEP).steps]


def test_requests_lie_on_the_steps_that_their_tokens_share() -> None:
    a = sequence(0, 10, 50)
    b = sequence(195, 200, 50)  # its first decode step is a's 20th
    c = sequence(700, 710, 5)  # after everything: new steps
    assert begins(a, b, c) == [0, 19, 69]


@pytest.mark.parametrize("late", [range(20, 30), range(25), range(3, 18)])
def test_late_tokens_do_not_move_a_request(late: range) -> None:
    # The client slept: a stretch of b's tokens came together with the stretch's last one.
    a = sequence(0, 10, 60)
    times = 200 + STEP * np.arange(40)
    times[list(late)] = times[late[-1]] + 4.0
    assert begins(a, Sequence(195.0, times)) == [0, 19]


def test_all_clients_late_at_once_do_not_merge_steps() -> None:
    both = 10 + STEP * np.arange(60)
    both[20:30] = both[30]
    a, b = Sequence(0.0, both), Sequence(1.0, both + 0.1)
    placed = place([a, b], STEP)
    assert placed.steps[0].tolist() == list(range(60))
    assert placed.steps[1].tolist() == list(range(60))


def test_a_long_gap_tells_where_even_steps_do_not() -> None:
    # Both saw the prefill of 40 after a's step 30; b alone is late by most of a step.
    a = np.cumsum(np.where(np.arange(60) == 30, 50.0, STEP))
    b = a[20:55] + 7.0
    assert begins(Sequence(0.0, a), Sequence(float(a[19]) + 2, b)) == [0, 20]


def test_a_first_token_bounds_the_first_step() -> None:
    # b's tokens all came in a burst after a had ended, but its first one on time.
    a = sequence(0, 10, 20)  # ends at 200
    b = Sequence(192.0, np.array([260.0, 260.0, 260.0, 260.0, 270.0]))
    assert begins(a, b) == [0, 19]


def test_replicas_get_clocks_of_their_own() -> None:
    rng = np.random.default_rng(0)
    sequences, engines = [], []
    for engine, (step, shift) in enumerate([(10.0, 0.0), (10.7, 4.0)]):
        for number in range(8):
            begin = shift + step * 10 * number
            times = begin + step * np.arange(1, 60) + rng.uniform(0, 0.3, 59)
            sequences.append(Sequence(begin + 1, times))
            engines.append(engine)
    order = np.argsort([one.first for one in sequences], kind="stable")
    placed = place([sequences[i] for i in order], STEP)
    found = placed.clock[np.argsort(order)]
    assert found.tolist() in (engines, [1 - e for e in engines])


def test_one_engine_stays_one_clock() -> None:
    placed = place([sequence(10.0 * i, 10.0 * (i + 1), 40) for i in range(6)], STEP)
    assert set(placed.clock) == {0}


def test_a_preempted_request_skips_steps() -> None:
    a = sequence(0, 10, 100)
    times = np.concatenate([100 + STEP * np.arange(30), 600 + STEP * np.arange(30)])
    b = Sequence(95.0, times)
    steps = place([a, b], STEP).steps[1]
    assert steps[0] == 9
    assert steps[29] == 38
    assert steps[30] == 59
    assert steps[-1] == 88


def test_a_request_with_fewer_chunks_than_tokens_goes_by_time() -> None:
    a = sequence(0, 10, 60)
    times = np.delete(100 + STEP * np.arange(40), [15, 30])  # two chunks were read with the next
    steps = place([a, Sequence(95.0, times, exact=False)], STEP).steps[1]
    assert steps.tolist() == np.delete(np.arange(9, 49), [15, 30]).tolist()


def test_nothing_and_requests_of_one_token() -> None:
    assert place([], STEP).steps == []
    placed = place([Sequence(1.0, np.empty(0)), sequence(0, 10, 3)], STEP)
    assert placed.clock.tolist() == [-1, 0]
    assert [len(steps) for steps in placed.steps] == [0, 3]
