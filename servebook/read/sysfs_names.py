"""Counters of sysfs and of InfiniBand's performance management, and what each of them is.

Sources: Linux, Documentation/ABI (sysfs-class-net-statistics, sysfs-class-infiniband) and
drivers/infiniband/hw/mlx5/counters.c; InfiniBand architecture, PortCounters and
PortCountersExtended. Data counters are in words of 4 bytes whatever the link's width. The classic
counters stop at their highest value and stay there; mlx5's Q-counters are 32 bits wide and wrap.
"""

from __future__ import annotations

from collections.abc import Mapping

from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import whole

__all__ = ["HARDWARE", "NET", "OTHERS", "PERFQUERY", "PORT", "count_of"]

NET: Mapping[str, Meaning] = {
    f"{way}_{name}": Meaning(metric, way)
    for way in ("rx", "tx")
    for name, metric in (
        ("bytes", "bytes"),
        ("packets", "packets"),
        ("errors", "errors"),
        ("dropped", "drops"),
    )
}


def _rdma(metric: str, way: str | None, factor: int = 1, bits: int = 64) -> Meaning:
    return Meaning(metric, way, bits, scope="rdma", factor=factor)


#: counters/: port counters; on RoCE mlx5 fills them with RDMA traffic only.
PORT: Mapping[str, Meaning] = {
    "port_rcv_data": _rdma("bytes", "rx", 4),
    "port_xmit_data": _rdma("bytes", "tx", 4),
    "port_rcv_packets": _rdma("packets", "rx"),
    "port_xmit_packets": _rdma("packets", "tx"),
    "unicast_rcv_packets": _rdma("unicast_packets", "rx"),
    "unicast_xmit_packets": _rdma("unicast_packets", "tx"),
    "port_rcv_errors": _rdma("errors", "rx"),
    "port_xmit_discards": _rdma("drops", "tx"),
    "port_xmit_wait": _rdma("xmit_wait", "tx"),
    "link_downed": _rdma("link_downed", None),
}
#: hw_counters/
HARDWARE: Mapping[str, Meaning] = {
    "np_cnp_sent": _rdma("cnp_sent", "tx"),
    "rp_cnp_handled": _rdma("cnp_handled", "rx"),
    "rp_cnp_ignored": _rdma("cnp_ignored", "rx"),
    "np_ecn_marked_roce_packets": _rdma("ecn_marked", "rx"),
    "out_of_sequence": _rdma("out_of_seq", "rx", bits=32),
    "packet_seq_err": _rdma("seq_naks", "rx", bits=32),
    "local_ack_timeout_err": _rdma("ack_timeouts", "tx", bits=32),
    "roce_adp_retrans": _rdma("retrans", "tx", bits=32),
    "out_of_buffer": _rdma("no_buffer_drops", "rx", bits=32),
}
#: hw_counters/ of devices without port counters (EFA, irdma, bnxt_re): they yield to those.
OTHERS: Mapping[str, Meaning] = {
    **{
        f"{way}_{name}": _rdma(metric, way)
        for way in ("rx", "tx")
        for name, metric in (("bytes", "bytes"), ("pkts", "packets"), ("drops", "drops"))
    },
    "cnpSent": _rdma("cnp_sent", "tx"),
    "cnpHandled": _rdma("cnp_handled", "rx"),
    "cnpIgnored": _rdma("cnp_ignored", "rx"),
    "RxECNMrkd": _rdma("ecn_marked", "rx"),
}
#: Names of perfquery, new and old (XmtData).
PERFQUERY: Mapping[str, Meaning] = {
    "PortXmitData": PORT["port_xmit_data"],
    "PortRcvData": PORT["port_rcv_data"],
    "PortXmitPkts": PORT["port_xmit_packets"],
    "PortRcvPkts": PORT["port_rcv_packets"],
    "XmtData": PORT["port_xmit_data"],
    "RcvData": PORT["port_rcv_data"],
    "XmtPkts": PORT["port_xmit_packets"],
    "RcvPkts": PORT["port_rcv_packets"],
    "PortUnicastXmitPkts": PORT["unicast_xmit_packets"],
    "PortUnicastRcvPkts": PORT["unicast_rcv_packets"],
    "PortRcvErrors": PORT["port_rcv_errors"],
    "RcvErrors": PORT["port_rcv_errors"],
    "PortXmitDiscards": PORT["port_xmit_discards"],
    "XmtDiscards": PORT["port_xmit_discards"],
    "PortXmitWait": PORT["port_xmit_wait"],
    "XmtWait": PORT["port_xmit_wait"],
    "LinkDownedCounter": PORT["link_downed"],
    "LinkDowned": PORT["link_downed"],
}
#: Highest value of the classic counters, where they stop.
_STOPS = {"errors": 0xFFFF, "drops": 0xFFFF, "link_downed": 0xFF}


def count_of(meaning: Meaning, text: str, *, stops: bool) -> int:
    """A printed counter in canonical units; raises ValueError, in words, for what is none.

    ``stops`` is true for counters that stop at their highest value: one that stands there has
    stopped counting.
    """
    if stops and whole(text) == _STOPS.get(meaning.metric, 0xFFFFFFFF):
        raise ValueError("the counter stands at its highest value, where it stops counting")
    return whole(text, int(meaning.factor))
