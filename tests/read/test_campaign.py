from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from servebook.errors import DumpError, ManifestError
from servebook.read import parts
from servebook.read.campaign import load
from servebook.tables import Tables

RAW = Path(__file__).parents[2] / "data" / "loopback" / "raw"

BASE = """\
servebook: 1
name: small
configurations:
  a: {tp: 8, dp: 2, gpus: 8}
  b:
"""


def campaign(folder: Path, manifest: str, *dumps: tuple[str, str]) -> Path:
    """A campaign folder: (dump of the loopback campaign, where it goes)."""
    for source, target in dumps:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        if (RAW / source).is_dir():
            shutil.copytree(RAW / source, folder / target)
        else:
            shutil.copy(RAW / source, folder / target)
    (folder / "campaign.yaml").write_text(BASE + manifest)
    return folder


def column(tables: Tables, name: str) -> dict[str, object]:
    runs = tables.runs.to_pydict()
    return dict(zip(runs["run_id"], runs[name], strict=True))


def finding(findings: tuple[str, ...], *words: str) -> str:
    return next(f for f in findings if all(word in f for word in words))


def test_the_first_entry_that_matches_wins(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs:\n"
        "  - {match: 'raw/*_c2', configuration: a}\n"
        "  - {match: 'raw/mixed_c{concurrency}', configuration: b}\n"
        "  - {match: 'raw/mixed_c2', configuration: b}\n"
        "  - {match: 'raw/nothing', configuration: b}\n",
        ("aiperf/quiet_mixed_c2", "raw/mixed_c2"),
        ("aiperf/quiet_mixed_c4", "raw/mixed_c4"),
        ("aiperf/quiet_decode_c4", "raw/decode_c4"),
    )
    found = load(root)
    assert column(found.tables, "configuration") == {
        "raw/decode_c4": None,
        "raw/mixed_c2": "a",
        "raw/mixed_c4": "b",
    }
    assert finding(found.findings, "campaign.yaml:9", "taken by the earlier `runs[0]`")
    assert finding(found.findings, "campaign.yaml:10", "(raw/nothing) matches no run")
    assert finding(found.findings, "1 of 3 runs have no configuration", "raw/decode_c4")
    assert finding(found.findings, "tp x dp x pp = 8 x 2 x 1", "8 GPUs")


def test_disagreements_are_said_and_the_dump_is_believed(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "model: {name: other-model}\n"
        "runs:\n"
        "  - match: raw/x_c{concurrency}\n"
        "    configuration: a\n"
        "    isl: 300\n"
        "    osl: 64\n"
        "    workload: prefill\n"
        "    start: 2026-01-01T00:00:00Z\n",
        ("aiperf/quiet_mixed_c4", "raw/x_c8"),
    )
    found = load(root)
    assert column(found.tables, "concurrency") == {"raw/x_c8": 4}
    assert column(found.tables, "isl_requested") == {"raw/x_c8": 256}
    assert column(found.tables, "workload") == {"raw/x_c8": "prefill"}
    assert column(found.tables, "workload_from") == {"raw/x_c8": "manifest"}
    assert finding(found.findings, "says concurrency 8, the dump 4")
    assert finding(found.findings, "says input length 300, the dump 256")
    assert finding(found.findings, "the median request had 256 tokens")
    assert finding(found.findings, "calls it prefill", "make it mixed")
    assert finding(found.findings, "a wall clock of its own")
    assert finding(found.findings, "names the model other-model, dumps name it mock-model")
    assert not [f for f in found.findings if "output length" in f]


def test_lengths_tell_the_workload_where_the_manifest_is_silent(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: 'raw/**', configuration: a}]\n",
        ("aiperf/quiet_prefill_c2", "raw/p"),
        ("aiperf/quiet_decode_c2", "raw/d"),
        ("vllm/mixed_c2", "raw/m"),
    )
    found = load(root)
    assert column(found.tables, "workload") == {
        "raw/d": "decode",
        "raw/m": "mixed",
        "raw/p": "prefill",
    }
    assert set(column(found.tables, "workload_from").values()) == {"lengths"}


