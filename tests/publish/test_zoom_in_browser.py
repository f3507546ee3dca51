"""Charts zoom along their axes by wheel, mouse, fingers, buttons and keys; the page scrolls on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.browser

FIGURES = ("throughput", "latency", "memory")
VIEW = """
const plot = document.querySelector(`#figure-${arguments[0]} .plot`);
const view = window.servebook.live.get(plot).result.view;
"""


@pytest.fixture
def page(browser: WebDriver, toy_page: Path) -> WebDriver:
    browser.get(toy_page.as_uri())
    for name in FIGURES:
        plot = browser.find_element("css selector", f"#figure-{name} .plot")
        browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", plot)
        deadline = time.monotonic() + 60
        while plot.get_attribute("data-state") != "interactive" and time.monotonic() < deadline:
            time.sleep(0.1)
    return browser


def domains(driver: WebDriver, name: str, *scales: str) -> list[list[float]]:
    """What the scales show, after all that was asked for is drawn."""
    return list(
        driver.execute_async_script(
            VIEW
            + """
            const [, scales, done] = arguments;
            requestAnimationFrame(() => setTimeout(async () => {
              await view.runAsync();
              done(scales.map((name) => view.scale(name).domain().map(Number)));
            }, 50));
            """,
            name,
            scales,
        )
    )


def drawing(driver: WebDriver, name: str) -> list[str]:
    """The elements of a drawing in no order (ticks come and go), without numbered ids."""
    text = driver.execute_script(
        "return document.querySelector(`#figure-${arguments[0]} .live svg`).innerHTML"
        '.replace(/ clip-path="[^"]*"| opacity="1"| style=""/g, \'\')'
        ".replace(/<defs>.*?<\\/defs>/g, '')",
        name,
    )
    return sorted(text.split("<"))


def button(driver: WebDriver, name: str, title: str) -> WebElement:
    return driver.find_element("css selector", f"#figure-{name} .zooms button[title='{title}']")


def told(driver: WebDriver, name: str) -> str:
    return driver.find_element("css selector", f"#figure-{name} [role=status]").text


TURN = """
const svg = document.querySelector(`#figure-${arguments[0]} .live svg`);
const box = svg.getBoundingClientRect();
const event = new WheelEvent("wheel", {deltaY: -300, ctrlKey: arguments[1], bubbles: true,
  cancelable: true, clientX: box.left + 0.3 * box.width, clientY: box.top + 0.6 * box.height});
svg.dispatchEvent(event);
return event.defaultPrevented;
"""
UNDER = (
    VIEW
    + """
const at = [0.3 * Number(plot.querySelector("svg").getAttribute("width")),
  0.6 * Number(plot.querySelector("svg").getAttribute("height"))];
const pad = view.padding(), origin = view.origin();
return [view.scale("x").invert(at[0] - origin[0] - pad.left),
  view.scale("y").invert(at[1] - origin[1] - pad.top)].map(Number);
