"""Dumps of COUNTERS_DB: names from its own maps, times from redis-dump."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import sonic_db
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES, licensed, licensed_folder

DUMPS = tuple(FIXTURES / f"COUNTERS_DB_{n}.json" for n in (1, 2))
T = 1795973865
MS = 10**6
read = functools.partial(counter_samples.read, sonic_db.FORMAT)


def values(tables: Tables) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
    out: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in tables.samples.to_pylist():
        key = (row["interface"], row["metric"], row["direction"], row["scope"], row["index"])
        out.setdefault(key, []).append((row["ts_ns"], row["count"]))
    return out


def test_two_dumps_of_a_folder_are_one_series() -> None:
    [source] = sonic_db.find(survey(FIXTURES))
    assert source.files == DUMPS
    found = values(sonic_db.read(source))
    # The times are those of the objects; 2^53 + 1 survives, and so do new object numbers.
    times = [(T * 1000 + 501) * MS, (T * 1000 + 60_501) * MS]
    first = 2**53 + 1
    assert found["Ethernet0", "bytes", "rx", "port", None] == list(
        zip(times, [first, first + 10**9], strict=True)
    )
    assert [n for _, n in found["Ethernet8", "bytes", "tx", "port", None]] == [0, 3 * 10**9]
    assert [n for _, n in found["Ethernet0", "packets", "rx", "port", None]] == [105, 106]
    assert ("Ethernet0", "packets", "tx", "port", None) not in found  # a part of it is missing
    assert [n for _, n in found["Ethernet0", "pfc_frames", "rx", "prio", 3]] == [40, 41]
    assert [n for _, n in found["Ethernet0", "bytes", "tx", "queue", 3]] == [4096, 8192]
    assert [n for _, n in found["Ethernet0", "ecn_marked", "tx", "queue", 3]] == [39, 40]
    assert [n for _, n in found["Ethernet0", "bytes", "tx", "queue_mc", 13]] == [1, 1]
    assert [n for _, n in found["Ethernet0", "drops", "rx", "pg", 3]] == [2, 2]


def test_what_is_not_used_is_counted() -> None:
    tables = read(DUMPS[0])
    assert tables.set_aside["reason"].to_pylist() == [
        "other keys: rates of the device, or another table than counters (6 readings)",
        "Ethernet0: SAI_PORT_STAT_PFC_3_TX_PKTS: no value (N/A) (1 reading)",
        "Ethernet8: SAI_PORT_STAT_PFC_3_TX_PKTS: no value (N/A) (1 reading)",
        "objects: none that the dump's maps name (1 reading)",
    ]
    errors = {
        (row["scope"], row["ts_kind"], row["ts_error_ns"]) for row in tables.samples.to_pylist()
    }
    assert ("port", "device", 10**9) in errors
    assert ("queue", "device", 10**10) in errors


def flat(entries: dict[str, Any]) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in entries.items()}


def test_a_dump_without_times_takes_that_of_its_name(tmp_path: Path) -> None:
    content = flat(json.loads(DUMPS[0].read_text()))
    named = tmp_path / f"db-{T}.json"
    named.write_text(json.dumps([content]))  # rdbtools: a list of databases
    tables = read(named)
    assert set(tables.samples["ts_ns"].to_pylist()) == {T * 10**9}
    assert set(tables.samples["ts_kind"].to_pylist()) == {"filename"}
    bare = tmp_path / "db.json"
    bare.write_text(json.dumps(content))
    with pytest.raises(DumpError, match=r"a dump of COUNTERS_DB with the time"):
        read(bare)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"COUNTERS:oid:0x1": {"SAI_PORT', "no valid JSON"),
        ('{"COUNTERS:oid:0x1": {"SAI_PORT_STAT_IF_IN_OCTETS": "1"}}', "none that the dump's maps"),
        ('{"COUNTERS_PORT_NAME_MAP": 5}', "other keys"),
        ("[]", "COUNTERS_PORT_NAME_MAP names"),
    ],
)
def test_dumps_that_say_nothing_are_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / f"db_{T}.json"
    path.write_text(content)
    with pytest.raises(DumpError) as error:
        read(path)
    assert words.split(" ")[0] in str(error.value)


def test_names_of_hosts_stay_out(tmp_path: Path) -> None:
    content = flat(json.loads(DUMPS[0].read_text()))
    content["COUNTERS_VOQ_NAME_MAP"] = {
        "leaf7.example.org|asic0|Ethernet4:1": "oid:0x15000000000999"
    }
    content["COUNTERS:oid:0x15000000000999"] = {"SAI_QUEUE_STAT_PACKETS": "5"}
    path = tmp_path / f"db_{T}.json"
    path.write_text(json.dumps(content))
    tables = read(path)
    assert "leaf7" not in str(tables.samples.to_pylist()) + str(tables.set_aside.to_pylist())
    assert (T * 10**9, 5) in values(tables)["Ethernet4", "packets", "tx", "queue", 1]


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    key=st.sampled_from(sorted(json.loads(DUMPS[0].read_text()))), junk=JUNK, inner=st.booleans()
)
def test_damaged_entries_are_no_traceback(
    tmp_path_factory: pytest.TempPathFactory, key: str, junk: Any, inner: bool
) -> None:
    content = json.loads(DUMPS[0].read_text())
    if inner:
        content[key]["value"] = junk
    else:
        content[key] = junk
    path = tmp_path_factory.mktemp("db") / f"db_{T}.json"
    path.write_text(json.dumps(content))
    try:
        tables = read(path)
    except DumpError:
        return
    assert tables.samples.num_rows > 0


@licensed
def test_the_database_of_sonic_utilities_tests(tmp_path: Path) -> None:
    [path] = licensed_folder("sonic").glob("*counters_db.json")
    copy = tmp_path / f"COUNTERS_{T}.json"
    copy.write_bytes(path.read_bytes())
    found = values(read(copy))
    assert found["Ethernet0", "bytes", "rx", "port", None] == [(T * 10**9, 800)]
    assert found["Ethernet0", "pfc_frames", "rx", "prio", 0] == [(T * 10**9, 1200)]
    assert found["Ethernet0", "packets", "tx", "port", None] == [(T * 10**9, 10)]
