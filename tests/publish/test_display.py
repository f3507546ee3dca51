from __future__ import annotations

import base64
import io
import json

import altair as alt
import pandas as pd
import pyarrow.parquet as pq
import pytest

from servebook.publish import words
from servebook.publish.display import mimebundle, payload
from servebook.publish.fixed import BUILD_VARIABLE
from servebook.publish.names import KINDS, PARQUET_MIME, SPEC_MIME
from servebook.publish.output import Figure, Output, Section, Statement
from servebook.publish.page import headline
from servebook.publish.spec import specification

FRAME = pd.DataFrame({"x": [1.23456789, 2.0], "name": ["</script><img src=x onerror=1>", "b"]})


def figure(**changes: object) -> Figure:
    fields: dict[str, object] = {
        "id": "one",
        "title": "Title <b>",
        "chart": alt.Chart(FRAME).mark_bar().encode(x="x:Q", y="name:N"),
        "table": FRAME,
        "alt": "Two bars.",
    }
    return Figure(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_build_gets_data_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILD_VARIABLE, "1")
    bundle = mimebundle(figure())
    assert set(bundle) == {KINDS["figure"], SPEC_MIME, PARQUET_MIME, "text/plain"}
    assert bundle[SPEC_MIME]["description"] == "Two bars."
    assert bundle[KINDS["figure"]]["table"]["rows"][0][0] == 1.23457
    json.dumps(bundle, allow_nan=False)


def test_a_statement_keeps_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILD_VARIABLE, "1")
    bundle = mimebundle(Statement("s", "It is 4.3 times.", value=4.3, runs=("a", "b"), n=2))
    assert bundle[KINDS["statement"]]["runs"] == ["a", "b"]
    assert bundle[KINDS["statement"]]["low"] is None


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (figure(id=""), "needs an id"),
        (figure(alt=""), "no alternative text"),
        (figure(table=None), "not the table"),
        (figure(chart=None, table=None), "does not say why"),
    ],
)
def test_an_incomplete_output_is_refused(output: Output, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mimebundle(output)


def test_jupyterlab_gets_a_widget_and_escaped_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BUILD_VARIABLE, raising=False)
    bundle = mimebundle(figure())
    assert "application/vnd.jupyter.widget-view+json" in bundle
    html = bundle["text/html"]
    assert "Title &lt;b&gt;" in html
    assert "<img" not in html
    assert "</script>" not in html


def test_jupyterlab_shows_sections_as_escaped_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BUILD_VARIABLE, raising=False)
    assert mimebundle(Section("s", ("a <b>", "c")))["text/html"] == "<p>a &lt;b&gt;</p><p>c</p>"


@pytest.mark.parametrize("value", [33330.512662750814, 1234567.8, 0.1 + 0.2, 33330.499])
def test_a_headline_reads_as_the_sentence_beside_it(value: float) -> None:
    _, fields = payload(Statement(id="a", sentence=f"It is {words.number(value)}.", value=value))
    assert headline(fields["value"], "tokens/s") in fields["sentence"]


def test_numbers_in_a_specification_have_six_digits() -> None:
    spec = specification(alt.Chart(FRAME).mark_point().encode(x="x:Q"))
    (rows,) = spec["datasets"].values()
    assert [row["x"] for row in rows] == [1.23457, 2]
    assert "$schema" not in spec


def test_a_chart_from_an_address_is_refused() -> None:
    chart = alt.Chart("https://example.org/data.csv").mark_point().encode(x="a:Q")
    with pytest.raises(ValueError, match="from an address"):
        specification(chart)


def test_many_rows_do_not_stop_a_chart() -> None:
    frame = pd.DataFrame({"x": range(6000)})
    assert specification(alt.Chart(frame).mark_point().encode(x="x:Q"))["datasets"]


def test_a_build_is_spared_the_validation_and_gets_the_same() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.5], "when": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    base = alt.Chart(frame).encode(x="x:Q", y="when:T")
    chart = base.mark_point() + base.mark_line() + alt.Chart(frame.head(1)).mark_rule()
    whole = specification(chart)
    assert specification(chart, validate=False) == whole
    assert sorted(len(rows) for rows in whole["datasets"].values()) == [1, 2]


def test_a_table_travels_as_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILD_VARIABLE, "1")
    packed = base64.b64decode(mimebundle(figure())[PARQUET_MIME])
    assert pq.read_table(io.BytesIO(packed)).column_names == list(FRAME.columns)
