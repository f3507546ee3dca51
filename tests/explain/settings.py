"""Configurations of a crossed campaign, made for tests."""

from __future__ import annotations

from pathlib import Path

from servebook.read.manifest import Configuration, Manifest, parse_manifest

__all__ = ["CROSSED", "crossed", "named"]

CROSSED = """\
servebook: 1
name: crossed
provenance: measured
model: {parameters: 800e9}
configurations:
  1n-fp4: &one {label: one FP4, nodes: 1, gpus_per_node: 8, gpus: 8, hbm_gb: 100, tp: 8, dp: 1,
    precision: FP4, bytes_per_parameter: 0.5, max_num_seqs: 8}
  2n-fp4: &two {<<: *one, label: two FP4, nodes: 2, gpus: 16, dp: 2}
  2n-fp8: {<<: *two, label: two FP8, precision: FP8, bytes_per_parameter: 1}
baseline: 2n-fp8
candidate: 1n-fp4
"""


def crossed() -> Manifest:
    """FP4 on one node, FP4 on two, FP8 on two: precision and crossing each alone."""
    return parse_manifest(CROSSED.encode(), Path("campaign.yaml"))


def named(*names: str) -> list[Configuration]:
    """Configurations of ``crossed`` by name."""
    manifest = crossed()
    found = [manifest.configuration(name) for name in names]
    return [c for c in found if c is not None]
