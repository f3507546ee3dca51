"""What gNMI calls an interface's counters: openconfig-interfaces, SR Linux, SONiC's port tables.

Names are compared by their last word, with "-" for "_", because collectors write the path before
them in many ways.
"""

from __future__ import annotations

from collections.abc import Mapping

from servebook.read.counter_names import Meaning

__all__ = ["INTERFACE_TAGS", "LEAVES", "leaf_of"]

_BOTH = {
    "octets": "bytes",
    "pkts": "packets",
    "packets": "packets",
    "unicast-pkts": "unicast_packets",
    "unicast-packets": "unicast_packets",
    "errors": "errors",
    "error-packets": "errors",
    "discards": "drops",
    "discarded-packets": "drops",
    "mac-pause-frames": "pause_frames",
    "pause-frames": "pause_frames",
}
#: Last word of a path -> what it is.
LEAVES: Mapping[str, Meaning] = {
    f"{way}-{leaf}": Meaning(metric, direction)
    for leaf, metric in _BOTH.items()
    for way, direction in (("in", "rx"), ("out", "tx"))
}
#: Tags and path keys that name an interface, in order of preference.
INTERFACE_TAGS = (
    "interface_name",
    "interface-name",
    "name",
    "port_port-id",
    "ifname",
    "ifName",
    "interface",
)


def leaf_of(name: str) -> str:
    """``/interfaces/interface/state/counters/in_octets`` -> ``in-octets``."""
    return name.rsplit("/", 1)[-1].rsplit(":", 1)[-1].replace("_", "-")
