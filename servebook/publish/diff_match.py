"""Which configuration of one side is which of the other: by name, by label, by settings.

A label is what charts show; its author may word it anew. The name in the manifest is what runs
refer to, so it goes first. Where both were changed, a configuration is known by its settings: by
all that the two sides state of it, where that fits one configuration on either side alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from servebook.publish import words
from servebook.publish.diff_sides import Side
from servebook.publish.text import say

__all__ = ["labels_of", "matched", "pairs", "setting_text"]

#: Fewer settings than this are no sign: many configurations have two nodes.
LEAST_SETTINGS = 3
_WORDING = ("note",)  # settings that are prose


def setting_text(value: Any) -> str | None:
    """A setting's value as both kinds of sides have it: from a manifest and from a CSV.

    >>> setting_text(8.0), setting_text("8"), setting_text(float("nan")), setting_text("FP8")
    ('8', '8', None, 'FP8')
    """
    if value is None or value != value:
        return None
    # A CSV column of numbers and words comes back as text, one of numbers as floats.
    try:
        return words.number(float(str(value).replace(",", "")))
    except ValueError:
        return str(value)


def labels_of(side: Side) -> list[str]:
    """The labels of a side, those of its settings first."""
    shown = [str(name) for name in side.settings.columns if name != "Setting"]
    ran = side.runs["configuration"].dropna().astype(str) if "configuration" in side.runs else ()
    return list(dict.fromkeys([*shown, *ran]))


def _settings(side: Side, label: str) -> dict[str, str]:
    if "Setting" not in side.settings or label not in side.settings:
        return {}
    rows = zip(side.settings["Setting"].astype(str), side.settings[label], strict=True)
    found = {name: setting_text(value) for name, value in rows if name not in _WORDING}
    return {name: text for name, text in found.items() if text is not None}


def pairs(first: Side, second: Side) -> list[tuple[str, str, str]]:
    """Each match: label in the first side, in the second, and "name", "label" or "settings"."""
    left, right = labels_of(first), labels_of(second)
    found: list[tuple[str, str, str]] = []

    def take(a: str, b: str, how: str) -> None:
        found.append((a, b, how))
        left.remove(a)
        right.remove(b)

    by_name = {second.names[label]: label for label in right if label in second.names}
    for label in list(left):
        other = by_name.get(first.names.get(label, ""))
        if other in right:
            take(label, str(other), "name")
    for label in list(left):
        if label in right:
            take(label, label, "label")
    own = {label: _settings(first, label) for label in left}
    others = {label: _settings(second, label) for label in right}
    for a in list(left):
        if len(own[a]) < LEAST_SETTINGS or sum(own[a] == one for one in own.values()) > 1:
            continue
        alike = [b for b in right if others[b] == own[a]]
        if len(alike) == 1:
            take(a, alike[0], "settings")
    return found


def matched(first: Side, second: Side) -> tuple[Side, tuple[str, ...]]:
    """The second side under the labels of the first, and in words what was matched how.

    A label of the second side that the first uses for something else gets " (B)".
    """
    found = pairs(first, second)
    new = {b: a for a, b, _ in found}
    for label in labels_of(second):
        if label not in new and label in new.values():
            new[label] = say("diff.match.of_b", label=label)
    renamed = {b: a for b, a in new.items() if a != b}
    said = [
        say(key, names=_names(these))
        for how, key in (
            ("name", "diff.match.by_name"),
            ("label", "diff.match.by_label"),
            ("settings", "diff.match.by_settings"),
        )
        if (these := [one for one in found if one[2] == how])
    ]
    return (_relabelled(second, renamed) if renamed else second), tuple(said)


def _names(found: Iterable[tuple[str, str, str]]) -> str:
    return say("words.comma").join(
        a if a == b else say("diff.match.in_b", a=a, b=b) for a, b, _ in found
    )


def _relabelled(side: Side, new: Mapping[str, str]) -> Side:
    runs = side.runs
    if "configuration" in runs:
        runs = runs.assign(configuration=runs["configuration"].replace(dict(new)))
    return dataclasses.replace(
        side,
        settings=side.settings.rename(columns=dict(new)),
        runs=pd.DataFrame(runs),
        names={new.get(label, label): name for label, name in side.names.items()},
        renamed=dict(new),
    )
