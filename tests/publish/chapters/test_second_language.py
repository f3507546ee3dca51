"""A language made up here: where the page still speaks English, a text is not in the catalogue."""

from __future__ import annotations

import dataclasses
import functools
import re
import string
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from small import MANIFEST, campaign, loopback, shipped
from test_any_campaign import CAMPAIGNS

from servebook.publish import chapters, diff, diff_words, text, words
from servebook.publish.chapters import (
    appendix,
    confidence,
    decode,
    decomposition,
    engine_side,
    fabric,
    goodput,
    goodput_cost,
    limit,
    matched,
    memory,
    mixed,
    overview,
    prefill,
    reuse,
    same_traffic,
    scale_out,
    setup,
    stall_arithmetic,
    token_cost,
    trust,
    trust_definitions,
    trust_summaries,
)
from servebook.publish.diff_compare import Difference, difference
from servebook.publish.diff_match import matched as matched_sides
from servebook.publish.diff_sides import Side
from servebook.publish.display import payload
from servebook.publish.output import Figure
from servebook.publish.page import counted
from servebook.publish.spec import specification
from servebook.read.campaign import Campaign, load

#: Letters of another width: no text of the catalogue has one, every one of the made-up language.
WIDE = {ord(letter): ord(letter) + 0xFEE0 for letter in string.ascii_letters}
FUNCTIONS: dict[str, Callable[[Campaign], Any]] = {
    f"{module.__name__.removeprefix(chapters.__name__ + '.')}.{name}": getattr(module, name)
    for module in (
        confidence, decode, engine_side, goodput, goodput_cost, mixed, overview, prefill, setup,
        trust, trust_definitions, trust_summaries,
    )
    for name in module.__all__
    if name in dir(module) and callable(getattr(module, name)) and name[0].islower()
    and name not in ("limits_in_words",)
}  # fmt: skip
FUNCTIONS |= {
    "decomposition.grid_of": lambda book: decomposition.grid_of(book, "mixed"),
    "matched.matched": matched.matched,
    "matched.parity": matched.parity,
    "reuse.on_off": reuse.on_off,
}
#: What any language leaves as it is: names of clients, of loads in a manifest, and standard terms.
NAMES = {"aiperf", "vllm", "bench", "serve", "prefill", "decode", "mixed", "ttft", "tpot", "itl"}
#: Words of three letters or more that are no part of a run, a code or an identifier.
WORDS = r"(?<![\w./-])[a-z]{3,}(?![\w./-])"
FIELDS = (
    "title",
    "subtitle",
    "alt",
    "missing",
    "source",
    "sentence",
    "more",
    "caption",
    "interval",
)


def wide(english: str) -> str:
    """The text with every letter of it (not of its fields) made wide."""
    parts = []
    for literal, field, spec, conversion in string.Formatter().parse(english):
        parts.append(literal.replace("{", "{{").replace("}", "}}").translate(WIDE))
        if field is not None:
            parts.append(
                "{" + field + (f"!{conversion}" if conversion else "")
                + (f":{spec}" if spec else "") + "}"
            )  # fmt: skip
    return "".join(parts)


@functools.cache
def made_up() -> text.Catalogue:
    english = text.load(text.folder()).texts
    return text.Catalogue({key: wide(one) for key, one in english.items()}, None, english)


def drawn(spec: Any, key: str = "") -> Iterator[str]:
    """Titles of axes, legends and tooltips of a chart."""
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name not in ("data", "datasets", "usermeta", "description"):
                yield from drawn(value, name)
    elif isinstance(spec, list):
        for value in spec:
            yield from drawn(value, key)
    elif isinstance(spec, str) and key == "title":
        yield spec


def shown(output: Any) -> Iterator[str]:
    """The fixed texts of an output as the page shows them."""
    _, fields = payload(output)
    yield from (fields[name] for name in (*FIELDS, "would_change") if fields.get(name))
    yield from (words.mark(mark) for mark in fields.get("marks") or ())
    if fields.get("n_of"):
        yield counted(fields["n_of"], 2)
    if isinstance(output, Figure):
        if fields["table"]:
            yield from map(text.column, fields["table"]["columns"])
        if output.chart is not None:
            yield from drawn(specification(output.chart, output.alt))


