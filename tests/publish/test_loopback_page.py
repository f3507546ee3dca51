"""The shipped campaign's page, built twice the way a user does, from two copies of the project."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lxml import html

from servebook.publish.checks import MOST_BYTES, problems

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.slow

PARTS = ("data/loopback", "notebooks", "report/template", "report/text")
BUILDS = (
    ("one", {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}),
    ("another folder", {"TZ": "America/St_Johns", "LC_ALL": "C", "PYTHONHASHSEED": "2"}),
)


@pytest.fixture(scope="module")
def pages(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The page of each copy; the copies share neither folder nor cache nor environment."""
    built = []
    for name, variables in BUILDS:
        copy = tmp_path_factory.mktemp("clone") / name
        for part in PARTS:
            shutil.copytree(project_root / part, copy / part)
        cache = {"SERVEBOOK_CACHE": str(copy / "cache")}
        done = subprocess.run(
            [sys.executable, "-m", "servebook", "build"],
            cwd=copy,
            env={**os.environ, **variables, **cache},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        built.append(copy / "report" / "loopback.html")
    return built


def test_two_clones_give_the_same_bytes(pages: list[Path]) -> None:
    assert len({hashlib.sha256(page.read_bytes()).hexdigest() for page in pages}) == 1
    first, second = (page.with_suffix("") for page in pages)
    for path in sorted(first.rglob("*.*")):
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path.name


def test_the_page_is_sound(pages: list[Path]) -> None:
    text = pages[0].read_text()
    assert problems(text, [str(page.parents[1]) for page in pages]) == []
    assert len(text.encode()) <= MOST_BYTES
    assert text.count("<figure ") > 30


@pytest.fixture(scope="module")
def look() -> Any:
    """The helpers of the toy page's browser tests."""
    path = Path(__file__).with_name("test_page_in_browser.py")
    spec = importlib.util.spec_from_file_location("page_in_browser", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 400])
def test_every_chart_turns_interactive_without_a_request(
    open_browser: Callable[..., WebDriver], pages: list[Path], look: Any, width: int
) -> None:
    driver = open_browser(width=width)
    charts = pages[0].read_text().count('role="img"')
    assert charts > 20
    assert look.settle(driver, pages[0], charts) == ["interactive"] * charts
    assert driver.get_log("browser") == []
    assert look.requested(driver) == {pages[0].as_uri()}
    metrics = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})
    assert metrics["cssContentSize"]["width"] <= width


TIMELINE = "#figure-mixed-engine-timeline"
TICKS = f"""
return [...document.querySelectorAll("{TIMELINE} .live .role-axis-label text")]
  .map((one) => one.textContent).filter(Boolean).join(" ")"""
TURN = f"""
const box = document.querySelector("{TIMELINE} .live svg").getBoundingClientRect();
const at = {{clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}};
document.elementFromPoint(at.clientX, at.clientY).dispatchEvent(new WheelEvent("wheel",
  {{deltaY: -400, ctrlKey: arguments[0], bubbles: true, cancelable: true, ...at}}));"""


@pytest.mark.browser
def test_the_timeline_shows_the_run_that_is_chosen_and_zooms(
    browser: WebDriver, pages: list[Path], look: Any
) -> None:
    watch_the_timeline(browser, pages[0], look)


def watch_the_timeline(driver: WebDriver, page: Path, look: Any) -> None:
    def ticks(other_than: str) -> str:
        deadline = time.monotonic() + 20
        while (text := str(driver.execute_script(TICKS))) == other_than:
            if time.monotonic() > deadline:
                return text
            time.sleep(0.1)
        return text

    look.settle(driver, page, page.read_text().count('role="img"'))
    figure = driver.find_element("css selector", TIMELINE)
    live = figure.find_element("css selector", ".live svg")
    driver.execute_script(
        "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", live
    )
    chosen = figure.find_element("css selector", "select")
    names = [one.text for one in chosen.find_elements("css selector", "option")]
    assert len(names) == len(set(names)) > 2
    first = ticks("")
    driver.execute_script(TURN, False)  # the wheel alone scrolls the page
    time.sleep(0.5)
    assert driver.execute_script(TICKS) == first
    driver.execute_script(TURN, True)
    assert ticks(first) != first
    chosen.find_elements("css selector", "option")[1].click()
    second = ticks(first)
    assert second not in ("", first)
    chosen.find_elements("css selector", "option")[0].click()
    assert ticks(second) == first  # back, and the zoom is gone


RINGED = """
return [...document.querySelectorAll("path.linked")].map((one) =>
  [one.closest("figure").id, one.__data__.datum.concurrency])"""


