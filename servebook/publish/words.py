"""Numbers and lists as words: the one place where text formats a value.

Tiny pure functions for titles, sentences, labels and tables. They round for reading only (three
significant digits unless said otherwise); what is not known is said as such, never as 0. Words and
units come from the catalogue, in the language that the process speaks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from servebook.publish.line_breaks import unbroken, wrapped
from servebook.publish.text import called, say, spoken
from servebook.publish.text import told as _told

__all__ = [
    "bits_per_second",
    "bytes_size",
    "bytes_span",
    "capital",
    "count",
    "deviation",
    "duration",
    "factor",
    "lengths",
    "lengths_short",
    "listed",
    "mark",
    "milliseconds",
    "number",
    "percent",
    "plural",
    "rate",
    "short",
    "span",
    "spread",
    "times",
    "told",
    "unbroken",
    "unit",
    "unknown",
    "utc",
    "wrapped",
]

_SPELLED = 10  # up to this number the catalogue has words


def told(wording: str) -> str:
    """An English wording of another layer (a metric's label, a setting) as the page says it.

    >>> told("TTFT mean"), told("a label of somebody")
    ('TTFT mean', 'a label of somebody')
    """
    return _told(wording)


def mark(text: str) -> str:
    """A mark of comparability as the page says it.

    >>> mark("SINGLE VARIABLE"), mark("4 SETTINGS")
    ('SINGLE VARIABLE', '4 SETTINGS')
    """
    n, _, kind = text.partition(" ")
    return say("marks.n_settings", n=n) if kind == "SETTINGS" else called("marks", text)


def unit(name: str) -> str:
    """A unit as the page says it.

    >>> unit("tokens/s")
    'tokens/s'
    """
    return called("units", name)


def unknown() -> str:
    """What stands where a value is not known.

    >>> unknown()
    'not known'
    """
    return say("words.unknown")


def _absent(value: float | None) -> bool:
    return value is None or math.isnan(value)


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with ``digits`` significant digits and thousands separators.

    Digits left of the decimal point are never rounded away: 12345.6 is "12,346".

    >>> number(0.012345), number(47.08), number(12345.6), number(8.0), number(None)
    ('0.0123', '47.1', '12,346', '8', 'not known')
    """
    if value is None or math.isnan(value):
        return unknown()
    if math.isinf(value):
        return say("words.infinite" if value > 0 else "words.minus_infinite")
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    exponent = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - exponent)
    text = f"{value:.{decimals}f}"
    # 9.996 rounds up into one digit more than asked for.
    if decimals and abs(float(text)) >= 10 ** (exponent + 1):
        text = text[:-1].rstrip(".")
    whole, _, part = text.partition(".")
    grouped = f"{int(whole):,}" if whole not in ("-0", "0") else whole
    return (grouped + (f".{part}" if part else "")).replace("-", "−")


