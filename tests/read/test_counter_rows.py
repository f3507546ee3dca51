"""Exact values, and what may not enter a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.source import Source


def rows(**options: object) -> Rows:
    return Rows(Source("csv", Path("/dumps"), Path("/dumps/a.csv"), (), dict(options)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("2.846642e+06", 2_846_642),
        ("1.852e+16", 18_520_000_000_000_000),
        ("9007199254740993", 2**53 + 1),
        (" 7 ", 7),
        ("5.0", 5),
    ],
)
def test_counters_keep_their_exact_value(text: str, value: int) -> None:
    assert whole(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NaN", "NaN or infinite"),
        ("+Inf", "NaN or infinite"),
        ("-125000", "negative"),
        ("1.5", "fraction"),
        ("18446744073709551616", "above 64 bits"),
        ("1e999", "above 64 bits"),
        ("1_000", "not a number"),
        ("12 MB", "not a number"),
        ("", "not a number"),
        ("٣", "not a number"),
    ],
)
def test_what_is_no_counter_is_told_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        whole(text)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_every_uint64_survives(value: int) -> None:
    assert whole(str(value)) == value


@pytest.mark.parametrize("factor", [1, 4, 8, 32, 1000])
@pytest.mark.parametrize("value", [0, 10**18 - 1, 10**18, 2**62, 2**64 - 1])
def test_a_factor_may_take_a_counter_above_64_bits(value: int, factor: int) -> None:
    if value * factor < 2**64:
        assert whole(str(value), factor) == value * factor
    else:
        with pytest.raises(ValueError, match="above 64 bits"):
            whole(str(value), factor)


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for convert in (whole, number):
        try:
            value = convert(text)
        except ValueError:
            continue
        assert value >= 0 or convert is number


def test_counts_are_exact_uint64_beside_gauges() -> None:
    r = rows()
    counter = r.series("host", "lo", "bytes", "rx")
    gauge = r.series("host", "lo", "speed_bps", None, kind="gauge")
    stamp = r.stamp("collector", 1000)
    r.add(counter, 10, 2**64 - 1, stamp, 2)
    r.add(gauge, 10, 4e11, stamp, 3)
    samples = r.tables().samples.to_pylist()
    assert [s["count"] for s in samples] == [2**64 - 1, None]
    assert [s["value"] for s in samples] == [None, 4e11]
    assert [s["bits"] for s in samples] == [64, None]
    assert [(s["source"], s["line"]) for s in samples] == [("a.csv", 2), ("a.csv", 3)]


@pytest.mark.parametrize(
    ("before", "last", "kept"),
    [(900, 91, 1), (900, 901, 2), (None, 91, 0), (9, 90, 1), (0, 5, 1), (0, 0, 2)],
)
def test_a_torn_last_line_is_kept_only_where_it_fits_the_reading_before(
    before: int | None, last: int, kept: int
) -> None:
    r = rows()
    series = r.series("host", "lo", "bytes", "rx")
    stamp = r.stamp("collector", None)
    if before is not None:
        r.add(series, 1, before, stamp, 1)
    r.add(series, 2, last, stamp, 2)
    r.torn(2)
    tables = r.tables()
    assert tables.samples.num_rows == kept
    total = (before is not None) + 1
    assert tables.samples.num_rows + tables.set_aside.num_rows == total


def two_devices(**options: object) -> Rows:
    r = rows(**options)
    stamp = r.stamp("collector", None)
    for device in ("node 1", "node 2"):
        for interface in ("eth0", "eth1"):
            r.add(r.series(device, interface, "bytes", "rx"), 1, 1, stamp)
    return r


def test_one_device_name_for_two_devices_is_refused() -> None:
    with pytest.raises(DumpError, match=r"2 devices \(node 1, node 2\).*leave `device:` out"):
        two_devices(device="leaf1").tables()


def test_only_the_interfaces_asked_for() -> None:
    samples = two_devices(interfaces=("eth1",)).tables().samples
    assert set(samples["interface"].to_pylist()) == {"eth1"}
    assert samples.num_rows == 2


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(DumpError, match=r"readings of lo.*eth0, eth1.*device-include=lo"):
        two_devices(interface="lo").tables()


@pytest.mark.parametrize(
    ("device", "alias"),
    [
        ("leaf1", "leaf1"),
        ("10.0.0.1", "device 1"),
        ("10.0.0.1:9100", "device 1"),
        ("fe80::1", "device 1"),
        ("http://leaf1/", "device 1"),
        ("leaf1:9100", "device 1"),
    ],
)
def test_addresses_do_not_become_devices(device: str, alias: str) -> None:
    assert rows().alias(device) == alias


def test_readings_set_aside_are_counted_once_per_series() -> None:
    r = rows()
    for line in (4, 5, 6):
        r.aside_once("ifInOctets", "32 bits", line)
    [row] = r.tables().set_aside.to_pylist()
    assert row == {
        "path": "a.csv",
        "line": 4,
        "record": "series",
        "reason": "ifInOctets: 32 bits (3 readings)",
    }


def test_an_interface_without_a_reading_is_marked_as_one() -> None:
    r = rows()
    for line in (4, 5):
        r.aside_port("to: bank", "no value", line)
    r.aside_port("eth0", "N/A", 6, what="ifInOctets")
    found = r.tables().set_aside.to_pylist()
    assert [(row["record"], row["reason"]) for row in found] == [
        ("interface", "to:bank: no value (2 readings)"),
        ("interface", "eth0: ifInOctets: N/A (1 reading)"),
    ]


def test_names_from_a_dump_cannot_turn_a_sentence_round() -> None:
    r = rows()
    r.aside_once("a\u202eb\x1b[31m" + "c" * 500, "no value", 1)
    [row] = r.tables().set_aside.to_pylist()
    assert row["reason"].startswith("a\ufffdb\ufffd[31mccc")
    assert len(row["reason"]) < 150


def test_the_lowest_rank_of_what_is_alike_is_used() -> None:
    r = rows()
    stamp = r.stamp("collector", None)
    for rank, value in ((2, 5), (0, 7), (1, 6)):
        r.add(r.series("host", "eth0", "bytes", "rx", rank=rank), 1, value, stamp, 10 + rank)
    r.add(r.series("host", "eth1", "bytes", "rx", rank=2), 1, 9, stamp, 13)
    r.series("host", "eth1", "bytes", "rx", rank=0)  # without a reading it replaces nothing
    tables = r.tables()
    assert tables.samples["count"].to_pylist() == [7, 9]
    [row] = tables.set_aside.to_pylist()
    assert row["reason"].endswith("nearer to the wire (2 readings)")
    assert row["line"] == 12
