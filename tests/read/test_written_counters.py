"""All counter fixtures written by hand, mutated in every way: read, or refused in one sentence.

The same over the licensed samples that are not part of the project, where an environment variable
names their folder.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from servebook.measure.intervals import intervals
from servebook.read.discover import read_tree
from servebook.read.registry import FORMATS
from servebook.tables import Tables, empty

COUNTERS = Path(__file__).parents[1] / "fixtures" / "counters"
FILES = [*sorted((COUNTERS / "written").iterdir()), COUNTERS / "grafana_panel.csv"]
THIRD_PARTY = os.environ.get("SERVEBOOK_THIRD_PARTY")
_NUMBER = re.compile(rb"\d+")
_JUNK = (b"null", b"NaN", b"-1", b'"ten"', b"1e400", b"9" * 40, b"", b"{}", b"[]", b"true", b"0x1f")


def mutations(content: bytes, seed: int, n: int) -> Iterator[bytes]:
    """``n`` damaged copies: cut, lines dropped, doubled, swapped, values replaced, recoded."""
    chance = random.Random(seed)
    for i in range(n):
        lines = content.split(b"\n")
        at = chance.randrange(len(lines))
        kind = i % 8
        if kind == 0:
            yield content[: chance.randrange(len(content))]
        elif kind == 1:
            yield b"\n".join(lines[:at] + lines[at + 1 :])
        elif kind == 2:
            yield b"\n".join(lines[: at + 1] + lines[at:])
        elif kind == 3:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            yield b"\n".join(lines)
        elif kind == 4:
            found = list(_NUMBER.finditer(content))
            spot = chance.choice(found)
            yield content[: spot.start()] + chance.choice(_JUNK) + content[spot.end() :]
        elif kind == 5:
            yield content.decode("utf-8", "replace").encode(
                chance.choice(("utf-16", "latin-1")), "replace"
            )
        elif kind == 6:
            yield content.replace(b"\n", b"\r\n")
        else:
            spot = chance.randrange(len(content))
            yield content[:spot] + bytes([chance.randrange(256)]) + content[spot + 1 :]


def check(tables: Tables) -> None:
    """Something was used, or something was said; and nothing that may not be there."""
    told = tables.refused.num_rows + tables.set_aside.num_rows
    assert tables.samples.num_rows + told > 0
    for row in tables.refused.to_pylist():
        assert "fault of Servebook" not in row["reason"]
        assert "Traceback" not in row["reason"]
    for name in ("interface", "device"):
        texts = tables.samples[name].unique().to_pylist()
        assert all(text is None or text.isprintable() for text in texts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_damaged_files_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    for i, content in enumerate(mutations(path.read_bytes(), 7, 48)):
        target = tmp_path / f"{i:02}" / path.name
        target.parent.mkdir()
        target.write_bytes(content)
        check(read_tree(target))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_line_ends_of_windows_change_nothing(path: Path, tmp_path: Path) -> None:
    plain, other = tmp_path / "a" / path.name, tmp_path / "b" / path.name
    for target in (plain, other):
        target.parent.mkdir()
    plain.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    other.write_bytes(plain.read_bytes().replace(b"\n", b"\r\n"))
    one, two = read_tree(plain), read_tree(other)
    assert one.samples.equals(two.samples)
    assert one.refused.num_rows == two.refused.num_rows


def _licensed() -> list[Path]:
    if THIRD_PARTY is None:
        return []
    return sorted(p for p in (Path(THIRD_PARTY) / "counters").rglob("*") if p.is_file())


@pytest.mark.skipif(
    THIRD_PARTY is None, reason="SERVEBOOK_THIRD_PARTY names no folder of licensed samples"
)
@pytest.mark.parametrize("path", _licensed(), ids=lambda path: path.name[-60:])
def test_licensed_samples_with_a_time_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    named = tmp_path / "0" / f"{path.name[-80:]}_1795972223.txt"
    named.parent.mkdir()
    named.write_bytes(content)
    check(read_tree(named))
    if len(content) < 60_000:
        for i, damaged in enumerate(mutations(content, 3, 16), start=1):
            target = tmp_path / str(i) / named.name
            target.parent.mkdir()
            target.write_bytes(damaged)
            check(read_tree(target))


@pytest.mark.skipif(
    THIRD_PARTY is None, reason="SERVEBOOK_THIRD_PARTY names no folder of licensed samples"
)
@pytest.mark.parametrize(
    ("pattern", "form", "total"),
    [
        # Sums of all received bytes, taken from the files by a search for their fields.
        (
            "nxos/*show_interface_counters_detailed___json.txt",
            "nxos",
            r'"\w*_in_?bytes"|_bytes_in"',
        ),
        ("nxos/*show_interface___json.txt", "nxos", r'"\w+_in_?bytes"|"svi_ucast_bytes_in"'),
    ],
)
def test_licensed_samples_add_up(pattern: str, form: str, total: str, tmp_path: Path) -> None:
    assert THIRD_PARTY is not None
    [path] = (Path(THIRD_PARTY) / "counters").glob(pattern)
    expected = sum(int(number) for number in re.findall(rf'(?:{total}): "(\d+)"', path.read_text()))
    target = tmp_path / "a_1795972223.json"
    target.write_bytes(path.read_bytes())
    tables = read_tree(target)
    assert set(tables.samples["format"].to_pylist()) == {form}
    read = [
        row["count"]
        for row in tables.samples.to_pylist()
        if (row["metric"], row["direction"]) == ("bytes", "rx")
    ]
    assert sum(read) == expected > 0


def test_each_fixture_is_claimed_by_one_format_alone() -> None:
    for path in FILES:
        tables = read_tree(path)
        assert tables.refused.num_rows == (path.name == "grafana_panel.csv"), path.name
        assert len(set(tables.samples["format"].to_pylist())) <= 1
    assert len({form.name for form in FORMATS}) == len(FORMATS)


def _spans(tables: Tables, interface: str, direction: str) -> list[tuple[float, float, list[str]]]:
    frame = intervals(tables.samples, empty("ports"))
    rows = frame[
        (frame["interface"] == interface)
        & (frame["direction"] == direction)
        & (frame["scope"] == "port")
    ]
    seconds = (rows["t1_ns"] - rows["t0_ns"]) / 1e9
    return list(zip(rows["bytes"], seconds, rows["flags"], strict=True))


def test_intervals_of_written_counters() -> None:
    nvue = read_tree(COUNTERS / "written" / "nvue.log")
    assert _spans(nvue, "swp1", "rx") == [(100.0, 2.0, [])]
    [(cleared, _, flags)] = _spans(nvue, "swp1", "tx")
    assert cleared != cleared  # NaN: a counter that fell says nothing of what passed
    assert flags == ["reset"]
    protocol = read_tree(COUNTERS / "written" / "telegraf.influx")
    frame = intervals(protocol.samples, empty("ports"))
    assert set(frame["device"]) == {"node1"}  # one reading each elsewhere


def test_a_wrap_at_2_to_the_53_by_an_exporters_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.out"
    before = 2**53 - 1000
    path.write_text(
        "".join(
            f"ifHCInOctets,ifName=Ethernet1/1,host=h counter={value} {1795972223 + i}\n"
            for i, value in enumerate((before - 500, before, 250))
        )
    )
    # 1000 bytes up to 2^53 and 250 after it, as snmp_exporter counts.
    assert _spans(read_tree(path), "Ethernet1/1", "rx") == [
        (500.0, 1.0, []),
        (1250.0, 1.0, ["wrap"]),
    ]


def test_rates_of_a_panel_become_intervals(tmp_path: Path) -> None:
    path = tmp_path / "panel.csv"
    path.write_text('"Time","eth0 in"\n1795972223000,8 kb/s\n1795972224000,16 kb/s\n')
    spans = _spans(read_tree(path), "eth0", "rx")
    assert [(b, s) for b, s, _ in spans][-1] == (2000.0, 1.0)
    assert all("grid" in flags for _, _, flags in spans)
