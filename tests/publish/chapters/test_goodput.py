"""Goodput and gates on campaigns written by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
import small

from servebook.errors import ManifestError
from servebook.measure.gates import EXTRA, bounds, evaluate
from servebook.measure.goodput import goodput
from servebook.publish import check as checking
from servebook.publish.chapters import goodput as chapter
from servebook.publish.chapters import goodput_cost
from servebook.publish.gate_runs import by_condition_name, gate_runs
from servebook.read.manifest import parse_manifest

# TTFT is 10 ms in all of them, gaps as given; n requests of one second each.
RUNS = {
    "fast": {"gaps_ms": [4.0, 6.0], "n": 10},
    "slow": {"gaps_ms": [4.0, 26.0], "n": 10, "concurrency": 4},
    "one-token": {"workload": "prefill", "n": 10},
    "alone": {"level": "summary", "concurrency": 8},
    "failed": {"status": "failed", "concurrency": 16, "n": 5},
    "lossy": {"gaps_ms": [4.0, 6.0], "n": 8, "n_lost": 2, "concurrency": 32},
}


def checked(gates: str, runs: dict[str, dict[str, object]] | None = None) -> checking.Checked:
    book = small.campaign(runs or RUNS, small.MANIFEST + gates)
    found = bounds(book.manifest)
    table = by_condition_name([gate_runs(book)])[0]
    return checking.Checked("small", "measured", tuple(evaluate(found, table, {})))


@pytest.mark.parametrize(
    ("slos", "run", "within", "share"),
    [
        ({"ttft_ms": 10.0}, "fast", 10, 1.0),
        ({"ttft_ms": 9.9}, "fast", 0, 0.0),
        ({"tpot_ms": 5.0}, "fast", 10, 1.0),  # (4 + 6) / 2
        ({"tpot_ms": 5.0}, "slow", 0, 0.0),  # (4 + 26) / 2
        ({"itl_ms": 15.0}, "slow", 10, 1.0),
        ({"itl_max_ms": 25.0}, "slow", 0, 0.0),
        ({"itl_p50_ms": 15.0}, "slow", 10, 1.0),
        ({"tpot_ms": 1.0}, "one-token", 10, 1.0),  # undefined: it does not bind
        ({"ttft_p99_ms": 10.0}, "failed", 0, 0.0),
        ({"ttft_ms": 10.0}, "lossy", 8, 0.8),  # two of ten were lost
    ],
)
def test_requests_within_all_limits(
    slos: dict[str, float], run: str, within: int, share: float
) -> None:
    book = small.campaign(RUNS)
    row = goodput(book.tables, slos).set_index("run_id").loc[run]
    assert (row["n_within"], row["goodput_fraction"]) == (within, share)
    duration = gate_runs(book, slos).set_index("run_id").loc[run, "duration_s"]
    assert row["goodput_req_s"] == pytest.approx(within / duration)


def test_what_is_not_known_is_said() -> None:
    book = small.campaign(RUNS)
    why = goodput(book.tables, {"ttft_ms": 10.0}).set_index("run_id")["why"]
    assert "summary" in why["alone"]
    assert set(goodput(book.tables, {})["why"]) == {"the manifest states no limits"}
    requests = book.tables.requests
    at = requests.schema.get_field_index("first_token_ns")
    nulls = pa.nulls(requests.num_rows, pa.int64())
    blind = dataclasses.replace(
        book.tables, requests=requests.set_column(at, "first_token_ns", nulls)
    )
    row = goodput(blind, {"ttft_ms": 10.0}).set_index("run_id").loc["fast"]
    assert row["why"] == "10 of 10 ok requests do not tell their TTFT"
    assert row[["n_within", "goodput_req_s"]].isna().all()


def test_a_gate_is_held_against_each_condition_and_only_evidence_passes() -> None:
    results = checked("gates:\n  - {metric: tpot_mean_ms, at_most: 10}\n").results
    assert {r.condition.split()[2] + " " + r.condition.split()[3]: r.status for r in results} == {
        "100/3 c2": "pass",
        "100/3 c4": "fail",
        "100/2 c8": "not measured",
        "100/1 c16": "not measured",
        "100/3 c32": "pass",
    }
    by_status = {r.status: r for r in results}
    assert by_status["fail"].value == 15.0
    assert any("summary" in r.reason for r in results if r.status == "not measured")


@pytest.mark.parametrize(
    ("gates", "status", "reason"),
    [
        ("  - {metric: ttft_p90_ms, at_most: 99, concurrency: 4}", "not measured", "needs 64"),
        ("  - {metric: ttft_max_ms, at_most: 99, concurrency: 4}", "pass", ""),
        ("  - {metric: ttft_max_ms, at_most: 99, concurrency: 5}", "not measured", "no run"),
        ("  - {metric: itl_p50_ms, at_most: 9, workload: prefill}", "not measured", "one token"),
        ("  - {metric: error_fraction, at_most: 0.1, concurrency: 16}", "fail", "above 0.1"),
        ("  - {metric: error_fraction, at_most: 0.1, concurrency: 32}", "fail", "above 0.1"),
        ("  - {metric: error_fraction, at_most: 0.2, concurrency: 32}", "pass", ""),
        ("  - {metric: goodput_req_s, at_least: 1, concurrency: 2}", "not measured", "no limits"),
        ("  - {metric: link_peak_util_fraction, at_most: 1, concurrency: 4}", "not measured",
         "no byte counters"),
        ("  - {metric: output_per_gpu_tok_s, at_least: 1, concurrency: 4}", "not measured", "gpus"),
        ("  - {metric: output_throughput_tok_s, at_least: 999, concurrency: 4}", "fail", "below"),
    ],
)  # fmt: skip
def test_single_gates(gates: str, status: str, reason: str) -> None:
    results = checked(f"gates:\n{gates}\n").results
    kept = [r for r in results if "prefill" not in r.condition or "prefill" in gates]
    assert {r.status for r in kept} == {status}
    assert reason in kept[0].reason


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "found none"),
        ("slos: {ttft_ms: 5}\n", "limits of single requests alone"),
        ("gates:\n  - {metric: ttft_p98_ms, at_most: 5}\n", "`ttft_p98_ms`"),
        ("gates:\n  - {metric: duration_s, against: x}\n", "less or more is better"),
    ],
)
def test_what_cannot_be_checked_is_an_error_of_the_manifest(text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        bounds(parse_manifest((small.MANIFEST + text).encode(), Path("campaign.yaml")))


def against(own: list[float], before: list[float], extra: str = "") -> tuple[str, str]:
    """Status and reason of a gate on the mean TPOT, for runs of these gaps on both sides."""
    gates = "gates:\n  - {metric: tpot_mean_ms, against: old, tolerance: 0.05" + extra + "}\n"

    def side(gaps: list[float]) -> small.Campaign:
        runs = {f"r{i}": {"gaps_ms": [gap] * 3, "n": 5} for i, gap in enumerate(gaps)}
        return small.campaign(runs, small.MANIFEST + gates)

    book = side(own)
    tables = by_condition_name([gate_runs(book), gate_runs(side(before))])
    (result,) = evaluate(bounds(book.manifest), tables[0], {"old": tables[1]})
    return result.status, result.reason


@pytest.mark.parametrize(
    ("own", "before", "extra", "status", "reason"),
    [
        ([10.0], [10.0], "", "pass", "noise unknown"),
        ([10.4], [10.0], "", "pass", "worse by 4.00%"),
        ([10.6], [10.0], "", "fail", "noise unknown"),
        ([9.0], [10.0], "", "pass", "better by 10.00%"),
        ([11.0, 11.1, 11.2], [10.0, 10.1, 10.2], "", "fail", "beyond noise"),
        ([9.0, 11.0, 14.0], [9.0, 10.0, 11.0], "", "fail", "not told from noise"),
        ([9.0, 11.0, 14.0], [9.0, 10.0, 11.0], ", noise: passes", "pass", "not told from noise"),
    ],
)
def test_losses_against_a_baseline(
    own: list[float], before: list[float], extra: str, status: str, reason: str
) -> None:
    found = against(own, before, extra)
    assert found[0] == status
    assert reason in found[1]


def test_a_baseline_that_lacks_or_alone_has_a_condition_is_not_measured() -> None:
    gates = "gates:\n  - {metric: tpot_mean_ms, against: old}\n"
    book = small.campaign({"a": {"concurrency": 2}}, small.MANIFEST + gates)
    other = small.campaign({"b": {"concurrency": 4}}, small.MANIFEST + gates)
    tables = by_condition_name([gate_runs(book), gate_runs(other)])
    results = evaluate(bounds(book.manifest), tables[0], {"old": tables[1]})
    assert [r.status for r in results] == ["not measured"] * 2
    results = evaluate(bounds(book.manifest), tables[0], {"old": "no such file"})
    assert ["cannot be read" in r.reason for r in results] == [True]


def test_junit_holds_what_the_table_says_and_no_character_that_xml_forbids() -> None:
    gates = 'gates:\n  - {metric: tpot_mean_ms, at_most: 10, name: "a <b> & \\"c\\" ]]> \\u0085"}\n'
    found = checked(gates)
    root = ElementTree.fromstring(checking.junit(found))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")
    kinds = [f.get("type") for f in root.iter("failure")]
    assert sorted(map(str, kinds)) == ["fail", "not measured", "not measured"]
    assert all('a <b> & "c" ]]>' in case.get("classname", "") for case in root.iter("testcase"))
    weird = checking.Checked("a\x00\x1b\ud800", "measured", found.results)
    assert ElementTree.fromstring(checking.junit(weird)) is not None
    assert json.loads(json.dumps(checking.as_json(found)))["passed"] is False


def test_a_reconstruction_is_called_one_in_every_line() -> None:
    found = checked("gates:\n  - {metric: tpot_mean_ms, at_most: 10, concurrency: 2}\n")
    other = checking.Checked("small", "reconstructed", found.results)
    assert "pass (reconstructed)" in checking.render(other)
    assert b"(reconstructed)" in checking.junit(other)
    assert other.passed


def test_the_shipped_campaign_keeps_its_gates_and_writes_them(tmp_path: Path) -> None:
    text, passed = checking.run(small.LOOPBACK, tmp_path / "new" / "gates.xml", as_json_text=True)
    assert passed
    n = len(json.loads(text)["results"])
    assert n > 20
    root = ElementTree.parse(tmp_path / "new" / "gates.xml").getroot()
    assert root.get("tests") == str(n)


def test_the_documentation_lists_the_metrics_that_only_gates_have() -> None:
    text = (small.LOOPBACK.parents[1] / "docs" / "manifest.md").read_text(encoding="utf-8")
    for name, (label, unit, _) in EXTRA.items():
        assert f"| `{name}` | {unit} | {label} |" in text


PRICED = """\
servebook: 1
name: priced
provenance: measured
configurations:
  a: {label: A, gpus: 2}
  b: {label: B, gpus: 4}
