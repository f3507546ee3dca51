"""inference-perf, genai-bench, llmperf: real dumps against the clients' own summaries, and harmed.

The dumps are larger than a repository should carry: set SERVEBOOK_DUMPS to the folder that holds
``inference-perf-*`` and ``genai-bench-*``. The trimmed ones of the fixtures are checked always.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import discover, read_tree
from servebook.tables import Tables

_DUMPS = os.environ.get("SERVEBOOK_DUMPS")
_NEEDS_DUMPS = pytest.mark.skipif(not _DUMPS, reason="SERVEBOOK_DUMPS names no folder of dumps")
CLIENTS = Path(__file__).parent.parent / "fixtures" / "clients"
NAMES = ("inference_perf", "genai_bench", "genai_perf", "llmperf", "llmd_report")


def real(pattern: str) -> list[Path]:
    return sorted(Path(_DUMPS or "").glob(pattern))


def truth_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "_server_truth" / "requests.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@_NEEDS_DUMPS
@pytest.mark.parametrize("pattern", ["inference-perf-*", "genai-bench-*"])
def test_every_real_figure_is_met_or_explained(pattern: str) -> None:
    (root,) = real(pattern)
    found = discover(root)
    assert not found.refused
    tables = read_tree(root)
    assert tables.runs.num_rows == 9
    assert not tables.set_aside.num_rows + tables.refused.num_rows
    rows = compare(tables, run_metrics(tables))
    same, other = rows[rows["same_definition"]], rows[~rows["same_definition"]]
    assert len(same) > 50
    assert same["deviation"].abs().max() < 1e-6
    assert len(other) > 50
    assert other["theirs_deviation"].notna().all()
    assert other["theirs_deviation"].abs().max() < 1e-3


@_NEEDS_DUMPS
@pytest.mark.parametrize("phase", ["prefill", "mixed", "decode"])
def test_real_requests_are_those_that_the_server_saw(phase: str) -> None:
    (folder,) = real(f"inference-perf-*/{phase}_c2_c4_c8")
    tables = read_tree(folder)
    truth = truth_of(folder)
    assert tables.requests.num_rows == len(truth) == 130
    assert sum(tables.requests["osl"].to_pylist()) == sum(row["out"] for row in truth)
    assert sum(tables.requests["isl"].to_pylist()) == sum(row["isl"] for row in truth)
    # Every gap of the server is one of the client: one token a chunk.
    assert tables.gaps.num_rows == sum(row["out"] - 1 for row in truth)


@pytest.mark.parametrize("name", ["genai_perf", "llmperf"])
def test_figures_worked_out_by_hand_are_met_or_explained(name: str) -> None:
    tables = read_tree(CLIENTS / name)
    assert tables.requests["status"].to_pylist().count("ok") == 3
    rows = compare(tables, run_metrics(tables))
    same, other = rows[rows["same_definition"]], rows[~rows["same_definition"]]
    assert len(same) > 10
    assert same["deviation"].abs().max() < 1e-9
    assert len(other) > 5
    assert other["theirs_deviation"].abs().max() < 1e-9


def json_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else []
    if isinstance(value, list):
        inner = list(enumerate(value))[:4]
    return [p for key, item in inner for p in [(*path, key), *json_places(item, (*path, key))]]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


ODD = (None, True, -1, 1e308, 10**400, 2**64, "x", "\u202e\x00", [], {}, [[1]], float("nan"))


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    harmed = bytearray(data)
    for _ in range(20):
        harmed[rng.randrange(len(harmed))] = rng.randrange(256)
    return bytes(harmed)


def shuffled(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def swapped(data: bytes, rng: random.Random) -> bytes:
    if data.lstrip()[:1] not in (b"{", b"["):
        return shuffled(data, rng)
    value = json.loads(data)
    for _ in range(3):
        path = rng.choice(json_places(value))
        at(value, path[:-1])[path[-1]] = rng.choice(ODD)
    return json.dumps(value, indent=1).encode()


def dropped(data: bytes, rng: random.Random) -> bytes:
    if data.lstrip()[:1] not in (b"{", b"["):
        return shuffled(data, rng)
    value = json.loads(data)
    path = rng.choice(json_places(value))
    del at(value, path[:-1])[path[-1]]
    return json.dumps(value, indent=1).encode()


def nested(data: bytes, rng: random.Random) -> bytes:
    place = data.find(b": ", rng.randrange(len(data) // 2))
    return data[: place + 2] + b"[" * 100_000 + data[place + 2 :]


def recoded(data: bytes, rng: random.Random) -> bytes:
    return data.decode().encode(rng.choice(["utf-16", "utf-32", "utf-8-sig"]))


def checked(folder: Path) -> Tables:
    tables = read_tree(folder)
    measured = run_metrics(tables)
    compare(tables, measured)  # odd values must not break what comes after
    assert tables.runs.num_rows + tables.refused.num_rows
    told = str(tables.set_aside.to_pylist()) + str(tables.refused.to_pylist())
    assert "fault of Servebook" not in told
    return tables


HARMS = (cut, flipped, shuffled, swapped, dropped, nested, recoded)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("harm", HARMS)
def test_harmed_is_read_with_accounts_or_refused(
    name: str, harm: Callable[[bytes, random.Random], bytes], tmp_path: Path
) -> None:
    rng = random.Random(f"{name} {harm.__name__}")
    for turn in range(6):
        folder = tmp_path / str(turn)
        shutil.copytree(CLIENTS / name, folder)
        path = rng.choice(sorted(folder.iterdir()))
        path.write_bytes(harm(path.read_bytes(), rng))
        checked(folder)


@_NEEDS_DUMPS
@pytest.mark.parametrize("harm", HARMS)
def test_real_dumps_harmed(harm: Callable[[bytes, random.Random], bytes], tmp_path: Path) -> None:
    rng = random.Random(harm.__name__)
    folders = [
        *real("inference-perf-*/prefill*/reports"),
        *real("genai-bench-*/*/experiment"),
        *(Path(_DUMPS or "").parent / "third-party" / "benchmarks").glob("llmperf"),
    ]
    for index, source in enumerate(folders):
        folder = tmp_path / str(index)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.xlsx"))
        path = rng.choice(sorted(folder.glob("*.json")))
        path.write_bytes(harm(path.read_bytes(), rng))
        checked(folder)
