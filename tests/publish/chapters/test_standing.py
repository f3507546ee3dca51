"""What a model made is not called measured: in findings, titles, heads, pictures and prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from small import MANIFEST, campaign, loopback, shipped
from test_article_analyses import FUNCTIONS

from servebook.publish.chapters import common, goodput, limit, setup, token_cost, trust_clients
from servebook.publish.display import payload
from servebook.publish.output import Figure
from servebook.publish.spec import specification
from servebook.publish.text import column

#: Where the word stands for what was not done, for other campaigns, or for what was printed.
ALLOWED = re.compile(
    r"(not|nothing) measured|were measured twice|measured campaigns|printed as measured"
    r"|no measurement|not measurement|measured or (not stated|reconstructed)"
    r"|`servebook measure[^`]*`|measures itself",
    re.IGNORECASE,
)
_SETS: Mapping[str, Any] = {
    **FUNCTIONS,
    "setup": setup.measured,
    "setup-provenance": setup.provenance,
    "clients": trust_clients.clients,
    "goodput": goodput.served,
}


def strings(value: Any, key: str = "") -> Iterator[str]:
    """What a chart says: every text in it but names of columns."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from strings(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, key)
    elif isinstance(value, str) and key not in ("field", "sort", "groupby", "fields", "as"):
        yield value


def said(output: Any) -> Iterator[str]:
    _, fields = payload(output)
    table = fields.pop("table", None)
    yield from strings({key: one for key, one in fields.items() if key not in ("id", "figure")})
    if table:
        yield from map(column, table["columns"])
    if isinstance(output, Figure) and output.chart is not None:
        yield from strings(specification(output.chart, output.alt))


def claims(texts: Iterator[str]) -> list[str]:
    return [one for one in texts if "measure" in ALLOWED.sub("", one).lower()]


@pytest.mark.parametrize("name", ["b300-one-vs-two-nodes", "b300-two-nodes"])
def test_nothing_of_a_reconstructed_campaign_is_called_measured(name: str) -> None:
    book = shipped(name)
    found = {key: told for key, make in _SETS.items() if (told := claims(said(make(book))))}
    assert found == {}


def test_the_word_follows_the_manifest() -> None:
    kinds = {
        kind: common.standing(campaign({"r": {}}, MANIFEST.replace("measured", kind)))
        for kind in ("measured", "reconstructed")
    }
    assert kinds == {"measured": "measured", "reconstructed": "reconstructed"}
    note = limit.beyond_slots(loopback()).notes[0]
    assert re.search(r"Measured: \d+ % of their TTFT", note)
    note = limit.beyond_slots(shipped("b300-one-vs-two-nodes")).notes[0]
    assert re.search(r"Reconstructed: \d+ % of their TTFT", note)
    cost = token_cost.relative_cost(shipped("b300-two-nodes"))
    assert cost.chart is not None
    assert any(one.endswith("tick: reconstructed") for one in said(cost))


def test_the_notebooks_call_nothing_measured(project_root: Path) -> None:
    prose = {
        path.stem: [
            "".join(cell["source"])
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "markdown"
        ]
        for path in sorted((project_root / "notebooks").glob("*.ipynb"))
    }
    assert len(prose) > 10
    assert {name: told for name, cells in prose.items() if (told := claims(iter(cells)))} == {}
