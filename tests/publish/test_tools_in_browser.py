"""The page's buttons in Chromium: CSV, SVG, PNG, links, sorting; and linked points."""

from __future__ import annotations

import csv
import io
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: WebDriver, toy_page: Path, tmp_path: Path) -> WebDriver:
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    browser.get(toy_page.as_uri())
    return browser


def interactive(driver: WebDriver, name: str) -> WebElement:
    figure = driver.find_element("id", f"figure-{name}")
    driver.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", figure)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if driver.execute_script(
            "return ['throughput', 'latency']"
            ".map((name) => document.querySelector(`#figure-${name} .plot`))"
            ".every((plot) => plot.dataset.state === 'interactive')"
        ):
            return figure
        time.sleep(0.2)
    raise AssertionError(f"{name} did not turn interactive")


def press(figure: WebElement, text: str) -> None:
    buttons = [b for b in figure.find_elements("css selector", ".tools button") if b.text == text]
    assert len(buttons) == 1
    buttons[0].send_keys("\n")


def told(figure: WebElement) -> str:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if text := figure.find_element("css selector", ".tools [role=status]").text:
            return text
        time.sleep(0.1)
    return ""


def arrived(folder: Path, name: str) -> bytes:
    deadline = time.monotonic() + 20
    while not (folder / name).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)
    return (folder / name).read_bytes()


def test_a_table_is_copied_as_csv_with_its_full_values(page: WebDriver) -> None:
    page.execute_script(
        "window.copied = [];"
        "navigator.clipboard.writeText = async (text) => window.copied.push(text);"
    )
    figure = page.find_element("id", "figure-throughput")
    press(figure, "Copy table as CSV")
    assert told(figure) == "Copied: 12 rows."
    rows = page.execute_script("return window.copied")[0].rstrip("\n").split("\n")
    assert rows[0] == "Configuration,Concurrency,Output (tokens/s)"
    assert rows[6] == "one node,32,1352.12"  # the page shows 1,352
    # What is not known is empty, never 0; a name with quotes and commas is one field.
    assert rows[-1].endswith(",32,")
    assert len(rows) == 13


FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "=cmd|' /C calc'!A0", '-x","y')


def test_a_name_that_a_spreadsheet_would_run_is_copied_as_text(page: WebDriver) -> None:
    page.execute_script(
        """
        window.copied = [];
        navigator.clipboard.writeText = async (text) => window.copied.push(text);
        const rows = document.querySelector("#figure-throughput table").tBodies[0].rows;
        arguments[0].forEach((text, i) => (rows[i].cells[0].textContent = text));
        rows[0].cells[2].removeAttribute("data-v");
        rows[0].cells[2].textContent = "\u22125.2";
        """,
        FORMULAS,
    )
    press(page.find_element("id", "figure-throughput"), "Copy table as CSV")
    assert told(page.find_element("id", "figure-throughput")) == "Copied: 12 rows."
    text = page.execute_script("return window.copied")[0]
    rows = list(csv.reader(io.StringIO(text)))
    assert [row[0] for row in rows[1:7]] == [f"'{name}" for name in FORMULAS]
    assert rows[1][2] == "-5.2"  # a number below zero is no formula


def test_without_a_clipboard_the_page_copies_by_selection(page: WebDriver) -> None:
    page.execute_script(
        "window.copied = [];"
        "navigator.clipboard.writeText = async () => { throw new Error('refused'); };"
        "document.execCommand = () => window.copied.push(document.activeElement.value);"
    )
    figure = page.find_element("id", "figure-throughput")
    press(figure, "Copy table as CSV")
    assert told(figure) == "Copied: 12 rows."
    assert page.execute_script("return window.copied")[0].startswith("Configuration,")
    assert page.find_elements("css selector", "textarea") == []


