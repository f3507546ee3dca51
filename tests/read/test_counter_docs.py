"""docs/formats.md names every counter format and every flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.measure.intervals import EXCLUDED
from servebook.read.counter_names import NAMES, TOO_NARROW
from servebook.read.registry import FORMATS

DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()


@pytest.mark.parametrize("name", [form.name for form in FORMATS if form.kind == "counters"])
def test_every_format_has_its_heading(name: str) -> None:
    assert any(line.startswith("#") and f"(`{name}`)" in line for line in DOCS.splitlines())


@pytest.mark.parametrize("flag", ["sticky_merged", "wrap", "grid", *sorted(EXCLUDED)])
def test_every_flag_is_explained(flag: str) -> None:
    table = DOCS.partition("### Intervals")[2]
    [row] = [line for line in table.splitlines() if line.startswith(f"| `{flag}` |")]
    assert row.endswith("| no |" if flag in EXCLUDED else "| yes |")


@pytest.mark.parametrize("name", ["ifHCInOctets", "ifHighSpeed", "node_network_speed_bytes"])
def test_documented_names_are_read(name: str) -> None:
    assert f"`{name}`" in DOCS
    assert name in NAMES


@pytest.mark.parametrize("name", list(TOO_NARROW))
def test_narrow_counters_are_named(name: str) -> None:
    assert f"`{name}`" in DOCS
