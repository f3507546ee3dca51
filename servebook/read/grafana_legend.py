"""What a panel's legend says of a series: interface, direction and metric, or why it does not.

A legend is free text and the only identity that a panel's CSV keeps. Read are a series as
Prometheus prints it, an expression that contains a known counter's name, and words: one for the
direction (rx, in, receive, ... or tx, out, transmit, ...), the rest is the interface. Addresses,
host names with a domain and MAC addresses among the words are dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servebook.read.counter_names import NAMES
from servebook.read.series_labels import device_of, interface_of, series_text

__all__ = ["Legend", "legend_of"]

_RX = {"rx", "receive", "received", "receives", "receiving", "recv", "in", "inbound", "input"}
_RX |= {"ingress", "incoming"}
_TX = {"tx", "transmit", "transmitted", "transmits", "trans", "out", "outbound", "output"}
_TX |= {"egress", "outgoing", "send", "sent", "sends"}
_WORDS = {
    **dict.fromkeys(("errors", "error", "errs"), "errors"),
    **dict.fromkeys(("drops", "drop", "dropped", "discards", "discard", "discarded"), "drops"),
    **dict.fromkeys(("packets", "packet", "pkts", "pps"), "packets"),
    **dict.fromkeys(("pause", "pauses"), "pause_frames"),
}
_NOISE = {"traffic", "bytes", "bits", "octets", "bandwidth", "throughput", "rate", "network", "bps"}
_NOISE |= {"kbps", "mbps", "gbps", "b/s", "bits/s", "bytes/s", "bits/sec", "bytes/sec", "interface"}
_NOISE |= {"on", "of", "the", "by", "for", "to", "from", "total"}
_NEVER = {"utilization", "utilisation", "percent", "%", "collisions", "speed", "mtu"}
_SPLIT = re.compile(r"[\s,()|\[\]{}=\"']+|(?<=\s)[-\u2013\u2014:]+(?=\s)")
_MARKS = re.compile(r"([-_.:])")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*", re.ASCII)
_RATE = re.compile(r"\b(i?rate|deriv|idelta_rate)\s*\(", re.ASCII)
_OTHER = re.compile(r"\b(increase|delta|idelta)\s*\(", re.ASCII)
_LABELS = re.compile(r"\{([^{}]*)\}")
_HOST = re.compile(
    r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\[?[\da-fA-F]*(?::[\da-fA-F]*){2,}\]?(?::\d+)?"
    r"|(?:[\da-fA-F]{2}[:-]){5}[\da-fA-F]{2}|[\da-fA-F]{4}(?:\.[\da-fA-F]{4}){2}"
    r"|(?:[\w-]+\.)+[A-Za-z]{2,}\.?(?::\d+)?|[A-Za-z][\w.-]*:\d{3,5}|\w+://\S+",
    re.ASCII,
)
_MAC = re.compile(r"(?:[\da-fA-F]{2}[:-]){5}[\da-fA-F]{2}|[\da-fA-F]{4}(?:\.[\da-fA-F]{4}){2}")


@dataclass(frozen=True)
class Legend:
    """A series: ``counter`` where its name is a counter's own, so that raw values are counts."""

    interface: str | None
    device: str | None
    metric: str
    direction: str | None
    counter: bool = False
    factor: float = 1.0
    bits: int = 64
    scope: str = "port"


def legend_of(text: str, direction: str | None = None) -> Legend:
    """The series of a legend; ``direction`` is the manifest's word for those that name none.

    Raises ValueError, in words, where the legend does not say what is needed.
    """
    try:
        name, labels = series_text(text) if "{" in text or text.strip() in NAMES else (None, None)
    except ValueError:
        name, labels = None, None
    if labels is not None and (name is None or name in NAMES):
        return _series(name, labels, direction)
    if _OTHER.search(text):
        raise ValueError("an increase over a window, neither a counter nor a rate")
    known = [word for word in _NAME.findall(text) if word in NAMES]
    if len(set(known)) > 1:
        raise ValueError("several counters in one expression")
    if known:
        found = _LABELS.search(text)
        try:
            _, labels = series_text(found[0]) if found else (None, {})
        except ValueError:
            labels = {}
        return _series(known[0], labels, direction, computed=text.strip() != known[0])
    return _words(text, direction)


def _series(
    name: str | None, labels: dict[str, str], direction: str | None, *, computed: bool = False
) -> Legend:
    if name is None:
        if direction is None:
            raise ValueError(
                "a legend without a direction; write `direction:` or map it in `columns:`"
            )
        return Legend(interface_of(labels), device_of(labels), "bytes", direction)
    meaning = NAMES[name]
    if meaning.kind != "counter":
        raise ValueError("not a counter of an interface")
    return Legend(
        interface_of(labels, name),
        device_of(labels),
        meaning.metric,
        meaning.direction,
        counter=not computed,
        factor=meaning.factor,
        bits=meaning.bits,
        scope=meaning.scope,
    )


def _words(text: str, direction: str | None) -> Legend:
    words = [word.strip(":;-\u2013\u2014") for word in _SPLIT.split(text) if word]
    words = [word for word in words if word]
    if any(word.lower() in _NEVER for word in words):
        raise ValueError("a percentage or another figure that is no traffic")
    found = {way for word in words if (way := _way(word))}
    if not found:
        words, found = _unglued(words)
    if len(found) > 1 or (not found and direction is None):
        raise ValueError(
            "a legend that does not say one direction; map it in the manifest: "
            "`columns: {rx_bits_per_s of INTERFACE: LEGEND}`"
        )
    metrics = {_WORDS[word.lower()] for word in words if word.lower() in _WORDS}
    metrics -= {"packets"} if len(metrics) > 1 else set()
    if len(metrics) > 1:
        raise ValueError("a legend that names several metrics")
    hosts = [word for word in words if _HOST.fullmatch(word)]
    rest = [
        word
        for word in words
        if not _way(word)
        and word.lower() not in _NOISE
        and word.lower() not in _WORDS
        and word not in hosts
    ]
    device = next((word for word in hosts if not _MAC.fullmatch(word)), None)
    return Legend(
        " ".join(rest) or None,
        device,
        metrics.pop() if metrics else "bytes",
        found.pop() if found else direction,
    )


def _way(word: str) -> str | None:
    word = word.lower()
    return "rx" if word in _RX else "tx" if word in _TX else None


def _unglued(words: list[str]) -> tuple[list[str], set[str]]:
    """Words such as ``eth0-in`` or ``eth0_rx_bytes`` taken apart at their one direction."""
    out: list[str] = []
    found = set()
    for word in words:
        parts = _MARKS.split(word)  # texts and marks in turn
        places = [i for i, part in enumerate(parts) if _way(part)]
        if len(places) != 1 or _HOST.fullmatch(word):
            out.append(word)
            continue
        [place] = places
        found.add(str(_way(parts[place])))
        before, after = "".join(parts[: max(0, place - 1)]), parts[place + 2 :: 2]
        out += [text for text in (before, *after) if text]
    return out, found
