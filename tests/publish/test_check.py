"""`servebook check` on a real run: gates that pass, fail, or are not measured; baselines; JUnit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from servebook.cli import main
from servebook.errors import ManifestError
from servebook.publish.check import as_json, check, junit, render

RUN = Path(__file__).parents[2] / "data" / "loopback" / "raw" / "aiperf" / "quiet_mixed_c2"
HEAD = """\
servebook: 1
name: {name}
provenance: measured
configurations:
  a: {{label: A, max_num_seqs: 8}}
runs:
  - {{match: raw/run, configuration: a, workload: mixed, concurrency: 2}}
"""


def campaign(folder: Path, gates: str, name: str = "mine") -> Path:
    root = folder / name
    shutil.copytree(RUN, root / "raw" / "run", dirs_exist_ok=True)
    (root / "campaign.yaml").write_text(HEAD.format(name=name) + gates + "\n")
    return root


@pytest.mark.parametrize(
    ("gate", "status", "reason"),
    [
        ("{metric: ttft_p50_ms, at_most: 1e9}", "pass", ""),
        ("{metric: ttft_p50_ms, at_most: 0}", "fail", ""),
        ("{metric: request_throughput_req_s, at_least: 0.001}", "pass", ""),
        ("{metric: ttft_p99_ms, at_most: 1e9}", "not measured", "662"),
        ("{metric: ttft_p50_ms, at_most: 1e9, workload: decode}", "not measured", ""),
        ("{metric: ttft_p50_ms, at_most: 1e9, concurrency: 999}", "not measured", ""),
        ("{metric: link_usual_util_fraction, at_most: 1}", "not measured", ""),
        ("{metric: goodput_fraction, at_least: 0}", "not measured", ""),
        ("{metric: output_per_gpu_tok_s, at_least: 0}", "not measured", "gpus"),
        ("{metric: ttft_p50_ms, against: ., tolerance: 9}", "not measured", "itself"),
        ("{metric: ttft_p50_ms, against: ../mine, tolerance: 9}", "not measured", "itself"),
        ("{metric: ttft_p50_ms, against: ../nothing, tolerance: 9}", "not measured", "nothing"),
        ("{metric: ttft_p50_ms, against: ../file, tolerance: 9}", "not measured", ""),
        ("{metric: ttft_p50_ms, against: /etc, tolerance: 9}", "not measured", ""),
    ],
)
def test_a_gate_passes_on_evidence_alone(
    gate: str, status: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no campaign")
    found = check(campaign(tmp_path, f"gates: [{gate}]"))
    assert [one.status for one in found.results] == [status]
    assert reason in found.results[0].reason
    assert found.passed == (status == "pass")


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ("", "expected gates to check"),
        ("gates: []", "expected gates to check"),
        ("gates: [null]", "found nothing"),
        ("gates: {metric: x}", "expected a list"),
        ("gates: [{metric: ttft_p50_ms}]", "expected a bound"),
        ("gates: [{metric: ttft_p50_ms, at_most: .nan}]", "found the number nan"),
        ("gates: [{metric: ttft_p50_ms, at_most: 1e400}]", "found the number inf"),
        ("gates: [{metric: ttft_p50_ms, at_most: true}]", "found true"),
        ("gates: [{metric: ttft_p50_ms, at_most: 1, at_least: 2}]", "no value could pass"),
        ("gates: [{metric: ttft_p50_ms, against: ../x, tolerance: -1}]", "at least 0"),
        ("gates: &g [*g]", "an alias that holds itself"),
    ],
)
def test_a_gate_that_says_nothing_is_refused_before_the_dumps_are_read(
    gates: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "campaign.yaml").write_text(HEAD.format(name="mine") + gates + "\n")
    with pytest.raises(ManifestError, match=message):
        check(tmp_path)


def slower(root: Path, times: float) -> None:
    """The run of a campaign with every end and first token that much later after the start."""
    path = root / "raw" / "run" / "profile_export.jsonl"
    if not path.exists():
        import gzip

        packed = path.with_name("profile_export.jsonl.gz")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    lines = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        for name in ("time_to_first_token", "request_latency"):
            if name in record.get("metrics", {}):
                record["metrics"][name]["value"] *= times
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n")


def test_a_loss_against_a_baseline_fails_and_one_within_the_tolerance_passes(
    tmp_path: Path,
) -> None:
    gate = "gates: [{{metric: ttft_mean_ms, against: ../base, tolerance: {}}}]"
    campaign(tmp_path, "", "base")
    root = campaign(tmp_path, gate.format(0.05))
    found = check(root)
    assert found.passed
    assert "the very dumps of this campaign" in " ".join(found.remarks)
    slower(root, 1.1)
    found = check(root)
    assert [one.status for one in found.results] == ["fail"]
    assert found.remarks == ()
    (root / "campaign.yaml").write_text(HEAD.format(name="mine") + gate.format(0.2) + "\n")
    assert check(root).passed


def test_the_table_the_json_and_the_junit_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = (
        "gates: [{metric: ttft_p50_ms, at_most: 1e9}, {metric: ttft_p50_ms, at_most: 0},"
        " {metric: link_peak_util_fraction, at_most: 1, name: '<b>&'}]"
    )
    root = campaign(tmp_path, gates)
    found = check(root)
    text = render(found)
    assert "FAIL: 1 passed, 1 failed, 1 not measured" in text
    rows = json.loads(json.dumps(as_json(found), allow_nan=False))["results"]
    assert [row["status"] for row in rows] == ["pass", "fail", "not measured"]
    assert rows[2]["value"] is None
    report = tmp_path / "new" / "junit.xml"
    assert main(["check", str(root), "--junit", str(report)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == text.splitlines()[-1]
    assert report.read_bytes() == junit(found)
    suites = ElementTree.parse(report).getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "2", "0")
    types = [one.get("type") for one in suites.iter("failure")]
    assert types == ["fail", "not measured"]
    names = [one.get("classname") for one in suites.iter("testcase")]
    assert names[2] == "mine.<b>&"