slos: {ttft_ms: 20, tpot_ms: 10}
price: {per_gpu_hour: 3.6, currency: CHF}
"""
SIDES = {
    "a2": {"configuration": "a", "concurrency": 2, "gaps_ms": [5.0] * 4, "n": 10},
    "a4": {"configuration": "a", "concurrency": 4, "gaps_ms": [15.0] * 4, "n": 20},
    "b2": {"configuration": "b", "concurrency": 2, "gaps_ms": [6.0] * 4, "n": 10},
}


def test_without_limits_gpus_and_price_the_figures_say_what_to_add() -> None:
    book = small.campaign(RUNS)
    assert "slos:" in chapter.served(book).missing
    assert "slos:" in chapter.verdict(book).sentence
    assert "`gpus:`" in goodput_cost.frontier(book).missing
    assert "per_gpu_hour" in goodput_cost.cost(book).missing


def test_goodput_falls_where_requests_get_late() -> None:
    book = small.campaign(SIDES, PRICED)
    figure = chapter.served(book)
    assert "with 2 in flight" in figure.title
    assert figure.title.endswith("at 4 only 0 % of requests keep the limits")
    assert any("Not drawn" in note and "c4" in note for note in figure.notes)
    assert figure.table is not None
    assert list(figure.table["requests within the limits (%)"]) == [100.0, 0.0, 100.0]
    assert chapter.verdict(book).value == max(figure.table["goodput (requests/s)"])


def test_the_frontier_holds_what_nothing_beats() -> None:
    figure = goodput_cost.frontier(small.campaign(SIDES, PRICED))
    assert figure.table is not None
    # Per user 200, 66.7 and 167 tokens/s; per GPU A has twice what B has at the same load.
    assert [round(v) for v in figure.table["tokens/s of one user"]] == [200, 67, 167]
    best = dict(zip(figure.table["configuration"], figure.table["on the frontier"], strict=False))
    assert best["B"] is False or not best["B"]


def test_the_cost_is_price_times_gpus_over_tokens() -> None:
    book = small.campaign(SIDES, PRICED)
    table = goodput_cost.cost(book).table
    assert table is not None
    rate = gate_runs(book).set_index("run_id").loc["b2", "output_throughput_tok_s"]
    # 3.6 CHF an hour and GPU are 0.001 CHF a second and GPU; B has four.
    assert table["CHF per million output tokens"].iloc[2] == pytest.approx(4e-3 / rate * 1e6)
