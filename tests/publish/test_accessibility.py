"""An accessibility audit of the finished page: axe-core in Chromium, all its rules.

axe-core comes inside the package axe-core-python; its wrappers are not used, since they want a
browser of their own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.browser

RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map(
    (one) => [one.id, one.impact, one.help, one.nodes.map((node) => node.html.slice(0, 200))])),
  (error) => done([["axe", "critical", String(error), []]]));
"""


def audit(driver: WebDriver) -> list[Any]:
    """What axe-core finds on the page as it stands, all folded parts open."""
    driver.set_script_timeout(120)
    driver.execute_script(
        "document.querySelectorAll('details').forEach((one) => (one.open = true))"
    )
    driver.execute_script((resources.files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    found: list[Any] = driver.execute_async_script(RUN)
    return found


def drawn(driver: WebDriver, page: Path) -> None:
    driver.get(page.as_uri())
    height = driver.execute_script("return document.documentElement.scrollHeight")
    for top in range(0, height, 500):
        driver.execute_script(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        time.sleep(0.05)
    states = "return [...document.querySelectorAll('.plot')].map((p) => p.dataset.state || '')"
    deadline = time.monotonic() + 60
    while "" in driver.execute_script(states) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert set(driver.execute_script(states)) == {"interactive"}


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    open_browser: Callable[..., WebDriver], toy_page: Path, width: int, scheme: str
) -> None:
    driver = open_browser(width=width)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    drawn(driver, toy_page)
    assert audit(driver) == []


def test_the_audit_finds_what_is_planted(browser: WebDriver, toy_page: Path) -> None:
    browser.get(toy_page.as_uri())
    browser.execute_script(
        "document.querySelector('.permalink').removeAttribute('aria-label');"
        "document.querySelector('.permalink').textContent = '';"
        "document.querySelector('.subtitle').style.color = '#dddddd';"
    )
    assert {"link-name", "color-contrast"} <= {one[0] for one in audit(browser)}


def test_every_stop_of_the_keyboard_has_a_name_and_shows(
    browser: WebDriver, toy_page: Path
) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.get(toy_page.as_uri())
    order = []
    for _ in range(200):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        one = browser.execute_script(
            """
            const at = document.activeElement;
            if (!at || at === document.body) return null;
            const named = at.getAttribute("aria-labelledby");
            const name = at.getAttribute("aria-label")
              || (named && document.getElementById(named).textContent) || at.textContent;
            const style = getComputedStyle(at);
            const place = at.getBoundingClientRect();
            return [name.trim(), style.outlineStyle, parseFloat(style.outlineWidth),
              place.top + window.scrollY, at.closest("figure, nav, section")?.id || ""];
            """
        )
        if one is None or (order and one == order[0]):
            break
        order.append(one)
    assert len(order) > 20
    assert all(name for name, *_ in order)
    assert all(style == "solid" and width >= 2 for _, style, width, *_ in order)
    # Figures follow one another from above to below.
    tops: dict[str, float] = {}
    for *_, top, where in order:
        if where.startswith("figure-"):
            tops.setdefault(where, top)
    assert len(tops) >= 3
    assert list(tops.values()) == sorted(tops.values())


def test_nothing_moves_for_those_who_want_it_still(browser: WebDriver, toy_page: Path) -> None:
    still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", still)
    browser.get(toy_page.as_uri())
    moving = browser.execute_script(
        """
        const moves = (one) => {
          const style = getComputedStyle(one);
          return style.scrollBehavior === "smooth" || style.animationName !== "none"
            || parseFloat(style.transitionDuration) > 0;
        };
        return [...document.querySelectorAll("*")].filter(moves).map((one) => one.tagName);
        """
    )
    assert moving == []


def test_tables_have_captions_and_heads_with_a_scope(toy_page: Path) -> None:
    page = toy_page.read_text(encoding="utf-8")
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert tables
    for table in tables:
        assert re.search(r"<caption[^>]*>[^<]+</caption>", table)
        heads = re.findall(r"<th\b[^>]*>", table)
        assert heads
        assert all('scope="col"' in head or 'scope="row"' in head for head in heads)


def test_a_preview_that_reads_no_further_shows_title_and_findings(toy_page: Path) -> None:
    start = toy_page.read_bytes()[:4096].decode(errors="ignore")
    assert "<title>Toy: one node against two</title>" in start
    said = re.search(r'<meta name="description" content="([^"]*)"', start)
    assert said is not None
    assert "Measured." in said[1]
    assert "One node writes 1.5 times the tokens" in said[1]