def given(book: Campaign) -> set[str]:
    """Every word that the campaign itself brings: of its manifest, runs, and their files."""
    told = [book.name, *map(str, book.tables.runs["run_id"].to_pylist())]
    for column in ("client", "workload", "path", "model"):
        told += [str(value) for value in book.tables.runs[column].to_pylist()]
    told += [str(value) for value in book.tables.requests["error_kind"].unique().to_pylist()]
    told += [value.replace("_", " ") for value in told]
    manifest = book.root / "campaign.yaml"
    told += [manifest.read_text(encoding="utf-8") if manifest.is_file() else MANIFEST]
    return {word for line in told for word in re.findall(r"[A-Za-z]+", line.lower())}


def english(book: Campaign, output: Any, tell: Callable[[Any], Iterator[str]] = shown) -> list[str]:
    """The texts that hold a word of three letters or more which the campaign did not bring."""
    known = given(book) | NAMES
    return [
        one
        for one in tell(output)
        if set(re.findall(WORDS, one.lower().replace("utc", ""))) - known
    ]


@functools.cache
def book(kind: str) -> Campaign:
    return loopback() if kind == "loopback" else campaign(CAMPAIGNS[kind])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["one run", "two points", "repeats of two configurations"])
def test_nothing_stays_english(kind: str, name: str) -> None:
    with text.speaking(made_up()):
        output = FUNCTIONS[name](book(kind))
        assert english(book(kind), output, all_words) == []


@pytest.mark.parametrize(
    "name",
    ["overview.glance", "setup.configurations", "trust.failures", "mixed.tail", "goodput.served",
     "confidence.repeats", "confidence.load_honesty", "engine_side.in_the_engine"],
)  # fmt: skip
def test_nothing_stays_english_of_the_shipped_campaign(name: str) -> None:
    with text.speaking(made_up()):
        assert english(loopback(), FUNCTIONS[name](loopback()), all_words) == []


def nodes() -> Campaign:
    return shipped("b300-two-nodes")


