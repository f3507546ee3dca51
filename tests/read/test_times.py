"""Printed times: epochs and ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.read.times import (
    ClockChangeError,
    NoOffsetError,
    epoch_ns,
    iso_ns,
    moment_ns,
    printed_ns,
)

S = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795972223", (1795972223 * S, S)),
        ("1795972223.055", (1795972223_055_000_000, 1_000_000)),
        ("1795973865157", (1795973865157 * 10**6, 10**6)),
        ("1795972223055001", (1795972223055001000, 1000)),
        ("1795975980128359985", (1795975980128359985, 1)),
        ("1795972223.0554455331", (1795972223_055_445_533, 1)),
    ],
)
def test_epochs_are_told_by_magnitude(text: str, expected: tuple[int, int]) -> None:
    assert epoch_ns(text) == expected


@pytest.mark.parametrize(
    "text", ["", "12", "-1795972223", "99999999999", "17959x", "1e9", "٣" * 10]
)
def test_other_numbers_are_no_epoch(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        epoch_ns(text)


@settings(deadline=None)
@given(st.integers(10**18, 4 * 10**18))
def test_every_ns_is_exact_in_each_notation(ns: int) -> None:
    assert epoch_ns(str(ns)) == (ns, 1)
    assert epoch_ns(f"{ns // S}.{ns % S:09d}")[0] == ns


@pytest.mark.parametrize(
    ("text", "zone", "ns"),
    [
        ("2026-11-29T17:10:23Z", None, 1795972223 * S),
        ("2026-11-29T18:10:23+01:00", None, 1795972223 * S),
        ("2026-11-29 18:10:23.047952", "Europe/Berlin", 1795972223_047_952_000),
    ],
)
def test_iso_times(text: str, zone: str | None, ns: int) -> None:
    assert iso_ns(text, zone)[0] == ns


@pytest.mark.parametrize(
    ("text", "zone", "kind", "words"),
    [
        ("2026-11-29T17:10:23", None, NoOffsetError, "no offset"),
        ("2026-10-25T02:30:00", "Europe/Berlin", ClockChangeError, "repeated or skipped"),
        ("2026-03-29T02:30:00", "Europe/Berlin", ClockChangeError, "repeated or skipped"),
    ],
)
def test_times_that_nobody_can_place(
    text: str, zone: str | None, kind: type[ValueError], words: str
) -> None:
    for read in (iso_ns, printed_ns):
        with pytest.raises(kind, match=words):
            read(text, zone)


@pytest.mark.parametrize("year", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_the_first_and_last_day_that_can_be_written(year: str, zone: str) -> None:
    assert iso_ns(f"{year}T12:00:00", zone)[1] == S


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795972223.5", (1795972223 * S + S // 2, S // 10)),
        ("2026-11-29T17:10:23.055Z", (1795972223_055_000_000, 10**6)),
        ("2026-11-29T17:10:23,0554455Z", (1795972223_055_445_000, 1000)),
    ],
)
def test_a_printed_time_is_an_epoch_or_iso(text: str, expected: tuple[int, int]) -> None:
    assert printed_ns(text) == expected


@pytest.mark.parametrize("text", ["", "12", "yesterday", "2026-11-29T25:00:00Z"])
def test_what_is_no_printed_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        printed_ns(text)
    assert type(error.value) is ValueError


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_is_what_its_iso_form_says(moment: datetime) -> None:
    seconds, part = divmod(moment_ns(moment), S)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds) == moment.replace(
        microsecond=0
    )
    assert part == moment.microsecond * 1000
    assert iso_ns(moment.isoformat())[0] == moment_ns(moment)
