"""A page while it arrives: chapters ahead of the reader are skipped, then laid out one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.browser

#: Steps are kept until a test takes them, so that the half second lasts as long as it looks; and by
#: this clock each chapter takes long.
HELD = """
window.steps = [];
let now = 0;
performance.now = () => (now += 100);
const postTask = (step) => window.steps.push(step);
Object.defineProperty(window, "scheduler", { value: { postTask: postTask } });
"""
STATE = """
const root = document.documentElement;
const chapters = [...document.querySelectorAll(".chapter")];
const seen = (one) => one.lastElementChild.checkVisibility({ contentVisibilityAuto: true });
return { arriving: root.classList.contains("arriving"), there: chapters.map(seen) };
"""
NAMES = "return [...document.querySelectorAll('.chapter')].map((one) => one.className)"
ARRIVED = "return !document.documentElement.classList.contains('arriving')"
PLACES = """
return [...document.querySelectorAll("figure, h2, h3, table, footer")]
  .map((one) => one.getBoundingClientRect().top + window.scrollY);
"""
ON_SCREEN = """
return [...document.querySelectorAll("body *")].map((one) => one.getBoundingClientRect())
  .filter((box) => box.top < window.innerHeight).map((box) => [box.left, box.top, box.width]);
"""


def until(driver: WebDriver, script: str) -> Any:
    deadline = time.monotonic() + 30
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < deadline, script
        time.sleep(0.02)
    return found


def opened(driver: WebDriver, page: Path, before: str = HELD) -> None:
    """Open the page with a script that runs before its own, and wait for the load event alone."""
    made = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": before})
    driver.execute_cdp_cmd("Page.navigate", {"url": page.as_uri()})
    until(driver, "return location.protocol === 'file:' && document.readyState === 'complete'")
    driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


@pytest.fixture
def low(open_browser: Callable[..., WebDriver]) -> WebDriver:
    """A window so low that a short page has chapters far below it."""
    return open_browser(width=1000, height=200)


@pytest.fixture
def places(low: WebDriver, toy_page: Path) -> list[float]:
    """Where everything stands on a page that has arrived."""
    low.get(toy_page.as_uri())
    return list(low.execute_script(PLACES))


def test_a_chapter_that_takes_long_is_laid_out_in_a_task_of_its_own(
    low: WebDriver, toy_page: Path, places: list[float]
) -> None:
    opened(low, toy_page)
    until(low, "return window.steps.length")
    state = low.execute_script(STATE)
    on_screen = low.execute_script(ON_SCREEN)
    assert state["arriving"]
    assert not state["there"][-1]  # else this page shows nothing of what is tested here
    names = low.execute_script(NAMES)
    for n in range(1, len(names) + 1):
        assert low.execute_script("return window.steps.length") == 1
        low.execute_script("window.steps.shift()()")
        state = low.execute_script(STATE)
        assert state["arriving"]
        assert all(state["there"][:n])
        assert low.execute_script(ON_SCREEN) == on_screen
    low.execute_script("window.steps.shift()()")
    assert not low.execute_script(STATE)["arriving"]
    assert low.execute_script("return window.steps.length") == 0
    assert low.execute_script(ON_SCREEN) == on_screen
    assert low.execute_script(PLACES) == places
    assert low.execute_script(NAMES) == names == ["chapter", "chapter", "chapter closing"]
    assert low.execute_script("return document.querySelectorAll('link').length") == 0


def test_chapters_that_take_no_time_share_a_task(
    low: WebDriver, toy_page: Path, places: list[float]
) -> None:
    opened(low, toy_page, HELD.replace("(now += 100)", "0"))
    until(low, "return window.steps.length")
    low.execute_script("window.steps.shift()()")
    assert low.execute_script(ARRIVED)
    assert low.execute_script(PLACES) == places
    assert low.execute_script("return performance.getEntriesByName('arrived').length") == 1


def key(name: str) -> Callable[[WebDriver], None]:
    def press(driver: WebDriver) -> None:
        from selenium.webdriver import ActionChains, Keys

        ActionChains(driver).send_keys(getattr(Keys, name)).perform()

    return press


def turned(driver: WebDriver) -> None:
    wheel = {"type": "mouseWheel", "x": 100, "y": 100, "deltaX": 0, "deltaY": 300}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", wheel)


def script(text: str) -> Callable[[WebDriver], None]:
    return lambda driver: driver.execute_script(text)


def printed(driver: WebDriver) -> None:
    driver.execute_cdp_cmd("Page.printToPDF", {})


@pytest.mark.parametrize(
    "go",
    [
        pytest.param(key("END"), id="end"),
        pytest.param(key("TAB"), id="tab"),
        pytest.param(turned, id="wheel"),
        pytest.param(script("document.querySelector('nav li:last-child a').click()"), id="link"),
        pytest.param(script("document.querySelector('.closing summary').focus()"), id="focus"),
        pytest.param(script("window.scrollTo(0, 10)"), id="scroll"),
        pytest.param(script("location.hash = '#provenance'"), id="address"),
        pytest.param(printed, id="print"),
    ],
)
def test_who_goes_anywhere_gets_everything_at_once(
    low: WebDriver, toy_page: Path, places: list[float], go: Callable[[WebDriver], None]
) -> None:
    opened(low, toy_page)
    until(low, "return window.steps.length")
    assert low.execute_script(STATE)["arriving"]
    go(low)
    until(low, ARRIVED)
    assert low.execute_script(PLACES) == pytest.approx(places)
    low.execute_script("for (const step of window.steps) step()")  # a step that was on its way
    assert low.execute_script("return document.querySelectorAll('.laid').length") == 0
    assert low.execute_script(PLACES) == pytest.approx(places)


@pytest.mark.parametrize("at", ["end", "link", "address"])
def test_who_goes_somewhere_comes_there(low: WebDriver, toy_page: Path, at: str) -> None:
    still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    low.execute_cdp_cmd("Emulation.setEmulatedMedia", still)
    opened(low, toy_page)
    until(low, "return window.steps.length")
    if at == "end":
        key("END")(low)
        until(low, "return window.scrollY + innerHeight >= document.body.scrollHeight - 1")
        return
    link = "[...document.querySelectorAll('nav a')].at(-2)"
    low.execute_script(f"{link}.click()" if at == "link" else f"location.hash = {link}.hash")
    until(low, ARRIVED)
    top = "document.querySelector(':target').getBoundingClientRect().top"
    until(low, f"return document.querySelector(':target') && Math.abs({top} - 24) < 1")


@pytest.mark.parametrize("way", ["figure", "again", "words"])
def test_a_page_that_is_not_opened_at_its_top_skips_nothing(
    low: WebDriver, toy_page: Path, way: str
) -> None:
    if way == "again":
        low.get(toy_page.as_uri())
    low.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HELD})
    if way == "again":
        low.refresh()
    else:
        part = {"figure": "figure-throughput", "words": ":~:text=Constant%20numbers"}[way]
        low.get(f"{toy_page.as_uri()}#{part}")
    state = low.execute_script(STATE)
    assert not state["arriving"]
    assert all(state["there"])
    assert low.execute_script("return window.steps.length") == 0


@pytest.mark.parametrize(
    "lacking",
    [
        "delete window.scheduler; Object.defineProperty(window, 'scheduler', { value: undefined })",
        "window.requestAnimationFrame = () => 0",  # as in a window that nobody looks at
    ],
    ids=["scheduler", "frames"],
)
def test_all_arrives_without(
    low: WebDriver, toy_page: Path, places: list[float], lacking: str
) -> None:
    opened(low, toy_page, lacking)
    until(low, ARRIVED)
    assert low.execute_script(PLACES) == places


@pytest.fixture
def slow(toy_page: Path) -> Iterator[str]:
    """An address where the page comes up to its first chapter, and the rest two seconds later."""
    body = toy_page.read_bytes()
    half = body.index(b'<section class="chapter"')

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:half])
            time.sleep(2)
            self.wfile.write(body[half:])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page.html"
        server.shutdown()


TIMES = """
const [paint] = performance.getEntriesByName("first-contentful-paint");
const [page] = performance.getEntriesByType("navigation");
return paint && { painted: paint.startTime, begun: page.responseStart, there: page.responseEnd };
"""


@pytest.mark.parametrize("javascript", [True, False])
def test_a_page_that_comes_slowly_is_painted_as_it_comes(
    open_browser: Callable[..., WebDriver], slow: str, javascript: bool
) -> None:
    driver = open_browser(javascript=javascript)
    driver.get(slow)
    times = until(driver, TIMES)
    assert times["there"] - times["begun"] >= 1500  # else it did not come slowly
    assert times["painted"] < times["there"]
    assert driver.execute_script(STATE)["there"] == [True] * 3


def test_a_page_that_comes_at_once_is_painted_whole(browser: WebDriver, slow: str) -> None:
    # Two seconds are at once where the time that a reader waits at most does not pass.
    never = "const later = setTimeout; window.setTimeout = (f, ms) => ms !== 150 && later(f, ms);"
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": never})
    browser.get(slow)
    times = until(browser, TIMES)
    assert times["painted"] > times["there"]
    assert browser.get_log("browser") == []
