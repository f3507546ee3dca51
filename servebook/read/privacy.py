"""Aliases for hosts, switches and ports, so that a page can be handed on.

Readers drop prompts, keys, addresses and serial numbers. What is left that tells whose machines
these were is names: of devices, of nodes, and of ports that somebody named. Each gets an alias
(switch-1, node-1, port-1) in every table and in the text of every path and finding. Numbers follow
the manifest's ports, then the alphabet, so that the same campaign has the same aliases.

Shown as they are: labels, titles and notes of the manifest, which its author wrote for the page,
and names of interfaces that systems give themselves (Ethernet1, eth0, mlx5_0).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import GapTable
from servebook.tables import Tables

if TYPE_CHECKING:
    from servebook.read.campaign import Campaign
    from servebook.read.manifest import Manifest

__all__ = ["aliases", "common_interface", "masked"]

#: What systems call interfaces. No enx...: it carries the card's address.
_COMMON = re.compile(
    r"(?:lo|loopback|eth|ethernet|et|xe|ge|swp|en|eno|ens|enp|ib|ibs|ibp|mlx|bnxt_re|rdma|roce|irdma"
    r"|hfi|bond|lag|ae|port-?channel|po|vlan|irb|br|veth|docker|mgmt|management|ma|em|fxp|wlan"
    r"|(?:ten|twentyfive|forty|fifty|hundred|twohundred|fourhundred|eighthundred)?gig(?:e|abitethernet)?"
    r")?(?:[\d/.:_ -]|[snpfdvhcu]{1,2}(?=\d))*",
    re.IGNORECASE,
)
#: Text columns that hold paths or sentences with paths, by table.
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "runs": ("run_id", "path"),
    "requests": ("run_id",),
    "gaps": ("run_id",),
    "samples": ("source",),
    "engine": ("source", "run_id"),
    "set_aside": ("path", "reason"),
    "refused": ("path", "reason"),
}
#: How a refusal lists what a file holds instead of what the manifest asks of it.
_LISTED = re.compile(
    r"found (?:\d+ devices \((?P<devices>.*)\)|interfaces (?P<interfaces>.*)); (?:leave|correct)"
)
_SHORTEST = 3  # a shorter name is part of too many words to be looked for in text

Rename = Callable[[str], str]


def common_interface(name: str) -> bool:
    """Whether a port's name is one that systems give, and so tells nothing of its owner.

    >>> [common_interface(n) for n in ("Ethernet1/1", "mlx5_0", "enp1s0f0np0", "to-bank-of-x")]
    [True, True, True, False]
    """
    return _COMMON.fullmatch(name) is not None


def aliases(
    manifest: Manifest, devices: Iterable[str], interfaces: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Real name to alias, for "device", "node" and "interface"."""
    roles: dict[str, set[str]] = {}
    for port in manifest.ports:
        roles.setdefault(port.device, set()).add(port.role or "")
    stated = [c.device for c in manifest.counters if c.device]
    named = [port.interface for port in manifest.ports]
    for entry in manifest.counters:
        named += [name for name in (entry.interface, *(entry.interfaces or ())) if name]
    found: dict[str, dict[str, str]] = {"device": {}, "node": {}, "interface": {}}
    count: Counter[str] = Counter()
    for name in dict.fromkeys([*roles, *stated, *sorted(set(devices))]):
        own = roles.get(name, set())
        kind = "host" if own == {"host"} else "switch" if own & {"uplink", "spine"} else "device"
        count[kind] += 1
        found["device"][name] = f"{kind}-{count[kind]}"
    for port in manifest.ports:
        if port.node and port.node not in found["node"]:
            found["node"][port.node] = f"node-{len(found['node']) + 1}"
    for name in dict.fromkeys([*named, *sorted(set(interfaces))]):
        if not common_interface(name):
            found["interface"][name] = f"port-{len(found['interface']) + 1}"
    return found


