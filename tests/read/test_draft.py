from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from servebook.cli import main
from servebook.errors import DumpError, ManifestError, ServebookError
from servebook.read.campaign import load
from servebook.read.draft import draft
from servebook.read.manifest import load_manifest
from tests.read.samples import vllm_result, write_json

RAW = Path(__file__).parents[2] / "data" / "loopback" / "raw"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "My runs"
    for name in ("quiet_mixed_c2", "quiet_mixed_c4", "quiet_decode_c2"):
        shutil.copytree(RAW / "aiperf" / name, root / "raw" / name)
    shutil.copytree(RAW / "vllm" / "mixed_c2", root / "raw" / "v")
    shutil.copy(RAW / "counters" / "sysfs" / "lo_0.5s.csv", root / "raw" / "lo.csv")
    walk = "snmpbulkwalk_ifxtable.log"
    shutil.copy(RAW / "counters" / "snmp" / walk, root / "raw" / walk)
    return root


def test_the_draft_loads_without_edits(folder: Path) -> None:
    said = draft(folder)
    assert "4 runs in 3 entries, 2 counter files" in said
    assert f"servebook build '{folder}'" in said  # with a space in it
    manifest = load_manifest(folder)
    assert manifest.name == "My-runs"
    assert manifest.provenance == "provenance not stated"
    assert manifest.model.name == "mock-model"
    assert [entry.match for entry in manifest.runs] == [
        "raw/quiet_decode_c{concurrency}",
        "raw/quiet_mixed_c{concurrency}",
        "raw/v",
    ]
    assert all(port.speed_gbps is None for port in manifest.ports)
    assert sorted({port.interface for port in manifest.ports}) == [
        *("eth0", "ifb0", "ifb1", "lo", "unknown")
    ]
    found = load(folder)
    assert found.tables.runs.num_rows == 4
    assert sorted(found.tables.runs["concurrency"].to_pylist()) == [2, 2, 2, 4]
    assert any("4 of 4 runs have no configuration" in f for f in found.findings)
    assert not [f for f in found.findings if "matches no" in f]


def test_the_draft_says_what_the_dumps_tell_and_marks_the_rest(folder: Path) -> None:
    draft(folder)
    lines = (folder / "campaign.yaml").read_text().splitlines()
    at = lines.index('  - match: "raw/quiet_mixed_c{concurrency}"')
    assert lines[at - 1] == (
        "  # 2 runs; AIPerf; input 256; output 64; concurrency 2/4; workload by lengths: mixed"
    )
    assert lines[at + 1].startswith("    configuration: null  # FILL IN")
    at = lines.index("  - match: raw/v")
    assert lines[at + 2].startswith("    start: null  # FILL IN")
    nulls = [line for line in lines if ": null" in line]
    assert len(nulls) > 20
    assert all("# FILL IN" in line for line in nulls)


def test_the_draft_is_the_same_each_time(folder: Path) -> None:
    draft(folder)
    first = (folder / "campaign.yaml").read_bytes()
    draft(folder, force=True)
    assert (folder / "campaign.yaml").read_bytes() == first
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def test_an_existing_manifest_stays(folder: Path) -> None:
    (folder / "campaign.yaml").write_text("mine")
    with pytest.raises(ManifestError, match="--force"):
        draft(folder)
    assert (folder / "campaign.yaml").read_text() == "mine"
    assert main(["init", str(folder), "--force"]) == 0
    assert load_manifest(folder).name == "My-runs"


def test_a_folder_without_runs_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "at least one run of a benchmark client" in said
    with pytest.raises(DumpError, match="a folder with dumps"):
        draft(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("run_c2", "raw/run_c{concurrency}"),
        ("concurrency_2", "raw/concurrency_{concurrency}"),
        ("c4_c2", "raw/c4_c{concurrency}"),
        ("c4", "raw/c4"),  # the dump says 2: the name means something else
        ("c2x", "raw/c2x"),
        ("abc2", "raw/abc2"),
        ("w*{x}\n# c2", "raw/w??x??n# c2"),  # the line end of the name stands as \\n
    ],
)
def test_patterns_from_names(name: str, pattern: str, tmp_path: Path) -> None:
    shutil.copytree(RAW / "aiperf" / "quiet_mixed_c2", tmp_path / "raw" / name)
    draft(tmp_path)
    assert [entry.match for entry in load_manifest(tmp_path).runs] == [pattern]
    assert not [f for f in load(tmp_path).findings if "matches no" in f]


def test_a_folder_that_is_itself_a_run(tmp_path: Path) -> None:
    root = tmp_path / "one run"
    shutil.copytree(RAW / "aiperf" / "quiet_mixed_c2", root)
    draft(root)
    found = load(root)
    assert found.tables.runs["run_id"].to_pylist() == ["one run"]
    assert not [f for f in found.findings if "matches no" in f]


def test_a_folder_that_cannot_be_written_is_one_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("servebook.read.draft.tempfile.mkstemp", full)
    with pytest.raises(ServebookError, match="No space left"):
        draft(folder)


def test_a_model_of_any_letters(tmp_path: Path) -> None:
    name = "\U0001f600 \u0639 </script>"
    write_json(tmp_path / "a run" / "r.json", vllm_result(model_id=name))
    said = draft(tmp_path)
    assert "1 run in 1 entry, 0 counter files" in said
    assert load_manifest(tmp_path).model.name == name
