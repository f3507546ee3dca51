"""Tests of reading keep their cache to themselves, and see the faults of readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache_and_no_net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVEBOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("servebook.read.source.FAULTS", ())  # a reader that fails fails its test
        yield
