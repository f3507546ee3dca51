from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from servebook.cli import main
from servebook.errors import DumpError
from servebook.read.discover import discover, read_tree
from servebook.read.files import survey
from servebook.read.inspect import inspect, render
from tests.read.samples import FIXTURES, record, summary, vllm_result, write_json, write_lines


def test_shape_of_the_answer(tmp_path: Path) -> None:
    write_lines(tmp_path / "r" / "profile_export.jsonl", record(0), b"x")
    write_json(tmp_path / "r" / "inputs.json", {"data": []})
    write_json(tmp_path / "other.json", {"a": 1})
    found = inspect(tmp_path)
    assert list(found) == [
        "path",
        "runs",
        "counters",
        "engine",
        "set_aside",
        "refused",
        "companions",
    ]
    (run,) = found["runs"]
    assert run == {
        "run_id": "r",
        "format": "aiperf",
        "client": "AIPerf",
        "client_version": None,
        "n_requests": 1,
        "n_ok": 1,
        "n_failed": 0,
        "n_cancelled": 0,
        "n_gaps": 3,
        "start_ns": 1_795_972_676_000_000_000,
        "end_ns": 1_795_972_676_032_000_000,
        "clock": "epoch",
    }
    (aside,) = found["set_aside"]
    assert (aside["path"], aside["line"]) == ("r/profile_export.jsonl", 2)
    (refused,) = found["refused"]
    assert refused["path"] == "other.json"
    assert found["companions"] == ["r/inputs.json"]
    json.dumps(found)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "r.json", vllm_result())
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["n_ok"] == 2
    assert main(["inspect", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "vLLM bench serve" in out
    assert "Runs (1)" in out


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", [None, b"", b"\x00\x01\x02" * 99, b"PK\x03\x04zip", b"[]"])
def test_nothing_usable_is_one_refusal(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.bin").write_bytes(content)
    found = inspect(tmp_path)
    assert len(found["refused"]) == 1
    assert found["refused"][0]["path"] == (".", "a.bin")[content is not None]
    assert main(["inspect", str(tmp_path)]) == 1


def test_wrong_extension_is_read_by_content(tmp_path: Path) -> None:
    write_lines(tmp_path / "records.txt", record(0))
    write_json(tmp_path / "result.csv", vllm_result())
    assert {run["format"] for run in inspect(tmp_path)["runs"]} == {"aiperf", "vllm"}


def test_one_file_is_named_by_itself(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r" / "v0.13_sigkill__profile_export.jsonl", record(0))
    assert inspect(path)["runs"][0]["run_id"] == "v0.13_sigkill__profile_export"
    assert inspect(path.parent)["runs"][0]["run_id"] == "r"
    assert inspect(tmp_path)["runs"][0]["run_id"] == "r"


def test_copies_are_refused(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_lines(tmp_path / name / "profile_export.jsonl", record(0))
    found = inspect(tmp_path)
    assert [run["run_id"] for run in found["runs"]] == ["a"]
    assert [row["path"] for row in found["refused"]] == [
        "b/profile_export.jsonl",
        "c/profile_export.jsonl",
    ]
    assert "a copy of a/profile_export.jsonl" in found["refused"][0]["reason"]


def test_run_ids_are_unique(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", vllm_result())
    write_json(tmp_path / "a" / "x.json", vllm_result(duration=1.0))
    write_json(tmp_path / "b" / "x.json", vllm_result(duration=2.0))
    write_json(tmp_path / "b" / "y.json", vllm_result(duration=3.0))
    ids = read_tree(tmp_path).runs["run_id"].to_pylist()
    assert len(set(ids)) == 4
    assert {"b/x", "b/y"} < set(ids)


def test_links(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    write_lines(tree / "r" / "profile_export.jsonl", record(0))
    write_lines(outside / "profile_export.jsonl", record(1))
    (tree / "loop").symlink_to(tree)
    (tree / "inside.jsonl").symlink_to(tree / "r" / "profile_export.jsonl")
    (tree / "out").symlink_to(outside)
    (tree / "broken").symlink_to(tmp_path / "nowhere")
    found = inspect(tree)
    assert [run["run_id"] for run in found["runs"]] == ["r"]
    assert found["companions"] == ["inside.jsonl", "loop"]
    assert "not read as dumps: 2 files, inside.jsonl, loop" in render(found)
    assert "as dumps: 1 file, loop" in render(found | {"companions": ["loop"]})
    assert {row["path"] for row in found["refused"]} == {"out", "broken"}


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\x1b[31m")
    write_lines(Path(folder) / "profile_export.jsonl", record(0))
    found = inspect(tmp_path)
    json.dumps(found).encode()
    assert found["runs"][0]["run_id"].startswith("caf\\xe9")
    assert "\x1b" not in render(found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_files_without_permission(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "profile_export.jsonl", record(0))
    path.chmod(0)
    (refused,) = inspect(tmp_path)["refused"]
    assert "cannot be opened" in refused["reason"]


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (refused,) = inspect(tmp_path)["refused"]
    assert "neither a file nor a folder" in refused["reason"]


def test_order_does_not_depend_on_the_disk(tmp_path: Path) -> None:
    for name in ("b", "a", "a-b", "a/b"):
        write_json(tmp_path / name / "r.json", vllm_result(duration=len(name)))
    assert [file.relative for file in survey(tmp_path)] == [
        "a-b/r.json",
        "a/b/r.json",
        "a/r.json",
        "b/r.json",
    ]
    runs = read_tree(tmp_path).runs["path"].to_pylist()
    assert runs == sorted(runs)


def test_hidden_files_are_companions(tmp_path: Path) -> None:
    write_lines(tmp_path / "r" / "profile_export.jsonl", record(0))
    write_json(tmp_path / "r" / "_server_config.json", {"a": 1})
    write_json(tmp_path / "r" / ".aiperf_results_ready.json", {"ready": True})
    write_lines(tmp_path / "r" / "_truth" / "requests.jsonl", record(1))
    found = discover(tmp_path)
    assert len(found.sources) == 1
    assert len(found.companions) == 3
    assert not found.refused


def test_real_tree_holds_every_run_once(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES, tmp_path / "runs")
    found = inspect(tmp_path)
    assert [(r["run_id"].removeprefix("runs/"), r["n_ok"]) for r in found["runs"]] == [
        ("aiperf_cancel", 17),
        ("aiperf_failures", 43),
        ("aiperf_osl1", 17),
        ("aiperf_shared_prefix", 6),
        ("aiperf_sweep/concurrency_2", 25),
        ("aiperf_sweep/concurrency_4", 26),
        ("vllm/failures_c4", 47),
        ("vllm/prefill_c2", 32),
        ("vllm/prefill_c4", 32),
        ("vllm/summary_only", 24),
    ]
    assert not found["refused"]
    assert not found["set_aside"]


def test_missing_path_is_a_dump_error(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="nothing there"):
        inspect(tmp_path / "x")


def test_two_runs_whose_summaries_share_a_folder(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", summary())
    write_json(tmp_path / "b.json", summary(is_complete=False))
    runs = read_tree(tmp_path).runs.to_pylist()
    assert [(r["run_id"], r["complete"]) for r in runs] == [("a", True), ("b", False)]
