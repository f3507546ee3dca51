"""A notebook in a real JupyterLab, in headless Chromium, without a network: its charts show."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = [pytest.mark.browser, pytest.mark.slow]

START_S = 120
RUN_S = 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab serving ``folder`` on loopback; yields its address."""
    port = free_port()
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    environment.pop("SERVEBOOK_BUILD", None)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token="]
    command += [
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            address = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + START_S
            while time.monotonic() < deadline and server.poll() is None:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api"):
                    break
                time.sleep(0.3)
            yield address
        finally:
            server.terminate()
            server.wait(30)


def wait_for(driver: WebDriver, script: str, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if driver.execute_script(f"return {script}"):
            return
        time.sleep(0.5)
    pytest.fail(f"waited {seconds:.0f} s for {what}")


def test_a_notebook_shows_its_charts_in_jupyterlab(
    toybuild: ModuleType, open_browser: Callable[..., WebDriver], tmp_path: Path
) -> None:
    from selenium.webdriver import ActionChains, Keys

    toybuild.make(tmp_path / "project")
    home = tmp_path / "home"
    home.mkdir()
    with jupyterlab(tmp_path / "project", home) as address:
        driver = open_browser()
        driver.get(f"{address}/lab/tree/notebooks/01-speed.ipynb?reset")
        ready = "document.querySelectorAll('.jp-Notebook .jp-CodeCell').length >= 4"
        wait_for(driver, ready, START_S, "the notebook to open")
        idle = (
            "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]') !== null"
        )
        wait_for(driver, idle, START_S, "its kernel")
        for _ in range(12):  # Shift-Enter runs a cell and goes on to the next
            ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(
                Keys.SHIFT
            ).perform()
            time.sleep(0.2)
        charts = "document.querySelectorAll('.vega-embed :is(canvas, svg.marks)').length >= 3"
        wait_for(driver, charts, RUN_S, "three charts")
        assert driver.execute_script("return window.planted") is None
        text = driver.execute_script("return document.querySelector('.jp-Notebook').innerText")
        assert "One node is faster at every concurrency" in text
        assert "Error" not in text
