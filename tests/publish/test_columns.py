"""Wide tables: what is said once, what stands in bands, and that a browser finds room for it."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from selenium.webdriver.common.keys import Keys

from servebook.measure.metrics import METRICS
from servebook.publish.about import About
from servebook.publish.collect import chapter, collect
from servebook.publish.columns import laid_out
from servebook.publish.display import payload
from servebook.publish.files import csv_text
from servebook.publish.names import KINDS
from servebook.publish.output import Figure
from servebook.publish.page import render
from servebook.publish.tabular import table
from servebook.publish.text import folder, load

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver


def wide(rows: int = 5) -> pd.DataFrame:
    """Twenty-odd columns as in the appendix: a run, a client, families of percentiles."""
    at = np.arange(rows)
    return pd.DataFrame(
        {
            "Run": [f"raw/aiperf/one_node_mixed_c{n}" for n in at],
            "Client": "a client",
            "Why not": [None] * rows,
            **{
                f"{family} {which} (ms)": 1000.5 + (7 * at + n) % 10
                for family in ("TTFT", "TPOT", "Request latency", "ITL")
                for n, which in enumerate(("mean", "median", "p90", "p95", "p99", "max"))
            },
        }
    )


def test_a_column_of_one_value_is_said_once_and_a_wide_table_stands_in_bands() -> None:
    data = table(wide())
    laid = laid_out(data)
    assert laid.same == (("Client", "a client"),)
    assert laid.empty == ("Why not",)
    assert laid.hidden == {1, 2}
    assert laid.keys == (0,)
    assert len(laid.bands) > 1
    # A band begins with the run and with a family of metrics.
    begins = [data["columns"][band[1]] for band in laid.bands[1:]]
    assert begins
    assert all(name.endswith(" mean (ms)") for name in begins)


def test_values_that_are_shown_alike_are_not_said_to_be_the_same() -> None:
    frame = wide(2)
    frame["Client"] = [1.00001, 1.00002]
    data = table(frame)
    assert [row[1] for row in data["text"]] == ["1.000", "1.000"]
    assert laid_out(data).same == ()
    frame["Client"] = [1.00001, 1.00001]
    assert laid_out(table(frame)).same == (("Client", "1.000"),)


def test_a_narrow_table_stays_as_it_is() -> None:
    data = table(pd.DataFrame({"a": ["x", "y"], "same": [1, 1], "value": [1.5, 2.5]}))
    laid = laid_out(data)
    assert (laid.bands, laid.same, laid.empty, laid.many) == (((0, 1, 2),), (), (), False)


def test_columns_that_tell_rows_apart_begin_every_band() -> None:
    frame = wide(6)
    frame["Run"] = ["one"] * 4 + ["two"] * 2
    frame.insert(1, "Concurrency", [1, 2, 3, 4, 1, 2])
    laid = laid_out(table(frame))
    assert laid.keys == (0, 1)
    assert all(band[:2] == (0, 1) for band in laid.bands)
    frame["Concurrency"] = 1  # now nothing but measured values tells them apart
    assert len(laid_out(table(frame)).bands) == 1


@given(
    st.integers(0, 6),
    st.integers(1, 30),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.floats(50, 3000),
)
def test_every_column_stands_in_a_band_in_order(
    rows: int, columns: int, pattern: list[int], room: float
) -> None:
    cells = {
        f"c{at}": [pattern[(at * rows + n) % len(pattern)] for n in range(rows)]
        for at in range(columns)
    }
    laid = laid_out(table(pd.DataFrame(cells)), room)
    first, *others = laid.bands
    told = [*first, *(at for band in others for at in band[len(laid.keys) :])]
    assert told == list(range(columns))
    assert all(band[: len(laid.keys)] == laid.keys for band in others)
    assert 0 not in laid.hidden
    assert len(laid.same) + len(laid.empty) == len(laid.hidden)


def page_of(
    frame: pd.DataFrame, root: Path, language: str = "en", texts: Path | None = None
) -> str:
    _, fields = payload(Figure("wide", "Wide", table=frame, source="s", open_table=True))
    output = new_output("execute_result", data={KINDS["figure"]: fields, "text/plain": "x"})
    nb = new_notebook(cells=[new_markdown_cell("# T"), new_code_cell("x", outputs=[output])])
    path = SimpleNamespace(name="03-topic.ipynb", stem="03-topic")
    content = collect([chapter(nb, path, "c")])  # type: ignore[arg-type]
    facts = About("x", "X", "measured", "", (), (), {"servebook": "1"}, "c")
    template = (texts.parent if texts else root / "report") / "template"
    return render(content, facts, "", template, language)


def test_a_column_that_is_said_once_keeps_its_definition(project_root: Path) -> None:
    frame = wide().rename(columns={"Client": "ISL (tokens)", "Why not": "Lost"})
    page = page_of(frame.assign(**{"ISL (tokens)": 512, "Same": "x"}), project_root)
    said = re.findall(r'<p class="small same">.*?</p>', page, re.DOTALL)
    assert [re.sub(r"<.*?>", "", one) for one in said] == [
        "The same in every row: ISL (tokens): 512; Same: x.",
        "Without a value in every row (–): Lost.",
    ]
    told = [
        re.findall(r'<span class="meant" tabindex="0" title="(.*?)">(.*?)<', one) for one in said
    ]
    for name, [(meant, shown)] in zip(["ISL (tokens)", "Lost"], told, strict=True):
        assert shown == name
        head = re.search(rf'<th scope="col" hidden.*? title="([^"]*)">{re.escape(name)}</th>', page)
        assert head is not None, "what the column's head says"
        assert head[1].endswith(meant)


@pytest.mark.browser
def test_the_keyboard_is_told_what_a_name_above_a_table_means(
    browser: WebDriver, project_root: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    frame = wide().rename(columns={"Client": "ISL (tokens)"})
    page.write_text(page_of(frame, project_root), encoding="utf-8")
    browser.get(page.as_uri())
    name = browser.find_element("css selector", ".meant")
    told = "return getComputedStyle(document.querySelector('.meant'), '::after').content"
    assert browser.execute_script(told) == "none"
    browser.find_element("css selector", "#figure-wide .permalink").send_keys(Keys.TAB)
    assert browser.switch_to.active_element == name
    assert browser.execute_script(told) == f'"{name.get_attribute("title")}"'


@pytest.mark.browser
def test_a_wide_table_fits_sorts_as_one_and_is_copied_whole(
    browser: WebDriver, project_root: Path, tmp_path: Path
) -> None:
    frame = wide(9)
    page = tmp_path / "page.html"
    page.write_text(page_of(frame, project_root), encoding="utf-8")
    browser.get(page.as_uri())
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('#figure-wide .scroll')]"
        ".map((one) => [one.scrollWidth, one.clientWidth])"
    )
    assert len(sizes) == len(laid_out(table(frame)).bands)
    assert all(inside <= room + 1 for inside, room in sizes)
    said = [one.text for one in browser.find_elements("css selector", "#figure-wide .same")]
    assert said == [
        "The same in every row: Client: a client.",
        "Without a value in every row (–): Why not.",
    ]

    browser.execute_script(
        "window.copied = [];"
        "navigator.clipboard.writeText = async (text) => window.copied.push(text);"
    )

    def copied() -> list[list[str]]:
        buttons = browser.find_elements("css selector", "#figure-wide .tools button")
        (button,) = (one for one in buttons if "CSV" in one.text)
        before = len(browser.execute_script("return window.copied"))
        button.send_keys("\n")
        texts = browser.execute_script("return window.copied")
        assert len(texts) == before + 1
        return list(csv.reader(io.StringIO(texts[-1])))

    whole = list(csv.reader(io.StringIO(csv_text(table(frame)))))
    heads, *rows = copied()
    assert heads == whole[0]
    same = whole[1:]
    assert [row[:3] for row in rows] == [row[:3] for row in same]
    assert [list(map(float, row[3:])) for row in rows] == [
        list(map(float, row[3:])) for row in same
    ]
    # A column of the last band sorts all of them.
    last = browser.find_elements("css selector", "#figure-wide thead th")[-1]
    press = last.find_element("css selector", "button")
    meant = last.get_attribute("title")
    assert meant.startswith("ITL max: ")
    assert (
        press.get_attribute("title") == f"{meant}\n{press.get_attribute('title').split(chr(10))[1]}"
    )
    press.send_keys(" ")
    by_value = sorted(rows, key=lambda row: float(row[-1]))
    assert copied()[1:] == by_value
    first = browser.find_elements("css selector", "#figure-wide tbody th:not([data-again])")
    assert [one.get_attribute("textContent") for one in first] == [row[0] for row in by_value]


def test_units_in_cells_are_in_the_catalogue(project_root: Path, tmp_path: Path) -> None:
    english = load(folder()).texts
    assert [m.unit for m in METRICS.values() if f"units.{m.unit}" not in english] == []
    (tmp_path / "template").symlink_to(project_root / "report" / "template")
    (tmp_path / "text").mkdir()
    text = (folder() / "en.yaml").read_text(encoding="utf-8")
    (tmp_path / "text" / "en.yaml").write_text(text, encoding="utf-8")
    other = re.sub(r"(?m)^  tokens/s: tokens/s$", "  tokens/s: Token/s", text)
    (tmp_path / "text" / "de.yaml").write_text(other, encoding="utf-8")
    frame = pd.DataFrame({"metric": ["Output throughput"], "unit": ["tokens/s"]})
    page = page_of(frame, project_root, "de", tmp_path / "text")
    assert ">Token/s</td>" in page
    assert ">tokens/s</td>" not in page