@pytest.mark.parametrize("live", [False, True])
def test_a_chart_is_saved_as_svg_with_its_words(
    page: WebDriver, tmp_path: Path, live: bool
) -> None:
    figure = (
        interactive(page, "throughput") if live else page.find_element("id", "figure-throughput")
    )
    press(figure, "Download SVG")
    assert told(figure) == "Saved as throughput.svg."
    root = ElementTree.fromstring(arrived(tmp_path, "throughput.svg"))
    text = " ".join("".join(root.itertext()).split())
    for words in (
        "One node is faster",
        "both axes logarithmic",
        "measured: records",
        "Concurrency",
    ):
        assert words.replace(" ", "") in text.replace(" ", "")
    assert float(root.attrib["width"]) > 640
    assert not [node for node in root.iter() if node.tag.endswith(("script", "foreignObject"))]


def test_a_chart_is_saved_as_png(page: WebDriver, tmp_path: Path) -> None:
    figure = page.find_element("id", "figure-throughput")
    press(figure, "Download PNG")
    assert told(figure) == "Saved as throughput.png."
    data = arrived(tmp_path, "throughput.png")
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width > 1280
    assert height > 600
    assert page.get_log("browser") == []


def test_every_figure_has_a_link_to_itself(page: WebDriver) -> None:
    figures = page.find_elements("css selector", "figure")
    for figure in figures:
        link = figure.find_element("css selector", "a.permalink")
        assert link.get_attribute("href").endswith(f"#{figure.get_attribute('id')}")
    figures[-1].find_element("css selector", "a.permalink").send_keys("\n")
    assert page.execute_script("return location.hash") == f"#{figures[-1].get_attribute('id')}"


def column(figure: WebElement, n: int) -> list[str]:
    cells = figure.find_elements("css selector", f"tbody tr > :nth-child({n})")
    return [cell.get_attribute("textContent") or "" for cell in cells]


def test_a_table_sorts_by_the_keyboard_up_down_and_back(page: WebDriver) -> None:
    figure = page.find_element("id", "figure-throughput")
    page.execute_script("arguments[0].open = true", figure.find_element("css selector", "details"))
    head = figure.find_elements("css selector", "thead th")[2]
    before = column(figure, 3)
    seen = {}
    assert head.get_attribute("aria-sort") == "none"
    for _ in range(3):
        head.find_element("css selector", "button").send_keys(" ")
        seen[head.get_attribute("aria-sort")] = column(figure, 3)
    values = [float(text.replace(",", "")) for text in before if text != "–"]
    assert seen["none"] == before
    for order, back in (("ascending", False), ("descending", True)):
        shown = seen[order]
        assert shown[-1] == "–"  # what is not known stays at the end
        numbers = [float(text.replace(",", "")) for text in shown[:-1]]
        assert numbers == sorted(values, reverse=back)


def test_a_point_is_ringed_in_all_charts_that_show_it(page: WebDriver) -> None:
    from selenium.webdriver import ActionChains

    interactive(page, "latency")
    figure = interactive(page, "throughput")
    points = figure.find_elements("css selector", ".mark-symbol path")
    ActionChains(page).move_to_element(points[2]).perform()
    time.sleep(0.3)
    ringed = page.execute_script(
        "return [...document.querySelectorAll('path.linked')].map("
        "(p) => [p.closest('figure').id, p.__data__.datum.series, p.__data__.datum.concurrency])"
    )
    assert len(ringed) == 3  # one chart, and a figure of two panels
    assert {name for name, *_ in ringed} == {"figure-throughput", "figure-latency"}
    assert len({tuple(rest) for _, *rest in ringed}) == 1
    assert [c.text for c in page.find_elements("css selector", ".chip")] == ["391", "391"]
    ActionChains(page).move_to_element(figure.find_element("css selector", "h3")).perform()
    time.sleep(0.3)
    assert page.find_elements("css selector", ".linked, .chip") == []


def test_paper_and_a_page_without_scripts_have_no_buttons(
    open_browser: Callable[..., WebDriver], toy_page: Path
) -> None:
    still = open_browser(javascript=False)
    still.get(toy_page.as_uri())
    assert still.find_elements("css selector", "button, select") == []
    paper = open_browser()
    paper.get(toy_page.as_uri())
    media: dict[str, Any] = {"media": "print"}
    paper.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    hidden = ".tools, .permalink, .zoom"
    shown = [one for one in paper.find_elements("css selector", hidden) if one.is_displayed()]
    assert shown == []
