"""The ledger's figures on a small campaign made for it, and where nothing was printed."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small import campaign

from servebook.publish import theme
from servebook.publish.chapters import ledger
from servebook.publish.charts.ledger import within_tolerance
from servebook.read.campaign import Campaign, load

HELPERS = Path(__file__).parents[2] / "explain"
SUMS = """\
point,statement,quantity,arithmetic,unit,says
one,said,double,2 * [p4],tok/s,so
one,said,half,[p4] / 2,tok/s,so
two,said,nothing,[raw/none:itl_max_ms],s,so
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    sys.path.insert(0, str(HELPERS))
    made = importlib.import_module("printed_campaign").build(tmp_path_factory.mktemp("printed"))
    (made / "contradictions.csv").write_text(SUMS)
    return load(made)


def dots(chart: Any) -> pd.DataFrame:
    spec = chart.to_dict()
    return max((pd.DataFrame(rows) for rows in spec["datasets"].values()), key=len)


def test_all_figures_are_listed_and_drawn_by_section(book: Campaign) -> None:
    got = ledger.ledger(book)
    assert got.title == "35 of 35 printed figures follow from the dumps"
    assert got.table is not None
    assert len(got.table) == len(dots(got.chart)) == 35
    assert set(got.table["Verdict"]) == {"ok"}
    assert list(dict.fromkeys(dots(got.chart)["row"])) == list(dict.fromkeys(got.table["Section"]))
    shown = got.table.set_index("Figure")
    assert shown["Rests on"]["p4"] == "raw/aiperf/prefill_c4"
    assert shown["Computed"]["p4"] == pytest.approx(1950)
    assert len(got.runs) == 6
    assert "reconstructed" in got.source
    assert "says nothing about the hardware" in got.notes[0]


def test_figures_that_are_off_or_silent_are_in_the_title(book: Campaign, tmp_path: Path) -> None:
    text = (book.root / "published.csv").read_text()
    text = text.replace(",1950,tok/s", ",1900,tok/s")
    text += "gone,X,other,measured,a,mixed,,,,raw/none,itl,p99,1,ms,0.1,\n"
    text += "no,X,other,measured,a,prefill,,,,,output_tokens,,0,bool,0,\n"
    (tmp_path / "published.csv").write_text(text)
    got = ledger.ledger(replace(book, root=tmp_path))
    assert got.title.endswith(
        "34 of 37 printed figures follow from the dumps; 2 off and 1 not computable"
    )
    assert "p4: printed 1,900, computed 1,950 tok/s." in got.alt
    assert "gone cannot be computed: the campaign holds no run raw/none." in got.alt
    drawn = dots(got.chart).set_index("id")
    assert len(drawn) == 36
    assert drawn["share"]["p4"] == pytest.approx(50 / 9.5, rel=1e-4)
    assert drawn["share"]["no"] == 2  # no tolerance: outside the band, however little is off
    assert drawn["colour"]["p4"] != drawn["colour"]["p8"]


def test_sums_stand_side_by_side(book: Campaign) -> None:
    got = ledger.contradictions(book)
    assert got.title.startswith("Two points on which the printed figures")
    assert got.table is not None
    table = got.table.set_index("Quantity")
    assert table["From the print"]["double"] == 3900
    assert table["From the dumps"]["half"] == pytest.approx(975)
    assert pd.isna(table["From the dumps"]["nothing"])
    assert table["Why not"]["nothing"] == "the campaign has no raw/none:itl_max_ms"
    assert got.runs == ("raw/aiperf/prefill_c4",)


@pytest.mark.parametrize("figure", [ledger.ledger, ledger.contradictions])
def test_a_campaign_without_printed_figures_says_so(figure: Any) -> None:
    got = figure(campaign({"r": {"gaps_ms": [5.0] * 10}}))
    assert "ships no" in got.missing
    assert got.chart is None
    assert got.table is None


def test_the_band_reaches_from_minus_to_plus_one_tolerance() -> None:
    row = {"row": "s", "share": 0.5, "verdict": "ok", "kind": "model", "id": "x", "tip": "t"}
    spec = within_tolerance(pd.DataFrame([row])).to_dict()
    band = next(rows for rows in spec["datasets"].values() if "low" in rows[0])
    assert (band[0]["low"], band[0]["high"]) == (-1, 1)
    assert spec["width"] == theme.WIDTH
