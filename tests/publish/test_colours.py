"""A hue is a configuration: no chart or chapter paints anything else in one of theirs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import servebook.publish
from servebook.publish import theme

FOLDER = Path(servebook.publish.__file__).parent
MODULES = sorted([*(FOLDER / "charts").glob("*.py"), *(FOLDER / "chapters").glob("*.py")])
HUES = {c.upper() for c in (*theme._ORDER, *(s for f in theme._FAMILIES for s in f))}


def hues(text: str) -> set[str]:
    """The colours of configurations that are written out in a text."""
    return {c.upper() for c in re.findall(r"#[0-9A-Fa-f]{6}\b", text)} & HUES


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name)
def test_no_module_paints_in_the_colour_of_a_configuration(path: Path) -> None:
    assert not hues(path.read_text(encoding="utf-8")), path.name


def test_a_written_out_hue_would_be_seen() -> None:
    assert hues('mark_point(color="#d55e00")') == {"#D55E00"}


@pytest.mark.parametrize("plain", [theme.PLAIN, theme.PALE, theme.ALARM, theme.CONTEXT, theme.GRID])
def test_what_is_of_no_configuration_has_none_of_their_colours(plain: str) -> None:
    assert plain.upper() not in HUES
