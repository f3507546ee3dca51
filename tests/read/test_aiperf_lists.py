"""The compiled part of the reader: exact numbers, whole lines, and what it leaves to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import aiperf_lists
from servebook.read.aiperf_lists import SOURCES, SWITCH, Lists, digest, library
from servebook.read.aiperf_piece import read_piece
from servebook.read.aiperf_summary import Settings
from servebook.read.values import gaps
from tests.read.ways import block_of, needs_library


@pytest.fixture(scope="module", params=["sixteen bytes at once", "64 bytes at once"], autouse=True)
def processor(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Every test is run as on any processor, and as on one that takes more bytes at once."""
    functions = needs_library()
    wide = request.param.startswith("64")
    if functions.servebook_use_wide(wide) != wide:
        pytest.skip("this processor has no AVX-512 with VBMI2")
    yield wide
    functions.servebook_use_wide(1)


BEFORE, AFTER = b'{"metrics":{"inter_chunk_latency":{"value":[', b'],"unit":"ms"},"x":1}}'


def taken(texts: list[str]) -> list[list[int] | None]:
    """The gaps of each list in ns; None where it is refused."""
    block = block_of([BEFORE + text.encode() + AFTER for text in texts])
    found = Lists(needs_library()).take(block).gaps()
    assert len(found) == len(texts)
    return [None if ns is None else ns.tolist() for ns in found]


def parts(lines: list[bytes], lists: Lists) -> list[tuple[bytes, bytes | None]]:
    """The lines as they lie in the block, and their rests."""
    block = block_of(lines)
    found = lists.take(block)
    return [
        (bytes(block[slice(*found.line(at))]), None if n < 0 else bytes(found.rest(at)))
        for at, n in enumerate(found.lines[:, 2].tolist())
    ]


def by_floats(text: str) -> list[int]:
    return gaps(json.loads(f"[{text}]"), 1e6).tolist()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0.1", [100_000]),
        ("0.0", [0]),
        ("5.0", [5_000_000]),
        ("5.123456,7.5", [5_123_456, 7_500_000]),
        ("6.412471999999999", [6_412_472]),
        ("12.271493999999999", [12_271_494]),
        ("999.999999,1.5", [999_999_999, 1_500_000]),
        ("999.9999999", [1_000_000_000]),
        ("1234.567891", [1_234_567_891]),
        ("2147.483646", [2_147_483_646]),
        ("2147.483647", None),  # these do not fit 32 bits, or hardly
        ("9999.5", None),
        ("12345.5", None),
        ("1.000000499", [1_000_000]),
        ("1.000000501", [1_000_001]),
        ("1.00000049999", [1_000_000]),
        ("1.00000050001", [1_000_001]),
        ("1.0000004999999999999", None),  # next to a half
        ("1.0000005", None),
        ("1.00000050000000000001", None),
        ("1.50000000000000000000000000000000000000000000000000000001", [1_500_000]),
        ("0.00000000000000000000000000000000000000000000000000000001,2.5", [0, 2_500_000]),
        *((text, None) for text in ("", "5", "5.", ".5", "05.1", "00.1", "1e3", "1.5e0", "-0")),
        *((text, None) for text in ("-0.0", "-1.5", "+1.5", " 1.5", "1.5 ", "1.5, 2.5", "1.5,")),
        *((text, None) for text in ("1.5,,2.5", "1.2.3", "1..5", "1/5", "1:5", "null", "[1.5]")),
        *((text, None) for text in ("1.5]", "1.5],[2.5", '"1.5"', "1.5}", "0x1.5", "1.5,NaN")),
    ],
)
def test_what_is_taken(text: str, ns: list[int] | None) -> None:
    assert taken([text]) == [ns]
    assert taken(["1.5", text, "2.5"]) == [[1_500_000], ns, [2_500_000]]
    if ns is not None:
        assert by_floats(text) == ns


def test_all_hundredths_of_a_ns() -> None:
    texts = [f"{ms}.{ns:06d}{part:04d}" for ms, ns in ((0, 0), (7, 999_999), (998, 123_456))
             for part in range(10_000)]  # fmt: skip
    found = taken(texts)
    refused = {text[-4:] for text, ns in zip(texts, found, strict=True) if ns is None}
    assert refused == {"5000"}
    assert all(ns == by_floats(t) for t, ns in zip(texts, found, strict=True) if ns is not None)


