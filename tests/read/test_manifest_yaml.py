from __future__ import annotations

from pathlib import Path

import pytest

from servebook.errors import ManifestError
from servebook.read.manifest_yaml import MAX_BYTES, Node, describe, parse_yaml

PATH = Path("campaign.yaml")


def test_values_know_their_line() -> None:
    root = parse_yaml(b"# c\na: 1\nb:\n  - x\n  - {k: 2026-01-01T00:00:00Z}\n", PATH)
    assert isinstance(root.value, dict)
    assert root.value["a"].node == Node(1, 2)
    items = root.value["b"].node.value
    assert isinstance(items, tuple)
    assert items[0] == Node("x", 4)
    assert isinstance(items[1].value, dict)
    assert items[1].value["k"].node == Node("2026-01-01T00:00:00Z", 5)


def test_halves_of_characters_are_joined() -> None:
    root = parse_yaml(b'a: "\\ud83d\\ude00"\n', PATH)
    assert isinstance(root.value, dict)
    assert root.value["a"].node.value == "\U0001f600"


def test_merge_keys_yield_to_own_keys() -> None:
    root = parse_yaml(b"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", PATH)
    assert isinstance(root.value, dict)
    merged = root.value["b"].node.value
    assert isinstance(merged, dict)
    assert {name: entry.node.value for name, entry in merged.items()} == {"x": 1, "y": 3}


BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"k%d: &%c [%s]\n" % (i, 98 + i, b", ".join([b"*%c" % (97 + i)] * 10)) for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "an empty file"),
        (b"# only a comment\n", "an empty file"),
        (b'a: 1\nb: "\\ud83d"\n', ":2: expected whole characters, found half of one"),
        (b"a: 1\n\tb: 2\n", ":2: expected valid YAML, found a tab"),
        (b"a: [1, 2\n", "valid YAML"),
        (b"a: 1\na: 2\n", ":2: expected the key `a` once, found it again (first at line 1)"),
        (b"a: !!python/object/apply:os.system [x]\n", ":1: expected a plain value, found the tag"),
        (b"a: !mine 3\n", "the tag !mine"),
        (b"a: &a [*a]\n", "an alias that holds itself"),
        (b"a: *nowhere\n", "valid YAML"),
        (BOMB, "aliases that unfold to more"),
        (b"a: " + b"[" * 40 + b"]" * 40, ":1: expected at most 16 levels of nesting"),
        (b"a: " + b"{a: " * 5000, "at most 16 levels"),
        (b"\xff\xfe", "UTF-8 text"),
        (b"a: 1\nb: \x07\n", ":2: expected valid YAML, found a control character"),
        (b"a: 1\n---\nb: 2\n", "another document"),
        (b"? [a, b]\n: 1\n", "a key that is text"),
        (b"1.5: 1\n", "a key that is text"),
        (b"<<: 3\n", "a mapping to merge"),
        (b"a: !!int x\n", "a value of the type int, found 'x'"),
        (b"#" * (MAX_BYTES + 1), "below 1 MiB"),
    ],
)
def test_what_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_yaml(text, PATH)
    assert words in str(caught.value)
    assert str(caught.value).startswith("campaign.yaml")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (3, "the number 3"),
        ("x" * 50, "the text '" + "x" * 40 + "'..."),
        ((Node(1, 1),), "a list of 1"),
        ({}, "a mapping with no keys"),
    ],
)
def test_values_in_words(value: object, words: str) -> None:
    assert describe(Node(value, 1)) == words  # type: ignore[arg-type]