def test_relative_times_move_to_the_stated_start(tmp_path: Path) -> None:
    silent = campaign(
        tmp_path / "silent",
        "runs: [{match: raw/v, configuration: a}]\n",
        ("vllm/mixed_c2", "raw/v"),
    )
    before = load(silent)
    assert column(before.tables, "clock") == {"raw/v": "relative"}
    assert finding(before.findings, "no wall clock and no `start`", "raw/v")
    told = campaign(
        tmp_path / "told",
        "runs: [{match: raw/v, configuration: a, start: '1970-01-01T00:16:40Z',"
        " clock_offset_s: -0.5}]\n",
        ("vllm/mixed_c2", "raw/v"),
    )
    after = load(told)
    assert column(after.tables, "clock") == {"raw/v": "epoch"}
    start = 999_500_000_000
    assert column(after.tables, "start_ns") == {"raw/v": start}
    shift = start - column(before.tables, "start_ns")["raw/v"]  # type: ignore[operator]
    for table, name in (("requests", "first_token_ns"), ("requests", "end_ns"), ("gaps", "end_ns")):
        old = getattr(before.tables, table)[name].to_pylist()
        new = getattr(after.tables, table)[name].to_pylist()
        assert [None if t is None else t + shift for t in old] == new
    assert before.tables.gaps["gap_ns"] == after.tables.gaps["gap_ns"]


def test_an_offset_moves_a_run_with_a_wall_clock(tmp_path: Path) -> None:
    dump = ("aiperf/quiet_mixed_c2", "raw/r")
    entry = "runs: [{match: raw/r, configuration: a%s}]\n"
    before = load(campaign(tmp_path / "a", entry % "", dump))
    after = load(campaign(tmp_path / "b", entry % ", clock_offset_s: 2.5", dump))
    moved = [t + 2_500_000_000 for t in before.tables.requests["start_ns"].to_pylist()]
    assert after.tables.requests["start_ns"].to_pylist() == moved
    assert after.tables.runs["start_ns"][0].as_py() == min(moved[2:])  # two warm-up requests


def test_counters_get_their_options_and_offset(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: raw/r, configuration: a}]\n"
        "counters:\n"
        "  - {match: raw/lo.csv, device: leaf, interface: e1, clock_offset_s: 1}\n"
        "  - {match: raw/none.csv}\n"
        "ports:\n"
        "  - {device: leaf, interface: e2, speed_gbps: 400}\n",
        ("aiperf/spread/mixed_c2", "raw/r"),
        ("counters/sysfs/lo_0.5s.csv", "raw/lo.csv"),
        ("counters/snmp/snmpbulkwalk_ifxtable.log", "raw/walk.log"),
    )
    found = load(root)
    samples = found.tables.samples.to_pandas()
    assert set(samples["device"]) == {"leaf"}
    assert set(samples["interface"]) == {"e1"}
    assert samples["ts_ns"].min() == 1795975980128359985 + 10**9
    assert finding(found.findings, "1 counter files are left out", "raw/walk.log")
    assert finding(found.findings, "(raw/none.csv) matches no counter files")
    assert finding(found.findings, "1 interfaces have counters but no `ports:`", "leaf e1")
    assert finding(found.findings, "1 ports of the manifest have no counters: leaf e2")
    assert found.ports.to_pydict()["speed_bps"] == [400e9]


def test_counters_beside_no_run_are_said(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: raw/r, configuration: a}]\ncounters: [{match: raw/lo.csv}]\n",
        ("aiperf/quiet_mixed_c2", "raw/r"),
        ("counters/sysfs/lo_0.5s.csv", "raw/lo.csv"),
    )
    found = load(root)
    said = finding(found.findings, "raw/lo.csv", "overlap no run", "`clock_offset_s`")
    assert "2026-11-29 18:13:00 UTC to 2026-11-29 18:18:59 UTC" in said
    assert finding(found.findings, "1 of 1 runs have no counters beside them")


