"""What NIC drivers call their counters in ``ethtool -S``, and what each of them is.

Sources: the Linux kernel's documentation of mlx5 counters and the drivers mlx5_core, bnxt_en, ice,
i40e, mlx4, ixgbe, cxgb4, nfp and mlxsw; Cumulus' switchd (``HwIf...``). Names that are not here are
not read: driver internals, size classes, and the rings of the host, which spread a port's traffic
over CPUs.

Several names can stand for one thing: mlx5 has ``rx_bytes`` (what the kernel saw, without RDMA)
and ``rx_bytes_phy`` (all that passed the port). The lower rank wins.
"""

from __future__ import annotations

import re
from functools import lru_cache

from servebook.read.counter_names import Meaning

__all__ = ["ethtool_meaning", "is_ring"]

_RING = re.compile(
    r"\[\d+\]: .*|(rx|tx|ch|xdp|xsk|rx_xdp_tx|tx_xdp)_?\d+_\w+|(rx|tx)_queue_\d+_\w+"
    r"|(rx|tx)[-_]\d+[._]\w+|queue_\d+_\w+|ptp_\w+"
)

_WAYS = {"rx": "rx", "tx": "tx", "in": "rx", "out": "tx", "received": "rx", "transmitted": "tx"}
_Rule = tuple[str, str, str, int]  # pattern, metric, scope, rank
_RULES: tuple[_Rule, ...] = (
    # mlx5: *_phy count all that passed the port, with Ethernet header and FCS.
    (r"(?P<way>rx|tx)_bytes_phy", "bytes", "port", 0),
    (r"(?P<way>rx|tx)_packets_phy", "packets", "port", 0),
    (r"(?P<way>rx|tx)_discards_phy", "drops", "port", 0),
    (r"(?P<way>rx)_crc_errors_phy", "errors", "port", 0),
    (r"(?P<way>tx)_errors_phy", "errors", "port", 0),
    (r"(?P<way>rx|tx)_vport_rdma_unicast_bytes", "bytes", "rdma", 0),
    (r"(?P<way>rx|tx)_vport_rdma_unicast_packets", "packets", "rdma", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_bytes", "bytes", "prio", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_packets", "packets", "prio", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_pause", "pfc_frames", "prio", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_pause_duration", "pfc_pause_us", "prio", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_pause_transition", "pfc_transitions", "prio", 0),
    (r"(?P<way>rx|tx)_prio(?P<index>\d)_discards", "drops", "prio", 0),
    (r"(?P<way>rx)_prio(?P<index>\d)_buf_discard", "no_buffer_drops", "prio", 0),
    (r"(?P<way>rx)_prio(?P<index>\d)_cong_discard", "drops", "prio", 1),
    (r"(?P<way>rx)_prio(?P<index>\d)_marked", "ecn_marked", "prio", 0),
    (r"(?P<way>rx|tx)_global_pause", "pause_frames", "port", 0),
    (r"(?P<way>rx|tx)_pause_ctrl_phy", "pause_frames", "port", 1),
    (r"(?P<way>rx|tx)_global_pause_duration", "pause_us", "port", 0),
    (r"(?P<way>rx)_out_of_buffer", "no_buffer_drops", "port", 0),
    (r"(?P<way>rx)_ecn_mark", "ecn_marked", "port", 0),
    (r"link_down_events(_phy)?", "link_downed", "port", 0),
    # bnxt_en: port statistics of the chip.
    (r"(?P<way>rx|tx)_total_frames", "packets", "port", 0),
    (r"(?P<way>rx|tx)_ucast_frames", "unicast_packets", "port", 0),
    (r"(?P<way>rx|tx)_stat_discard", "drops", "port", 0),
    (r"(?P<way>rx|tx)_stat_err(or)?", "errors", "port", 0),
    (r"(?P<way>rx|tx)_pause_frames", "pause_frames", "port", 0),
    (r"(?P<way>rx|tx)_pfc_ena_frames_pri(?P<index>\d)", "pfc_frames", "prio", 0),
    (r"pfc_pri(?P<index>\d)_(?P<way>rx|tx)_duration_us", "pfc_pause_us", "prio", 0),
    (r"pfc_pri(?P<index>\d)_(?P<way>rx|tx)_transitions", "pfc_transitions", "prio", 0),
    (r"(?P<way>rx|tx)_bytes_pri(?P<index>\d)", "bytes", "prio", 0),
    (r"(?P<way>rx|tx)_packets_pri(?P<index>\d)", "packets", "prio", 0),
    (r"(?P<way>rx|tx)_bytes_cos(?P<index>\d)", "bytes", "queue", 0),
    (r"(?P<way>rx|tx)_packets_cos(?P<index>\d)", "packets", "queue", 0),
    (r"(?P<way>rx)_discard_packets_cos(?P<index>\d)", "drops", "queue", 0),
    (r"(?P<way>rx)_discard_bytes_cos(?P<index>\d)", "drop_bytes", "queue", 0),
    (r"(?P<way>rx)_fec_corrected_blocks", "fec_corrected", "port", 0),
    (r"(?P<way>rx)_fec_uncorrectable_blocks", "fec_uncorr", "port", 0),
    # ice (suffix .nic) and i40e (prefix port.): the same names without are the function's.
    (r"(port[._])?(?P<way>rx|tx)_bytes([._]nic)?", "bytes", "port", 1),
    (r"(port[._])?(?P<way>rx|tx)_unicast([._]nic)?", "unicast_packets", "port", 1),
    (r"(port[._])?(?P<way>rx)_dropped([._]nic)?", "drops", "port", 1),
    (r"(port[._])?(?P<way>rx)_crc_errors([._]nic)?", "errors", "port", 1),
    (r"(port[._])?(?P<way>tx)_errors([._]nic)?", "errors", "port", 1),
    (r"(port[._])?link_xoff_(?P<way>rx|tx)([._]nic)?", "pause_frames", "port", 1),
    (
        r"(port[._])?(?P<way>rx|tx)_priority_(?P<index>\d)_xoff([._]nic)?",
        "pfc_frames",
        "prio",
        1,
    ),
    # mlx4, ixgbe, cxgb4, nfp.
    (r"(?P<way>rx|tx)_prio_(?P<index>\d)_bytes", "bytes", "prio", 0),
    (r"(?P<way>rx|tx)_prio_(?P<index>\d)_packets", "packets", "prio", 0),
    (r"(?P<way>rx|tx)_pkts_nic", "packets", "port", 0),
    (r"(?P<way>rx|tx)_flow_control_xoff", "pause_frames", "port", 0),
    (r"(?P<way>rx|tx)_pb_(?P<index>\d)_pxoff", "pfc_frames", "prio", 0),
    (r"(?P<way>rx|tx)_octets_ok", "bytes", "port", 0),
    (r"(?P<way>rx|tx)_frames_ok", "packets", "port", 0),
    (r"(?P<way>rx|tx)_ppp(?P<index>\d)_frames", "pfc_frames", "prio", 0),
    (r"(?P<way>rx|tx)_pause", "pause_frames", "port", 2),
    (r"mac\.(?P<way>rx|tx)_octets", "bytes", "port", 0),
    # Any driver.
    (r"(?P<way>rx|tx)_octets", "bytes", "port", 2),
    (r"(?P<way>rx|tx)_packets", "packets", "port", 2),
    (r"(?P<way>rx)_errors", "errors", "port", 2),
    (r"(?P<way>tx)_dropped", "drops", "port", 2),
    (r"(?P<way>rx|tx)_(discards|discard|drops)", "drops", "port", 2),
    # mlxsw, and Cumulus' switchd.
    (r"a_octets_(?P<way>received|transmitted)_ok", "bytes", "port", 0),
    (r"a_frames_(?P<way>received|transmitted)_ok", "packets", "port", 0),
    (r"(?P<way>rx|tx)_octets_prio_(?P<index>\d)", "bytes", "prio", 0),
    (r"(?P<way>rx|tx)_frames_prio_(?P<index>\d)", "packets", "prio", 0),
    (r"(?P<way>rx|tx)_pause_prio_(?P<index>\d)", "pfc_frames", "prio", 0),
    (r"(?P<way>rx|tx)_pause_duration_prio_(?P<index>\d)", "pfc_pause_us", "prio", 0),
    (r"HwIf(?P<way>In|Out)Octets", "bytes", "port", 0),
    (r"HwIf(?P<way>In|Out)UcastPkts", "unicast_packets", "port", 0),
    (r"HwIf(?P<way>In|Out)Discards", "drops", "port", 0),
    (r"HwIf(?P<way>Out)QDrops", "drops", "port", 1),
    (r"HwIf(?P<way>In|Out)Errors", "errors", "port", 0),
    (r"HwIf(?P<way>In|Out)PausePkt", "pause_frames", "port", 0),
    (r"HwIf(?P<way>In|Out)Pfc(?P<index>\d)Pkts", "pfc_frames", "prio", 0),
)
_COMPILED = tuple((re.compile(pattern), rest) for pattern, *rest in _RULES)


@lru_cache(maxsize=8192)
def ethtool_meaning(name: str) -> tuple[Meaning, int] | None:
    """What a counter of a driver is, and its rank among names for the same; None if unknown."""
    for pattern, (metric, scope, rank) in _COMPILED:
        if match := pattern.fullmatch(name):
            parts = match.groupdict()
            way, index = parts.get("way"), parts.get("index")
            meaning = Meaning(
                str(metric),
                _WAYS[way.lower()] if way else None,
                scope=str(scope),
                index=int(index) if index else None,
            )
            # .nic and port. name the port; without them it is what one function saw.
            named = name.startswith("port") or name.endswith("nic")
            return meaning, 0 if named else int(str(rank))
    return None


@lru_cache(maxsize=8192)
def is_ring(name: str) -> bool:
    """True for a counter of one of the host's rings, as mlx5, bnxt_en, ice, i40e or ena name it."""
    return _RING.fullmatch(name) is not None