usual = st.integers(0, 10**9 - 1).map(lambda ns: repr(ns / 1e6)).filter(lambda t: "e" not in t)
noisy = st.integers(10**3, 10**9 - 1).map(lambda ns: repr(ns * 1e-9 * 1e3))


@given(st.lists(st.lists(usual | noisy, min_size=1, max_size=40), min_size=1, max_size=8))
def test_what_aiperf_writes_is_taken_as_floats_are(lists: list[list[str]]) -> None:
    texts = [",".join(numbers) for numbers in lists]
    assert taken(texts) == [by_floats(text) for text in texts]


decimal = st.from_regex(r"\A(0|[1-9][0-9]{0,4})\.[0-9]{1,50}\Z")
near_half = st.tuples(
    st.integers(0, 2_147_483_647),
    st.sampled_from(["4", "5", "49", "50", "51", "48", "4999", "5001", "49999", "50000"]),
    st.text("0123456789", max_size=30),
).map(lambda p: f"{p[0] // 10**6}.{p[0] % 10**6:06d}{p[1]}{p[2]}")


@given(st.lists(decimal | near_half, min_size=1, max_size=20))
@example(["2147.4836465", "2147.48364649", "0.0000004", "0.0000006"])
def test_decimals_are_those_of_floats_or_refused(texts: list[str]) -> None:
    for text, ns in zip(texts, taken(texts), strict=True):
        assert ns is None or ns == by_floats(text)


@given(st.lists(st.text('0123456789.,]e- \\"k', max_size=30), min_size=1, max_size=5))
@example(["1.5" * 40, "1.5"])
def test_any_text_for_a_list(texts: list[str]) -> None:
    for text, ns in zip(texts, taken(texts), strict=True):
        if ns is not None:
            assert ns == by_floats(text)


@pytest.mark.parametrize("n", [*range(1, 35), 255, 256, 257, 1000, 5000])
def test_lists_of_any_length(n: int) -> None:
    numbers = [f"{7 * at % 999}.{at * 7919 % 1_000_000:06d}" for at in range(n)]
    text = ",".join(numbers)
    assert taken([text]) == [by_floats(text)]
    for at in {0, n // 2, n - 2, n - 1} & set(range(n)):
        for other in ("", "5", "5.", ".5", "05.5", "007.5", "1.5.5", "1,5", "1.0000005", "1.5e1",
                      "1-5", "1:5", "-1.5", "1.5 "):  # fmt: skip
            assert taken([",".join([*numbers[:at], other, *numbers[at + 1 :]])]) == [None]
        # What only the careful way takes.
        longer = ",".join([*numbers[:at], "1234.5", *numbers[at + 1 :]])
        assert taken([longer]) == [by_floats(longer)]


@given(
    st.lists(usual | noisy, min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 1000), st.sampled_from("0123456789.,]e- x/:")), max_size=3),
)
@example(["1.2", "3.4"], [(1, ","), (3, "."), (5, ".")])
@example(["5.5"] * 17, [(1, ","), (3, ".")])
def test_a_list_changed_anywhere(
    processor: bool, numbers: list[str], changes: list[tuple[int, str]]
) -> None:
    text = ",".join(numbers)
    for at, byte in changes:
        at %= len(text)
        text = text[:at] + byte + text[at + 1 :]
    (ns,) = taken([text])
    if ns is not None:
        assert ns == by_floats(text)
    assert (ns is None) == (plainly(text) is None)
    needs_library().servebook_use_wide(processor)


def plainly(text: str) -> list[int] | None:
    """The gaps of a list as any processor takes them."""
    functions = needs_library()
    functions.servebook_use_wide(0)
    (ns,) = taken([text])
    return ns


def test_the_rest_of_a_line_has_null_for_the_list() -> None:
    lines = [
        BEFORE + b"1.5,2.5" + AFTER,
        b'{"metadata":{"ack":"\x7f"}}',
        b"",
        BEFORE + b"1.5,2.5" + AFTER + b"\r",
        BEFORE + b"3.5" + AFTER.replace(b"ms", b"s"),
        BEFORE + b"3.5" + b'],"value":[1.5],"unit":"ms"}}}',
        BEFORE + b"4.5" + AFTER.replace(b"x", "é".encode()),
        BEFORE + b"4.5" + AFTER.replace(b"x", b"\\u0078"),
        BEFORE + b"4.5" + AFTER.replace(b"x", b"inter_chunk_latency"),
        BEFORE.replace(b":{", b": {") + b"4.5" + AFTER,
        b"k" * 9 + b'"inter_chunk_latency":{"value":[5.5],"unit":"ms"}',
        b'inter_chunk_latency":{"value":[5.5],"unit":"ms"}',
        b'"inter_chunk_latency":{"value":[',
        BEFORE + b"9.5" + AFTER,
    ]
    lists = Lists(needs_library())
    found = parts(lines, lists)
    assert [line for line, _ in found] == [line + b"\n" for line in lines]
    rests = [rest for _, rest in found]
    null = (BEFORE + AFTER).replace(b"[]", b"null")
    assert rests[:4] == [null, lines[1], b"", null + b"\r"]
    assert rests[4:10] == [None] * 6
    assert rests[10:] == [b"k" * 9 + null[12:-8], None, None, null]
    counts = lists.take(block_of(lines)).lines[:, 2].tolist()
    assert counts == [2, 0, 0, 2, *[-1] * 6, 1, -1, -1, 1]


