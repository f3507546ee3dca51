"""The shipped campaign, against what the engine itself logged while it was measured."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd
import pytest

from servebook.read.campaign import Campaign, load

DATA = Path(__file__).parents[2] / "data"

#: Per run, from the engine's own log of requests: requests that arrived, their prompt tokens, and
#: the tokens that were sent; then how many of the requests the client calls warm-up.
ENGINE_LOG = [
    ("aiperf/long_decode_isl16_osl256_c8", 72, 1152, 18432, 8),
    ("aiperf/long_mixed_isl512_osl64_c8", 148, 75776, 9472, 8),
    ("aiperf/long_prefill_isl2048_osl1_c8", 308, 630784, 308, 8),
    ("aiperf/quiet_decode_c2", 20, 320, 2560, 2),
    ("aiperf/quiet_decode_c4", 32, 512, 4096, 4),
    ("aiperf/quiet_decode_c8", 56, 896, 7168, 8),
    ("aiperf/quiet_mixed_c2", 26, 6656, 1664, 2),
    ("aiperf/quiet_mixed_c4", 40, 10240, 2560, 4),
    ("aiperf/quiet_prefill_c2", 82, 41984, 82, 2),
    ("aiperf/quiet_prefill_c4", 104, 53248, 104, 4),
    ("aiperf/quiet_prefill_c8", 148, 75776, 148, 8),
    ("aiperf/spread/chunk256_mixed_c8", 44, 33792, 4976, 4),
    ("aiperf/spread/decode_c16", 52, 832, 9984, 4),
    ("aiperf/spread/decode_c2", 14, 224, 2688, 4),
    ("aiperf/spread/decode_c4", 24, 384, 4608, 4),
    ("aiperf/spread/decode_c8", 28, 448, 5376, 4),
    ("aiperf/spread/mixed_c16", 84, 64512, 10283, 4),
    ("aiperf/spread/mixed_c2", 20, 15360, 2172, 4),
    ("aiperf/spread/mixed_c24", 124, 95232, 15558, 4),
    ("aiperf/spread/mixed_c4", 36, 27648, 4057, 4),
    ("aiperf/spread/mixed_c8", 44, 33792, 4976, 4),
    ("aiperf/spread/mixed_c8_repeat2", 44, 33792, 4976, 4),
    ("aiperf/spread/mixed_c8_repeat3", 44, 33792, 4976, 4),
    ("aiperf/spread/prefill_c1", 64, 131072, 64, 4),
    ("aiperf/spread/prefill_c16", 260, 532480, 260, 4),
    ("aiperf/spread/prefill_c2", 64, 131072, 64, 4),
    ("aiperf/spread/prefill_c4", 68, 139264, 68, 4),
    ("aiperf/spread/prefill_c8", 132, 270336, 132, 4),
]
#: vLLM keeps no record of its warm-up: the engine saw four requests more, of the same lengths.
VLLM_LOG = [
    ("vllm/decode_c2", 36, 578, 4608),
    ("vllm/decode_c4", 36, 578, 4608),
    ("vllm/decode_c8", 68, 1090, 8704),
    ("vllm/mixed_c2", 36, 9220, 2304),
    ("vllm/mixed_c4", 36, 9220, 2304),
    ("vllm/prefill_c2", 36, 18432, 36),
    ("vllm/prefill_c4", 36, 18432, 36),
    ("vllm/prefill_c8", 68, 34816, 68),
]
VLLM_WARMUP = {"prefill": (512, 1), "decode": (16, 128), "mixed": (256, 64)}


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return load(DATA / "loopback")


@pytest.fixture(scope="module")
def runs(campaign: Campaign) -> pd.DataFrame:
    frame: pd.DataFrame = campaign.tables.runs.to_pandas()
    return frame.set_index("run_id")


def of_run(campaign: Campaign, run_id: str) -> pd.DataFrame:
    frame: pd.DataFrame = campaign.tables.requests.to_pandas()
    return frame[frame["run_id"] == f"raw/{run_id}"]


@pytest.mark.parametrize(("run_id", "arrived", "isl", "osl", "warmup"), ENGINE_LOG)
def test_aiperf_records_are_what_the_engine_saw(
    campaign: Campaign, run_id: str, arrived: int, isl: int, osl: int, warmup: int
) -> None:
    found = of_run(campaign, run_id)
    assert len(found) == arrived
    assert (found["phase"] == "warmup").sum() == warmup
    assert (found["status"] == "ok").all()
    assert found["isl"].sum() == isl
    assert found["osl"].sum() == osl


@pytest.mark.parametrize(("run_id", "arrived", "isl", "osl"), VLLM_LOG)
def test_vllm_records_are_what_the_engine_saw(
    campaign: Campaign, run_id: str, arrived: int, isl: int, osl: int
) -> None:
    found = of_run(campaign, run_id)
    warm_isl, warm_osl = VLLM_WARMUP[run_id.split("/")[1].split("_")[0]]
    assert len(found) == arrived - 4
    assert found["isl"].sum() == isl - 4 * warm_isl
    assert found["osl"].sum() == osl - 4 * warm_osl


def test_failures_are_told_apart(campaign: Campaign) -> None:
    # The engine's log: 9 times HTTP 500, 5 broken streams, 4 error objects; one of the 18 hit a
    # warm-up request.
    aiperf = of_run(campaign, "aiperf/failures_mixed_c4")
    assert len(aiperf) == 64
    bad = aiperf[aiperf["status"] == "failed"]
    assert bad["error_kind"].value_counts().to_dict() == {
        "http_500": 9,
        "stream_broken": 5,
        "stream_error": 4,
    }
    assert (bad["phase"] == "warmup").sum() == 1
    # vLLM: 9 times HTTP 500, 4 broken streams; the 4 error objects came when all tokens had been
    # counted, so the client calls those requests complete.
    vllm = of_run(campaign, "vllm/failures_mixed_c4")
    assert len(vllm) == 60
    kinds = vllm.loc[vllm["status"] == "failed", "error_kind"].value_counts().to_dict()
    assert (kinds["http_500"], kinds["stream_broken"]) == (9, 4)


def test_each_run_has_its_condition(runs: pd.DataFrame) -> None:
    assert len(runs) == 38
    assert runs["configuration"].value_counts().to_dict() == {
        "slots8": 19,
        "slots16": 16,
        "slots8-faults": 2,
        "slots16-chunk256": 1,
    }
    assert (runs["campaign"] == "loopback").all()
    assert (runs["clock"] == "epoch").all()
    spread = runs.filter(like="raw/aiperf/spread/", axis=0)
    by_workload = spread.groupby("workload")["concurrency"].agg(lambda c: sorted(set(c)))
    assert by_workload.to_dict() == {
        "decode": [2, 4, 8, 16],
        "mixed": [2, 4, 8, 16, 24],
        "prefill": [1, 2, 4, 8, 16],
    }


def test_repeats_are_numbered_by_start(runs: pd.DataFrame) -> None:
    repeats = runs.loc[runs["repeat"] > 1, "repeat"].to_dict()
    assert repeats == {
        "raw/aiperf/spread/mixed_c8_repeat2": 2,
        "raw/aiperf/spread/mixed_c8_repeat3": 3,
    }


def test_vllm_runs_start_where_the_manifest_says(campaign: Campaign, runs: pd.DataFrame) -> None:
    # 2026-11-29T17:23:46.429 UTC; the engine logged the first measured request at ...26.929.
    assert runs.loc["raw/vllm/decode_c2", "start_ns"] == 1795973026_429000000
    first = of_run(campaign, "vllm/decode_c2")["start_ns"].min()
    assert first == 1795973026_429000000


def test_counters_lie_beside_the_runs(campaign: Campaign) -> None:
    samples = campaign.tables.samples.to_pandas()
    found = samples[samples["metric"] == "bytes"].groupby(["device", "direction"]).size()
    assert found.to_dict() == {
        ("host-by-prometheus", "tx"): 89,
        ("host-by-snmp", "rx"): 120,
        ("host-by-snmp", "tx"): 120,
        ("host-by-sysfs", "rx"): 705,
        ("host-by-sysfs", "tx"): 705,
    }
    assert set(samples["interface"].dropna()) == {"lo"}
    # The first line of lo_0.5s.csv.
    first = samples[samples["device"] == "host-by-sysfs"].sort_values("ts_ns").iloc[0]
    assert first["ts_ns"] == 1795975980128359985
    assert first["count"] == 321593325


def test_nothing_is_refused_or_set_aside(campaign: Campaign) -> None:
    assert campaign.tables.refused.num_rows == 0
    assert campaign.tables.set_aside.num_rows == 0
    # 17 spread and 3 long runs have counters; 8 quiet, 9 vLLM and 1 failure run have none.
    assert campaign.findings == ("18 of 38 runs have no counters beside them",)


def test_raw_files_are_those_that_were_taken() -> None:
    listed = {}
    for line in (DATA / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    found = sorted(p for p in (DATA / "loopback" / "raw").rglob("*") if p.is_file())
    assert [p.relative_to(DATA).as_posix() for p in found] == sorted(listed)
    for path in found:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest == listed[path.relative_to(DATA).as_posix()], path


def test_the_campaign_is_small() -> None:
    size = sum(p.stat().st_size for p in (DATA / "loopback").rglob("*") if p.is_file())
    assert size < 6_000_000


def test_inputs_name_every_file_that_was_used(campaign: Campaign) -> None:
    inputs = campaign.inputs.to_pydict()
    assert inputs["path"] == sorted(inputs["path"])
    # The manifest, 129 raw files.
    assert len(inputs["path"]) == 130
    assert inputs["format"][inputs["path"].index("campaign.yaml")] == "campaign manifest"
