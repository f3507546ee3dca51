"""Counters of a switch of 64 ports in the forms that exporters write, of any size.

Each form is one file, read once a second: all ports run at a steady rate with some noise, so that
counters only grow. Same size, same bytes. Names and layouts are those of the fixtures under
``tests/fixtures/counters``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["FORMS", "write"]

PORTS = 64
_START_S = 1_795_972_223
_KEYS = ("in-octets", "out-octets", "in-pkts", "out-pkts", "in-errors", "out-discards")
_RATES = (4e9, 3e9, 1e6, 8e5, 0, 2)


def _counts() -> Iterator[tuple[int, list[list[int]]]]:
    """(second, counts of each port by ``_KEYS``), without an end."""
    rng = random.Random(0)
    counts = [[rng.randrange(1 << 50) for _ in _KEYS] for _ in range(PORTS)]
    second = _START_S
    while True:
        yield second, counts
        second += 1
        for port in counts:
            share = rng.random()
            for place, rate in enumerate(_RATES):
                port[place] += int(rate * share)


def _gnmic(second: int, counts: list[list[int]]) -> str:
    path = "/interfaces/interface/state/counters/"
    return "".join(
        json.dumps(
            {
                "name": "ports",
                "timestamp": second * 10**9 + 55_001_002 + port,
                "tags": {
                    "interface_name": f"Ethernet1/{port + 1}",
                    "source": "leaf1",
                    "subscription-name": "ports",
                },
                "values": {path + key: str(count) for key, count in zip(_KEYS, row, strict=True)},
            }
        )
        + "\n"
        for port, row in enumerate(counts)
    )


def _sonic(second: int, counts: list[list[int]]) -> str:
    head = (
        "     IFACE  STATE                  RX_OK         RX_BPS  RX_UTIL  RX_ERR  RX_DRP  RX_OVR"
        "                  TX_OK         TX_BPS  TX_UTIL  TX_ERR  TX_DRP  TX_OVR"
    )
    rule = "  ".join("-" * n for n in (10, 5, 21, 13, 7, 6, 6, 6, 21, 13, 7, 6, 6, 6))
    rows = [
        f"{f'Ethernet{8 * port}':>10}      U  {row[2]:>21,}  25000.00 MB/s   50.00%"
        f"  {row[4] % 1000:>6}       0       0  {row[3]:>21,}  12500.00 MB/s   25.00%"
        f"       0       0       0"
        for port, row in enumerate(counts)
    ]
    return "\n".join([f"### {second}.25", head, rule, *rows, "", ""])


def _node(second: int, counts: list[list[int]]) -> str:
    names = (
        "receive_bytes_total",
        "transmit_bytes_total",
        "receive_packets_total",
        "transmit_packets_total",
        "receive_errs_total",
        "transmit_drop_total",
    )
    lines = [f"### {second}.072613"]
    for place, name in enumerate(names):
        lines.append(f"# TYPE node_network_{name} counter")
        lines += [
            f'node_network_{name}{{device="eth{port}"}} {row[place]}'
            for port, row in enumerate(counts)
        ]
    return "\n".join([*lines, ""])


def _influx(second: int, counts: list[list[int]]) -> str:
    names = ("bytes_recv", "bytes_sent", "packets_recv", "packets_sent", "err_in", "drop_out")
    return "".join(
        f"net,host=node1,interface=eth{port} "
        + ",".join(f"{name}={count}i" for name, count in zip(names, row, strict=True))
        + f" {second}000000000\n"
        for port, row in enumerate(counts)
    )


def _telegraf_json(second: int, counts: list[list[int]]) -> str:
    names = ("bytes_recv", "bytes_sent", "packets_recv", "packets_sent", "err_in", "drop_out")
    return "".join(
        json.dumps(
            {
                "fields": dict(zip(names, row, strict=True)),
                "name": "net",
                "tags": {"host": "node1", "interface": f"eth{port}"},
                "timestamp": second,
            },
            separators=(",", ":"),
        )
        + "\n"
        for port, row in enumerate(counts)
    )


def _iproute(second: int, counts: list[list[int]]) -> str:
    link = [
        {
            "ifindex": port + 1,
            "ifname": f"eth{port}",
            "flags": ["UP", "LOWER_UP"],
            "mtu": 9000,
            "stats64": {
                "rx": {"bytes": row[0], "packets": row[2], "errors": row[4], "dropped": 0},
                "tx": {"bytes": row[1], "packets": row[3], "errors": 0, "dropped": row[5]},
            },
        }
        for port, row in enumerate(counts)
    ]
    return json.dumps({"ts": second + 0.0480473, "link": link}) + "\n"


def _procnetdev(second: int, counts: list[list[int]]) -> str:
    head = (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast"
        "|bytes    packets errs drop fifo colls carrier compressed"
    )
    rows = [
        f"{f'eth{port}':>6}: {row[0]} {row[2]} {row[4]} 0 0 0 0 0 {row[1]} {row[3]} 0 {row[5]} "
        "0 0 0 0"
        for port, row in enumerate(counts)
    ]
    return "\n".join([f"### {second}.052737", head, *rows, ""])


def _snmp(second: int, counts: list[list[int]]) -> str:
    base = ".1.3.6.1.2.1.31.1.1.1."
    lines = [f"### {second}.055334"]
    lines += [f'{base}1.{port + 1} = STRING: "Ethernet{port}"' for port in range(PORTS)]
    for column, place in ((6, 0), (10, 1), (7, 2), (11, 3)):
        lines += [
            f"{base}{column}.{port + 1} = Counter64: {row[place]}"
            for port, row in enumerate(counts)
        ]
    return "\n".join([*lines, ""])


#: A form's reader, file name and text of one reading.
FORMS: dict[str, tuple[str, Callable[[int, list[list[int]]], str]]] = {
    "gnmic-event": ("gnmic.jsonl", _gnmic),
    "sonic-cli": ("sonic.log", _sonic),
    "node-text": ("node.log", _node),
    "telegraf": ("net.influx", _influx),
    "telegraf-json": ("net.jsonl", _telegraf_json),
    "ip-link": ("links.jsonl", _iproute),
    "proc-net-dev": ("dev.log", _procnetdev),
    "snmpwalk": ("ifx.log", _snmp),
    "prometheus-api": ("range.json", _node),
}


def write(folder: Path, form: str, n_bytes: int) -> Path:
    """One file of ``form`` with at least ``n_bytes``."""
    name, text = FORMS[form]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if form == "prometheus-api":
        return _prometheus(path, n_bytes)
    written = 0
    with path.open("w") as stream:
        for second, counts in _counts():
            written += stream.write(text(second, counts))
            if written >= n_bytes:
                break
    return path


def _prometheus(path: Path, n_bytes: int) -> Path:
    """A range query's reply: series after series, of two metrics and all ports."""
    names = ("node_network_receive_bytes_total", "node_network_transmit_bytes_total")
    n = max(2, n_bytes // (len(names) * PORTS * 36))
    rng = random.Random(0)
    with path.open("w") as stream:
        stream.write('{"status":"success","data":{"resultType":"matrix","result":[')
        for number, (name, port) in enumerate((n, p) for n in names for p in range(PORTS)):
            metric = {
                "__name__": name,
                "device": f"eth{port}",
                "instance": "node1:9100",
                "job": "node",
            }
            stream.write("," if number else "")
            stream.write(json.dumps({"metric": metric})[:-1] + ',"values":[')
            count = rng.randrange(1 << 50)
            for second in range(n):
                count += int(4e9 * rng.random())
                stream.write(f'{"," if second else ""}[{_START_S + second}.175,"{count}"]')
            stream.write("]}")
        stream.write("]}}")
    return path
