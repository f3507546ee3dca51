"""The JSON and the text of ``servebook measure``."""

import json

from by_hand import request, run

from servebook.measure.report import measure_tables, render
from servebook.tables import Tables, table

TABLES = Tables.concat(
    [
        run("b", [request("a", 0, ttft=10, gaps=[10, 30])], native={"ttft_mean_ms": 10.0}),
        run(
            "a",
            [request("a", 0, ttft=10), request("x", 0, end=20, status="failed", error="http_500")],
            native={
                "duration_s": 0.01,
                "n_ok": 1,
                "_definition": {"duration": "valid_only"},
            },
        ),
        Tables(
            runs=table(
                "runs",
                [
                    {
                        "run_id": "c",
                        "path": "c.json",
                        "client": "vLLM bench serve",
                        "level": "summary",
                        "n_ok": 24,
                        "native": '{"ttft_mean_ms": 5.5}',
                    }
                ],
            ),
            refused=table("refused", [{"path": "x.bin", "reason": "not a dump"}]),
        ),
    ]
)


def test_one_entry_per_run_in_path_order() -> None:
    found = measure_tables(TABLES)
    assert [run["run_id"] for run in found["runs"]] == ["a", "b", "c"]
    assert [run["path"] for run in found["runs"]] == ["a", "b", "c.json"]
    assert found["refused"] == [{"path": "x.bin", "reason": "not a dump"}]


def test_the_shape_is_json_without_nan() -> None:
    found = measure_tables(TABLES)
    text = json.dumps(found, allow_nan=False)  # raises on NaN
    assert json.loads(text) == found
    a, b, c = found["runs"]
    assert b["ours"]["ttft_mean_ms"] == 10
    assert b["ours"]["itl_p50_ms"] == 20
    assert b["ours"]["n_gaps"] == 2
    assert isinstance(b["ours"]["n_gaps"], int)
    assert b["ours"]["n_lost"] is None
    assert b["native"] == {"ttft_mean_ms": 10.0}
    assert b["same_definition"] == {"ttft_mean_ms": True}
    assert b["why"] == {}
    assert a["ours"]["tpot_mean_ms"] is None
    assert a["same_definition"] == {"duration_s": False, "n_ok": True}
    assert "valid requests only" in a["why"]["duration_s"]
    assert c["level"] == "summary"
    assert c["ours"]["n_ok"] == 24
    assert c["ours"]["ttft_mean_ms"] is None
    assert c["native"] == {"ttft_mean_ms": 5.5}


def test_the_text_says_what_differs_and_what_is_missing() -> None:
    text = render(measure_tables(TABLES))
    assert "a (AIPerf)" in text
    assert "[1] differs by definition: AIPerf spans valid requests only" in text
    assert "c (vLLM bench serve)" in text
    assert "a summary without records" in text
    assert "refused x.bin: not a dump" in text
    (line,) = [row for row in text.splitlines() if "TTFT mean" in row and "+0.000 %" in row]
    assert line.split() == ["TTFT", "mean", "(ms)", "10", "10", "+0.000", "%"]


def test_what_no_record_holds_is_said_once_and_is_no_difference_of_definitions() -> None:
    native = {"ttft_mean_ms": 5.0, "ttft_p50_ms": 5.0, "e2e_mean_ms": 9.0}
    unheard = run("r", [request("a", 0, ttft=None, end=None)], native=native)
    text = render(measure_tables(unheard))
    assert text.count("[1] not recomputed: the records do not hold what it is computed from") == 1
    assert "differs by definition" not in text
    assert "_ms" not in text  # our own names are no words for people


def test_a_summary_without_counts_says_so() -> None:
    row = {"run_id": "c", "path": "c.json", "client": "llmperf", "level": "summary"}
    text = render(measure_tables(Tables(runs=table("runs", [row]))))
    assert "  the number of requests is not stated\n" in text


def test_nothing_found() -> None:
    assert render(measure_tables(Tables())) == "No run of a known client was found."
