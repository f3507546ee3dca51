"""One word, one definition."""

from __future__ import annotations

from servebook.measure.glossary import GLOSSARY, STATISTICS
from servebook.measure.metrics import METRICS


def test_statistics_and_metrics_share_no_name_and_no_label() -> None:
    assert not set(STATISTICS) & set(METRICS)
    assert len(GLOSSARY) == len(STATISTICS) + len(METRICS)
    labels = [m.label for m in STATISTICS.values()]
    assert len(set(labels)) == len(labels)


def test_every_entry_says_what_it_is_its_unit_and_where_it_is_from() -> None:
    for name, entry in GLOSSARY.items():
        assert entry.name == name
        assert entry.label
        assert entry.unit
        assert len(entry.definition) > 10
        assert entry.source


def test_definitions_carry_the_thresholds_in_use() -> None:
    assert "95 %" in STATISTICS["ratio_interval"].definition
    assert "80 %" in STATISTICS["detectable"].definition
    assert "against 5 %" in STATISTICS["no_effect"].definition
    assert "20 blocks" in STATISTICS["within_run"].definition
