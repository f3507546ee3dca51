"""The toy page, built once for all tests that look at it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from servebook.publish.workers import Workers

if TYPE_CHECKING:
    from tests.conftest import MadeOnce

HELPER = Path(__file__).with_name("toybuild.py")
sys.path.insert(0, str(HELPER.parent))  # for helpers that tests import


@pytest.fixture(scope="session")
def toybuild() -> ModuleType:
    """The helper that builds the toy campaign; also a script of its own."""
    spec = importlib.util.spec_from_file_location("toybuild", HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toybuild"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """One zygote and one drawing worker for all tests that build pages in this process."""
    with Workers() as started:
        yield started


@pytest.fixture(scope="session")
def toy_page(toybuild: ModuleType, request: pytest.FixtureRequest, made_once: MadeOnce) -> Path:
    """The page of the toy campaign, in a folder of its own."""

    def make(folder: Path) -> None:
        toybuild.build_toy(folder, request.getfixturevalue("workers"))

    return made_once("toy", make) / "report" / "toy.html"
