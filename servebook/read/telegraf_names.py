"""What Telegraf's inputs call an interface's counters: net, infiniband, snmp, ethtool, gnmi.

Also its prometheus input (both metric versions), which keeps the exporters' own names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from servebook.read.counter_names import NAMES, TOO_NARROW, Meaning
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.ethtool_names import ethtool_meaning
from servebook.read.gnmi_names import INTERFACE_TAGS, LEAVES, leaf_of
from servebook.read.series_labels import interface_of

__all__ = ["amounts"]

#: (meaning, interface, value, the field's name, rank: a lower one wins among several inputs)
_Reading = tuple[Meaning, str | None, Any, str, int]
_KERNEL = 3  # as node_network_*: it yields to what a driver says itself

_Fields = Mapping[str, Any]
_DEVICE = "host"
_DEVICE_TAGS = ("source", "agent_host", "host", "instance")
_NET = {
    "bytes_recv": Meaning("bytes", "rx"),
    "bytes_sent": Meaning("bytes", "tx"),
    "packets_recv": Meaning("packets", "rx"),
    "packets_sent": Meaning("packets", "tx"),
    "err_in": Meaning("errors", "rx"),
    "err_out": Meaning("errors", "tx"),
    "drop_in": Meaning("drops", "rx"),
    "drop_out": Meaning("drops", "tx"),
}
# sysfs counts data in words of 4 bytes, and Telegraf passes them on. Q-counters are 32 bits.
_INFINIBAND = {
    "port_rcv_data": Meaning("bytes", "rx", scope="rdma", factor=4),
    "port_xmit_data": Meaning("bytes", "tx", scope="rdma", factor=4),
    "port_rcv_packets": Meaning("packets", "rx", scope="rdma"),
    "port_xmit_packets": Meaning("packets", "tx", scope="rdma"),
    "port_rcv_errors": Meaning("errors", "rx", scope="rdma"),
    "port_xmit_discards": Meaning("drops", "tx", scope="rdma"),
    "port_xmit_wait": Meaning("xmit_wait", "tx", scope="rdma"),
    "link_downed": Meaning("link_downed", scope="rdma"),
    "np_cnp_sent": Meaning("cnp_sent", "tx", scope="rdma"),
    "rp_cnp_handled": Meaning("cnp_handled", "rx", scope="rdma"),
    "rp_cnp_ignored": Meaning("cnp_ignored", "rx", scope="rdma"),
    "np_ecn_marked_roce_packets": Meaning("ecn_marked", "rx", scope="rdma"),
    "out_of_sequence": Meaning("out_of_seq", "rx", 32, scope="rdma"),
}
_SNMP_TAGS = ("ifName", "ifDescr", "name", "interface")
_PROMETHEUS_FIELDS = ("counter", "gauge", "value")


def _readings(measurement: str, tags: Mapping[str, str], fields: _Fields) -> Iterator[_Reading]:
    """The network counters of one metric, in the order of their names.

    A counter that is too narrow comes with the metric "" and is to be set aside. Of several names
    for one thing (``rx_bytes``, ``rx_bytes_phy``) the port's own is taken.
    """
    best: dict[tuple[Any, ...], tuple[int, _Reading]] = {}
    for field in sorted(fields):
        found = _meaning(measurement, tags, field)
        if found is None:
            continue
        meaning, rank = found
        interface = _interface(measurement, tags, fields, field)
        key: tuple[Any, ...] = (
            meaning.metric or field,  # narrow counters have no metric
            meaning.direction,
            meaning.scope,
            meaning.index,
            interface,
        )
        if key not in best or rank < best[key][0]:
            best[key] = (rank, (meaning, interface, fields[field], field, rank))
    yield from (reading for _, reading in best.values())


def amounts(
    rows: Rows, line: int, key: str, measurement: str, tags: Mapping[str, str], fields: _Fields
) -> Iterator[tuple[int, int | float]]:
    """(series, amount in canonical units) of the counters of one metric, none of them narrow.

    The others are set aside below ``key``.
    """
    device = next((tags[name] for name in _DEVICE_TAGS if tags.get(name)), None)
    device = rows.alias(device) if device else _DEVICE
    used = False
    for meaning, interface, value, field, rank in _readings(measurement, tags, fields):
        used = True
        if not meaning.metric:
            rows.aside_once(field, TOO_NARROW[field], line)
            continue
        if interface is None:
            rows.aside_once(key, "no tag names an interface", line)
            continue
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError("the value is not a number")
            if meaning.kind == "counter":
                amount: int | float = whole(str(value), int(meaning.factor))
            elif (amount := number(str(value)) * meaning.factor) <= 0:
                raise ValueError("the device does not know it")
        except ValueError as error:
            rows.aside_once(key, str(error), line)
            continue
        yield rows.meant(meaning, device, interface, rank=rank), amount
    if not used:
        rows.aside_once(key, "no counter of an interface", line)


def _meaning(measurement: str, tags: Mapping[str, str], field: str) -> tuple[Meaning, int] | None:
    if measurement == "net":
        return (_NET[field], _KERNEL) if field in _NET else None
    if measurement == "infiniband":
        return (_INFINIBAND[field], 0) if field in _INFINIBAND else None
    if measurement == "ethtool":
        return ethtool_meaning(field)
    if field in TOO_NARROW:
        return Meaning(""), 0
    name = measurement if field in _PROMETHEUS_FIELDS else field
    if name in NAMES:
        meaning = NAMES[name]
        # SNMP's own Counter64; only snmp_exporter takes it modulo 2^53.
        own = name.startswith("ifHC") and "agent_host" in tags
        return (dataclasses.replace(meaning, bits=64) if own else meaning), 0
    leaf = LEAVES.get(leaf_of(field))
    return None if leaf is None else (leaf, 0)


def _interface(
    measurement: str,
    tags: Mapping[str, str],
    fields: Mapping[str, Any],
    field: str,
) -> str | None:
    if measurement == "infiniband":
        device, port = tags.get("device"), tags.get("port")
        return f"{device}/{port}" if device and port else device
    name = measurement if field in _PROMETHEUS_FIELDS else field
    if leaf_of(field) in LEAVES:
        found = next((tags[key] for key in INTERFACE_TAGS if tags.get(key)), None)
    elif name.startswith("if"):
        either = {k: v for k, v in fields.items() if isinstance(v, str) and v} | dict(tags)
        found = next((str(either[key]) for key in _SNMP_TAGS if either.get(key)), None)
        if found is None and (either.get("ifIndex") or fields.get("ifIndex")):
            found = f"ifIndex {either.get('ifIndex') or fields['ifIndex']}"
    else:
        found = interface_of(tags, name)
    return found