@pytest.mark.parametrize("line", [b"", b"{}", BEFORE + b"1.5" + AFTER, BEFORE])
def test_more_lines_than_fit_at_once(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiperf_lists, "_SOME_LINES", 7)
    for n in (1, 7, 8, 20):
        marked = [line + b"%d" % at for at in range(n)]
        lists = Lists(needs_library())
        found = parts(marked, lists)
        assert [one for one, _ in found] == [one + b"\n" for one in marked]
        null = line.replace(b"[1.5]", b"null")
        rests = [None if line == BEFORE else null + b"%d" % at for at in range(n)]
        assert [rest for _, rest in found] == rests
        gap_ns = lists.take(block_of(marked)).gap_ns
        assert gap_ns.tolist() == [1_500_000] * (n if b"1.5" in line else 0)


def test_files_of_gaps_are_the_same_bytes_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_library()
    rng = np.random.default_rng(0)
    lines = []
    for n in range(300):
        ns = rng.integers(0, 3 * 10**7, 50)
        value = [one * 1e-9 * 1e3 if one % 2 else one / 1e6 for one in ns.tolist()]
        value += [2500.0] * (n % 50 == 7) + [1e-5] * (n % 50 == 9)
        metrics = {"inter_chunk_latency": {"value": value, "unit": "ms"}}
        metrics["output_sequence_length"] = {"value": 51, "unit": "tokens"}  # type: ignore[dict-item]
        about = {"x_request_id": f"{n}", "request_start_ns": 1_795_972_676_000_000_000 + n}
        one = {"metadata": about, "metrics": metrics}
        lines.append(json.dumps(one, separators=(",", ":")).encode())
    contents = []
    for way in ("0", "1"):
        monkeypatch.setenv(SWITCH, way)
        folder = tmp_path / way
        folder.mkdir()
        piece = read_piece([block_of(lines)], Settings(), folder, "piece")
        assert piece.n_lines == len(piece.columns["request_id"]) == 300
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]
    assert contents[0]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library beside copies of its sources, which is what is used."""
    of_sources = digest(*(one.read_bytes() for one in SOURCES))
    (own,) = SOURCES[0].parent.glob(f"libaiperf-{of_sources}-*.so")
    for path in (*SOURCES, own):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    copies = tuple(tmp_path / one.name for one in SOURCES)
    monkeypatch.setattr(aiperf_lists, "SOURCES", copies)
    aiperf_lists._loaded.cache_clear()
    return tmp_path / own.name


@pytest.mark.skipif(library() is None, reason="nothing was compiled (test_what_is_taken says why)")
@pytest.mark.parametrize("size", [None, 0, 9000])
def test_a_library_that_was_cut_short_is_left_alone(copied: Path, size: int | None) -> None:
    copied.write_bytes(copied.read_bytes()[:size])
    assert (library() is None) == (size is not None)


@pytest.mark.skipif(library() is None, reason="nothing was compiled (test_what_is_taken says why)")
@pytest.mark.parametrize("number", range(len(SOURCES)))
def test_a_library_of_another_source_or_of_another_kind_is_left_alone(
    copied: Path, number: int
) -> None:
    other = b"no library"
    name = copied.name.rpartition("-")[0]
    copied.unlink()
    copied.with_name(f"{name}-{digest(other)}.so").write_bytes(other)
    assert library() is None
    aiperf_lists._loaded.cache_clear()
    source = copied.with_name(SOURCES[number].name)
    source.write_bytes(source.read_bytes() + b"\n")
    assert library() is None
    aiperf_lists._loaded.cache_clear()
    source.unlink()
    assert library() is None


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert library() is None
