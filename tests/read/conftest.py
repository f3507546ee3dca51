"""Tests of reading keep their cache to themselves, and see the faults of readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servebook.read.aiperf_lists import SWITCH
from tests.read.ways import needs_library


@pytest.fixture(scope="session", autouse=True)
def _own_cache_and_no_net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVEBOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("servebook.read.source.FAULTS", ())  # a reader that fails fails its test
        yield


@pytest.fixture(params=["compiled", "pure"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Record lines of AIPerf are read by the compiled library, or without it."""
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / f"cache of {request.param}"))
    monkeypatch.setenv(SWITCH, "0" if request.param == "pure" else "1")
    if request.param == "compiled":
        needs_library()
    return str(request.param)