@pytest.mark.parametrize(
    "function",
    [appendix.settings, fabric.bytes_per_token, fabric.over_time,
     limit.beyond_slots, limit.cap, memory.fit, same_traffic.headroom, scale_out.more_nodes,
     stall_arithmetic.tail_range, token_cost.byte_formula],
)  # fmt: skip
def test_nothing_stays_english_of_links_and_limits(function: Callable[[Campaign], Any]) -> None:
    with text.speaking(made_up()):
        assert english(nodes(), function(nodes()), all_words) == []


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Campaign:
    """A campaign of a dump of each client, counter and engine, and of two thirds of each."""
    root, fixtures = tmp_path_factory.mktemp("dumps"), project_root / "tests" / "fixtures"
    for path in sorted(
        p for k in ("clients", "counters", "engine") for p in fixtures.glob(f"{k}/**/*")
    ):
        if path.is_file():
            content = path.read_bytes()
            for folder, part in (("whole", content), ("torn", content[: len(content) * 2 // 3])):
                copy = root / folder / path.relative_to(fixtures)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(part)
    (root / "campaign.yaml").write_text("servebook: 1\nname: dumps\n", encoding="utf-8")
    return load(root)


@pytest.mark.parametrize(
    "function",
    [appendix.findings, appendix.notes, fabric.watched, setup.runs, setup.workloads,
     trust.accounting, trust.clocks, trust.failures, trust_definitions.other_definitions],
)  # fmt: skip
def test_no_reason_stays_english(function: Callable[[Campaign], Any], dumps: Campaign) -> None:
    assert dumps.tables.refused.num_rows > 5
    with text.speaking(made_up()):
        assert english(dumps, function(dumps), all_words) == []


def test_the_measure_finds_what_is_english() -> None:
    one = book("one run")
    assert english(one, Figure(id="a", title="Nothing was translated", missing="x"))
    assert english(one, Figure(id="a", title="ｎ = 3, r, AIPerf, mixed", missing="x")) == []


def test_names_stay_in_files_whatever_the_language() -> None:
    plain = payload(mixed.tail(book("two points")))[1]["table"]["columns"]
    with text.speaking(made_up()):
        other = payload(mixed.tail(book("two points")))[1]["table"]["columns"]
    assert plain == other


def test_prose_of_another_language_names_cells_that_are_there(project_root: Path) -> None:
    cells = {
        f"{path.stem}.{cell['id']}"
        for path in (project_root / "notebooks").glob("*.ipynb")
        for cell in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["cells"]
        if cell["cell_type"] == "markdown"
    }
    for language in text.languages(project_root / "report" / "text"):
        prose = text.load(project_root / "report" / "text", language).group("prose")
        assert set(prose) <= cells, language


def told_by_a_diff() -> tuple[Side, Side, Difference]:
    """Two sides with a change of every kind, and what changed."""

    def side(name: str, rates: list[float], slots: int | None, said: tuple[str, ...]) -> Side:
        runs = [f"r{i}" for i in range(len(rates))]
        about = {"run": runs, "configuration": "decode", "workload": "mixed", "client": "AIPerf"}
        frame = pd.DataFrame(about | {"requests in flight": 4, "requests/s asked": 2.5})
        values = {"Run": runs, "Output throughput (tokens/s)": rates}
        settings = pd.DataFrame({"Setting": ["max_num_seqs", "nodes"], "decode": [slots, 1]})
        settings[name] = 1  # a configuration that this side has alone
        told = tuple({"id": f"f-{i}", "sentence": s, "value": None, "unit": "", "verdict": True}
                     for i, s in enumerate(said))  # fmt: skip
        return Side(name, name, "measured", told, settings, frame, pd.DataFrame(values), (),
                    names={"decode": "vllm"})  # fmt: skip

    one = side("aiperf", [100.0, 101.0, 99.0], 8, ("ttft", "itl 3", "tpot"))
    two = side("bench", [150.0, 151.0, 149.0], 9, ("tpot", "itl 4", "tpot"))
    one = dataclasses.replace(one, version="1", definitions={"ttft": "x"})
    two = dataclasses.replace(two, version="2", definitions={"ttft": "y"})
    two = dataclasses.replace(two, metrics=two.metrics.assign(**{"TPOT mean (ms)": 5.0}))
    second, matches = matched_sides(one, two)
    return one, second, difference(one, second, matches)


def all_words(output: Any) -> Iterator[str]:
    """What ``shown`` tells, notes, paragraphs and cells of tables with it."""
    _, fields = payload(output)
    yield from shown(output)
    yield from (*fields.get("notes", ()), *fields.get("paragraphs", ()))
    for row in (fields.get("table") or {}).get("text", ()):
        yield from row


def strays(lines: Iterable[str]) -> list[str]:
    """The lines with a word that is no name of any campaign."""
    return [one for one in lines if set(re.findall(WORDS, one.lower())) - NAMES]


@pytest.mark.parametrize("changed", [True, False])
def test_a_diff_stays_english_nowhere(changed: bool) -> None:
    with text.speaking(made_up()):
        one, two, found = told_by_a_diff()
        if not changed:
            two, found = one, difference(one, one)
        lines = [line for output in diff.outputs(one, two, found) for line in all_words(output)]
        terminal = diff_words.summary(one, two, found).splitlines()
    assert strays(lines) == []
    assert strays(terminal) == []
    assert strays(["beyond noise"]) == ["beyond noise"]


def test_the_tables_of_a_diff_are_the_same_in_every_language() -> None:
    _, _, plain = told_by_a_diff()
    with text.speaking(made_up()):
        _, _, other = told_by_a_diff()
    assert list(plain.findings["change"]) == list(other.findings["change"])
    assert "says something else" in set(plain.findings["change"])
    assert list(plain.results["noise"]) == list(other.results["noise"]) == ["beyond noise"]
