"""Series of Prometheus exporters: what a name and its labels say, for text pages and API replies.

Exporters: node_exporter (netdev, netclass, infiniband, ethtool), snmp_exporter, sonic-exporter,
gnmic's prometheus output, infiniband_exporter (treydock's and guilbaults'), dcgm-exporter,
OpenTelemetry's host metrics (``direction`` is a label there).

infiniband_exporter wrote InfiniBand's 4-byte words until 0.9 and bytes from 0.10.0 on, under the
same names; its own version in the page (``infiniband_exporter_build_info``) or ``unit:`` in the
manifest tells which. Without both its bytes are set aside.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from servebook.read.counter_names import NAMES, Meaning
from servebook.read.counter_rows import number, whole
from servebook.read.ethtool_names import ethtool_meaning

__all__ = [
    "BUILD_INFO",
    "Series",
    "job_of",
    "known_name",
    "reading_of",
    "series_of",
    "words_factor",
]

BUILD_INFO = "infiniband_exporter_build_info"
#: node_exporter's ethtool collector spells rx and tx out.
_ETHTOOL = "node_ethtool_"
_SPELT = re.compile(r"(?<![a-z0-9])(received|transmitted)(?![a-z0-9])")
_GNMIC = re.compile(
    r"(?:[A-Za-z][\w:]*_)?(?:state_counters|statistics)_(?P<way>in|out)_"
    r"(?P<leaf>octets|pkts|packets|unicast_pkts|unicast_packets|errors|error_packets|discards"
    r"|discarded_packets|pause_frames|mac_pause_frames)"
)
_LEAVES = {
    "octets": "bytes",
    "pkts": "packets",
    "packets": "packets",
    "unicast_pkts": "unicast_packets",
    "unicast_packets": "unicast_packets",
    "errors": "errors",
    "error_packets": "errors",
    "discards": "drops",
    "discarded_packets": "drops",
    "pause_frames": "pause_frames",
    "mac_pause_frames": "pause_frames",
}
_OTEL = re.compile(
    r"system_network_(?P<leaf>io|packets|errors|dropped)(?:_(?:bytes|By|packets|errors))?(?:_total)?"
)
_OTEL_METRICS = {"io": "bytes", "packets": "packets", "errors": "errors", "dropped": "drops"}
_OTEL_WAYS = {"receive": "rx", "transmit": "tx"}
_TREYDOCK = re.compile(
    r"infiniband_(?:switch|hca)_port_(?P<field>transmit_data_bytes|receive_data_bytes"
    r"|transmit_packets|receive_packets|transmit_discards|receive_errors|transmit_wait)_total"
)
_GUILBAULTS = re.compile(
    r"infiniband_port(?P<field>xmitdata|rcvdata|xmitpkts|rcvpkts|xmitdiscards|rcverrors|xmitwait)"
    r"(?:_total)?"
)
_FABRIC = {
    "transmit_data_bytes": ("bytes", "tx"),
    "receive_data_bytes": ("bytes", "rx"),
    "transmit_packets": ("packets", "tx"),
    "receive_packets": ("packets", "rx"),
    "transmit_discards": ("drops", "tx"),
    "receive_errors": ("errors", "rx"),
    "transmit_wait": ("xmit_wait", "tx"),
    "xmitdata": ("bytes", "tx"),
    "rcvdata": ("bytes", "rx"),
    "xmitpkts": ("packets", "tx"),
    "rcvpkts": ("packets", "rx"),
    "xmitdiscards": ("drops", "tx"),
    "rcverrors": ("errors", "rx"),
    "xmitwait": ("xmit_wait", "tx"),
}
# dcgm-exporter: gauges in bytes/s, averaged since the last collection; no Ethernet counter.
_DCGM = {
    f"DCGM_FI_PROF_{bus}_{way.upper()}_BYTES": Meaning("bytes", way, kind="rate", scope=bus.lower())
    for bus in ("PCIE", "NVLINK")
    for way in ("rx", "tx")
}
_JOB = re.compile(r"[A-Za-z_][\w/ -]{0,63}", re.ASCII)  # no dots or colons
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.")
_WORDS_UNTIL = (0, 10)
#: Rank of node_network_*, above all that a driver says itself.
_KERNEL = 3
#: dcgm's mark for "not available" (2^63 - 14 and up), as a float.
_BLANK = 9.2e18


@dataclass(frozen=True)
class Series:
    """One series: its meaning, its interface, what its labels say of the device, and its rank.

    ``device`` is a label's text, to be replaced where it is an address (``Rows.alias``), or None.
    ``in_words`` marks bytes that an old infiniband_exporter gives in 4-byte words. A ``rank``
    yields to a lower one of the same interface and meaning: the kernel's counters, which miss
    RDMA, to the port's own.
    """

    meaning: Meaning
    interface: str | None
    device: str | None = None
    in_words: bool = False
    rank: int = 0


def job_of(labels: Mapping[str, str]) -> str:
    """The job of a series, where its name can be no host and no address; else the empty text."""
    job = labels.get("job", "")
    return job if _JOB.fullmatch(job) else ""


def known_name(name: str) -> bool:
    """True where ``series_of`` can tell what a series of this name is."""
    return _meaning(name) is not None


def series_of(name: str, labels: Mapping[str, str]) -> Series | None:
    """What a series is, by its name and labels; None for what is no network counter."""
    found = _meaning(name)
    if found is None:
        return None
    meaning, rank, in_words = found
    device = None
    if _OTEL.fullmatch(name):
        way = _OTEL_WAYS.get(labels.get("direction", ""))
        if way is None:
            return None
        meaning = dataclasses.replace(meaning, direction=way)
    if name.startswith("DCGM_"):
        gpu = labels.get("gpu", "")
        interface = f"gpu{gpu}" if gpu.isdigit() else None
    elif name.startswith("infiniband_"):
        port = labels.get("port") or labels.get("local_port")
        interface = f"port {port}" if port else None
        device = (
            labels.get("switch")
            or labels.get("hca")
            or labels.get("local_name")
            or labels.get("guid")
            or labels.get("local_guid")
        )
    else:
        interface = (
            labels.get("ifName")
            or labels.get("ifDescr")
            or labels.get("interface_name")
            or labels.get("device")
            or labels.get("interface")
            or (f"ifIndex {labels['ifIndex']}" if labels.get("ifIndex") else None)
        )
        if meaning.scope == "rdma" and "port" in labels and interface:
            interface = f"{interface}/{labels['port']}"
        if _GNMIC.fullmatch(name):
            device = labels.get("source") or labels.get("target")
    return Series(meaning, interface, device, in_words, rank)


def words_factor(build: str | None, unit: object) -> int | None:
    """Bytes per unit of infiniband_exporter's data counters; None where nothing tells it."""
    if unit is not None:
        return {"bytes": 1, "words": 4}.get(str(unit))
    match = _VERSION.match(build or "")
    if match is None:
        return None
    return 4 if (int(match[1]), int(match[2])) < _WORDS_UNTIL else 1


