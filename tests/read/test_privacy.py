"""Names become aliases in every table, path and finding."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from servebook.read.campaign import Campaign
from servebook.read.manifest import parse_manifest
from servebook.read.privacy import common_interface, masked
from servebook.tables import Tables, table

MANIFEST = """\
servebook: 1
name: secret
configurations:
  a: {label: named by its author}
runs: [{match: "raw/bank-leaf7/run*"}]
counters: [{match: "raw/bank-leaf7.csv", device: bank-leaf7}]
ports:
  - {device: bank-leaf7, interface: to-vault, role: uplink, node: vault-srv-1}
  - {device: bank-leaf7, interface: Ethernet2, role: uplink, node: vault-srv-2}
  - {device: vault-srv-1, interface: mlx5_0, role: host, node: vault-srv-1}
"""
NAMES = ("bank-leaf7", "to-vault", "vault-srv", "other-box")


def campaign(extra: str = "") -> Campaign:
    run = {"run_id": "raw/bank-leaf7/run1", "path": "raw/bank-leaf7/run1", "workload": "mixed"}
    sample = {"source": "raw/bank-leaf7.csv", "metric": "bytes"}
    return Campaign(
        root=Path("x"),
        name="secret",
        manifest=parse_manifest((MANIFEST + extra).encode(), Path("campaign.yaml")),
        tables=Tables(
            runs=table("runs", [run]),
            requests=table("requests", [{"run_id": run["run_id"], "request_id": "1"}] * 3),
            samples=table(
                "samples",
                [
                    sample | {"device": "other-box", "interface": "eth0"},
                    sample | {"device": "bank-leaf7", "interface": "to-vault"},
                    sample | {"device": None, "interface": None},
                ],
            ),
            refused=table("refused", [{"path": "raw/vault-srv-1.bin", "reason": "on bank-leaf7"}]),
        ),
        ports=table(
            "ports", [{"device": "bank-leaf7", "interface": "to-vault", "node": "vault-srv-1"}]
        ),
        inputs=pa.table({"path": ["raw/bank-leaf7.csv"], "sha256": ["0"]}),
        findings=("bank-leaf7 to-vault was not read; xbank-leaf7x is another word",),
    )


def everything(book: Campaign) -> str:
    tables = [getattr(book.tables, f.name).to_pylist() for f in dataclasses.fields(Tables)]
    kept = (book.ports.to_pylist(), book.inputs.to_pylist(), book.findings, book.manifest)
    return repr((tables, kept))


def test_aliases_follow_the_manifest_and_no_name_is_left() -> None:
    book = masked(campaign())
    samples = book.tables.samples
    assert samples["device"].to_pylist() == ["device-1", "switch-1", None]
    assert samples["interface"].to_pylist() == ["eth0", "port-1", None]
    assert [p.node for p in book.manifest.ports] == ["node-1", "node-2", "node-1"]
    assert [p.device for p in book.manifest.ports] == ["switch-1", "switch-1", "host-1"]
    assert book.tables.requests["run_id"].to_pylist() == ["raw/switch-1/run1"] * 3
    assert book.findings[0].startswith("switch-1 port-1 was not read; xbank-leaf7x")
    assert book.masked == {"device": 1, "host": 1, "node": 2, "port": 1, "switch": 1}
    left = everything(book).replace("xbank-leaf7x", "")
    assert [name for name in NAMES if name in left] == []
    assert "named by its author" in left
    assert masked(book) is book


REASONS = (
    ("interface", "to-secret-bank: no value in its row (N/A) (3 readings)"),
    ("interface", "Ethernet7: no counters (a virtual or sub-interface) (1 reading)"),
    ("series", "in-octets: not a counter that Servebook uses (2 readings)"),
)
REFUSED = (
    (
        "expected readings of lo, as the manifest asks, found interfaces eth0, to-other-bank; "
        "correct the interface in the manifest"
    ),
    (
        "expected readings of one device, as `device:` in the manifest says, found 2 devices "
        "(bank-a, bank-b); leave `device:` out here and use these names in `ports:`"
    ),
    "expected readings of x, as the manifest asks, found interfaces none; correct the interface",
)


@pytest.mark.parametrize("shown", [True, False])
def test_a_reason_names_no_interface_that_only_it_knows(shown: bool) -> None:
    book = campaign("privacy: {show_names: true}\n" if shown else "")
    aside = [{"path": "a", "line": 1, "record": r, "reason": text} for r, text in REASONS]
    refused = [{"path": "b", "reason": text} for text in REFUSED]
    tables = dataclasses.replace(
        book.tables, set_aside=table("set_aside", aside), refused=table("refused", refused)
    )
    findings = ("raw/x.log: to-secret-bank: no value in its row (N/A)",)
    got = masked(dataclasses.replace(book, tables=tables, findings=findings))
    told = [*got.tables.set_aside["reason"].to_pylist(), *got.tables.refused["reason"].to_pylist()]
    if shown:
        assert told == [text for _, text in REASONS] + list(REFUSED)
        return
    assert "bank" not in " ".join([*told, *got.findings])
    assert told[0] == "port-3: no value in its row (N/A) (3 readings)"
    assert told[1:3] == [text for _, text in REASONS[1:]]
    assert "found interfaces eth0, port-2; correct" in told[3]
    assert "found 2 devices (device-1, device-2); leave" in told[4]
    assert told[5] == REFUSED[2]


def test_the_manifest_can_show_names() -> None:
    book = campaign("privacy: {show_names: true}\n")
    assert masked(book) is book


def test_the_schemas_stay_as_they_are() -> None:
    before, after = campaign(), masked(campaign())
    for field in dataclasses.fields(Tables):
        assert getattr(after.tables, field.name).schema == getattr(before.tables, field.name).schema


@pytest.mark.parametrize(
    ("name", "common"),
    [
        *((n, True) for n in ("Ethernet1/1", "eth0", "lo", "mlx5_0", "enp1s0f0np0", "bond0")),
        *((n, True) for n in ("Port-Channel10", "xe-0/0/1:2", "swp32s1", "HundredGigE1/0/3")),
        *(
            (n, False)
            for n in ("to-bank", "eth-bank", "enx001122334455", "leaf1", "bank", "bond-x")
        ),
    ],
)
def test_interfaces_that_systems_name(name: str, common: bool) -> None:
    assert common_interface(name) == common
