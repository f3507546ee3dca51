"""The browser policy itself: offline when there is one, skipped or failed when there is none."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = b"""<!doctype html><title>Loopback</title><p id=w></p>
<script>document.getElementById("w").textContent = innerWidth;</script>"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the test's output clean."""


@pytest.fixture
def loopback() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.browser
def test_the_browser_reaches_loopback_and_nothing_else(browser: Any, loopback: int) -> None:
    from selenium.common.exceptions import WebDriverException

    browser.get(f"http://127.0.0.1:{loopback}/")
    assert browser.title == "Loopback"
    requests = [json.loads(row["message"])["message"] for row in browser.get_log("performance")]
    assert any(
        row["method"] == "Network.requestWillBeSent"
        and row["params"]["request"]["url"].endswith(f":{loopback}/")
        for row in requests
    )
    # "localhost" resolves on every machine; here even that name must not.
    with pytest.raises(WebDriverException, match="ERR_NAME_NOT_RESOLVED"):
        browser.get(f"http://localhost:{loopback}/")


@pytest.mark.browser
def test_a_narrow_page_is_as_narrow_as_asked_for(open_browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(PAGE)
    narrow = open_browser(width=400, height=800)
    narrow.get(page.as_uri())
    assert narrow.find_element("id", "w").text == "400"
    without = open_browser(javascript=False)
    without.get(page.as_uri())
    assert without.find_element("id", "w").text == ""


LEFT = """
localStorage.setItem("left", "1"); sessionStorage.setItem("left", "1");
document.cookie = "left=1"; console.error("left"); window.open("about:blank");
const opened = indexedDB.open("left");
opened.onsuccess = () => { opened.result.close(); arguments[0](); };"""
FOUND = """
const done = arguments[0];
indexedDB.databases().then((bases) => done([
  localStorage.length, sessionStorage.length, document.cookie, bases.length, history.length,
  matchMedia("(prefers-color-scheme: dark)").matches, innerWidth]));"""


@pytest.mark.browser
def test_a_test_finds_nothing_of_the_one_before(
    browsers: Any, open_browser: Any, loopback: int
) -> None:
    address = f"http://127.0.0.1:{loopback}/"
    one = browsers.taken()
    size = {"width": 700, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    one.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    one.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    one.get(address)
    one.execute_async_script(LEFT)
    planted = {"source": "window.planted = 1"}
    one.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", planted)
    one.get(f"{address}?again")
    found = one.execute_async_script(FOUND)
    assert (found[0], found[2], found[3], found[5], found[6]) == (1, "left=1", 1, True, 700)
    one.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browsers.give_back(one)
    assert browsers.free[-1] is one
    other = open_browser()
    assert other is one
    assert other.get_log("browser") == []
    assert not [one for one in other.get_log("performance") if "Network." in one["message"]]
    assert len(other.window_handles) == 1
    other.get(address)
    assert other.find_element("id", "w").text == "1400"
    assert other.execute_async_script(FOUND) == [0, 0, "", 0, 2, False, 1400]
    assert other.execute_script("return window.planted") is None


@pytest.mark.browser
def test_a_browser_that_ended_is_not_handed_on(browsers: Any) -> None:
    driver = browsers.taken()
    driver.quit()
    browsers.give_back(driver)
    assert driver not in browsers.free


@pytest.mark.parametrize(
    ("ci", "code", "outcome"),
    [("", 0, "1 passed, 1 skipped"), ("true", 1, "1 passed, 1 error")],
)
def test_without_a_browser_tests_are_skipped_and_fail_in_ci(
    tmp_path: Path, ci: str, code: int, outcome: str
) -> None:
    shutil.copy(Path(__file__).parent.parent / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser: a page\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.browser\ndef test_page(): pass\n\ndef test_plain(): pass\n"
    )
    environment = {**os.environ, "PATH": str(tmp_path / "nothing"), "CI": ci}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and some are slow
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert outcome in done.stdout
    assert "no chromium and chromedriver on PATH" in done.stdout
