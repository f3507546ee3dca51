"""Texts that are recognised and refused, each with the better command."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import switch_text
from servebook.read.files import survey
from servebook.read.registry import FORMATS

TEXTS = {
    "Huawei VRP": "GE1/0/1 current state : UP\nLine protocol current state : UP\n"
    "    300 seconds input rate 8 bits/sec, 1 packets/sec\nInput: 12 packets, 900 bytes\n",
    "H3C Comware": "Interface         Total (pkts)   Broadcast (pkts)\nGE1/0/1   573422   2580\n",
    "Aruba AOS-CX": "Interface 1/1/1 is up \n Rx\n   24 total packets   4572 total bytes\n",
    "Cisco IOS": "Hu1/0/1 is up, line protocol is up\n  292 packets input, 31440 bytes\n",
}


@pytest.mark.parametrize("kind", list(TEXTS))
def test_the_refusal_names_the_switch_and_the_way_out(tmp_path: Path, kind: str) -> None:
    (tmp_path / "leaf1.log").write_text("### 1795972223.5\n" + TEXTS[kind])
    [source] = switch_text.find(survey(tmp_path))
    assert [form.name for form in FORMATS if form.find(survey(tmp_path))] == ["switch-text"]
    with pytest.raises(DumpError, match=rf"text of {kind}.*ifXTable"):
        switch_text.read(source)


@pytest.mark.parametrize("text", ["", "Interface 1/1/1 is up\n", "a log\n"])
def test_other_texts_are_not_claimed(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.log").write_text(text)
    assert switch_text.find(survey(tmp_path)) == []
