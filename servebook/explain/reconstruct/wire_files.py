"""Write a leaf's counters in two forms that a counter campaign leaves.

A Prometheus reply (``query`` with a range selector: scrape times in milliseconds, octets as
strings) and gnmic's event stream (device times in ns, one array per poll).
"""

from __future__ import annotations

import json

from servebook.explain.reconstruct.dumps import pack
from servebook.explain.reconstruct.wire import Counters

__all__ = ["WRITERS", "gnmic_events", "prometheus_reply"]

_METRIC = {"rx": "ifHCInOctets", "tx": "ifHCOutOctets"}
_LEAF = {"rx": "in-octets", "tx": "out-octets"}


def prometheus_reply(counters: Counters, device: str) -> bytes:
    """The reply to ``ifHCInOctets[...]`` and ``ifHCOutOctets[...]`` of one target, packed."""
    times = [ns // 10**6 / 1e3 for ns in counters.polled_ns.tolist()]
    result = [
        {
            "metric": {"__name__": _METRIC[way], "ifName": interface, "job": device},
            "values": [[t, str(n)] for t, n in zip(times, readings.tolist(), strict=True)],
        }
        for (interface, way), readings in counters.octets.items()
    ]
    reply = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return pack((json.dumps(reply, separators=(",", ":")) + "\n").encode())


def gnmic_events(counters: Counters, device: str) -> bytes:
    """One array per poll with an event per interface, packed; 64-bit values are strings."""
    interfaces = sorted({name for name, _ in counters.octets}, key=_natural)
    lines = []
    for i, at in enumerate(counters.polled_ns.tolist()):
        events = [
            {
                "name": "counters",
                "timestamp": at,
                "tags": {"interface_name": name, "source": device},
                "values": {
                    f"/interfaces/interface/state/counters/{_LEAF[way]}": str(
                        int(counters.octets[name, way][i])
                    )
                    for way in ("rx", "tx")
                },
            }
            for name in interfaces
        ]
        lines.append(json.dumps(events, separators=(",", ":")))
    return pack(("\n".join(lines) + "\n").encode())


WRITERS = {
    "prometheus": ("leaf1_octets.json.gz", prometheus_reply),
    "gnmic": ("leaf1_events.json.gz", gnmic_events),
}


def _natural(name: str) -> tuple[str, int]:
    head, _, tail = name.rpartition("/")
    return head, int(tail)