def masked(campaign: Campaign) -> Campaign:
    """The campaign under aliases, or as it is where its manifest shows names or it has aliases.

    The result's ``masked`` counts the aliases by kind: {"switch": 2, "node": 4}.
    """
    if campaign.manifest.privacy.show_names or campaign.masked is not None:
        return campaign
    samples = campaign.tables.samples
    devices, interfaces = _told_of(campaign.tables)
    found = aliases(
        campaign.manifest,
        [*_unique(samples["device"]), *devices],
        [*_unique(samples["interface"]), *interfaces],
    )
    rename = _in_text(found)
    tables = {}
    for part in dataclasses.fields(Tables):
        table = getattr(campaign.tables, part.name)
        if isinstance(table, GapTable):
            tables[part.name] = table.changed(
                lambda one: dataclasses.replace(one, run_id=rename(one.run_id))
            )
            continue
        for column in _TEXTS.get(part.name, ()):
            table = _mapped(table, column, rename)
        tables[part.name] = table
    for column in ("device", "interface"):
        tables["samples"] = _mapped(tables["samples"], column, _of(found[column]))
    ports = campaign.ports
    for column in ("device", "interface", "node"):
        ports = _mapped(ports, column, _of(found[column]))
    kinds = Counter(
        alias.rpartition("-")[0] for names in found.values() for alias in names.values()
    )
    return dataclasses.replace(
        campaign,
        manifest=_manifest(campaign.manifest, found, rename),
        tables=Tables(**tables),
        ports=ports,
        inputs=_mapped(campaign.inputs, "path", rename),
        findings=tuple(rename(text) for text in campaign.findings),
        masked=dict(sorted(kinds.items())),
    )


def _told_of(tables: Tables) -> tuple[list[str], list[str]]:
    """Devices and interfaces of which no reading is used, but a reason speaks.

    The reasons are those of ``servebook.read.counter_rows``: of an interface without a reading that
    can be used, and of a file that is refused because of the names in it.
    """
    aside = tables.set_aside.filter(pc.equal(tables.set_aside["record"], "interface"))
    interfaces = [reason.partition(": ")[0] for reason in _unique(aside["reason"])]
    devices: list[str] = []
    for reason in _unique(tables.refused["reason"]):
        if (hit := _LISTED.search(reason)) is not None:
            devices += (hit["devices"] or "").split(", ")
            interfaces += (hit["interfaces"] or "").split(", ")
    return [name for name in devices if name], [n for n in interfaces if n not in ("", "none")]


def _manifest(manifest: Manifest, found: dict[str, dict[str, str]], rename: Rename) -> Manifest:
    device, node, interface = (_of(found[kind]) for kind in ("device", "node", "interface"))
    return dataclasses.replace(
        manifest,
        ports=tuple(
            dataclasses.replace(
                p,
                device=device(p.device),
                interface=interface(p.interface),
                node=node(p.node) if p.node else None,
            )
            for p in manifest.ports
        ),
        counters=tuple(
            dataclasses.replace(
                c,
                match=rename(c.match),
                device=device(c.device) if c.device else None,
                interface=interface(c.interface) if c.interface else None,
                interfaces=c.interfaces and tuple(map(interface, c.interfaces)),
            )
            for c in manifest.counters
        ),
        runs=tuple(dataclasses.replace(r, match=rename(r.match)) for r in manifest.runs),
        notes=tuple(
            dataclasses.replace(n, run=rename(n.run) if n.run else None) for n in manifest.notes
        ),
    )


def _of(names: Mapping[str, str]) -> Rename:
    return lambda name: names.get(name, name)


def _in_text(found: dict[str, dict[str, str]]) -> Rename:
    """Replaces the names where they stand as whole words, the longest first."""
    names = {**found["interface"], **found["node"], **found["device"]}
    chosen = sorted((n for n in names if len(n) >= _SHORTEST), key=lambda n: (-len(n), n))
    if not chosen:
        return lambda text: text
    pattern = re.compile(
        r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, chosen)) + r")(?![A-Za-z0-9])"
    )
    return lambda text: pattern.sub(lambda hit: names[hit[0]], text)


def _unique(column: pa.ChunkedArray) -> list[str]:
    return [name for name in column.unique().to_pylist() if name is not None]


def _mapped(table: pa.Table, column: str, rename: Rename) -> pa.Table:
    """The table with a text column renamed value by value; the same table where none changes."""
    at = table.schema.get_field_index(column)
    if at < 0 or not table.num_rows:
        return table
    names = {name: rename(name) for name in _unique(table[column])}
    if all(name == alias for name, alias in names.items()):
        return table
    encoded = table[column].combine_chunks().dictionary_encode()
    words = pa.array([names[name] for name in encoded.dictionary.to_pylist()], pa.string())
    return table.set_column(at, table.schema.field(column), words.take(encoded.indices))
