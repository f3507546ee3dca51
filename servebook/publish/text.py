"""The catalogue of fixed text: one YAML file per language in ``report/text/``.

Template, scripts and charts ask for a text by its key; so a second language is one file. Sentences
that hold computed numbers are made by the chapters and are in English whatever the catalogue.

Own code: gettext keys texts by their English wording and compiles to binary files; here a key names
the place, and a translator copies one readable file.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from markupsafe import Markup
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from servebook.errors import BuildError

__all__ = ["DEFAULT", "Catalogue", "languages", "load"]

DEFAULT = "en"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        parts = (
            _flat(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()
        )
        return {key: text for part in parts for key, text in part.items()}
    return {prefix: "" if value is None else str(value)}


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


class Catalogue:
    """Texts by dotted key: ``catalogue("figure.source", source="manifest")``."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def __call__(self, key: str, **values: Any) -> str:
        """The text of ``key`` with ``{names}`` filled in; KeyError where there is none."""
        return self.texts[key].format(**values) if values else self.texts[key]

    def html(self, key: str, **values: Any) -> Markup:
        """The same for HTML: text and values are escaped, values that are Markup are not."""
        return Markup.escape(self.texts[key]).format(**values)

    def count(self, key: str, n: int) -> str:
        """A count with its noun, from ``<key>.one`` or ``<key>.many``."""
        return self(f"{key}.{'one' if n == 1 else 'many'}", n=f"{n:,}")

    def group(self, name: str) -> dict[str, str]:
        """The texts of one group by the rest of their keys, for the page's scripts."""
        return {
            key.removeprefix(f"{name}."): text
            for key, text in self.texts.items()
            if key.startswith(f"{name}.")
        }


def languages(folder: Path) -> list[str]:
    """The languages that ``folder`` has a catalogue of."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _read(path: Path) -> dict[str, str]:
    try:
        found = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        line = str(error).strip().splitlines()[-1].strip()
        raise BuildError(f"{path.name}: expected a YAML file of texts by key; {line}") from None
    if not isinstance(found, dict):
        raise BuildError(f"{path.name}: expected a YAML file of texts by key, found {found!r:.60}")
    return _flat(found)


def load(folder: Path, language: str = DEFAULT) -> Catalogue:
    """The catalogue of a language, complete: same keys and same ``{names}`` as the English one.

    Raises:
        BuildError: there is no such file, it is not YAML, or a key or a name is missing or unknown.

    """
    known = languages(folder)
    if language not in known:
        raise BuildError(
            f"no texts in the language {language!r}; there are: {', '.join(known)}; "
            f"another one is a translated copy of {DEFAULT}.yaml"
        )
    texts, base = _read(folder / f"{language}.yaml"), _read(folder / f"{DEFAULT}.yaml")
    problems = [f"{key} is missing" for key in base if not texts.get(key)]
    problems += [f"{key} is not a known text" for key in texts if key not in base]
    for key in base.keys() & texts.keys():
        try:
            differs = _fields(texts[key]) != _fields(base[key])
        except ValueError:
            differs = True
        if differs:
            names = ", ".join(f"{{{name}}}" for name in sorted(_fields(base[key]))) or "none"
            problems.append(f"{key} must hold these names in braces: {names}")
    if problems:
        raise BuildError(f"{language}.yaml: {'; '.join(sorted(problems)[:5])}")
    return Catalogue(texts)
