"""Wordings of other layers are found again by their patterns, with their fields, in any order."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.publish.wordings import Wordings

#: pattern in English: the same in a language that turns everything round.
PATTERNS = {
    "{n} of {n_all} runs failed": "von {n_all} Läufen scheiterten {n}",
    "{n} x {reason}": "{n}mal {reason}",
    "{client} counts the {n} cut requests": "die {n} gekappten zählt {client}",
    "{client} spans valid requests only; ours all": "{client} nimmt gültige; wir alle",
    "expected {expected}, found {found}; {way_out}": "{found} statt {expected}; {way_out}",
    "{key}: {reason} ({n} readings)": "{key}: {reason} ({n} Werte)",
    "a list": "eine Liste",
    "a summary; nothing to recompute": "Auszug; nichts nachzurechnen",
    "copy it again": "neu kopieren",
    "no value": "kein Wert",
    "map it: `{{ts: NAME}}`": "zuordnen: `{{ts: NAME}}`",
    "{n} slots": "{n} Plätze",
    "{shown} and {n} more": "{shown} und {n} weitere",
}
ENGLISH = {f"k{i:02}": text for i, text in enumerate(PATTERNS)}
GERMAN = dict(zip(ENGLISH, PATTERNS.values(), strict=True))
KNOWN = Wordings(ENGLISH, GERMAN)


@pytest.mark.parametrize(
    ("wording", "told"),
    [
        ("3 of 1,204 runs failed", "von 1,204 Läufen scheiterten 3"),
        ("no value", "kein Wert"),
        ("no values", "no values"),
        ("map it: `{ts: NAME}`", "zuordnen: `{ts: NAME}`"),
        # Reasons in reasons.
        ("expected a list, found b; copy it again", "b statt eine Liste; neu kopieren"),
        ("expected x, found 3 slots (no value); stop", "3 Plätze (kein Wert) statt x; stop"),
        ("x (no value)", "x (no value)"),
        ("rx: no value (7 readings)", "rx: kein Wert (7 Werte)"),
        # Lists of reasons, some of which hold what stands between two.
        ("no value; a list", "kein Wert; eine Liste"),
        ("2 x no value; 1 x expected a list, found b; copy it again; 4 x a list",
         "2mal kein Wert; 1mal b statt eine Liste; neu kopieren; 4mal eine Liste"),
        ("A spans valid requests only; ours all; A counts the 4 cut requests; no value",
         "A nimmt gültige; wir alle; die 4 gekappten zählt A; kein Wert"),
        ("a summary; nothing to recompute; a list", "Auszug; nichts nachzurechnen; eine Liste"),
        # What a reason is of, and names.
        ("run 1: no value", "run 1: kein Wert"),
        ("run 1: a summary; nothing to recompute", "run 1: Auszug; nichts nachzurechnen"),
        ("16 slots, x, no value", "16 Plätze, x, kein Wert"),
        # A number is a number: labels stay.
        ("many slots", "many slots"),
        ("a{n} slots", "a{n} slots"),
        ("12.5 slots", "12.5 Plätze"),
        ("a, b and 2 more", "a, b und 2 weitere"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_wording_is_told_with_its_fields(wording: str, told: str) -> None:
    assert KNOWN.told(wording) == told


def test_a_name_is_no_wording() -> None:
    named = Wordings(ENGLISH, GERMAN, {"16 slots", "8 slots, no value"})
    assert named.told("16 slots") == "16 slots"
    assert named.told("16 slots, 8 slots, no value") == "16 slots, 8 Plätze, kein Wert"
    assert named.told("8 slots, no value") == "8 slots, no value"


def test_the_pattern_with_most_text_of_its_own_counts() -> None:
    texts = {"b": "{x} of {y}", "a": "{x} of {y} here", "c": "{z} of it here"}
    found = Wordings(texts, texts).found("all of it here")
    assert [pattern.key for pattern, _ in found] == ["c", "a", "b"]


@given(st.text(alphabet="a;:,. {}nx12ofruslt", max_size=60))
def test_in_its_own_language_a_wording_stays_as_it_is(wording: str) -> None:
    assert Wordings(ENGLISH, ENGLISH).told(wording) == wording


@pytest.mark.parametrize(
    "label",
    ["1 of " * 2000 + "2 runs failed", "no value; " * 3000, "a: " * 1500, "1 x " * 900,
     "expected , found ; " * 200, "expected a, found " * 200 + "; x"],
)  # fmt: skip
def test_no_label_takes_long(label: str) -> None:
    began = time.process_time()
    assert isinstance(KNOWN.told(label), str)
    assert time.process_time() - began < 1
