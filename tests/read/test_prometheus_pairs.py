"""Large replies, read series by series, give what small ones do."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import prometheus_api
from servebook.read.prometheus_pairs import Pairs, on_grid
from servebook.read.source import Source

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"
NAMES = sorted(path.name for path in FIXTURES.glob("prometheus_*.json"))


def read(path: Path) -> Any:
    """The tables' rows, or that the dump is refused."""
    try:
        tables = prometheus_api.read(Source("prometheus", path.parent, path, (path,)))
    except DumpError:
        return "refused"
    aside = sorted(tables.set_aside.to_pylist(), key=lambda row: sorted(map(str, row.items())))
    return tables.samples.to_pylist(), aside


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    small = read(path)
    monkeypatch.setattr(prometheus_api, "LARGE_BYTES", -1)
    return small, read(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_is_the_same_whole_and_in_pieces(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = both(FIXTURES / name, monkeypatch)
    assert small == large


def test_odd_pairs_are_set_aside_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = {"__name__": "node_network_receive_bytes_total", "device": "eth0", "job": "node"}
    odd = [[1795973604.175, "007"], [1795973605.2, 5], [1795973606, "NaN"], [1], None, [1e300, "1"]]
    plain = [[1795973604, "18446744073709551615"], [1795973605, "0"], [1795973606.5, "2.5e3"]]
    rest = [{"metric": metric | {"device": "eth1"}, "values": plain}, 7, {"metric": metric}]
    result = [{"metric": metric, "values": odd}, *rest]
    reply = {"status": "success", "warnings": ["w"]}
    path = tmp_path / "reply.json"
    path.write_text(json.dumps(reply | {"data": {"resultType": "matrix", "result": result}}))
    small, large = both(path, monkeypatch)
    assert small == large
    assert small != "refused"


@pytest.mark.parametrize(
    "text", ['{"data": {"resultType": "matrix", "result": [{"metric"', "{} {}"]
)
def test_what_is_no_reply_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reply.json"
    path.write_text(text)
    assert both(path, monkeypatch) == ("refused", "refused")


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**40), 2**60),
            st.text(st.characters(codec="utf-8"), max_size=3) | st.from_regex(r"\d{1,20}"),
        )
    )
)
def test_pairs_come_back_as_they_were(pairs: list[tuple[int, str]]) -> None:
    assert list(Pairs([at for at, _ in pairs], [value for _, value in pairs])) == pairs


def test_half_a_character_is_a_text() -> None:
    assert list(Pairs([1], ["\ud800"])) == [(1, "?")]


@given(st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=3), st.integers(1, 3))
def test_a_grid_is_told_as_from_lists(series: list[list[int]], factor: int) -> None:
    times = [[at * factor for at in own] for own in series]
    every = sorted({at for own in times for at in own})
    step = min((b - a for own in times for a, b in pairwise(own)), default=0)
    expected = step > 0 and all((at - every[0]) % step == 0 for at in every)
    assert on_grid([Pairs(own, ["1"] * len(own)) for own in times]) == expected