"""
)


def test_the_wheel_alone_scrolls_and_with_ctrl_zooms_around_the_pointer(page: WebDriver) -> None:
    whole = domains(page, "throughput", "x", "y")
    under = page.execute_script(UNDER, "throughput")
    before = drawing(page, "throughput")
    assert page.execute_script(TURN, "throughput", False) is False
    assert domains(page, "throughput", "x", "y") == whole
    assert page.execute_script(TURN, "throughput", True) is True
    shown = domains(page, "throughput", "x", "y")
    for (low, high), (first, last) in zip(shown, whole, strict=True):
        assert first < low < high < last
    # What was under the pointer still is, on logarithmic axes as well.
    assert page.execute_script(UNDER, "throughput") == pytest.approx(under, rel=0.02)
    svg = page.find_element("css selector", "#figure-throughput .live svg")
    page.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))", svg
    )
    assert domains(page, "throughput", "x", "y") == whole
    assert drawing(page, "throughput") == before


def test_a_mouse_moves_what_is_zoomed_and_nothing_else(page: WebDriver) -> None:
    from selenium.webdriver import ActionChains

    svg = page.find_element("css selector", "#figure-throughput .live svg")

    def drag() -> None:
        chain = ActionChains(page).move_to_element_with_offset(svg, 10, 10)
        chain.click_and_hold().move_by_offset(-40, 0).move_by_offset(-40, 0).release().perform()

    whole = domains(page, "throughput", "x", "y")
    drag()
    assert domains(page, "throughput", "x", "y") == whole
    page.execute_script(TURN, "throughput", True)
    before = domains(page, "throughput", "x", "y")
    drag()
    after = domains(page, "throughput", "x", "y")
    assert after[0][0] > before[0][0]  # the paper goes left, later values come into view
    assert after[0][1] / after[0][0] == pytest.approx(before[0][1] / before[0][0], rel=1e-6)
    assert after[1] == pytest.approx(before[1])
    for _ in range(12):
        drag()
    assert domains(page, "throughput", "x")[0][1] == pytest.approx(whole[0][1])  # not beyond


def test_buttons_and_arrow_keys_do_what_the_mouse_does(page: WebDriver) -> None:
    from selenium.webdriver import Keys

    whole, before = domains(page, "throughput", "x", "y"), drawing(page, "throughput")
    closer = button(page, "throughput", "Zoom in")
    assert closer.accessible_name == "Zoom in"
    page.execute_script(
        "window.kept = []; document.addEventListener('keydown',"
        " (event) => window.kept.push(event.defaultPrevented))"
    )
    closer.send_keys(Keys.ARROW_RIGHT)  # nothing is zoomed: the key is the page's
    closer.send_keys("\n")
    shown = domains(page, "throughput", "x", "y")
    assert shown[0][0] > whole[0][0]
    assert told(page, "throughput").startswith("Concurrency: 1.")
    closer.send_keys(Keys.ARROW_RIGHT)
    right = domains(page, "throughput", "x", "y")
    assert right[0][0] > shown[0][0]
    assert right[1] == shown[1]
    closer.send_keys(Keys.ARROW_DOWN)
    assert domains(page, "throughput", "y")[0][0] < shown[1][0]
    assert page.execute_script("return window.kept") == [False, False, True, True]
    button(page, "throughput", "Reset the zoom").send_keys(" ")
    assert domains(page, "throughput", "x", "y") == whole
    assert drawing(page, "throughput") == before
    assert told(page, "throughput") == ""
    closer.send_keys("\n")
    button(page, "throughput", "Zoom out").send_keys("\n")
    assert domains(page, "throughput", "x", "y") == whole


def test_words_leave_with_the_point_they_stand_at(page: WebDriver) -> None:
    size = "return document.querySelector('#figure-throughput .live svg').getAttribute('width')"
    seen = """
    return [...document.querySelectorAll("#figure-throughput .live .mark-text.role-mark text")]
      .filter((one) => one.getAttribute("opacity") !== "0").length"""
    assert page.execute_script(seen) == 2
    width = page.execute_script(size)
    for _ in range(3):
        button(page, "throughput", "Zoom in").send_keys("\n")
        domains(page, "throughput", "x")
    assert page.execute_script(seen) == 0  # the ends of both lines lie to the right
    assert page.execute_script(size) == width
    assert page.get_log("browser") == []


def test_panels_with_one_axis_move_together(page: WebDriver) -> None:
    names = ("concat_0_x", "concat_1_x", "concat_0_y", "concat_1_y")
    whole = domains(page, "latency", *names)
    assert page.execute_script(TURN, "latency", True) is True
    shown = domains(page, "latency", *names)
    assert shown[0] == shown[1] != whole[0]
    assert shown[2] == shown[3] != whole[2]


def test_an_axis_of_time_zooms_and_says_when(page: WebDriver) -> None:
    whole = domains(page, "memory", "x")
    button(page, "memory", "Zoom in").send_keys("\n")
    ((low, high),) = domains(page, "memory", "x")
    assert whole[0][0] < low < high < whole[0][1]
    assert "1970-01-01 00:" in told(page, "memory")


def test_another_width_shows_what_was_shown_and_paper_shows_all(page: WebDriver) -> None:
    whole = domains(page, "throughput", "x")
    button(page, "throughput", "Zoom in").send_keys("\n")
    shown = domains(page, "throughput", "x")
    metrics: dict[str, Any] = {"width": 500, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_script("window.first = window.servebook.live.get("
                        "document.querySelector('#figure-throughput .plot')).result")  # fmt: skip
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and page.execute_script(
        "return window.first === window.servebook.live.get("
        "document.querySelector('#figure-throughput .plot')).result"
    ):
        time.sleep(0.1)
    assert domains(page, "throughput", "x")[0] == pytest.approx(shown[0], rel=0.02)
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert domains(page, "throughput", "x") == whole


def fingers(driver: WebDriver, *paths: tuple[tuple[float, float], tuple[float, float]]) -> None:
    """Move one finger for each path, from its first to its last point, in ten steps."""
    driver.execute_cdp_cmd(
        "Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5}
    )

    def touch(kind: str, share: float) -> None:
        points = [
            {"id": i, "x": x + share * (to_x - x), "y": y + share * (to_y - y)}
            for i, ((x, y), (to_x, to_y)) in enumerate(paths)
        ]
        points = [] if kind == "touchEnd" else points
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0)
    for step in range(1, 11):
        touch("touchMove", step / 10)
    touch("touchEnd", 1)


def settled(driver: WebDriver) -> None:
    """Wait until frames were shown and nothing else is to do."""
    driver.execute_async_script(
        """
        const [done] = arguments;
        requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(
          () => setTimeout(done, 50), { timeout: 5000 })));
        """
    )


def middle(driver: WebDriver) -> tuple[float, float]:
    """The middle of the throughput chart in the window, after it was brought into view."""
    x, y = driver.execute_script(
        """
        const svg = document.querySelector("#figure-throughput .live svg");
        svg.scrollIntoView({behavior: "instant", block: "center"});
        const box = svg.getBoundingClientRect();
        return [box.left + 0.5 * box.width, box.top + 0.5 * box.height];
        """
    )
    return x, y


SCROLLED = "return window.scrollY"


@pytest.mark.parametrize(("right", "down"), [(1, 0), (0, 1), (0.7, 0.7)])
def test_two_fingers_zoom_what_is_zoomed_and_one_moves_it(
    page: WebDriver, right: float, down: float
) -> None:
    x, y = middle(page)
    near = [(x + side * 40 * right, y + side * 40 * down) for side in (-1, 1)]
    far = [(x + side * 80 * right, y + side * 80 * down) for side in (-1, 1)]
    apart, together = list(zip(near, far, strict=True)), list(zip(far, near, strict=True))
    whole = domains(page, "throughput", "x", "y")
    fingers(page, *apart)
    assert domains(page, "throughput", "x", "y") == whole  # until somebody zooms it is the page's
    page.execute_cdp_cmd("Emulation.setPageScaleFactor", {"pageScaleFactor": 1})
    button(page, "throughput", "Zoom in").send_keys("\n")
    middle(page)
    first = domains(page, "throughput", "x", "y")
    scrolled = page.execute_script(SCROLLED)
    closer = first
    for _ in range(5):  # a gesture is the page's until the browser's compositor knows of the zoom
        if closer == first:
            page.execute_cdp_cmd("Emulation.setPageScaleFactor", {"pageScaleFactor": 1})
            settled(page)
            fingers(page, *apart)
            closer = domains(page, "throughput", "x", "y")
    for (low, high), (from_, to) in zip(closer, first, strict=True):
        # Twice as far apart: half of a logarithmic axis, around the middle of the two.
        assert high / low == pytest.approx((to / from_) ** 0.5, rel=0.1)
        assert from_ < low < high < to
    fingers(page, *together)
    for shown, before in zip(domains(page, "throughput", "x", "y"), first, strict=True):
        assert shown == pytest.approx(before, rel=0.1)
    assert page.execute_script(SCROLLED) == scrolled
    before = domains(page, "throughput", "x", "y")
    fingers(page, ((x, y), (x - 60, y)))
    after = domains(page, "throughput", "x", "y")
    assert after[0][0] > before[0][0]
    assert after[1] == pytest.approx(before[1])
    fingers(page, ((x, y), (x, y - 60)))  # up and down a finger scrolls the page
    assert domains(page, "throughput", "x", "y") == after
    assert page.get_log("browser") == []
