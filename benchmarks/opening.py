"""What opening a page costs a browser, beside an empty page: headless Chromium by its driver.

By the page's own clock: first paint, load event, and when all chapters are laid out, which follows
the load event. The longest tasks of the main thread until half a second after that, and while the
page is scrolled through from top to bottom, with time for the charts that come into view to turn
interactive. The browser gets time for its own start first, which would else be counted with the
page. selenium and Chromium are what the tests use.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["opened", "rows"]

START_S = 2

WATCH = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.tasks.push([one.startTime, one.duration]);
}).observe({ type: "longtask", buffered: true });
"""
LOADED = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
PAINTED = """
const paint = performance.getEntriesByName('first-contentful-paint')[0];
return paint ? paint.startTime : null;
"""
ARRIVED = """
if (document.documentElement.classList.contains("arriving")) return null;
const [mark] = performance.getEntriesByName("arrived");
return mark ? mark.startTime : performance.getEntriesByType("navigation")[0].loadEventEnd;
"""


def _driver() -> Any:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,900"):
        options.add_argument(argument)
    return Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def _once(path: Path, scrolled: bool) -> dict[str, float]:
    driver = _driver()
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        time.sleep(START_S)
        driver.get(path.resolve().as_uri())
        _until(driver, LOADED)
        found = {"load_ms": float(driver.execute_script(LOADED))}
        found["paint_ms"] = float(driver.execute_script(PAINTED) or 0)
        _until(driver, ARRIVED)
        found["laid_out_ms"] = float(driver.execute_script(ARRIVED))
        time.sleep(0.5)
        n = len(driver.execute_script("return window.tasks"))
        found["longest_task_ms"] = _longest(driver, 0)
        if scrolled:
            height = driver.execute_script("return document.documentElement.scrollHeight")
            for y in range(0, int(height) + 700, 700):
                driver.execute_script(f"window.scrollTo(0, {y})")
                time.sleep(0.25)
            _until(
                driver,
                "return ![...document.querySelectorAll('.plot')].some((one) => !one.dataset.state)",
                60,
            )
            found["scroll_longest_task_ms"] = _longest(driver, n)
            found["n_interactive"] = driver.execute_script(
                "return document.querySelectorAll('.plot[data-state=interactive]').length"
            )
        return found
    finally:
        driver.quit()


def _until(driver: Any, script: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not driver.execute_script(script) and time.monotonic() < end:
        time.sleep(0.05)


def _longest(driver: Any, first: int) -> float:
    found = driver.execute_script("return window.tasks")[first:]
    return max((float(duration) for _, duration in found), default=0.0)


def opened(page: Path, repeats: int = 5) -> dict[str, dict[str, float]]:
    """Medians of opening an empty page and ``page``, one after the other; one scroll through."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.html"
        empty.write_text("<!doctype html><title>Empty</title><p>Nothing.", encoding="utf-8")
        seen: dict[str, list[dict[str, float]]] = {"empty page": [], page.name: []}
        for number in range(repeats):
            seen["empty page"].append(_once(empty, scrolled=False))
            seen[page.name].append(_once(page, scrolled=number == 0))
    return {
        name: {key: statistics.median(one[key] for one in found if key in one) for key in found[0]}
        for name, found in seen.items()
    }


def rows(found: dict[str, dict[str, float]]) -> list[str]:
    """A table of what was seen, with the ratio to the empty page."""
    empty = found["empty page"]
    lines = []
    for name, row in found.items():
        for key, value in row.items():
            ratio = f"{value / empty[key]:8.1f} of an empty page's" if empty.get(key) else ""
            lines.append(f"{name:32}{key:26}{value:10.0f}{ratio}")
    return lines
