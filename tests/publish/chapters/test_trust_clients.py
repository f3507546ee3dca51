"""What clients mean by their figures, and runs that left a summary alone, on campaigns on disk."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servebook.publish.chapters import mixed, setup, trust, trust_definitions, trust_summaries
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign, load
from servebook.read.draft import draft

CLIENTS = Path(__file__).parents[2] / "fixtures" / "clients"


@functools.cache
def book(client: str, *dumps: str) -> Campaign:
    with tempfile.TemporaryDirectory() as folder:
        for dump in dumps:
            shutil.copytree(CLIENTS / client / dump, Path(folder) / dump)
        draft(Path(folder))
        manifest = Path(folder) / "campaign.yaml"
        text = manifest.read_text(encoding="utf-8")
        stated = text.replace("    configuration: null", "    configuration: config-1")
        manifest.write_text(stated, encoding="utf-8")
        return load(Path(folder))


def table_of(figure: Figure) -> pd.DataFrame:
    assert figure.table is not None
    return figure.table


def rows_of(figure: Figure) -> dict[str, dict[Any, Any]]:
    return {row["metric"]: row for row in table_of(figure).to_dict("records")}


def test_each_figure_that_differs_shows_four_numbers_and_the_reason() -> None:
    figure = trust_definitions.other_definitions(book("guidellm", "mixed", "prefill"))
    assert figure.title.endswith("agree with its own to 0.1 %")
    rows = rows_of(figure)
    row = rows["TPOT mean (its time_per_output_token_ms)"]
    # Of the two mixed runs the second: 29.4 ms of TTFT and 437.8 ms for 63 more tokens.
    assert (row["run"], row["runs"]) == ("mixed#2", 2)
    assert row["ours"] == pytest.approx(6.9497, abs=1e-3)
    assert row["client's own"] == row["theirs recomputed"] == pytest.approx(7.2999, abs=1e-3)
    assert row["deviation (%)"] == row["largest (%)"] == 0
    (note,) = [n for n in figure.notes if n.startswith(f"{row['differs by definition']}: ")]
    assert "differs by definition: what guidellm calls TPOT" in note
    assert "TTFT mean" not in rows  # the same definition


def test_the_chart_and_its_table_tell_definitions_apart() -> None:
    figure = trust.own_against_native(book("guidellm", "mixed", "prefill"))
    rows = rows_of(figure)
    assert rows["TTFT mean"]["same definition (runs)"] == 3
    assert rows["TPOT mean (its time_per_output_token_ms)"]["same definition (runs)"] == 0
    reasons = trust_definitions.other_definitions(book("guidellm", "mixed", "prefill")).notes
    assert reasons
    assert set(reasons).isdisjoint(figure.notes)  # each reason is told once, where its figures are
    assert "What the clients mean, and why it differs, stands in the next figure." in figure.notes


def test_what_cannot_be_recomputed_is_said() -> None:
    figure = trust_definitions.other_definitions(book("sglang", "mixed_c4", "prefill_c2"))
    assert "by the client's definition" not in figure.title
    assert figure.notes[-1].startswith("For 15 figures the records do not hold")


def test_summaries_stand_apart_and_in_no_other_figure() -> None:
    both = book("sglang", "appended", "mixed_c4")
    figure = trust_summaries.summaries_alone(both)
    assert figure.title == "2 runs left a summary alone: the client's own figures"
    assert table_of(figure)["run"].tolist() == ["appended", "appended#2"]
    assert table_of(figure)["TTFT mean (ms)"].tolist() == pytest.approx(
        [13.0817, 14.7649], abs=1e-4
    )
    assert set(table_of(figure)["level"]) == {"summary"}
    definitions = trust_definitions.other_definitions(both)
    assert set(definitions.runs) == {"mixed_c4"}
    assert set(trust.own_against_native(both).runs) == {"mixed_c4"}
    runs = setup.runs(both)
    assert runs.title == "3 runs, 32 requests, 32 of them ok; 2 runs without a count"
    told = "records of 1 run and summaries of 2 runs"
    assert told in runs.source
    assert told in trust.failures(both).source
    assert "13.08" not in json.dumps(table_of(runs).to_dict("list"), default=str)


def test_runs_without_gaps_are_told_from_runs_that_are_not_there() -> None:
    assert mixed.tail(book("guidellm", "mixed")).missing == (
        "The mixed runs of this campaign hold no gaps between tokens: what guidellm left does not "
        "tell when each token came."
    )
    missing = mixed.tail(book("guidellm", "prefill")).missing
    assert missing == "This campaign has no mixed run."


def test_requests_of_an_unknown_end_are_called_neither_ok_nor_failed(tmp_path: Path) -> None:
    report = {
        "load_summary": {"count": 368},
        "successes": {"latency": {"request_latency": {"mean": 17.1}}, "throughput": {}},
    }
    (tmp_path / "stage_0_lifecycle_metrics.json").write_text(json.dumps(report))
    draft(tmp_path)
    alone = load(tmp_path)
    sentence = trust.verdict(alone).sentence
    assert "how many requests succeeded is not known" in sentence.lower()
    assert "368" not in sentence
    figure = trust.failures(alone)
    assert figure.title == "Which requests failed is not known"
    assert "1 run cannot tell how many requests there were" in " ".join(figure.notes)
    assert setup.runs(alone).title == "1 run; 1 run without a count"
