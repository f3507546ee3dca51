"""What exporters and SNMP call network counters, and what each of them is.

Names: node_exporter's netdev, netclass and infiniband collectors, snmp_exporter's if_mib module
and IF-MIB itself (RFC 2863), sonic-exporter, SONiC's COUNTERS_DB. Nothing is guessed from a name
that is not here. Names of NIC drivers are in ``ethtool_names``, those of other exporters in
``prometheus_names``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["METRICS", "NAMES", "SAI_PORT", "SAI_QUEUE", "TOO_NARROW", "Meaning"]

#: What ``metric`` of the samples table may be, for every reader of counters. A counter of a part
#: of a port has the number of its queue or priority in ``index`` and its kind in ``scope``: prio
#: (PFC priority), queue, queue_mc (multicast), voq, pg (priority group). Scopes of whole ports
#: are port and rdma; pcie, nvlink and l3 (router interfaces, sub-interfaces) are no links.
METRICS: Mapping[str, str] = {
    "bytes": "bytes, as the device counts them",
    "packets": "packets of every kind",
    "unicast_packets": "unicast packets",
    "errors": "packets with an error (CRC, alignment, ...)",
    "drops": "packets that were discarded",
    "drop_bytes": "bytes of discarded packets",
    "no_buffer_drops": "packets that found no receive buffer of the host or port",
    "overruns": "packets longer than the device takes",
    "pause_frames": "802.3x pause frames, or PFC frames of all priorities where it says no more",
    "pause_us": "time that pause frames stopped the sender, in microseconds",
    "pfc_frames": "PFC frames of one priority",
    "pfc_pause_us": "time that PFC stopped one priority, in microseconds",
    "pfc_transitions": "changes from running to paused of one priority",
    "ecn_marked": "packets marked with congestion experienced (switch), or seen marked (NIC)",
    "ecn_marked_bytes": "bytes of marked packets",
    "wred_drops": "packets that WRED discarded",
    "wred_drop_bytes": "bytes that WRED discarded",
    "cnp_sent": "congestion notification packets sent (the notification point)",
    "cnp_handled": "congestion notification packets obeyed (the reaction point)",
    "cnp_ignored": "congestion notification packets not obeyed",
    "out_of_seq": "packets out of sequence",
    "seq_naks": "NAKs for packets out of sequence, as the sender got them",
    "ack_timeouts": "acknowledgements that did not come in time",
    "retrans": "adaptive retransmissions",
    "fec_corrected": "blocks that forward error correction mended",
    "fec_uncorr": "blocks that it could not mend",
    "xmit_wait": "ticks in which data waited and none was sent",
    "trimmed": "packets that were trimmed instead of dropped",
    "link_downed": "times that the link went down",
    "util": "utilisation as the device states it, as a fraction",
    "speed_bps": "speed of the link, bit/s",
    "uptime_s": "seconds since the device started",
}


@dataclass(frozen=True)
class Meaning:
    """A counter or gauge: canonical metric, direction, width, and factor to canonical units."""

    metric: str
    direction: str | None = None
    bits: int = 64
    kind: str = "counter"
    scope: str = "port"
    factor: float = 1
    index: int | None = None


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
    # node_exporter before 0.16, and telegraf's prometheus output.
    **_both("node_network_receive_bytes node_network_transmit_bytes", "bytes"),
    **_both("node_network_receive_packets node_network_transmit_packets", "packets"),
    **_both("net_bytes_recv net_bytes_sent", "bytes"),
    **_both("net_packets_recv net_packets_sent", "packets"),
    # AWS's exporter of EFA's hw_counters.
    **_both("node_amazonefa_rx_bytes node_amazonefa_tx_bytes", "bytes", scope="rdma"),
    **_both("node_amazonefa_rx_pkts node_amazonefa_tx_pkts", "packets", scope="rdma"),
    "node_network_speed_bytes": Meaning("speed_bps", kind="gauge", factor=8),
    # node_exporter has multiplied the 4-byte words of sysfs already; RDMA traffic only on RoCE.
    **_both(
        "node_infiniband_port_data_received_bytes_total "
        "node_infiniband_port_data_transmitted_bytes_total",
        "bytes",
        scope="rdma",
    ),
    "node_infiniband_rate_bytes_per_second": Meaning(
        "speed_bps", kind="gauge", scope="rdma", factor=8
    ),
    **_both(
        "node_infiniband_port_packets_received_total "
        "node_infiniband_port_packets_transmitted_total",
        "packets",
        scope="rdma",
    ),
    **_both(
        "node_infiniband_port_discards_received_total "
        "node_infiniband_port_discards_transmitted_total",
        "drops",
        scope="rdma",
    ),
    "node_infiniband_port_errors_received_total": Meaning("errors", "rx", scope="rdma"),
    "node_infiniband_port_transmit_wait_total": Meaning("xmit_wait", "tx", scope="rdma"),
    "node_infiniband_link_downed_total": Meaning("link_downed", scope="rdma"),
    # Q-counters are 32 bits wide in the device; those of congestion are 64.
    "node_infiniband_np_cnp_packets_sent_total": Meaning("cnp_sent", "tx", scope="rdma"),
    "node_infiniband_rp_cnp_packets_handled_total": Meaning("cnp_handled", "rx", scope="rdma"),
    "node_infiniband_np_ecn_marked_roce_packets_received_total": Meaning(
        "ecn_marked", "rx", scope="rdma"
    ),
    "node_infiniband_out_of_sequence_packets_received_total": Meaning(
        "out_of_seq", "rx", 32, scope="rdma"
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

#: Fields of COUNTERS:<port oid> in SONiC's COUNTERS_DB (SAI's saiport.h). Some ports leave out
#: the sum of all packets; it is made of unicast and non-unicast, as ``portstat`` does.
SAI_PORT: Mapping[str, Meaning] = {
    **_both("SAI_PORT_STAT_IF_IN_OCTETS SAI_PORT_STAT_IF_OUT_OCTETS", "bytes"),
    **_both("SAI_PORT_STAT_IF_IN_UCAST_PKTS SAI_PORT_STAT_IF_OUT_UCAST_PKTS", "unicast_packets"),
    **_both("SAI_PORT_STAT_IF_IN_ERRORS SAI_PORT_STAT_IF_OUT_ERRORS", "errors"),
    **_both("SAI_PORT_STAT_IF_IN_DISCARDS SAI_PORT_STAT_IF_OUT_DISCARDS", "drops"),
    **_both(
        "SAI_PORT_STAT_ETHER_RX_OVERSIZE_PKTS SAI_PORT_STAT_ETHER_TX_OVERSIZE_PKTS", "overruns"
    ),
    **_both("SAI_PORT_STAT_PAUSE_RX_PKTS SAI_PORT_STAT_PAUSE_TX_PKTS", "pause_frames"),
    "SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES": Meaning("fec_corrected", "rx"),
    "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": Meaning("fec_uncorr", "rx"),
    "SAI_PORT_STAT_ECN_MARKED_PACKETS": Meaning("ecn_marked", "tx"),
    "SAI_PORT_STAT_TRIM_PACKETS": Meaning("trimmed", "tx"),
    **{
        f"SAI_PORT_STAT_PFC_{priority}_{way}_PKTS": Meaning(
            "pfc_frames", way.lower(), scope="prio", index=priority
        )
        for priority in range(8)
        for way in ("RX", "TX")
    },
    **{
        f"EST_PORT_STAT_PFC_{priority}_{field}": Meaning(metric, "rx", scope="prio", index=priority)
        for priority in range(8)
        for field, metric in (
            ("ON2OFF_RX_PKTS", "pfc_transitions"),
            ("RX_PAUSE_DURATION_US", "pfc_pause_us"),
        )
    },
}

#: Fields of COUNTERS:<queue oid>; a queue sends.
SAI_QUEUE: Mapping[str, Meaning] = {
    f"SAI_QUEUE_STAT_{field}": Meaning(metric, "tx", scope="queue")
    for field, metric in (
        ("BYTES", "bytes"),
        ("PACKETS", "packets"),
        ("DROPPED_PACKETS", "drops"),
        ("DROPPED_BYTES", "drop_bytes"),
        ("WRED_DROPPED_PACKETS", "wred_drops"),
        ("WRED_DROPPED_BYTES", "wred_drop_bytes"),
        ("WRED_ECN_MARKED_PACKETS", "ecn_marked"),
        ("WRED_ECN_MARKED_BYTES", "ecn_marked_bytes"),
        ("TRIM_PACKETS", "trimmed"),
    )
}
