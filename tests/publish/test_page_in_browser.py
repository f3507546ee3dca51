"""The finished page in headless Chromium, where no name resolves."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.browser

CHARTS = 3


def settle(driver: WebDriver, page: Path, charts: int = CHARTS) -> list[str]:
    """Open the page, scroll through it and wait until its charts are drawn anew."""
    driver.get(page.as_uri())
    height = driver.execute_script("return document.documentElement.scrollHeight")
    for top in range(0, height, 700):
        driver.execute_script(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        time.sleep(0.05)
    deadline = time.monotonic() + 60
    states: list[str] = []
    while time.monotonic() < deadline:
        states = driver.execute_script(
            "return [...document.querySelectorAll('.plot')].map(p => p.dataset.state || 'waiting')"
        )
        if len(states) == charts and "waiting" not in states:
            break
        time.sleep(0.2)
    return states


def requested(driver: WebDriver) -> set[str]:
    urls = set()
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.add(message["params"]["request"]["url"].partition("#")[0])
    return {url for url in urls if not url.startswith(("data:", "chrome", "about:"))}


def test_charts_turn_interactive_and_nothing_is_requested(
    browser: WebDriver, toy_page: Path
) -> None:
    assert settle(browser, toy_page) == ["interactive"] * CHARTS
    assert browser.get_log("browser") == []
    assert requested(browser) == {toy_page.as_uri()}
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return document.querySelectorAll('.plot svg.marks').length") == 3


def test_hostile_names_show_as_text_and_do_nothing(browser: WebDriver, toy_page: Path) -> None:
    settle(browser, toy_page)
    assert browser.execute_script("return window.planted") is None
    assert browser.execute_script("return document.images.length") == 0
    text = browser.execute_script("return document.body.innerText")
    assert "</script><script>window.planted=1</script>" in text


def test_the_swap_moves_nothing(browser: WebDriver, toy_page: Path) -> None:
    places = "return [...document.querySelectorAll('figure')].map(f => f.offsetTop)"
    browser.get(toy_page.as_uri())
    before = browser.execute_script(places)
    settle(browser, toy_page)
    after = browser.execute_script(places)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 2


def test_a_tooltip_is_text(browser: WebDriver, toy_page: Path) -> None:
    from selenium.webdriver import ActionChains

    settle(browser, toy_page)
    points = browser.find_elements("css selector", "#figure-throughput .mark-symbol path")
    ActionChains(browser).move_to_element(points[-1]).perform()
    time.sleep(0.3)
    tip = browser.find_element("id", "vg-tooltip-element")
    assert "onerror" in tip.text
    assert tip.find_elements("tag name", "img") == []
    assert browser.execute_script("return window.planted") is None


@pytest.mark.parametrize("javascript", [True, False])
def test_a_phone_needs_no_sideways_scrolling(
    open_browser: Callable[..., WebDriver], toy_page: Path, javascript: bool
) -> None:
    driver = open_browser(width=400, height=800, javascript=javascript)
    if javascript:
        assert settle(driver, toy_page) == ["interactive"] * CHARTS
    else:
        driver.get(toy_page.as_uri())
    metrics = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})
    assert metrics["cssContentSize"]["width"] <= metrics["cssLayoutViewport"]["clientWidth"] <= 400
    if javascript:
        wide = driver.execute_script(
            "return [...document.querySelectorAll('.plot')].map(p => p.scrollWidth - p.clientWidth)"
        )
        assert max(wide) <= 1


def test_without_javascript_drawings_and_tables_are_there(
    open_browser: Callable[..., WebDriver], toy_page: Path
) -> None:
    driver = open_browser(javascript=False)
    driver.get(toy_page.as_uri())
    plots = driver.find_elements("css selector", "figure .plot[role=img][aria-label] > svg")
    assert len(plots) == CHARTS
    assert all(plot.size["width"] > 600 and plot.size["height"] > 150 for plot in plots)
    assert len(driver.find_elements("css selector", "figure table")) == CHARTS + 1
    assert driver.find_elements("css selector", "button, input, select") == []


def printed(driver: WebDriver) -> bytes:
    options: dict[str, Any] = {"printBackground": True, "preferCSSPageSize": True}
    return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", options)["data"])


@pytest.mark.parametrize("javascript", [True, False])
def test_paper_holds_every_figure_and_table(
    open_browser: Callable[..., WebDriver], toy_page: Path, tmp_path: Path, javascript: bool
) -> None:
    driver = open_browser(javascript=javascript)
    driver.get(toy_page.as_uri())
    pdf = tmp_path / "page.pdf"
    pdf.write_bytes(printed(driver))
    assert pdf.read_bytes().startswith(b"%PDF")
    if (reader := shutil.which("pdftotext")) is None:
        pytest.skip("no pdftotext to read the paper with (Debian: apt install poppler-utils)")
    text = subprocess.run(
        [reader, "-layout", str(pdf), "-"], capture_output=True, text=True, check=True
    ).stdout
    for part in ("One node is faster", "Two panels share", "Weights take", "All values", "run 99"):
        assert part in text
    assert "1,352" in text  # in a table that is folded on the screen
    assert "b" * 20 in text.replace("\n", "")  # the hash of an input


def test_keyboard_reaches_the_findings_first(browser: WebDriver, toy_page: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.get(toy_page.as_uri())
    ActionChains(browser).send_keys(Keys.TAB).perform()
    link = browser.switch_to.active_element
    assert link.text == "Skip to the findings"
    assert link.rect["x"] >= 0
    roles = browser.execute_script(
        "return ['header', 'nav[aria-label]', 'main', 'footer']"
        ".map(q => document.querySelectorAll(q).length)"
    )
    assert roles == [1, 1, 1, 1]


def test_dark_text_stays_readable(browser: WebDriver, toy_page: Path) -> None:
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    browser.get(toy_page.as_uri())
    ink, paper = browser.execute_script(
        "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    )

    def light(colour: str) -> float:
        values = [int(v) / 255 for v in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    assert (light(ink) + 0.05) / (light(paper) + 0.05) >= 7
