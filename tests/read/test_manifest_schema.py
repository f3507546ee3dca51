from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from servebook.read import manifest_schema
from servebook.read.manifest import parse_manifest

DOCS = Path(__file__).parents[2] / "docs" / "manifest.md"
RECORDS = (
    "Manifest",
    "Model",
    "Configuration",
    "RunEntry",
    "CounterEntry",
    "Port",
    "Price",
    "Note",
    "ManifestGate",
    "Privacy",
)


@pytest.mark.parametrize("name", RECORDS)
def test_the_documentation_has_a_row_for_each_key(name: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    for field in fields(getattr(manifest_schema, name)):
        if "kind" not in field.metadata:
            continue
        about = field.metadata
        required = " (required)" if about["required"] else ""
        row = (
            f"| `{field.name}`{required} | {about['kind'].expected} | {about['unit']} "
            f"| {about['meaning']} |"
        )
        assert row in text


def test_the_documentation_has_no_other_keys() -> None:
    known = {field.name for name in RECORDS for field in fields(getattr(manifest_schema, name))}
    section = DOCS.read_text(encoding="utf-8").partition("## Keys")[2]
    section = section.partition("## Metrics of gates")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) <= known


def test_the_example_of_the_documentation_is_valid() -> None:
    example = DOCS.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    manifest = parse_manifest(example.encode(), Path("campaign.yaml"))
    assert [c.gpus for c in manifest.configurations] == [8, 16]
    assert manifest.slos == {"ttft_p99_ms": 2000.0, "itl_p99_ms": 100.0}