@pytest.mark.browser
def test_points_of_one_condition_answer_one_another_and_pictures_are_saved(
    open_browser: Callable[..., WebDriver], pages: list[Path], look: Any, tmp_path: Path
) -> None:
    driver = open_browser()
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    look.settle(driver, pages[0], pages[0].read_text().count('role="img"'))
    watch_the_rings(driver)
    watch_the_rows(driver)
    save_a_picture_of_each_kind(driver, tmp_path)
    assert look.requested(driver) == {pages[0].as_uri()}


def watch_the_rings(driver: WebDriver) -> None:
    """Throughput and latency of a workload show the same condition: where one is, the other is."""
    from selenium.webdriver import ActionChains

    for workload, other in (("prefill", "ttft"), ("decode", "tpot")):
        name = f"figure-{workload}-throughput"
        plot = driver.find_element("css selector", f"#{name} .live")
        driver.execute_script(
            "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", plot
        )
        points = plot.find_elements("css selector", ".mark-symbol.role-mark path")
        rings: list[list[Any]] = []
        for point in points[:6]:
            ActionChains(driver).move_to_element(point).perform()
            time.sleep(0.2)
            if rings := driver.execute_script(RINGED):
                break
        figures = {figure for figure, _ in rings}
        assert {name, f"figure-{workload}-{other}"} <= figures
        assert len({concurrency for _, concurrency in rings}) == 1
        ActionChains(driver).move_to_element(
            driver.find_element("css selector", f"#{name} h3")
        ).perform()


def watch_the_rows(driver: WebDriver) -> None:
    """A condition that is a row of several figures, in other chapters as well."""
    from selenium.webdriver import ActionChains

    plot = driver.find_element("css selector", "#figure-mixed-tail .live")
    driver.execute_script(
        "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", plot
    )
    ActionChains(driver).move_to_element(
        plot.find_element("css selector", ".mark-symbol.role-mark path")
    ).perform()
    time.sleep(0.3)
    figures = {figure for figure, _ in driver.execute_script(RINGED)}
    others = {"figure-mixed-stall-control", "figure-stall-hidden-tail"}
    assert figures == {"figure-mixed-tail", *others}


def save_a_picture_of_each_kind(driver: WebDriver, folder: Path) -> None:
    bar = driver.find_element("css selector", "#figure-decode-throughput .tools")
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        bar.find_element("xpath", f".//button[text()='Download {kind}']").send_keys("\n")
        path = folder / f"decode-throughput.{kind.lower()}"
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.2)
        assert path.read_bytes().startswith(start)
        assert path.stat().st_size > 5_000