def reading_of(meaning: Meaning, text: str, factor: int | None = 1) -> int | float:
    """A printed value in canonical units; raises ValueError, in words, for what is none.

    ``factor`` is that of ``words_factor``: None means that nobody says bytes or words.
    """
    if factor is None:
        raise ValueError(
            "infiniband_exporter wrote 4-byte words before 0.10.0 and bytes since; keep its "
            "infiniband_exporter_build_info line, or write `unit: words` or `unit: bytes`"
        )
    if meaning.kind == "counter":
        return whole(text, int(meaning.factor) * factor)
    read = number(text)
    if meaning.metric == "speed_bps" and read <= 0:
        raise ValueError("the device does not know the speed")
    if read >= _BLANK:
        raise ValueError("the device has no value")
    if read < 0:
        raise ValueError("a rate cannot be negative")
    return read * meaning.factor


@lru_cache(maxsize=8192)
def _meaning(name: str) -> tuple[Meaning, int, bool] | None:
    if name in NAMES:
        kernel = name.startswith("node_network_") and NAMES[name].kind == "counter"
        return NAMES[name], _KERNEL if kernel else 0, False
    if name in _DCGM:
        return _DCGM[name], 0, False
    if name.startswith(_ETHTOOL):
        short = {"received": "rx", "transmitted": "tx"}
        bare = _SPELT.sub(
            lambda m: short[m[1]],
            name.removeprefix(_ETHTOOL).removesuffix("_total").replace("_", " "),
        ).replace(" ", "_")
        found = ethtool_meaning(bare)
        return None if found is None else (*found, False)
    if match := _GNMIC.fullmatch(name):
        way = "rx" if match["way"] == "in" else "tx"
        return Meaning(_LEAVES[match["leaf"]], way), 0, False
    if match := _OTEL.fullmatch(name):
        return Meaning(_OTEL_METRICS[match["leaf"]]), _KERNEL, False
    if match := _TREYDOCK.fullmatch(name):
        metric, way = _FABRIC[match["field"]]
        return Meaning(metric, way), 0, metric == "bytes"
    if match := _GUILBAULTS.fullmatch(name):
        metric, way = _FABRIC[match["field"]]
        meaning = Meaning(metric, way)
        return dataclasses.replace(meaning, factor=4 if metric == "bytes" else 1), 0, False
    return None
