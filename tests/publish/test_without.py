from __future__ import annotations

import importlib
import sys

import pytest

from servebook.publish.without import without


def test_a_package_is_hidden_inside_and_there_again_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


def test_what_is_imported_already_stays() -> None:
    with without("json"):
        assert importlib.import_module("json").loads("1") == 1
    assert "json" in sys.modules


def test_an_error_inside_leaves_nothing_hidden() -> None:
    with pytest.raises(KeyError), without("antigravity_no_such"):
        raise KeyError
    assert "antigravity_no_such" not in sys.modules
