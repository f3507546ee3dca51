"""Printed times as epoch ns: epochs of any unit, and ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

__all__ = [
    "YEAR_2001",
    "YEAR_2100",
    "ClockChangeError",
    "NoOffsetError",
    "epoch_ns",
    "iso_ns",
    "moment_ns",
    "printed_ns",
]

#: Epoch ns between which a number is taken for a time; what is labelled as one may be older.
YEAR_2001, YEAR_2100 = 978307200 * 10**9, 4102444800 * 10**9
_EPOCH = re.compile(r"(\d{9,20})(?:\.(\d{1,9})\d*)?", re.ASCII)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class NoOffsetError(ValueError):
    """A time without an offset from UTC, and no zone that it could be meant in."""


class ClockChangeError(ValueError):
    """A time that a change of the clock repeats or skips."""


def epoch_ns(text: str) -> tuple[int, int]:
    """A printed epoch time as (ns, ns of its last digit); s, ms, us and ns told by magnitude.

    ``1795972223.055`` gives (1795972223055000000, 1000000). Raises ValueError otherwise.
    """
    match = _EPOCH.fullmatch(text.strip())
    if not match:
        raise ValueError("no epoch time")
    head, fraction = match[1], match[2] or ""
    unit = next((10**e for e, n in ((9, 11), (6, 14), (3, 17)) if len(head) <= n), 1)
    parts = int((fraction + "0" * 9)[:9]) * unit // 10**9 if fraction else 0
    ns = int(head) * unit + parts
    if not YEAR_2001 <= ns < YEAR_2100:
        raise ValueError("a time outside of the years 2001 to 2099")
    return ns, max(1, unit // 10 ** len(fraction))


def iso_ns(text: str, zone: str | None = None) -> tuple[int, int]:
    """An ISO 8601 time as (ns, ns of its last digit), to the microsecond.

    ``zone`` (an IANA name) is for times without an offset. Raises ValueError, in words, for what
    is no such time; NoOffsetError without offset and zone; ClockChangeError for an hour that a
    clock change repeats or skips.
    """
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        if zone is None:
            raise NoOffsetError("the time has no offset from UTC, so nobody can place it")
        moment = moment.replace(tzinfo=ZoneInfo(zone))
        if moment.utcoffset() != moment.replace(fold=1).utcoffset():
            raise ClockChangeError(f"the hour is repeated or skipped by a clock change in {zone}")
    digits = re.search(r"[.,](\d+)", text)
    return moment_ns(moment), 10 ** (9 - min(6, len(digits[1]) if digits else 0))


def printed_ns(text: str, zone: str | None = None) -> tuple[int, int]:
    """An epoch, or else an ISO 8601 time, as (ns, ns of its last digit).

    Raises ValueError as ``iso_ns``.
    """
    try:
        return epoch_ns(text)
    except ValueError:
        return iso_ns(text, zone)


def moment_ns(moment: datetime) -> int:
    """Epoch ns of a time with an offset, to the microsecond."""
    return (moment - _1970) // timedelta(microseconds=1) * 1000
