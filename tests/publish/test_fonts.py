from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from servebook.publish import fonts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has fontconfig")

_DRAWN = """
import hashlib, vl_convert
spec = {"mark": "text", "data": {"values": [{"t": "FP8 \u00b7 128 in flight"}]},
        "encoding": {"text": {"field": "t"}},
        "config": {"text": {"font": "Liberation Sans", "fontSize": 40}}}
svg = vl_convert.vegalite_to_svg(spec)
print(hashlib.sha256(svg.encode() + vl_convert.svg_to_png(svg)).hexdigest())
"""


def _system(tmp_path: Path, *named: str) -> Path:
    settings = tmp_path / "etc" / "fonts.conf"
    settings.parent.mkdir()
    lines = "".join(f"<dir>{escape(name)}</dir>" for name in named)
    settings.write_text(f"<fontconfig>{lines}</fontconfig>", encoding="utf-8")
    return settings


def _files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def _named(variables: dict[str, str]) -> list[Path]:
    root = ElementTree.parse(variables[fonts.VARIABLE]).getroot()
    return [Path(one.text or "") for one in root.iter("dir")]


def test_all_fonts_are_found_but_the_one_that_is_brought_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(fonts.VARIABLE, raising=False)
    place = tmp_path / "a & b"
    _files(place / "lib", "LiberationSans-Bold.ttf", "LiberationMono-Regular.ttf")
    _files(place / "lib", "LiberationSansNarrow-Bold.ttf", "deeper/Han.otf")
    _files(place / "other", "One.ttf", "deeper/Two.ttf")
    (tmp_path / "new").mkdir()
    variables = dict(fonts.settings(tmp_path / "new" / "own", _system(tmp_path, str(place), "/no")))
    *folders, links = _named(variables)
    assert sorted(folders) == [place / "lib" / "deeper", place / "other"]
    names = {path.name.partition("-")[2]: path for path in links.iterdir()}
    assert sorted(names) == ["LiberationMono-Regular.ttf", "LiberationSansNarrow-Bold.ttf"]
    assert names["LiberationMono-Regular.ttf"].resolve() == place / "lib/LiberationMono-Regular.ttf"


def test_folders_of_a_user_and_of_further_settings_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(fonts.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    system = _system(tmp_path, "~/.fonts")
    (system.parent / "conf.d").mkdir()
    more = '<fontconfig><dir prefix="xdg">fonts</dir></fontconfig>'
    (system.parent / "conf.d" / "10-more.conf").write_text(more, encoding="utf-8")
    (system.parent / "conf.d" / "20-broken.conf").write_text("<fontconfig", encoding="utf-8")
    _files(tmp_path / "home" / ".fonts", "One.ttf")
    _files(tmp_path / "data" / "fonts", "Two.ttf")
    found = _named(dict(fonts.settings(tmp_path / "own", system)))
    assert found[:-1] == [tmp_path / "home" / ".fonts", tmp_path / "data" / "fonts"]


def test_without_a_folder_to_write_to_fonts_are_found_as_ever(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert fonts.settings(tmp_path / "file" / "own") == {}


def test_a_drawing_is_the_same_whatever_fonts_the_system_has(tmp_path: Path) -> None:
    bare = tmp_path / "bare.conf"
    bare.write_text(f"<fontconfig><dir>{tmp_path}</dir></fontconfig>", encoding="utf-8")
    drawn = [
        subprocess.run(
            [sys.executable, "-c", _DRAWN],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for variables in (fonts.settings(tmp_path / "own"), {fonts.VARIABLE: str(bare)})
    ]
    assert drawn[0] == drawn[1]
