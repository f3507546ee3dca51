"""Chapter 07, KV reuse: on against off as pairs, and the shared prefix of the prompts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small import campaign, loopback

from servebook.publish.chapters import reuse, reuse_prefix
from servebook.publish.display import payload
from servebook.read.campaign import Campaign, load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "runs"
MANIFEST = """\
servebook: 1
name: prefix
provenance: measured
configurations:
  a: {label: A, prefix_caching: true}
runs:
- {match: raw/**, configuration: a, workload: mixed, concurrency: 4}
"""


@pytest.fixture(scope="module")
def with_prompts(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    root = tmp_path_factory.mktemp("prefix")
    shutil.copytree(FIXTURES / "aiperf_shared_prefix", root / "raw" / "shared")
    shutil.copytree(FIXTURES / "aiperf_osl1", root / "raw" / "without")
    (root / "campaign.yaml").write_text(MANIFEST)
    return load(root)


def test_the_share_stands_beside_what_the_server_took_from_its_cache(
    with_prompts: Campaign,
) -> None:
    found = reuse_prefix.shared_prefix(with_prompts)
    payload(found)
    assert found.title == (
        "78 % of the prompts' characters began an earlier prompt; the server took 80 % of the "
        "tokens from cache"
    )
    assert found.table is not None
    (row,) = found.table.to_dict("records")  # the other run has no prompts beside it
    assert row["Sent before (%)"] == pytest.approx(100 * 6372 / 8134)
    assert row["Tokens from cache (%)"] == pytest.approx(100 * 256 / 321)
    assert "n = 6 prompts in 1 run" in found.subtitle
    assert found.chart is not None


def test_without_prompts_it_says_where_they_would_be() -> None:
    missing = reuse_prefix.shared_prefix(loopback()).missing
    assert "The dumps hold no prompts" in missing
    assert "inputs.json" in missing


def test_a_run_that_the_manifest_places_nowhere_keeps_its_own_name(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "aiperf_shared_prefix", tmp_path / "raw" / "shared")
    (tmp_path / "campaign.yaml").write_text(MANIFEST.partition("configurations:")[0])
    found = reuse_prefix.shared_prefix(load(tmp_path))
    payload(found)
    assert found.table is not None
    assert "shared" in str(found.table.to_dict("records"))


def test_on_and_off_say_what_the_prompts_allow(with_prompts: Campaign) -> None:
    runs = tuple(with_prompts.tables.runs["run_id"].to_pylist())
    assert "78 % lie in a prefix" in reuse_prefix.prefix_words(with_prompts, runs)
    assert "hold no prompts" in reuse_prefix.prefix_words(with_prompts, runs[1:])


def test_pairs_are_drawn_condition_by_condition() -> None:
    """Planted: at every concurrency the run with reuse ends after 1.01 s, not 1.21."""
    runs = {
        f"{'on' if on else 'off'}-{n}": {
            "concurrency": n,
            "gaps_ms": [5.0] * 40,
            "length_s": 0.8 if on else 1.0,
        }
        for n in (2, 4, 8, 16)
        for on in (False, True)
    }
    here = campaign(runs)
    told = [name.startswith("on") for name in here.tables.runs["run_id"].to_pylist()]
    at = here.tables.runs.schema.get_field_index("cache_reuse")
    tables = replace(here.tables, runs=here.tables.runs.set_column(at, "cache_reuse", [told]))
    here = replace(here, tables=tables)
    found = reuse.on_off(here)
    payload(found)
    assert found.table is not None
    rates = found.table[found.table["Metric"] == "Output throughput"]["Change (%)"]
    assert len(rates) == 4
    assert rates.tolist() == pytest.approx([100 * (1.21 / 1.01 - 1)] * 4)
    assert any(note.startswith("Drawn: 3 of 4 conditions") for note in found.notes)
