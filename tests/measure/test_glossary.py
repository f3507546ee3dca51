"""One word, one definition."""

from __future__ import annotations

import pytest

from servebook.measure.glossary import _ALSO, GLOSSARY, STATISTICS, entry, meaning
from servebook.measure.metrics import METRICS


def test_statistics_and_metrics_share_no_name_and_no_label() -> None:
    assert not set(STATISTICS) & set(METRICS)
    assert len(GLOSSARY) == len(STATISTICS) + len(METRICS)
    labels = [m.label for m in STATISTICS.values()]
    assert len(set(labels)) == len(labels)


def test_every_entry_says_what_it_is_its_unit_and_where_it_is_from() -> None:
    for name, found in GLOSSARY.items():
        assert found.name == name
        assert found.label
        assert found.unit
        assert len(found.definition) > 10
        assert found.source


def test_definitions_carry_the_thresholds_in_use() -> None:
    assert "95 %" in STATISTICS["ratio_interval"].definition
    assert "80 %" in STATISTICS["detectable"].definition
    assert "against 5 %" in STATISTICS["no_effect"].definition
    assert "20 blocks" in STATISTICS["within_run"].definition


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("TTFT p99 (ms)", "ttft_p99_ms"),
        ("ITL p99 / median (ratio)", "itl_p99_over_p50"),
        ("output tokens/s", "output_throughput_tok_s"),
        ("Stall share (estimate) (fraction)", "stall_share_estimate"),
        ("stalls inside requests (% of their gaps)", "inside_stall_fraction"),
        ("gaps", "n_gaps"),
        ("configuration", None),
    ],
)
def test_a_tables_column_leads_to_its_entry(column: str, name: str | None) -> None:
    found = entry(column)
    assert (found.name if found else None) == name
    assert (meaning(column) == "") is (name is None)


def test_other_names_lead_to_entries() -> None:
    assert set(_ALSO.values()) <= set(GLOSSARY)
