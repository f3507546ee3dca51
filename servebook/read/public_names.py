"""Which names of metrics may stand in a reason: those that a published programme gives.

A metric that is not used is told by its name, so that a reader of the page sees what lay in a dump.
But whoever writes a query, a recording rule or a script names the result as he likes, after a host
or a customer too. So a name is shown only if a programme that everybody has gives it: Prometheus
itself, a plugin of Telegraf, or an exporter, known by how its names begin.

Own code: the programmes have no common list of their names.
"""

from __future__ import annotations

import re

__all__ = ["is_public"]

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,120}")

#: Measurements of Telegraf's plugins (the names of `telegraf plugins inputs` that run on servers).
_MEASUREMENTS = frozenset((
    "conntrack", "cpu", "disk", "diskio", "docker", "dpdk", "ethtool", "gnmi", "infiniband",
    "interface", "internal", "interrupts", "ipmi_sensor", "kernel", "kernel_vmstat",
    "linux_sysctl_fs", "mem", "net", "netstat", "nfsclient", "nstat", "nvidia_smi", "ping",
    "processes", "procstat", "prometheus", "sensors", "snmp", "socket_stat", "soft_interrupts",
    "swap", "synproxy", "system", "temp", "wireless",
))  # fmt: skip
#: What Prometheus itself adds to the series of everybody.
_OWN = frozenset(("ALERTS", "ALERTS_FOR_STATE", "up"))
#: How the names of exporters and engines begin.
_BEGINNINGS = (
    "DCGM_FI_", "container_", "ethtool_", "go_", "ib_", "ifHC", "ifIn", "ifOut", "infiniband_",
    "kube_", "machine_", "net_", "node_", "nvidia_", "nv_", "process_", "prometheus_", "promhttp_",
    "python_", "rdma_", "scrape_", "sglang:", "sonic_", "trtllm_", "vllm:",
)  # fmt: skip


def is_public(name: str) -> bool:
    """Whether a published programme gives a metric this name.

    >>> is_public("cpu"), is_public("node_load1"), is_public("gpu-node-17-load")
    (True, True, False)
    """
    return name in _MEASUREMENTS | _OWN or (
        name.startswith(_BEGINNINGS) and _NAME.fullmatch(name) is not None
    )
