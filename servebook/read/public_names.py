"""Which names of metrics may stand in a reason: those that a published programme gives.

A metric that is not used is told by its name, so that a reader of the page sees what lay in a dump.
But whoever writes a query, a recording rule or a script names the result as he likes, after a host
or a customer too, and may begin it as an exporter's names begin. So a name is shown only if it is
one that Prometheus itself or a plugin of Telegraf gives, or if it begins like an exporter's and
holds no word but those of which exporters, engines and switches make theirs.

Own code: the programmes have no common list of their names, and together give some thousands, which
change with their versions; their words (``public_words.py``) are few and stay.
"""

from __future__ import annotations

import re

from servebook.read.public_words import WORDS

__all__ = ["THIS_SITE", "is_public", "is_public_leaf"]

#: What is said for a name that may be a site's own.
THIS_SITE = "a counter of this site"

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,120}")
_LEAF = re.compile(r"[a-z][a-z0-9-]{0,80}")
_BETWEEN = re.compile(r"[_:-]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: So many digits may end a word ("load15", "icmp6"): a number alone may be a host's.
_DIGITS = 2
#: Parts that are written in no other way.
_WHOLE = frozenset((
    "10s", "8021q", "C2C", "c2c", "e2e", "DirectMap1G", "DirectMap2M", "DirectMap4k",
))  # fmt: skip
_INITIALS = frozenset("KS")  # of the kernel's KReclaimable and SReclaimable

#: Measurements of Telegraf's plugins (the names of `telegraf plugins inputs` that run on servers).
_MEASUREMENTS = frozenset((
    "conntrack", "cpu", "disk", "diskio", "docker", "dpdk", "ethtool", "gnmi", "infiniband",
    "interface", "internal", "interrupts", "ipmi_sensor", "kernel", "kernel_vmstat",
    "linux_sysctl_fs", "mem", "net", "netstat", "nfsclient", "nstat", "nvidia_smi", "ping",
    "processes", "procstat", "prometheus", "sensors", "snmp", "socket_stat", "soft_interrupts",
    "swap", "synproxy", "system", "temp", "wireless",
))  # fmt: skip
#: What Prometheus itself adds to the series of everybody, and columns of IF-MIB with lone letters.
_OWN = frozenset((
    "ALERTS", "ALERTS_FOR_STATE", "ifInNUcastPkts", "ifOutNUcastPkts", "ifOutQLen", "up",
))  # fmt: skip
#: How the names of exporters and engines begin.
_BEGINNINGS = (
    "DCGM_FI_", "container_", "ethtool_", "go_", "ib_", "ifHC", "ifIn", "ifOut", "infiniband_",
    "kube_", "machine_", "net_", "node_", "nvidia_", "nv_", "process_", "prometheus_", "promhttp_",
    "python_", "rdma_", "scrape_", "sglang:", "sonic_", "trtllm_", "vllm:",
)  # fmt: skip


def _of_known_words(name: str) -> bool:
    for part in filter(None, _BETWEEN.split(name)):
        if part in _WHOLE or part.lower() in WORDS:
            continue
        bare = part.rstrip("0123456789")
        words = _WORD.findall(bare)
        if len(part) - len(bare) > _DIGITS or not words or "".join(words) != bare:
            return False
        if not all(word.lower() in WORDS or word in _INITIALS for word in words):
            return False
    return True


def is_public(name: str) -> bool:
    """Whether a published programme gives a metric this name, as far as its words tell.

    >>> is_public("cpu"), is_public("node_load15"), is_public("node_acme_load")
    (True, True, False)
    """
    if name in _MEASUREMENTS | _OWN:
        return True
    begins = next((one for one in _BEGINNINGS if name.startswith(one)), None)
    if begins is None or _NAME.fullmatch(name) is None:
        return False
    rest = name[2:] if begins.startswith("if") else name[len(begins) :]
    return bool(rest) and _of_known_words(rest)


def is_public_leaf(name: str) -> bool:
    """Whether a leaf of a gNMI path is made of the words of published models.

    >>> is_public_leaf("in-broadcast-pkts"), is_public_leaf("in-acme-pkts")
    (True, False)
    """
    return _LEAF.fullmatch(name) is not None and _of_known_words(name)
