"""Cells of a panel's CSV: numbers with units, and times in whatever form the panel shows them.

Own code: the difference between ``Gb/s`` and ``GB/s`` is a factor of eight, and unit libraries
read ``Gb`` as gilbert or know no ``b/s``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from servebook.read.times import ClockChangeError, NoOffsetError, epoch_ns, iso_ns

__all__ = ["Clock", "amount", "to_number"]

_AMOUNT = re.compile(
    r"(?P<number>[-+\u2212]?[\d.,]+(?:[eE][-+]?\d{1,3})?)\s*"
    r"(?:(?P<prefix>[kKMGTPE])(?P<binary>i)?)?(?P<unit>[A-Za-z%][A-Za-z%/]*)?",
    re.ASCII,
)
_PREFIX = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_UNITS = {
    **dict.fromkeys(("b/s", "bps", "bit/s", "bits/s", "bits/sec"), "bits/s"),
    **dict.fromkeys(("B/s", "Bps", "Bs", "bytes/s", "bytes/sec"), "bytes/s"),
    **dict.fromkeys(("p/s", "pps", "pkts/s", "packets/s", "packets/sec"), "packets/s"),
    **dict.fromkeys(("b", "bit", "bits"), "bits"),
    **dict.fromkeys(("B", "bytes"), "bytes"),
    **dict.fromkeys(("%", "percent"), "percent"),
}
_DATE = re.compile(
    r"(?P<first>\d{1,2})(?P<mark>[/.])(?P<second>\d{1,2})[/.](?P<year>\d{4}),?\s+"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<rest>\d\d(?:[.,]\d{1,9})?))?"
    r"(?:\s*(?P<half>[AaPp])\.?\s?[Mm]\.?)?"
)
_YEAR_FIRST = re.compile(r"(\d{4})/(\d\d)/(\d\d)(.*)", re.ASCII)


def to_number(text: str, *, comma: bool) -> float:
    """A number as printed; ``comma`` says that a comma is the decimal sign of this file.

    Raises ValueError, in words: a comma without that could be either sign.
    """
    text = text.replace("\u2212", "-")
    if "," in text:
        if not comma or text.count(",") > 1:
            raise ValueError("a comma that may be a decimal sign or may group digits")
        text = text.replace(".", "").replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        raise ValueError("the value is not a number") from None
    if abs(value) > 1e24:
        raise ValueError("the value is out of range")
    return value


def amount(text: str, *, comma: bool = False) -> tuple[float, str]:
    """A cell as (value, unit) in bits/s, bytes/s, packets/s, bits, bytes, percent or "" (none).

    ``1.5 Gb/s`` is (1.5e9, "bits/s") and ``2 KiB/s`` is (2048, "bytes/s"). Raises ValueError, in
    words, for what is no number with a known unit.
    """
    match = _AMOUNT.fullmatch(text.strip().replace("\u00a0", " ").replace("\u202f", " "))
    if match is None:
        raise ValueError("the value is not a number with a unit")
    value = to_number(match["number"], comma=comma)
    word, prefix = match["unit"] or "", match["prefix"] or ""
    if not word and not prefix:
        return value, ""
    unit = _UNITS.get(word)
    if unit is None or (unit == "percent" and prefix):
        raise ValueError("a unit that Servebook does not know")
    base = 1024 if match["binary"] else 1000
    return value * base ** _PREFIX[prefix], unit


class Clock:
    """How one file writes its times; decided once, from all of them.

    ``zone`` (an IANA name) is for times without an offset.
    """

    def __init__(self, texts: Iterable[str], zone: str | None) -> None:
        self.zone = zone
        self._known: dict[str, int] = {}  # each time stands in a file once per series
        found = [match for text in texts if (match := _DATE.fullmatch(text.strip()))]
        firsts = {int(match["first"]) for match in found if match["mark"] == "/"}
        seconds = {int(match["second"]) for match in found if match["mark"] == "/"}
        self.day_first: bool | None = None
        if any(n > 12 for n in firsts):
            self.day_first = True
        elif any(n > 12 for n in seconds):
            self.day_first = False

    def ns(self, text: str) -> int:
        """Epoch ns; raises ValueError, in words, for a time that cannot be placed."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._placed(text.strip())
        return known

    def _placed(self, text: str) -> int:
        try:
            return epoch_ns(text)[0]
        except ValueError:
            pass
        if match := _YEAR_FIRST.fullmatch(text):
            text = f"{match[1]}-{match[2]}-{match[3]}{match[4]}"
        elif match := _DATE.fullmatch(text):
            text = self._iso(match)
        try:
            return iso_ns(text, self.zone)[0]
        except NoOffsetError:
            raise ValueError(
                "a time without a zone; write `time_zone:` (the dashboard's) in the manifest"
            ) from None
        except ClockChangeError:
            raise
        except ValueError:
            raise ValueError("no time that can be read") from None

    def _iso(self, match: re.Match[str]) -> str:
        if match["mark"] == "/" and self.day_first is None:
            raise ValueError(
                "a date whose day and month nobody can tell apart; export with times as epoch or "
                "ISO 8601"
            )
        day, month = match["first"], match["second"]
        if match["mark"] == "/" and not self.day_first:
            day, month = month, day
        hour = int(match["hour"])
        if match["half"]:
            if not 1 <= hour <= 12:
                raise ValueError("no time that can be read")
            hour = hour % 12 + 12 * (match["half"].lower() == "p")
        rest = (match["rest"] or "00").replace(",", ".")
        return f"{match['year']}-{month:0>2}-{day:0>2}T{hour:02}:{match['minute']}:{rest}"