FOCUSED = """
window.walked = [];
document.addEventListener("focusin", (event) => window.walked.push(event.target));
window.stops = [...document.querySelectorAll("a[href], button, select, summary, [tabindex='0']")]
  .filter((one) => one.checkVisibility({visibilityProperty: true}));
"""
WALKED = """
return window.walked.map((one) => {
  const named = one.getAttribute("aria-labelledby");
  const name = one.getAttribute("aria-label")
    || (named && document.getElementById(named).textContent) || one.textContent;
  return [window.stops.indexOf(one), one.outerHTML.slice(0, 120), name.trim() !== ""];
});"""
TAB = {"type": "rawKeyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}


@pytest.mark.browser
def test_the_keyboard_walks_all_of_the_page_in_its_order(
    browser: WebDriver, pages: list[Path], look: Any
) -> None:
    look.settle(browser, pages[0], pages[0].read_text().count('role="img"'))
    arrived(browser)
    browser.execute_script("document.activeElement.blur(); window.scrollTo({top: 0})")
    browser.execute_script(FOCUSED)
    stops = browser.execute_script("return window.stops.length")
    for _ in range(stops + 20):
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", TAB)
    walked = browser.execute_script(WALKED)
    first = [place for place, *_ in walked].index(0)
    once = walked[first : first + stops]
    assert [place for place, *_ in once] == list(range(stops))
    assert [html for _, html, named in once if not named] == []
    figures = pages[0].read_text().count("<figure ")
    assert sum("permalink" in html for _, html, _ in once) == figures > 30


def arrived(driver: WebDriver) -> None:
    """Wait until the tables have their buttons, which come when there is nothing else to do."""
    waiting = """
    return [...document.querySelectorAll("main table")].some((one) =>
      one.tHead && one.tBodies[0].rows.length > 1 && !one.querySelector(".sort"))"""
    deadline = time.monotonic() + 60
    while driver.execute_script(waiting) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not driver.execute_script(waiting)


PLACES = """
return [...document.querySelectorAll("figure, h2, .statement")].map((one) =>
  one.getBoundingClientRect().top + window.scrollY)"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 1000])
def test_nothing_moves_from_the_load_event_on(
    open_browser: Callable[..., WebDriver], pages: list[Path], look: Any, width: int
) -> None:
    driver = open_browser(width=width)
    driver.get(pages[0].as_uri())
    before = driver.execute_script(PLACES)
    arrived(driver)
    assert driver.execute_script(PLACES) == before
    look.settle(driver, pages[0], pages[0].read_text().count('role="img"'))
    after = driver.execute_script(PLACES)
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) <= 2


@pytest.fixture(scope="module")
def tree(pages: list[Path]) -> Any:
    """The page as a tree of elements."""
    return html.document_fromstring(
        pages[0].read_bytes(), parser=html.HTMLParser(encoding="utf-8", huge_tree=True)
    )


def squeezed(text: str) -> str:
    """The text without white space: lines break elsewhere on paper."""
    return "".join(text.split())


@pytest.mark.browser
def test_paper_holds_every_title_and_every_number_of_every_table(
    open_browser: Callable[..., WebDriver],
    pages: list[Path],
    tree: Any,
    look: Any,
    tmp_path: Path,
) -> None:
    """Without scripts, so that nothing but the style unfolds what is folded."""
    if (reader := shutil.which("pdftotext")) is None:
        pytest.skip("no pdftotext to read the paper with (Debian: apt install poppler-utils)")
    driver = open_browser(javascript=False)
    driver.get(pages[0].as_uri())
    pdf = tmp_path / "page.pdf"
    pdf.write_bytes(look.printed(driver))
    command = [reader, "-raw", str(pdf), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    whole, words = squeezed(text), set(text.split())
    titles = [squeezed(one.text_content()) for one in tree.iter("h1", "h2", "h3")]
    assert len(titles) > 50
    assert [title for title in titles if title not in whole] == []
    cells = [one.text_content() for one in tree.xpath("//td[@class='n']")]
    numbers = {word for cell in cells for word in cell.split()}
    assert len(numbers) > 1000
    assert sorted(numbers - words) == []
    labels = {
        squeezed(label) for label in tree.xpath("//*[@role='img']//*[local-name()='text']/text()")
    }
    assert sum(label in whole for label in labels) > 0.95 * len(labels)


@pytest.mark.browser
def test_without_javascript_every_drawing_table_and_fold_is_there(
    open_browser: Callable[..., WebDriver], pages: list[Path], tree: Any
) -> None:
    driver = open_browser(javascript=False)
    driver.get(pages[0].as_uri())
    assert driver.find_elements("css selector", "button, input, select") == []
    drawings = driver.find_elements("css selector", "figure .plot[role=img] > svg")
    sizes = [(one.get("width"), one.get("height")) for one in tree.xpath("//*[@role='img']/*")]
    assert len(drawings) == len(sizes) > 20
    room = max(one.size["width"] for one in drawings)
    for drawing, (width, height) in zip(drawings, sizes, strict=True):
        shrunk = min(1, room / float(width))
        assert drawing.size["width"] == pytest.approx(shrunk * float(width), abs=1)
        assert drawing.size["height"] == pytest.approx(shrunk * float(height), abs=1)
    assert len(driver.find_elements("css selector", "table")) == len(tree.xpath("//table"))
    folds = driver.find_elements("css selector", "details.data > summary")
    folds[-1].send_keys("\n")
    rows = folds[-1].find_elements("xpath", "../*//tbody/tr")
    assert rows[0].is_displayed()
    assert rows[-1].is_displayed()


@pytest.mark.browser
def test_a_mail_program_that_drops_scripts_and_styles_shows_all_of_it(
    open_browser: Callable[..., WebDriver], pages: list[Path], tmp_path: Path
) -> None:
    """Previews keep elements and their text, and neither scripts nor styles nor folding."""
    source = pages[0].read_bytes()
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
    stripped = html.document_fromstring(source, parser=parser)
    for node in stripped.xpath("//script | //style | //meta[@http-equiv]"):
        node.drop_tree()
    for node in stripped.xpath("//*[@style or @class]"):
        node.attrib.pop("style", None)
        node.attrib.pop("class", None)
    titles = [one.text_content() for one in stripped.iter("h1", "h2", "h3")]
    sentences = stripped.xpath("//*[@id='verdict']//li/div/p[1]")
    preview = tmp_path / "preview.html"
    preview.write_bytes(html.tostring(stripped, encoding="utf-8", doctype="<!doctype html>"))
    driver = open_browser()
    driver.get(preview.as_uri())
    shown = squeezed(driver.execute_script("return document.body.innerText"))
    assert [title for title in titles if squeezed(title) not in shown] == []
    places = [shown.index(squeezed(one.text_content())) for one in sentences]
    assert 3 <= len(places) <= 7
    assert places == sorted(places)
    assert places[-1] < shown.index(squeezed(titles[2]))  # the findings come before all chapters
    drawings = driver.find_elements("css selector", "[role=img] > svg")
    assert len(drawings) > 20
    assert all(one.size["width"] > 200 and one.size["height"] > 50 for one in drawings)
    start = source[:8192].decode(errors="ignore")
    assert all(squeezed(one.text_content())[:40] in squeezed(unescape(start)) for one in sentences)
