"""Notes of the manifest reach the head of the page and the figures that they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small

from servebook.errors import ManifestError
from servebook.publish.collect import Chapter, Content, FigureData
from servebook.publish.known_issues import attach, known_issues
from servebook.read.manifest import parse_manifest

RUNS: dict[str, dict[str, Any]] = {
    "raw/a_c2": {"configuration": "a", "concurrency": 2},
    "raw/a_c4": {"configuration": "a", "concurrency": 4},
    "raw/b_c4": {"configuration": "b", "concurrency": 4, "workload": "decode"},
}
NOTES = """\
notes:
  - {figure: one, text: "A <b> bend"}
  - {configuration: a, concurrency: 4, text: flapped}
  - {concurrency: 4, text: warm}
  - {run: "raw/a_*", text: dusty}
  - {workload: decode, text: cold}
  - {figure: nowhere, text: lost}
  - {configuration: b, concurrency: 99, text: gone}
"""


def issues() -> tuple[dict[str, Any], ...]:
    return known_issues(small.campaign(RUNS, small.MANIFEST + NOTES))


def test_a_note_finds_its_runs() -> None:
    assert [one["runs"] for one in issues()] == [
        [],
        ["raw/a_c4"],
        ["raw/a_c4", "raw/b_c4"],
        ["raw/a_c2", "raw/a_c4"],
        ["raw/b_c4"],
        [],
        [],
    ]
    assert issues()[1]["about"] == "A, 4 in flight"


def test_figures_carry_what_touches_them_and_slips_are_told() -> None:
    figures = [
        FigureData({"id": "one", "runs": []}, None, "x"),
        FigureData({"id": "two", "runs": ["raw/a_c4"]}, None, "x"),
        FigureData({"id": "three", "runs": ["raw/other"]}, None, "x"),
    ]
    listed = attach(Content([Chapter("x", "X", [], figures)]), issues())
    assert [[i["n"] for i in f.fields["issues"]] for f in figures] == [[1], [2, 3, 4], []]
    assert figures[0].fields["issues"][0]["text"] == "A <b> bend"
    assert [bool(one["lacks"]) for one in listed] == [*[False] * 5, True, True]


@pytest.mark.parametrize(
    "note",
    [
        "{text: x}",
        "{text: x, figure: f, run: r}",
        "{text: x, figure: f, concurrency: 4}",
        "{text: x, figure: f, workload: mixed}",
    ],
)
def test_what_a_note_may_not_be_about(note: str) -> None:
    text = f"{small.MANIFEST}notes:\n  - {note}\n"
    with pytest.raises(ManifestError, match="notes"):
        parse_manifest(text.encode(), Path("campaign.yaml"))
