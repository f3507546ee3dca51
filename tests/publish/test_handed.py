"""A campaign handed over between processes of a build: whole, or not at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from servebook.gap_table import GapPart, GapTable, InFile
from servebook.publish import handed
from servebook.read.campaign import Campaign, load

ROOT = Path(__file__).parents[2] / "data" / "loopback"


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return load(ROOT)


def test_what_is_handed_over_is_what_was_read(campaign: Campaign, tmp_path: Path) -> None:
    assert handed.hand(campaign, tmp_path)
    got = handed.take(ROOT, tmp_path)
    assert got is not None
    for name in ("root", "name", "manifest", "ports", "inputs", "findings", "masked"):
        assert getattr(got, name) == getattr(campaign, name), name
    for field in dataclasses.fields(campaign.tables):
        one, other = getattr(got.tables, field.name), getattr(campaign.tables, field.name)
        if isinstance(one, GapTable):
            one, other = one.table, other.table
        assert one.equals(other), field.name
    assert not list(tmp_path.iterdir())  # taken once


def test_one_campaign_is_not_taken_for_another(campaign: Campaign, tmp_path: Path) -> None:
    assert handed.hand(campaign, tmp_path)
    assert handed.take(ROOT.parent / "b300-two-nodes", tmp_path) is None
    assert handed.take(ROOT, tmp_path) is not None


def test_a_large_campaign_is_read_from_the_cache(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handed._Bounded, "left", 100_000)
    assert not handed.hand(campaign, tmp_path)
    assert handed.take(ROOT, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_gaps_in_files_that_go_with_their_reader_are_not_handed_over(
    campaign: Campaign, tmp_path: Path
) -> None:
    part = GapPart(
        run_id="r",
        request_id=np.array(["a"]),
        first=np.array([0]),
        count=np.array([1]),
        start_ns=np.array([0]),
        data=InFile(tmp_path / "gaps.parquet", 0, holder=object()),
    )
    tables = dataclasses.replace(campaign.tables, gaps=GapTable([part]))
    assert not handed.hand(dataclasses.replace(campaign, tables=tables), tmp_path)


@pytest.mark.parametrize("left", [0, 10, 1000])
def test_a_torn_file_is_no_campaign(campaign: Campaign, tmp_path: Path, left: int) -> None:
    assert handed.hand(campaign, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:left])
    assert handed.take(ROOT, tmp_path) is None
