"""Whatever happens to a SGLang or guidellm file: it is read, or refused or set aside with a reason.

With SERVEBOOK_DUMPS the real dumps are harmed too, and checked whole against the clients' own.
"""

from __future__ import annotations

import copy
import json
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.guidellm_samples import GROUPS, benchmark, entry, report
from tests.read.sglang_samples import sglang_result

_DUMPS = os.environ.get("SERVEBOOK_DUMPS")
_NEEDS_DUMPS = pytest.mark.skipif(not _DUMPS, reason="SERVEBOOK_DUMPS names no folder of dumps")
CLIENTS = Path(__file__).parent.parent / "fixtures" / "clients"
SGLANG = "\n".join(json.dumps(sglang_result(duration=d)) for d in (0.2, 0.3, 0.4))
GUIDELLM = json.dumps(report(*[benchmark([entry(0.0, 0.01, 0.01, 3)] * 2) for _ in range(2)]))

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["Infinity", "-1", "\u202e", "\x00", "1e999"]),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def read_bytes(content: bytes, name: str = "result.json") -> Tables:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        tables = read_tree(Path(folder))
    measured = run_metrics(tables)
    compare(tables, measured)  # odd values must not break what comes after
    assert set(measured["level"]) <= {"records", "summary"}
    return tables


def accounted(tables: Tables) -> int:
    return int(tables.runs.num_rows + tables.set_aside.num_rows + tables.refused.num_rows)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    return [at, *(p for key, one in inside for p in places(one, (*at, key)))]


def change(value: Any, place: tuple[Any, ...], how: Callable[[Any, Any], None]) -> Any:
    out = copy.deepcopy(value)
    holder = out
    for key in place[:-1]:
        holder = holder[key]
    if place:
        how(holder, place[-1])
    return out


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([SGLANG, GUIDELLM]), st.data())
def test_cut_anywhere(text: str, data: st.DataObject) -> None:
    content = text.encode()
    tables = read_bytes(content[: data.draw(st.integers(0, len(content)))])
    assert accounted(tables) >= 1


@settings(max_examples=50, deadline=None)
@given(st.data(), ODD)
def test_any_value_of_sglang_replaced(data: st.DataObject, odd: Any) -> None:
    result = sglang_result(server_info={"tp_size": 2, "prefill": [{"tp_size": 3}]})
    place = data.draw(st.sampled_from(places(result)))
    if data.draw(st.booleans()):
        harmed = change(result, place, lambda holder, key: holder.__setitem__(key, odd))
    else:
        harmed = change(result, place, lambda holder, key: holder.__delitem__(key))
    tables = read_bytes((json.dumps(harmed) + "\n" + json.dumps(sglang_result())).encode())
    if not tables.refused.num_rows:
        results = tables.runs.num_rows + sum(
            record == "result" for record in tables.set_aside["record"].to_pylist()
        )
        assert results == 2
        slots = [r for r in tables.set_aside["record"].to_pylist() if r.startswith("request")]
        for run in tables.runs.to_pylist():
            if run["level"] == "records" and len(slots) == 0:
                assert run["n_requests"] >= 2


@settings(max_examples=60, deadline=None)
@given(st.data(), ODD)
def test_any_value_of_guidellm_replaced(data: st.DataObject, odd: Any) -> None:
    content = json.loads(GUIDELLM)
    place = data.draw(st.sampled_from(places(content)))
    if data.draw(st.booleans()):
        harmed = change(content, place, lambda holder, key: holder.__setitem__(key, odd))
    else:
        harmed = change(content, place, lambda holder, key: holder.__delitem__(key))
    tables = read_bytes(json.dumps(harmed).encode())
    listed = 0
    found = harmed.get("benchmarks")
    for one in found if isinstance(found, list) else ():
        requests = one.get("requests") if isinstance(one, dict) else None
        groups = [requests.get(g) for g in GROUPS] if isinstance(requests, dict) else []
        listed += sum(len(group) for group in groups if isinstance(group, list))
    records = tables.set_aside["record"].to_pylist()
    if not tables.refused.num_rows and all("request" in record for record in records):
        assert tables.requests.num_rows + len(records) == listed


@settings(max_examples=20, deadline=None)
@given(st.data(), ODD)
def test_any_value_of_a_yaml_report_replaced(data: st.DataObject, odd: Any) -> None:
    content = json.loads(GUIDELLM)
    place = data.draw(st.sampled_from(places(content)))
    harmed = change(content, place, lambda holder, key: holder.__setitem__(key, odd))
    assert accounted(read_bytes(yaml.safe_dump(harmed).encode(), "b.yaml")) >= 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.randoms(use_true_random=False))
def test_lines_doubled_dropped_and_swapped(order: list[int], rnd: random.Random) -> None:
    lines = [*SGLANG.split("\n"), '{"torn": ']
    picked = [lines[k] for k in order]
    rnd.shuffle(picked)
    tables = read_bytes("\n".join(picked).encode())
    assert accounted(tables) >= 1
    if not tables.refused.num_rows:
        assert tables.runs.num_rows == len({p for p in picked if "torn" not in p})
        copies = sum("copy" in reason for reason in tables.set_aside["reason"].to_pylist())
        good = [p for p in picked if "torn" not in p]
        assert copies == len(good) - len(set(good))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "latin-1"])
@pytest.mark.parametrize("text", [SGLANG, GUIDELLM])
def test_encodings(text: str, encoding: str) -> None:
    assert read_bytes(text.encode(encoding)).runs.num_rows >= 2


def _real() -> list[Any]:
    folders = ("sglang-bench-serving-0.5.23", "guidellm-0.8.1")
    dumps = [pytest.param(Path(_DUMPS or "") / f, marks=_NEEDS_DUMPS, id=f) for f in folders]
    return [*(pytest.param(CLIENTS / f, id=f) for f in ("sglang", "guidellm")), *dumps]


@pytest.mark.parametrize("root", _real())
def test_every_real_run_meets_its_client(root: Path) -> None:
    tables = read_tree(root)
    assert tables.refused.num_rows == 0
    assert tables.set_aside.num_rows == 0
    rows = compare(tables, run_metrics(tables))
    same = rows[rows["same_definition"]]
    assert same["deviation"].abs().max() < 1e-3
    again = rows[rows["theirs_recomputed"].notna()]
    assert not (again["theirs_deviation"].abs() > 1e-3).any()
    assert len(same) + len(again) > 25


@pytest.mark.parametrize("root", _real())
def test_real_files_harmed(root: Path) -> None:
    rnd = random.Random(7)
    for path in sorted(p for p in root.rglob("*.json*") if "_" not in p.parent.name[:1])[:4]:
        if path.name.startswith("_"):
            continue
        content = path.read_bytes()
        for _ in range(12):
            harmed = bytearray(content)
            kind = rnd.randrange(4)
            at, length = rnd.randrange(len(harmed)), rnd.randrange(1, 200)
            if kind == 0:
                del harmed[at:]
            elif kind == 1:
                del harmed[at : at + length]
            elif kind == 2:
                harmed[at : at + length] = rnd.randbytes(length)
            else:
                harmed[at:at] = rnd.choice([b"null", b"NaN", b"-1", b'"x"', b"[" * 10_000, b"\xff"])
            tables = read_bytes(bytes(harmed))
            assert accounted(tables) >= 1
