"""Reconstructed dumps: recipes meet their figures, plans give the same bytes, files are read."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from servebook.errors import DumpError
from servebook.explain.reconstruct import generate as making
from servebook.explain.reconstruct.condition import Condition, Recipe, even, figures, replay
from servebook.explain.reconstruct.dumps import aiperf_folder, vllm_object
from servebook.explain.reconstruct.fit import PLAIN_SPREAD, fit
from servebook.explain.reconstruct.plan import read_plan, recipes_csv
from servebook.explain.reconstruct.wire import Levels, Watched, counters, utilisation
from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.read.manifest import load_manifest

DATA = Path(__file__).parents[2] / "data"
CAMPAIGNS = ("b300-one-vs-two-nodes", "b300-two-nodes")
SMALL = Condition("raw/aiperf/x", "x", "mixed", 400, 20, 4, 1, 4)
RECIPE = Recipe(decode_s=0.01, prefill_tok_s=10_000, prompts_per_batch=1)


def test_even_numbers_fill_any_stretch() -> None:
    numbers = even(1000)
    for start in (0, 137, 900):
        counts, _ = np.histogram(numbers[start : start + 100], bins=10, range=(0, 1))
        assert counts.min() >= 8
        assert counts.max() <= 12


@pytest.mark.parametrize(
    ("workload", "targets"),
    [
        ("prefill", {"input_throughput": 9000.0, "ttft_mean_s": 0.7}),
        ("decode", {"output_throughput": 380.0, "tpot_mean_ms": 20.0}),
    ],
)
def test_a_fit_meets_what_was_printed(workload: str, targets: dict[str, float]) -> None:
    lengths = (2000, 1) if workload == "prefill" else (20, 200)
    condition = Condition("r", "x", workload, *lengths, 8, 1, 16, targets)
    found = fit(condition, Recipe(decode_s=0.015, prefill_tok_s=12_000))
    for name, value in targets.items():
        assert found.figures[name] == pytest.approx(value, rel=1e-3)


def test_a_spread_moves_the_mean_and_leaves_the_median() -> None:
    plain = figures(replay(SMALL, RECIPE))
    spread = figures(replay(SMALL, replace(RECIPE, spread_up=0.4)))
    assert spread["itl_median_ms"] == pytest.approx(plain["itl_median_ms"], rel=0.03)
    assert spread["itl_mean_ms"] > 1.03 * plain["itl_mean_ms"]


def test_prompts_that_span_steps_fill_each_step() -> None:
    """A full step takes 0.06 s of prompts beside a decode of 0.01 s: 1.5 prompts of 0.04 s."""
    whole = replay(SMALL, RECIPE)
    spanning = replay(SMALL, replace(RECIPE, full_step_s=0.06))
    assert RECIPE.budget_tok(400) == 400
    assert replace(RECIPE, full_step_s=0.06).budget_tok(400) == 600
    assert set(whole.step_prefill_tok) == {0, 400}
    assert spanning.step_prefill_tok.max() == 600
    assert spanning.step_prefill_tok.sum() == whole.step_prefill_tok.sum() == 16 * 400


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_shipped_run_needs_more_spread_than_an_engine_s_own(name: str) -> None:
    recipes = [p.recipe for p in read_plan(DATA / name)]
    assert max(recipe.spread_up for recipe in recipes) < PLAIN_SPREAD
    assert all(recipe.spread_up == 0 for recipe in recipes if recipe.full_step_s > 0)


def test_a_delay_before_the_engine_adds_to_the_ttft_alone() -> None:
    plain = figures(replay(SMALL, replace(RECIPE, pause_s=0.3)))
    moved = figures(replay(SMALL, replace(RECIPE, pause_s=0.2, delay_s=0.1)))
    assert moved["ttft_mean_s"] == pytest.approx(plain["ttft_mean_s"] + 0.1, rel=1e-6)
    assert moved["tpot_mean_ms"] == pytest.approx(plain["tpot_mean_ms"], rel=1e-6)


def test_both_forms_are_read_to_the_run_s_own_figures(tmp_path: Path) -> None:
    run = replay(SMALL, RECIPE)
    folder = tmp_path / "a"
    folder.mkdir()
    for name, content in aiperf_folder(run, SMALL, 10**18, "m").items():
        (folder / name).write_bytes(content)
    (tmp_path / "v.json.gz").write_bytes(vllm_object(run, SMALL, "m"))
    metrics = run_metrics(read_tree(tmp_path)).set_index("run_id")
    want = figures(run)
    for run_id in ("a", "v"):
        row = metrics.loc[run_id]
        assert row["n_ok"] == 16
        assert row["n_gaps"] == 16 * 19
        assert row["output_throughput_tok_s"] == pytest.approx(want["output_throughput"], rel=1e-5)
        assert row["ttft_mean_ms"] == pytest.approx(want["ttft_mean_s"] * 1e3, rel=1e-5)
        assert row["itl_p99_ms"] == pytest.approx(want["itl_p99_ms"], rel=1e-5)
        assert row["tpot_mean_ms"] == pytest.approx(want["tpot_mean_ms"], rel=1e-5)


def test_the_wire_follows_its_levels() -> None:
    edges = np.arange(0.0, 301.0)
    runs = [
        Watched(10, 90, "prefill", Levels(0.06, 0.075)),
        Watched(110, 190, "decode", Levels(0.0175, 0.024, floor=0.0174)),
    ]
    level = utilisation(edges, runs)
    assert level[:9].max() < 0.001
    assert np.median(level[14:86]) == pytest.approx(0.06, rel=0.002)
    assert level[14:86].max() == pytest.approx(0.075)
    assert level[114:186].min() == pytest.approx(0.0174)
    assert level[114:186].max() == pytest.approx(0.024)


def test_what_one_server_sends_the_other_receives() -> None:
    edges = np.arange(0.0, 20.0)
    found = counters(
        edges,
        np.full(19, 0.05),
        start_ns=10**18,
        rails=4,
        speed_bps=400e9,
        skew=1.02,
        reset=("Ethernet2/3", 8),
    )
    for rail in range(1, 5):
        sent = np.diff(found.octets[f"Ethernet1/{rail}", "rx"])
        received = np.diff(found.octets[f"Ethernet2/{rail}", "tx"])
        kept = np.arange(19) != 7 if rail == 3 else np.full(19, True)
        assert (sent[kept] == received[kept]).all()
    assert found.octets["Ethernet2/3", "tx"][8] < found.octets["Ethernet2/3", "tx"][7]
    rates = {i: np.diff(found.octets[f"Ethernet1/{i}", "rx"])[0] for i in range(1, 5)}
    assert max(rates.values()) / min(rates.values()) == pytest.approx(1.02, rel=0.003)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_shipped_plan_gives_the_shipped_bytes(name: str) -> None:
    """Compressed bytes may differ where another zlib is at work: then the contents decide."""
    campaign = DATA / name
    files = making.generate(campaign)
    sums = {}
    for line in (campaign / making.SUMS).read_text(encoding="utf-8").splitlines():
        digest, path = line.split("  ")
        sums[path] = digest
    assert sorted(files) == sorted(sums)
    for path, content in files.items():
        shipped = (campaign / path).read_bytes()
        assert hashlib.sha256(shipped).hexdigest() == sums[path]
        if content != shipped:
            assert gzip.decompress(content) == gzip.decompress(shipped), path


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_recipe_meets_its_figures_to_a_thousandth(name: str) -> None:
    plan = read_plan(DATA / name)
    fitted = [p for p in plan if p.condition.targets]
    assert len(fitted) >= 19
    for planned in fitted:
        got = figures(replay(planned.condition, planned.recipe))
        for figure, value in planned.condition.targets.items():
            assert got[figure] == pytest.approx(value, rel=1e-3), (planned.condition.run, figure)
    assert recipes_csv(plan) == (DATA / name / "recipes.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_manifest_gives_the_starts_of_the_plan(name: str) -> None:
    campaign = DATA / name
    settings, plan = making.read_settings(campaign), read_plan(campaign)
    runs = [replay(p.condition, p.recipe) for p in plan]
    begin = datetime.fromtimestamp(settings.start_ns / 1e9, UTC)
    stated = {
        entry.match: entry.start
        for entry in load_manifest(campaign).runs
        if entry.start is not None
    }
    for planned, start in zip(plan, making.timeline(settings, runs), strict=True):
        run = planned.condition.run
        if run.endswith(".json.gz"):
            at = begin + timedelta(seconds=start)
            assert stated[run.removesuffix(".json.gz")] == round(at.timestamp()) * 10**9


def test_a_plan_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    head = "id,run,metric,stat,value,unit,printed_step\n"
    (tmp_path / "published.csv").write_text(head + "a,raw/x,ttft,mean,1,s,0.1\n")
    (tmp_path / "recipes.csv").write_text("run,configuration,workload,isl,osl,concurrency\n")
    with pytest.raises(DumpError, match="figures of raw/x; add the run"):
        read_plan(tmp_path)
    (tmp_path / "published.csv").write_text(head + "a,raw/x,colour,mean,1,s,0.1\n")
    with pytest.raises(DumpError, match=r"published.csv:2: .*colour"):
        read_plan(tmp_path)
    (tmp_path / "published.csv").write_text(head)
    (tmp_path / "recipes.csv").write_text("run,configuration,workload,isl,osl\nr,c,mixed,many,1\n")
    with pytest.raises(DumpError, match=r"recipes.csv:2"):
        read_plan(tmp_path)
    with pytest.raises(DumpError, match="no such file"):
        read_plan(tmp_path / "nowhere")


def test_nothing_in_a_dump_claims_a_client_s_run() -> None:
    run = replay(SMALL, RECIPE)
    summary = json.loads(aiperf_folder(run, SMALL, 10**18, "m")["profile_export_aiperf.json"])
    document = json.loads(gzip.decompress(vllm_object(run, SMALL, "m")))
    assert summary["aiperf_version"] == "reconstructed"
    assert "reconstructed" in document["label"]