def short(value: float | None, digits: int = 3) -> str:
    """A number for labels inside charts: 52200 is "52.2k", 1.2e7 "12M".

    >>> short(52200), short(950), short(12_000_000), short(1000)
    ('52.2k', '950', '12M', '1k')
    """
    if value is None or math.isnan(value) or math.isinf(value):
        return number(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            scaled = number(value / size, digits)
            return (scaled.rstrip("0").rstrip(".") if "." in scaled else scaled) + letter
    return number(value, digits)


def _time(value: float) -> str:
    # "42.0" of 42.04 beside "42" of 42 would look like two ways to measure.
    return re.sub(r"\.0+$", "", number(value))


def milliseconds(value_ms: float | None) -> str:
    """A time given in ms, as ms below 10 s and as s from there.

    >>> milliseconds(47.08), milliseconds(1752.0), milliseconds(12340.0), milliseconds(42.04)
    ('47.1 ms', '1,752 ms', '12.3 s', '42 ms')
    """
    if value_ms is None or math.isnan(value_ms):
        return unknown()
    if abs(value_ms) >= 10_000:
        return say("words.s", value=_time(value_ms / 1e3))
    return say("words.ms", value=_time(value_ms))


def duration(seconds: float | None) -> str:
    """A length of time: "340 ms", "12.3 s", "4 min 12 s", "2 h 5 min".

    >>> duration(0.34), duration(12.34), duration(252), duration(7500)
    ('340 ms', '12.3 s', '4 min 12 s', '2 h 5 min')
    """
    if seconds is None or math.isnan(seconds):
        return unknown()
    if abs(seconds) < 1:
        return say("words.ms", value=_time(seconds * 1e3))
    if seconds < 120:
        return say("words.s", value=_time(seconds))
    whole = round(seconds)
    if whole < 7200:
        return say("words.min_s", minutes=whole // 60, seconds=whole % 60)
    return say("words.h_min", hours=whole // 3600, minutes=whole % 3600 // 60)


def percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction of 1 as percent, two significant digits: 0.0781 is "7.8 %".

    >>> percent(0.0781), percent(0.006), percent(1.0), percent(0.9996), percent(0.0)
    ('7.8 %', '0.60 %', '100 %', '99.96 %', '0 %')
    """
    if fraction is None or math.isnan(fraction):
        return unknown()
    # Close below 100 the distance from it is what matters, never a rounded-up 100.
    if 0.99 < fraction < 1:
        return say("words.percent", value=f"{math.floor(fraction * 1e4) / 100:.2f}")
    return say("words.percent", value=number(fraction * 100, digits))


def deviation(fraction: float | None, digits: int = 2) -> str:
    """A signed relative difference: "+14 %", "−0.30 %", "0 %".

    >>> deviation(0.14), deviation(-0.003), deviation(0.0)
    ('+14 %', '−0.30 %', '0 %')
    """
    if fraction is None or math.isnan(fraction):
        return unknown()
    text = percent(fraction, digits)
    return f"+{text}" if fraction > 0 else text


def times(ratio: float | None, digits: int = 2) -> str:
    """A ratio in a sentence: "4.3 times".

    >>> times(4.31), times(12.0), times(31.4)
    ('4.3 times', '12 times', '31 times')
    """
    if ratio is None or math.isnan(ratio):
        return unknown()
    return say("words.times", value=number(ratio, max(digits, 3) if 0.9 < ratio < 1.1 else digits))


def factor(ratio: float | None, digits: int = 2) -> str:
    """A ratio as a label inside a chart: "×4.3".

    >>> factor(4.31), factor(1.004)
    ('×4.3', '×1.00')
    """
    if ratio is None or math.isnan(ratio):
        return ""
    if 0.9 < ratio < 1.1:
        return f"×{ratio:.2f}"
    return f"×{number(ratio, digits)}"


def rate(value: float | None, unit: str = "tokens/s") -> str:
    """A rate: "52,200 tokens/s".

    >>> rate(52200.0), rate(3.217, "requests/s"), rate(42.04, "ms")
    ('52,200 tokens/s', '3.22 requests/s', '42 ms')
    """
    if value is None or math.isnan(value):
        return unknown()
    shown = _time(value) if unit in ("ms", "s") else number(value)
    return say("words.rate", value=shown, unit=called("units", unit))


def _scaled(value: float | None, unit: str, steps: Sequence[str]) -> str:
    if value is None or math.isnan(value):
        return unknown()
    power = 0
    while abs(value) >= 999.5 and power < len(steps) - 1:
        value /= 1e3
        power += 1
    return say("words.rate", value=number(value), unit=called("units", f"{steps[power]}{unit}"))


def bits_per_second(value_bps: float | None) -> str:
    """A line rate in decimal units: "400 Gbit/s".

    >>> bits_per_second(400e9), bits_per_second(3_640_000.0)
    ('400 Gbit/s', '3.64 Mbit/s')
    """
    return _scaled(value_bps, "bit/s", ("", "k", "M", "G", "T"))


def bytes_size(value_bytes: float | None) -> str:
    """A size in decimal units: "150 GB".

    >>> bytes_size(150e9), bytes_size(512)
    ('150 GB', '512 B')
    """
    return _scaled(value_bytes, "B", ("", "k", "M", "G", "T", "P"))


def bytes_span(values: Iterable[float]) -> str:
    """The range of sizes in one decimal unit: "9.74 to 13.8 MB", "6.16 B".

    >>> bytes_span([9.74e6, 13.8e6]), bytes_span([6.16, 6.16]), bytes_span([])
    ('9.74 to 13.8 MB', '6.16 B', 'not known')
    """
    known = [value for value in values if not _absent(value)]
    if not known:
        return unknown()
    power = 0
    while max(known) >= 999.5 * 1e3**power and power < 5:
        power += 1
    unit = f"{('', 'k', 'M', 'G', 'T', 'P')[power]}B"
    return say(
        "words.rate",
        value=span(value / 1e3**power for value in known),
        unit=called("units", unit),
    )


def plural(n: int, noun: str, many: str | None = None) -> str:
    """The noun alone in the number that ``n`` asks for.

    ``noun`` is its English name in the catalogue's group ``nouns``; one that is not there stays.

    >>> plural(1, "run"), plural(0, "run"), plural(2, "entry", "entries")
    ('run', 'runs', 'entries')
    """
    if n == 1:
        return spoken().called("nouns", f"{noun}.one") if _has(noun) else noun
    return spoken().called("nouns", f"{noun}.many") if _has(noun) else (many or f"{noun}s")


def _has(noun: str) -> bool:
    return f"nouns.{noun}.one" in spoken().texts


def count(n: int | None, noun: str, many: str | None = None, *, spelled: bool = False) -> str:
    """A count with its noun: "1 run", "1,204 requests"; ``spelled`` writes up to ten as words.

    >>> count(1, "run"), count(0, "run"), count(1204, "request"), count(3, "run", spelled=True)
    ('1 run', 'no runs', '1,204 requests', 'three runs')
    """
    if n is None:
        return say("words.how_many", noun=plural(2, noun, many))
    if n == 0 or (spelled and 0 <= n <= _SPELLED):
        return say("words.count", n=say(f"words.numbers.{n}"), noun=plural(n, noun, many))
    return say("words.count", n=f"{n:,}", noun=plural(n, noun, many))


def listed(items: Iterable[str], *, most: int | None = None, last: str = "and") -> str:
    """Words as a list: "a", "a and b", "a, b and c"; beyond ``most`` the rest is counted.

    Each is told (``told``). ``last`` is "and", "or" or "in": which of the catalogue's words stands
    before the last one.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"]), listed("abcd", most=2)
    ('a', 'a and b', 'a, b and c', 'a, b and 2 more')
    """
    words = [told(item) for item in items]
    if most is not None and len(words) > most + 1:
        words = [*words[:most], say("words.more", n=len(words) - most)]
    if len(words) < 2:
        return "".join(words)
    first = say("words.comma").join(words[:-1])
    return say(f"words.last.{last}", first=first, last=words[-1])


def span(values: Iterable[float], digits: int = 3) -> str:
    """The range of values: "8 to 64"; one value alone where they all read the same.

    >>> span([8, 64, 16]), span([5.0]), span([2.8, 4.52], digits=2), span([])
    ('8 to 64', '5', '2.8 to 4.5', 'not known')
    """
    known = [value for value in values if not _absent(value)]
    if not known:
        return unknown()
    low, high = number(min(known), digits), number(max(known), digits)
    return low if low == high else say("words.span", low=low, high=high)


def spread(n_runs: int) -> str:
    """What an error bar over ``n_runs`` runs of one condition is, in words.

    >>> spread(1), spread(3)
    ('no interval: one run', 'range over 3 repeats')
    """
    return say("words.one_run") if n_runs < 2 else say("words.repeats", n_runs=n_runs)


def lengths(isl: float | None, osl: float | None) -> str:
    """Request lengths in tokens: "768 in / 128 out".

    >>> lengths(768, 127.6), lengths(None, 1)
    ('768 in / 128 out', 'unknown in / 1 out')
    """

    def one(value: float | None) -> str:
        return say("words.length_unknown") if _absent(value) else _whole(value)

    return say("words.lengths", isl=one(isl), osl=one(osl))


def _whole(value: float | None) -> str:
    return "?" if value is None or math.isnan(value) else f"{round(value):,}"


def lengths_short(isl: float | None, osl: float | None) -> str:
    """Request lengths for labels inside charts: "768/128" for 768 in and 128 out.

    >>> lengths_short(768, 127.6), lengths_short(None, 1)
    ('768/128', '?/1')
    """
    return say("words.lengths_short", isl=_whole(isl), osl=_whole(osl))


def capital(text: str) -> str:
    """The sentence with its first letter large; the rest is left as it is.

    >>> capital("vLLM is"), capital("")
    ('VLLM is', '')
    """
    return text[:1].upper() + text[1:]


def utc(epoch_ns: int | None) -> str:
    """A moment in UTC to the second: "2026-11-29 18:28:03 UTC".

    >>> utc(0), utc(None)
    ('1970-01-01 00:00:00 UTC', 'not known')
    """
    if epoch_ns is None:
        return unknown()
    # Whole seconds in integers: a float of ns since 1970 is off by hundreds of ns.
    at = datetime.fromtimestamp(epoch_ns // 1_000_000_000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
