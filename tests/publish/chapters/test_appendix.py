"""The appendix on the shipped campaign, and on one with next to nothing in it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import small
from wires import campaign, runs

from servebook.measure.metrics import METRICS
from servebook.measure.percentiles import below_floor, quantile_of, rests_on
from servebook.measure.runs import run_metrics
from servebook.publish.chapters import appendix
from servebook.publish.display import payload
from servebook.publish.output import Figure

LOOPBACK = Path(__file__).parents[3] / "data" / "loopback"

CELLS = [
    lambda book: appendix.rates(book, "mixed"),
    lambda book: appendix.latencies(book, "prefill"),
    lambda book: appendix.rates(book, "other"),
    appendix.clients,
    appendix.command,
    appendix.definitions,
    appendix.findings,
    appendix.inputs,
    appendix.notes,
    appendix.settings,
    appendix.versions,
]


@pytest.fixture(scope="module")
def loopback():
    return small.loopback()


@pytest.mark.parametrize("cell", CELLS)
def test_nothing_of_the_machine_is_shown(loopback, cell):
    _, fields = payload(cell(loopback))
    text = str(fields)
    assert str(LOOPBACK.parents[1]) not in text
    assert str(Path.home()) not in text


@pytest.mark.parametrize("cell", CELLS)
def test_a_campaign_with_next_to_nothing(tmp_path, cell):
    bare = campaign(tmp_path, runs(("r", "one", "mixed", 0, 9)), manifest="")
    payload(cell(bare))


@pytest.mark.parametrize("workload", ["prefill", "decode", "mixed"])
def test_all_runs_and_values_are_listed(loopback, workload):
    metrics = run_metrics(loopback.tables).set_index("run_id")
    wanted = metrics[metrics["workload"] == workload]
    for figure, name in (
        (appendix.rates(loopback, workload), "output_throughput_tok_s"),
        (appendix.latencies(loopback, workload), "ttft_mean_ms"),
    ):
        assert set(figure.table["Run"]) == set(wanted.index)
        metric = METRICS[name]
        shown = figure.table.set_index("Run")[f"{metric.label} ({metric.unit})"]
        assert shown.to_dict() == wanted[name].to_dict()


@pytest.mark.parametrize("workload", ["prefill", "decode", "mixed"])
def test_no_percentile_stands_below_its_floor_or_without_its_n(loopback, workload):
    got = appendix.latencies(loopback, workload)
    table = got.table.set_index("Run")
    metrics = run_metrics(loopback.tables).set_index("run_id").loc[table.index]
    checked = 0
    for name, metric in METRICS.items():
        q, n, column = quantile_of(name), rests_on(name), f"{metric.label} ({metric.unit})"
        if q is None or n is None or column not in table:
            continue
        few = np.array([below_floor(q, k) for k in metrics[n]])
        assert table[column].isna().to_numpy()[few].all()
        kept = table[column][~few].astype(float)
        assert kept.to_dict() == metrics[name][~few].to_dict()
        assert table[METRICS[n].label].tolist() == metrics[n].tolist()
        checked += 1
    assert checked
    assert "TTFT p99 (ms)" not in table  # no run has 662 requests
    assert any("TTFT p99" in note and "floor" in note for note in got.notes)


def test_what_is_undefined_everywhere_is_named_not_zero(loopback):
    got = appendix.latencies(loopback, "prefill")
    assert not any("TPOT" in column for column in got.table)
    assert "TPOT mean" in got.notes[0]


def test_clients_agree_where_they_share_a_definition(loopback):
    got = appendix.clients(loopback)
    assert {"AIPerf", "vLLM bench serve"} == set(got.table["Client"])
    one = got.table["Runs with one definition"] > 0
    assert (got.table.loc[one, "Largest deviation (%)"].abs() <= 0.1).all()
    assert any("stopwatch" in note and "Concerns Duration" in note for note in got.notes)
    close, total = got.title.split(" values ")[0].split(" of ")
    assert close == total


def test_every_metric_has_its_definition(loopback):
    table = appendix.definitions(loopback).table
    assert table["Name"].tolist() == list(METRICS)
    assert (table["Definition"] != "").all()


def test_inputs_are_named_by_their_hash(loopback):
    table = appendix.inputs(loopback).table.set_index("File")
    manifest = (LOOPBACK / "campaign.yaml").read_bytes()
    assert table.loc["campaign.yaml", "SHA-256"] == hashlib.sha256(manifest).hexdigest()
    assert table.loc["campaign.yaml", "Bytes"] == len(manifest)
    assert (table["SHA-256"].str.len() == 64).all()


def test_the_command_names_the_campaign_only(loopback):
    told = appendix.command(loopback).paragraphs[0]
    assert "servebook build data/loopback" in told
    assert "make report CAMPAIGN=data/loopback" in told


def test_settings_name_what_is_not_stated(loopback):
    got = appendix.settings(loopback)
    assert got.table["Setting"].tolist()[0] == "engine"
    assert any("hbm_gb" in note for note in got.notes)
    chunked = got.table.set_index("Setting").loc["chunked_prefill"].tolist()
    assert "on" in chunked
    assert "off" in chunked


def test_notes_of_the_dumps_and_of_the_manifest(loopback):
    table = appendix.notes(loopback).table
    assert set(table["Said by"]) == {"the dump", "the manifest"}
    assert table["Note"].is_unique


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["a of 3 s", "a of 4.5 s"], "a of 3 s (and 1 alike)"),
        (["b", "a"], "a; b"),
        ([], ""),
    ],
)
def test_reasons_that_differ_in_numbers_only_are_told_once(reasons, expected):
    assert appendix._reasons(reasons) == expected


def test_figures_have_ids_of_their_own(loopback):
    figures = [f for f in (cell(loopback) for cell in CELLS) if isinstance(f, Figure)]
    assert len({f.id for f in figures}) == len(figures)


def test_titles_tell_the_spread_of_what_the_tables_hold() -> None:
    """Two tokens a request, one request a second from 0 s: the last of two ends at 1.010 + gap."""
    book = small.campaign(
        {
            "a": {"gaps_ms": (5.0,), "workload": "mixed", "concurrency": 2},
            "b": {"gaps_ms": (500.0,), "workload": "mixed", "concurrency": 4},
        }
    )
    fast, slow = 4 / 1.015, 4 / 1.510  # 3.94 and 2.65 tokens/s
    assert (round(slow, 2), round(fast, 2)) == (2.65, 3.94)
    assert appendix.rates(book, "mixed").title == (
        "Mixed: rates and counts of 2 runs (Output throughput 2.65 to 3.94 tokens/s)"
    )
    assert appendix.latencies(book, "mixed").title == (
        "Mixed: latencies of 2 runs (TPOT mean 5 to 500 ms)"
    )
