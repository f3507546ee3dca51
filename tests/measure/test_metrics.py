"""The registry covers every column, and says what each is."""

from servebook.measure.metrics import COUNTS, METRICS, VALUES
from servebook.measure.runs import IDENTITY, run_metrics
from servebook.measure.stalls import stall_summary
from servebook.tables import Tables


def test_every_value_and_count_is_a_column_and_every_column_is_explained() -> None:
    columns = set(run_metrics(Tables()).columns)
    assert {m.name for m in (*VALUES, *COUNTS)} <= columns
    unexplained = columns - set(METRICS) - set(IDENTITY)
    assert unexplained == set()


def test_units_are_those_in_the_name() -> None:
    suffixes = {"_ms": "ms", "_tok_s": "tokens/s", "_req_s": "requests/s"}
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.label
        assert metric.definition
        assert metric.source
        for suffix, unit in suffixes.items():
            if name.endswith(suffix):
                assert metric.unit == unit


def test_latencies_are_better_low_and_rates_high() -> None:
    assert METRICS["ttft_p99_ms"].better == "lower"
    assert METRICS["output_throughput_tok_s"].better == "higher"
    assert METRICS["duration_s"].better == ""


def test_every_column_of_the_stalls_is_explained() -> None:
    columns = set(stall_summary(Tables(), run_metrics(Tables())).columns)
    words = {"prefill_style", "baseline", "p99_sees_stalls", "why", "doubt"}
    assert columns - set(METRICS) - set(IDENTITY) == words