def test_a_copy_is_counted_once(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: 'raw/*', configuration: a}]\n",
        ("aiperf/quiet_mixed_c2", "raw/a"),
        ("aiperf/quiet_mixed_c2", "raw/b"),
    )
    found = load(root)
    assert list(column(found.tables, "path")) == ["raw/a"]
    assert found.tables.refused["path"].to_pylist() == ["raw/b/profile_export.jsonl.gz"]
    assert "copy of raw/a" in found.tables.refused["reason"][0].as_py()


def test_a_manifest_that_points_nowhere_is_an_error(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: elsewhere/*, configuration: a}]\n",
        ("aiperf/quiet_mixed_c2", "raw/a"),
    )
    with pytest.raises(ManifestError, match=r"campaign.yaml:6: .*none; the runs are raw/a"):
        load(root)


def test_one_start_for_two_runs_is_an_error(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: 'raw/*', configuration: a, start: '2026-01-01T00:00:00Z'}]\n",
        ("vllm/mixed_c2", "raw/a"),
        ("vllm/mixed_c4", "raw/b"),
    )
    with pytest.raises(ManifestError, match="2 runs that match"):
        load(root)


@pytest.mark.parametrize(
    ("target", "match", "words"),
    [
        ("raw/c_c2", "raw/{configuration}_c2", "`c`; known: a, b"),
        ("raw/a_c0", "raw/a_c{concurrency}", "concurrency of at least 1"),
    ],
)
def test_values_from_names_are_checked(target: str, match: str, words: str, tmp_path: Path) -> None:
    root = campaign(tmp_path, f"runs: [{{match: '{match}'}}]\n", ("aiperf/quiet_mixed_c2", target))
    with pytest.raises(ManifestError) as caught:
        load(root)
    assert words in str(caught.value)


def test_no_usable_run_is_one_error(tmp_path: Path) -> None:
    root = campaign(tmp_path, "runs: [{match: raw/*}]\n")
    with pytest.raises(DumpError, match="at least one run that can be read"):
        load(root)
    (root / "raw").mkdir()
    (root / "raw" / "notes.bin").write_bytes(b"\0\1")
    with pytest.raises(DumpError, match=r"1 files refused \(raw/notes.bin: not a dump"):
        load(root)


def test_own_files_of_a_campaign_are_no_dumps(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: raw/r, configuration: a}]\n",
        ("aiperf/quiet_mixed_c2", "raw/r"),
    )
    (root / "published.csv").write_text("ts_ns,rx_bytes,tx_bytes\n1,2,3\n2,3,4\n")
    (root / "SHA256SUMS").write_text("x\n")
    (root / "README.md").write_text("x\n")
    found = load(root)
    assert found.tables.refused.num_rows == 0
    assert not [f for f in found.findings if "published" in f]


def test_a_second_load_reads_no_dump_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    root = campaign(
        tmp_path / "c",
        "runs: [{match: 'raw/{workload}', configuration: a}]\ncounters: [{match: '**/*.csv'}]\n",
        ("aiperf/quiet_mixed_c2", "raw/mixed"),
        ("vllm/decode_c2", "raw/decode"),
        ("counters/sysfs/lo_0.5s.csv", "raw/lo.csv"),
    )
    first = load(str(root))

    def forbidden(path: Path) -> None:
        raise AssertionError(path)

    broken = tuple(
        type(form)(form.name, form.kind, form.find, forbidden)  # type: ignore[arg-type]
        for form in parts.FORMATS
    )
    monkeypatch.setattr(parts, "FORMATS", broken)
    second = load(root)
    for field in fields(Tables):
        assert getattr(first.tables, field.name).equals(getattr(second.tables, field.name))
    assert first.findings == second.findings
    assert first.inputs.equals(second.inputs)


def test_a_changed_dump_is_read_again(tmp_path: Path) -> None:
    root = campaign(
        tmp_path,
        "runs: [{match: raw/r, configuration: a}]\n",
        ("aiperf/quiet_mixed_c2", "raw/r"),
    )
    assert column(load(root).tables, "n_ok") == {"raw/r": 24}
    path = root / "raw/r/profile_export.jsonl.gz"
    status = path.stat()
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    last = json.loads(lines[-1])
    assert last["metadata"]["benchmark_phase"] == "profiling"
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # times alone prove nothing
    assert column(load(root).tables, "n_ok") == {"raw/r": 23}
