"""Shared fixtures: a headless Chromium without a network, and what happens where there is none.

Tests marked ``browser`` are skipped, by name and reason, on a machine without Chromium; with
``CI=true`` they fail instead, so that a page is never published untested.

Several processes may run the tests, a file at a time (``make test``): what is costly and is only
looked at is made once for all of them (``made_once``).

Own code: pytest-selenium exists, but it downloads drivers and reports to HTML, which are the two
things that must not happen here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

# Tests start many Pythons; without bytecode each of them would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: Set by pytest-xdist where several processes share the tests.
WORKER = "PYTEST_XDIST_WORKER"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver", "chromium.chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--lang=en-US",
)


@dataclass(frozen=True)
class Chromium:
    """Where the browser and its driver are."""

    binary: str
    driver: str


def find_chromium() -> Chromium | None:
    """The first browser and driver on PATH, or None where one of the two is missing."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = next(filter(None, map(shutil.which, DRIVERS)), None)
    return Chromium(binary, driver) if binary and driver else None


def require_chromium() -> Chromium:
    """Chromium, or a skip that says what is missing (a failure with CI=true)."""
    found = find_chromium()
    if found is not None:
        return found
    reason = "no chromium and chromedriver on PATH (Debian: apt install chromium chromium-driver)"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason}; CI=true, so a browser test may not be skipped", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process for each core that we may use, up to eight: each of them imports every test."""
    usable = getattr(os, "sched_getaffinity", None)
    return min(8, len(usable(0)) if usable is not None else os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several processes begin with the files of slow tests, lest one be left alone with such."""
    if WORKER in os.environ:
        slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
        items.sort(key=lambda item: item.path not in slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") is not None:
        require_chromium()


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    """The paths of the browser and of its driver."""
    return require_chromium()


OpenBrowser = Callable[..., "WebDriver"]

ARRIVING = "return document.documentElement.classList.contains('arriving')"


def _arrived(driver: WebDriver) -> Callable[[str], None]:
    get = driver.get

    def wait(url: str) -> None:
        get(url)
        deadline = time.monotonic() + 30
        while driver.execute_script(ARRIVING):
            assert time.monotonic() < deadline, f"{url} has not arrived after 30 s"
            time.sleep(0.02)

    return wait


class Browsers:
    """Browsers of this process. Starting one takes two seconds, a new window in one a third."""

    def __init__(self, chromium: Chromium, homes: Callable[[], Path]) -> None:
        self.chromium = chromium
        self.homes = homes
        self.free: list[WebDriver] = []
        self.stack = contextlib.ExitStack()

    def start(self, flags: Sequence[str], stack: contextlib.ExitStack) -> WebDriver:
        """A new process with a new profile, which ends with ``stack``."""
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        home = self.homes()
        options = Options()
        options.binary_location = self.chromium.binary
        for flag in (*FLAGS, f"--user-data-dir={home / 'profile'}", *flags):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        environment = {**os.environ, "HOME": str(home)}
        service = Service(executable_path=self.chromium.driver, env=environment)
        driver = webdriver.Chrome(options=options, service=service)
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        stack.callback(driver.quit)
        driver.get = _arrived(driver)  # type: ignore[method-assign, assignment]
        return driver

    def taken(self) -> WebDriver:
        """One that no test has at the moment."""
        return self.free.pop() if self.free else self.start((), self.stack)

    def give_back(self, driver: WebDriver) -> None:
        """Leave nothing of a test: its windows, what pages stored, its log; or quit the browser."""
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        try:
            old = driver.window_handles
            driver.switch_to.new_window("window")
            new = driver.current_window_handle
            for handle in old:
                driver.switch_to.window(handle)
                driver.close()
            driver.switch_to.window(new)
            everything = {"origin": "*", "storageTypes": "all"}
            driver.execute_cdp_cmd("Storage.clearDataForOrigin", everything)
            driver.execute_cdp_cmd("Network.clearBrowserCache", {})
            driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})
            driver.execute_cdp_cmd("Browser.resetPermissions", {})
            driver.set_script_timeout(30)
            for kind in ("browser", "performance"):
                driver.get_log(kind)
        except (WebDriverException, HTTPError):
            with contextlib.suppress(WebDriverException, HTTPError):
                driver.quit()
        else:
            self.free.append(driver)


@pytest.fixture(scope="session")
def browsers(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    """The browsers of this process, which end with it."""
    found = Browsers(chromium, lambda: tmp_path_factory.mktemp("chromium"))
    with found.stack:
        yield found


@pytest.fixture
def open_browser(browsers: Browsers, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenBrowser]:
    """A headless Chromium: ``open_browser(*flags, width=1400, height=1000, javascript=True)``.

    Each call is a window of its own: in a browser that another test is done with, which kept
    nothing, or in a new process with a new profile (always so with flags). No name but 127.0.0.1
    resolves in it. Widths below the smallest window (500 px) are emulated. ``driver.get`` returns
    when all of a page of ours is laid out, which is shortly after its load event.
    ``driver.get_log("browser")`` holds the console, ``driver.get_log("performance")`` the requests
    that the page made. All are closed when the test ends.
    """
    monkeypatch.setenv("SE_OFFLINE", "true")
    monkeypatch.setenv("SE_AVOID_STATS", "true")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    with contextlib.ExitStack() as stack:

        def start(
            *flags: str, width: int = 1400, height: int = 1000, javascript: bool = True
        ) -> WebDriver:
            if flags:
                driver = browsers.start(flags, stack)
            else:
                driver = browsers.taken()
                stack.callback(browsers.give_back, driver)
            metrics: dict[str, Any] = {"width": width, "height": height}
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {**metrics, "deviceScaleFactor": 1, "mobile": False},
            )
            if not javascript:
                driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
            return driver

        yield start


@pytest.fixture
def browser(open_browser: OpenBrowser) -> WebDriver:
    """One headless Chromium, 1400 px wide, without a network."""
    return open_browser()


MadeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """``made_once(name, make)``: a folder that one process fills, for all processes of this run.

    ``make`` gets the empty folder. Who asks while another fills it waits; where filling failed, who
    asks next tries again. Tests may only look at what is in it.
    """
    own = tmp_path_factory.getbasetemp()
    base = own.parent if WORKER in os.environ else own

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, ready = base / "made-once" / name, base / f"{name}.ready"
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                make(folder)
                ready.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The repository's folder."""
    return Path(__file__).resolve().parent.parent


# How long an example takes says something of the machine, not of the code.
settings.register_profile("servebook", deadline=None)
settings.load_profile("servebook")
