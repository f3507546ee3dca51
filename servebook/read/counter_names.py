"""What exporters and SNMP call network counters, and what each of them is.

Names: node_exporter's netdev, netclass and infiniband collectors, snmp_exporter's if_mib module
and IF-MIB itself (RFC 2863), sonic-exporter. Nothing is guessed from a name that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NAMES", "TOO_NARROW", "Meaning"]


@dataclass(frozen=True)
class Meaning:
    """A counter or gauge: canonical metric, direction, width, and factor to canonical units."""

    metric: str
    direction: str | None = None
    bits: int = 64
    kind: str = "counter"
    scope: str = "port"
    factor: float = 1


def _both(pattern: str, metric: str, bits: int = 64, scope: str = "port") -> dict[str, Meaning]:
    """Names where RX/TX stands for receive/transmit, received/transmitted or In/Out."""
    rx, tx = pattern.split(" ")
    return {
        rx: Meaning(metric, "rx", bits, scope=scope),
        tx: Meaning(metric, "tx", bits, scope=scope),
    }


NAMES: Mapping[str, Meaning] = {
    **_both("node_network_receive_bytes_total node_network_transmit_bytes_total", "bytes"),
    **_both("node_network_receive_packets_total node_network_transmit_packets_total", "packets"),
    **_both("node_network_receive_errs_total node_network_transmit_errs_total", "errors"),
    **_both("node_network_receive_drop_total node_network_transmit_drop_total", "drops"),
    "node_network_speed_bytes": Meaning("speed_bps", kind="gauge", factor=8),
    # node_exporter has multiplied the 4-byte words of sysfs already; RDMA traffic only on RoCE.
    **_both(
        "node_infiniband_port_data_received_bytes_total "
        "node_infiniband_port_data_transmitted_bytes_total",
        "bytes",
        scope="rdma",
    ),
    **_both(
        "node_infiniband_port_packets_received_total "
        "node_infiniband_port_packets_transmitted_total",
        "packets",
        scope="rdma",
    ),
    # snmp_exporter takes Counter64 modulo 2^53 by default (--snmp.wrap-large-counters).
    **_both("ifHCInOctets ifHCOutOctets", "bytes", 53),
    **_both("ifHCInUcastPkts ifHCOutUcastPkts", "unicast_packets", 53),
    **_both("ifInErrors ifOutErrors", "errors", 32),
    **_both("ifInDiscards ifOutDiscards", "drops", 32),
    "ifHighSpeed": Meaning("speed_bps", kind="gauge", factor=10**6),
    **_both("sonic_interface_receive_bytes_total sonic_interface_transmit_bytes_total", "bytes"),
}

TOO_NARROW: Mapping[str, str] = {
    "ifInOctets": "a 32-bit counter wraps in 86 ms at 400 Gbit/s; ask for ifHCInOctets",
    "ifOutOctets": "a 32-bit counter wraps in 86 ms at 400 Gbit/s; ask for ifHCOutOctets",
    "ifSpeed": "a speed that cannot say more than 4.29 Gbit/s; ask for ifHighSpeed",
}
