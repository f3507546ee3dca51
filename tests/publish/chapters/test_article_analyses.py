"""Chapters 07 and 08: for any campaign, for planted crossed cells, for the shipped campaigns."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from small import campaign, loopback, shipped

from servebook.publish.chapters import (
    decomposition,
    decomposition_alone,
    decomposition_split,
    limit,
    matched,
    next_run,
    reproducibility,
    reuse,
    reuse_prefix,
    same_traffic,
    scale_out,
    stall_arithmetic,
    token_cost,
)
from servebook.publish.display import payload
from servebook.publish.output import Figure, Output, Statement
from servebook.read.campaign import Campaign
from tests.explain import settings

FUNCTIONS: Mapping[str, Callable[[Campaign], Output]] = {
    **{
        f"cells-{w}": functools.partial(decomposition.grid_of, workload=w)
        for w in ("prefill", "decode", "mixed")
    },
    "cells-per-gpu": functools.partial(decomposition.grid_of, workload="prefill", per_gpu=True),
    "cells-verdict": decomposition.grid_statement,
    "alone": decomposition_alone.alone,
    "split": decomposition_split.bounds,
    "split-verdict": decomposition_split.bounds_statement,
    "next-run": next_run.commands,
    "matched": matched.matched,
    "matched-per-gpu": functools.partial(matched.matched, per_gpu=True),
    "parity": matched.parity,
    "same-traffic": same_traffic.same_traffic,
    "headroom": same_traffic.headroom,
    "limit": limit.beyond_slots,
    "limit-verdict": limit.limit_statement,
    "cap": limit.cap,
    "reversal": limit.reversal,
    "arithmetic": stall_arithmetic.arithmetic,
    "stop": stall_arithmetic.stop_statement,
    "hidden": stall_arithmetic.hidden_tail,
    "tail-range": stall_arithmetic.tail_range,
    "reuse": reuse.on_off,
    "reuse-verdict": reuse.on_off_statement,
    "shared-prefix": reuse_prefix.shared_prefix,
    "reproducibility": reproducibility.side_by_side,
    "reproducibility-verdict": reproducibility.side_by_side_statement,
    "scale-out": scale_out.more_nodes,
    "scale-out-verdict": scale_out.ceiling_statement,
    "assumptions": scale_out.assumptions,
    "cost": token_cost.relative_cost,
    "cost-verdict": token_cost.relative_cost_statement,
    "formula": token_cost.byte_formula,
}
#: 90 GB a GPU: FP8 on one node does not fit, so that no cell of the cross is open.
CROSSED = settings.CROSSED.replace("hbm_gb: 100", "hbm_gb: 90").replace(
    "max_num_seqs: 8", "max_num_seqs: 2"
)
#: Planted: crossing nodes costs a factor of 3 in prefill, precision one of 1.5.
LENGTH_S = {"1n-fp4": 0.02, "2n-fp4": 0.06, "2n-fp8": 0.09}
CAMPAIGNS: dict[str, dict[str, dict[str, Any]]] = {
    "one run": {"r": {"gaps_ms": [5.0] * 400}},
    "all failed": {"r": {"status": "failed"}, "s": {"status": "failed", "workload": "prefill"}},
    "summary only": {"r": {"level": "summary"}, "d": {"level": "summary", "workload": "decode"}},
    "no configuration": {"r": {"configuration": None, "gaps_ms": [5.0] * 60}},
    "no clock": {"r": {"gaps_ms": [5.0] * 400, "clock": "none", "client": "vLLM"}},
    "two configurations": {
        f"{c}{w}{n}": {
            "configuration": c, "concurrency": n, "workload": w, "gaps_ms": [5.0] * 400,
        }
        for c in "ab" for w in ("prefill", "decode", "mixed") for n in (2, 4, 16)
    },
}  # fmt: skip


def planted(*names: str) -> Campaign:
    """The crossed campaign with the cells of these configurations."""
    runs = {}
    for name in names:
        runs[f"p-{name}"] = {
            "configuration": name,
            "workload": "prefill",
            "length_s": LENGTH_S[name],
        }
        runs[f"d-{name}"] = {
            "configuration": name, "workload": "decode",
            "gaps_ms": [10.0 if name == "1n-fp4" else 20.0] * 50,
        }  # fmt: skip
    return campaign(runs, CROSSED)


@functools.cache
def book(kind: str) -> Campaign:
    return campaign(CAMPAIGNS[kind])


@pytest.mark.parametrize("kind", CAMPAIGNS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_campaign_breaks_an_analysis(name: str, kind: str) -> None:
    output = FUNCTIONS[name](book(kind))
    payload(output)
    if isinstance(output, Figure):
        assert output.title
        assert output.chart is not None or output.table is not None or output.missing
    if isinstance(output, Statement) and not output.runs:
        assert not output.verdict


@pytest.mark.parametrize("campaign_name", ["loopback", "b300-one-vs-two-nodes", "b300-two-nodes"])
def test_shipped_campaigns_are_marked_and_drawn(campaign_name: str) -> None:
    here = shipped(campaign_name)
    outputs = {name: function(here) for name, function in FUNCTIONS.items()}
    for output in outputs.values():
        payload(output)
        if isinstance(output, Statement):
            assert ("reconstructed" in output.marks) == (campaign_name != "loopback")
    figures = [o for o in outputs.values() if isinstance(o, Figure)]
    assert len({f.id for f in figures}) == len(figures)
    assert sum(f.chart is not None for f in figures) >= 5


LACKING: dict[str, tuple[Callable[[str], bool], dict[str, str]]] = {
    "prefill": (
        lambda run: "prefill" in run,
        {"cells-prefill": "no prefill run", "split": "share no prefill condition"},
    ),
    "the candidate": (
        lambda run: "1n-nvfp4-tp8dp1" in run,
        {"split": "share no prefill and no decode condition", "limit": "No series"},
    ),
    "one cell": (
        lambda run: "2n-fp8-tp8dp2_prefill" in run,
        {"same-traffic": "No prefill condition was watched by counters on two configurations"},
    ),
}


@pytest.mark.parametrize("what", LACKING)
def test_a_campaign_that_lacks_cells_says_so_in_words(what: str) -> None:
    gone, expected = LACKING[what]
    whole = shipped("b300-one-vs-two-nodes")
    kept = [r for r in whole.tables.runs["run_id"].to_pylist() if not gone(r)]
    assert len(kept) < whole.tables.runs.num_rows
    parts = {
        name: getattr(whole.tables, name).filter(
            pc.is_in(getattr(whole.tables, name)["run_id"], pa.array(kept))
        )
        for name in ("runs", "requests", "gaps")
    }
    here = replace(whole, tables=replace(whole.tables, **parts))
    said = {}
    for name, function in FUNCTIONS.items():
        output = function(here)
        payload(output)
        if isinstance(output, Figure):
            assert output.chart is not None or output.missing or output.table is not None, name
            said[name] = output.missing
    for name, words in expected.items():
        assert words in said[name]
    if what == "one cell":
        chart = decomposition.grid_of(here, "prefill").chart
        assert chart is not None
        assert "TP8\\nnot run" in chart.to_json()


def test_planted_factors_come_back_from_the_crossed_cells() -> None:
    found = decomposition_split.bounds(planted("1n-fp4", "2n-fp4", "2n-fp8"))
    assert "nodes 3 times" in found.title
    assert "precision 1.5 times" in found.title
    alone = decomposition_alone.alone(planted("1n-fp4", "2n-fp4", "2n-fp8")).table
    assert alone is not None
    prefill = alone[alone["Workload"] == "prefill"]
    assert dict(zip(prefill["Factor"], prefill["First over second"], strict=True)) == pytest.approx(
        {"nodes": 3.0, "precision": 1.5}
    )


def test_without_the_crossed_cell_the_run_that_settles_it_is_named() -> None:
    found = decomposition_split.bounds(planted("1n-fp4", "2n-fp8"))
    assert "if decode shows precision alone" in found.title
    assert "each GPU holds 50 GB in both" in found.subtitle
    assert any("FP4 on 16 GPUs (two nodes) fits, with 25 GB" in note for note in found.notes)
    said = decomposition_split.bounds_statement(planted("1n-fp4", "2n-fp8"))
    assert "They differ in precision, nodes, GPUs" in said.more
    assert "No run here parts the two causes." in said.more
    assert (said.low, said.high) == pytest.approx((4.5, 4.5))
    cells = decomposition.grid_of(planted("1n-fp4", "2n-fp8"), "prefill")
    assert any(note.startswith("Not run: FP4 · 2 nodes") for note in cells.notes)
    told = next_run.commands(planted("1n-fp4", "2n-fp8"))
    assert "differs in precision" in told.paragraphs[0]
    assert "--concurrency 2 --request-count 2" in told.code
    assert "--artifact-dir raw/aiperf/2n-fp4_prefill_c2" in told.code  # as the manifest names it
    assert "below configurations" not in told.code
    assert next_run.commands(planted("1n-fp4", "2n-fp4", "2n-fp8")).code == ""


def test_one_factor_is_a_single_variable() -> None:
    found = decomposition.grid_of(loopback(), "mixed")
    assert "SINGLE VARIABLE along the columns: chunked prefill" in found.subtitle
    assert decomposition.grid_of(loopback(), "decode").missing
    assert "no number of GPUs" in decomposition.grid_of(loopback(), "prefill", per_gpu=True).missing


def test_a_run_with_cache_reuse_is_no_repeat() -> None:
    here = shipped("b300-one-vs-two-nodes")
    rows = reuse.plain(here)
    assert rows["n_runs"].max() == 1
    table = reuse.on_off(here).table
    assert table is not None
    rates = table[table["Metric"] == "Output throughput"]["Change (%)"]
    assert sorted(rates) == pytest.approx([-0.304, 2.064], abs=1e-3)


def test_the_articles_verdicts_of_one_against_two_nodes() -> None:
    here = shipped("b300-one-vs-two-nodes")
    title = decomposition.grid_of(here, "prefill").title
    assert "×6.50 at TP8 and ×1.61 at TP4; layout alone ×2.66 and 1/1.52" in title
    split = decomposition_split.bounds_statement(here)
    assert "3.3 to 4.5 times" in split.sentence
    assert "precision, nodes, GPUs and layout" in split.more
    assert "precision makes 1 to 2.2" in split.sentence
    assert "1.5 to 4.5" in split.sentence
    parity = matched.parity(here)
    assert all(words in parity.sentence for words in ("1.02 times", "63.5", "126 on the other"))
    assert all(words in parity.more for words in ("1.8 to 2.2 times", "1.16", "127", "precision"))
    assert "falls by 14 %" in limit.limit_statement(here).sentence
    tail = stall_arithmetic.tail_range(here)
    assert "8.8 to 39 times" in tail.sentence
    assert tail.more.count("vLLM bench serve") == 2
    traffic = same_traffic.same_traffic(here).table
    assert traffic is not None
    assert traffic["Ratio"].tolist() == pytest.approx([1.054, 1.054, 1.606, 0.658], abs=2e-3)


def test_the_articles_verdicts_of_two_nodes() -> None:
    here = shipped("b300-two-nodes")
    assert "near 16 requests in flight: 96 %" in limit.cap(here).sentence
    reversal = limit.reversal(here).sentence
    assert "16,384 tokens falls by 16 %" in reversal
    assert "the dumps do not show why" in reversal
    assert "Saturation alone" in limit.reversal(here).more
    assert "at least 592 ms" in stall_arithmetic.hidden_tail(here).title
    stop = stall_arithmetic.stop_statement(here)
    assert "as if the engine stopped rather than slowed" in stop.sentence
    assert "62 % of the decode time and 52 % of the response" in stop.sentence
    cost = token_cost.relative_cost(here)
    assert cost.table is not None
    assert cost.table["Relative cost, measured"].tolist() == pytest.approx(
        [1, 0.683, 0.554], abs=2e-3
    )
    assert "7.5 %" in same_traffic.headroom(here).sentence
    assert scale_out.more_nodes(here).title.startswith("Computed, not measured")


def test_a_finding_from_two_single_runs_claims_no_repeats() -> None:
    """Eight in flight were repeated there; the slots and the last load, of which it tells, not."""
    said = limit.limit_statement(loopback())
    assert "Beyond 16 slots" in said.sentence
    assert said.interval == "no interval: one run"


def test_the_sibling_stands_beside_with_what_may_differ() -> None:
    found = reproducibility.side_by_side(shipped("b300-one-vs-two-nodes"))
    assert found.table is not None
    prefill = found.table[found.table["Metric"] == "Input throughput"]["Difference (%)"]
    assert prefill.min() == pytest.approx(-2.06, abs=0.01)
    assert prefill.max() == pytest.approx(14.95, abs=0.01)
    assert "UNKNOWN: may differ in slots per replica" in found.subtitle
    assert (
        "Prefix cache by the manifests: off here (left out: 2 runs with KV reuse) and off there."
        in found.notes
    )
    there = reproducibility.side_by_side_statement(shipped("b300-two-nodes"))
    assert there.low == pytest.approx(-13.0, abs=0.05)


def test_the_run_that_would_settle_the_articles_split_can_be_pasted() -> None:
    told = next_run.commands(shipped("b300-one-vs-two-nodes"))
    assert "it differs in precision" in told.paragraphs[0]
    checked = subprocess.run(["bash", "-n"], input=told.code, text=True, check=False)
    assert checked.returncode == 0
    for part in (
        "URL=http://HOST:PORT",
        "aiperf profile --model Qwen3.8-2.4T-A95B",
        "--isl 16384 --osl 1 --extra-inputs ignore_eos:true --concurrency 32 --request-count 128",
        "--artifact-dir raw/aiperf/2n-nvfp4-tp4-dp4_prefill_c32",
        '#     precision: "NVFP4"',
    ):
        assert part in told.code


@pytest.mark.parametrize(
    ("other", "words"),
    [("", "names no sibling"), ("nowhere", "holds no campaign.yaml"), (".", "itself")],
)
def test_without_a_sibling_it_says_so(other: str, words: str, tmp_path: Path) -> None:
    here = loopback()
    given = {"nowhere": str(tmp_path), ".": str(here.root)}.get(other, other)
    assert words in reproducibility.side_by_side(here, given).missing


def test_a_sibling_that_cannot_be_read_is_told_without_its_place(tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").write_text("servebook: 1\nname: a b\n")
    missing = reproducibility.side_by_side(loopback(), str(tmp_path)).missing
    assert "cannot be read" in missing


def test_the_byte_formula_needs_sizes_and_uses_them() -> None:
    assert "model.hidden_size" in token_cost.byte_formula(loopback()).missing
