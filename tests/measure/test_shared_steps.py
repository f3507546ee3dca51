"""Steps that carry parts of prompts beside their decodes, against the engine model's own steps."""

from __future__ import annotations

import numpy as np
import pytest
from toy_engine import as_tables, delivered

from servebook.explain.engine import Client, Engine, simulate
from servebook.measure.shared_steps import slow_steps
from servebook.measure.stalls import gap_stalls
from servebook.measure.steps import timelines


@pytest.mark.parametrize("budget", [64, 256, 512, 2048])
@pytest.mark.parametrize(("concurrency", "slots"), [(4, 16), (12, 16), (24, 16)])
def test_gaps_in_steps_with_prompt_tokens_are_slow(
    budget: int, concurrency: int, slots: int
) -> None:
    rng = np.random.default_rng(1)
    isl = rng.integers(450, 1800, 100).tolist()
    osl = rng.integers(40, 120, 100).tolist()
    engine = Engine(
        decode_base_s=0.006,
        decode_per_seq_s=0.0002,
        prefill_rate_tok_s=45_000,
        prefill_budget_tok=budget,
        max_num_seqs=slots,
        chunked=True,
    )
    run = simulate(engine, Client(isl, osl, concurrency=concurrency, overhead_s=0.003))
    emitted = [run.token_times_s(i) for i in range(len(osl))]
    gaps = gap_stalls(as_tables(run.start_s, delivered(emitted, rng, pauses_per_s=0.3), isl, osl))
    at = zip(gaps["request_id"].astype(int), gaps["index"], strict=True)
    true = np.array([run.step_prefill_tok[run.first_step[i] + k + 1] > 0 for i, k in at])
    said = gaps["is_slow"].to_numpy(dtype=bool)
    assert (said & true).sum() >= 0.97 * said.sum()
    assert (said & true).sum() >= 0.97 * true.sum()
    assert not gaps["is_stall"].any()


def test_where_somebody_always_waits_nothing_tells_how_long_a_plain_step_is() -> None:
    rng = np.random.default_rng(2)
    isl, osl = [900] * 30, [50] * 30
    run = simulate(Engine(0.006, 45_000, 0.0002, 0.0, 256, 16, chunked=True), Client(isl, osl, 8))
    emitted = [run.token_times_s(i) for i in range(len(osl))]
    # A last request that waits from the first token on to the end of the run.
    start = np.append(run.start_s, 0.0)
    late = float(run.end_s.max()) + np.arange(3) * 0.006
    tables = as_tables(start, [*delivered(emitted, rng), late], [*isl, 900], [*osl, 3])
    (line,) = timelines(tables)
    assert slow_steps(line) is None
