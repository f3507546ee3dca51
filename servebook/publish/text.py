"""The catalogue of fixed text: one YAML file per language in ``report/text/``.

Template, scripts, chapters and charts ask for a text by its key, so that a second language is one
file. A key names the place where its text stands. ``say`` speaks the language of this process: that
of the build that started it, else English, as in a notebook that is run by itself.

Some texts are the names of things in the tables beside the page as well: column heads, units, what
a count is of, marks. Those names stay the same whatever the language; the page asks for what it
shows for them (``Catalogue.called``) and shows the name itself where the catalogue is silent.

Own code: gettext keys texts by their English wording and compiles to binary files; here a key names
the place, and a translator copies one readable file.
"""

from __future__ import annotations

import functools
import os
import string
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from markupsafe import Markup

from servebook.errors import BuildError
from servebook.publish.wordings import Wordings

__all__ = [
    "DEFAULT",
    "VARIABLE",
    "Catalogue",
    "as_written",
    "called",
    "column",
    "folder",
    "languages",
    "load",
    "say",
    "speak",
    "speaking",
    "spoken",
    "told",
]

DEFAULT = "en"
#: The environment variable that names the file whose language a build's kernels speak.
VARIABLE = "SERVEBOOK_TEXT"
#: The group that takes the place of the notebooks' own prose: notebook, cell id, Markdown. It is
#: in translations only, for the English prose stands in the notebooks.
PROSE = "prose"
#: The groups of texts that are found by their English wording.
TOLD = ("glossary.", "metrics.", "reasons.", "settings.", "told.")


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        parts = (
            _flat(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()
        )
        return {key: text for part in parts for key, text in part.items()}
    return {prefix: "" if value is None else str(value)}


def _fields(text: str) -> set[str]:
    return {
        name.partition("!")[0]
        for _, outer, spec, _ in string.Formatter().parse(text)
        if outer is not None
        for name in (outer, *_fields(spec or ""))
    }


class Catalogue:
    """Texts by dotted key: ``catalogue("figure.source", source="manifest")``."""

    def __init__(
        self, texts: dict[str, str], path: Path | None = None, base: dict[str, str] | None = None
    ) -> None:
        self.texts = texts
        self.path = path
        self._base = texts if base is None else base  # the English ones
        self.names: set[str] = set()  # of a campaign, which are no wordings

    def __call__(self, key: str, /, **values: Any) -> str:
        """The text of ``key`` with ``{names}`` filled in; KeyError where there is none."""
        return self.texts[key].format(**values)

    def html(self, key: str, /, **values: Any) -> Markup:
        """The same for HTML: text and values are escaped, values that are Markup are not."""
        return Markup.escape(self.texts[key]).format(**values)

    def count(self, key: str, n: int) -> str:
        """A count with its noun, from ``<key>.one`` or ``<key>.many``."""
        return self(f"{key}.{'one' if n == 1 else 'many'}", n=f"{n:,}")

    def called(self, group: str, name: str) -> str:
        """What is shown for a name of ``group`` (columns, units, nouns, marks): else itself."""
        return self.texts.get(f"{group}.{name}", name)

    def column(self, name: str) -> str:
        """What is shown for a column: whole, else its name and its unit in brackets, each."""
        shown = self.called("columns", name)
        head, bracket, unit = name.removesuffix(")").rpartition(" (")
        if shown != name or not (bracket and name.endswith(")")):
            return shown
        return f"{self.called('columns', head)} ({self.called('units', unit)})"

    def told(self, wording: str) -> str:
        """The text for an English wording of another layer, else that wording.

        Labels of metrics, names of settings and reasons are made where dumps are read and measured,
        which knows of no page; the groups ``TOLD`` hold them, with fields for what differs.
        """
        return wording if self.is_english else self._wordings.told(wording)

    @property
    def is_english(self) -> bool:
        """These are the English texts themselves, in which every wording is told as it is."""
        return self.texts is self._base

    @functools.cached_property
    def _wordings(self) -> Wordings:
        english = {key: text for key, text in self._base.items() if key.startswith(TOLD)}
        return Wordings(english, self.texts, self.names)

    def forget(self) -> None:
        """Look wordings up anew, since there are more names."""
        self._wordings.forget()

    def prose(self, notebook: str, cell: str, source: str) -> str:
        """The Markdown of a notebook's cell in this language: its own ``source`` in English."""
        return self.texts.get(f"{PROSE}.{notebook}.{cell}", source)

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


def folder() -> Path:
    """Where the catalogues are: beside this file in an installed package, else in the checkout."""
    installed = Path(__file__).with_name("texts")
    return installed if installed.is_dir() else Path(__file__).parents[2] / "report" / "text"


@functools.lru_cache(maxsize=8)
def _parsed(name: str, content: bytes) -> dict[str, str]:
    try:
        # Every scalar is text: "no", "1.0" and "null" are words of some language.
        found = yaml.load(content.decode(), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        line = str(error).strip().splitlines()[-1].strip()
        raise BuildError(f"{name}: expected a YAML file of texts by key; {line}") from None
    if not isinstance(found, dict):
        raise BuildError(f"{name}: expected a YAML file of texts by key, found {found!r:.60}")
    return _flat(found)


_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the latter takes a second


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
    path = folder / f"{language}.yaml"
    texts, base = (_parsed(p.name, p.read_bytes()) for p in (path, folder / f"{DEFAULT}.yaml"))
    if texts is not base and (found := _differences(texts, base)):
        raise BuildError(f"{language}.yaml: {'; '.join(sorted(found)[:5])}")
    return Catalogue(texts, path, base)


def _differences(texts: dict[str, str], base: dict[str, str]) -> list[str]:
    problems = [f"{key} is missing" for key in base if not texts.get(key)]
    problems += [
        f"{key} is not a known text"
        for key in texts
        if key not in base and not key.startswith(f"{PROSE}.")
    ]
    for key in base.keys() & texts.keys():
        try:
            differs = _fields(texts[key]) != _fields(base[key])
        except ValueError:
            differs = True
        if differs:
            names = ", ".join(f"{{{name}}}" for name in sorted(_fields(base[key]))) or "none"
            problems.append(f"{key} must hold these names in braces: {names}")
    return problems


_now: list[Catalogue] = []


def spoken() -> Catalogue:
    """The catalogue of this process."""
    if not _now:
        named = os.environ.get(VARIABLE)
        path = Path(named) if named else folder() / f"{DEFAULT}.yaml"
        _now.append(load(path.parent, path.stem))
    return _now[-1]


def speak(path: Path) -> None:
    """Have this process, and those that it starts, speak the language of a file from now on."""
    catalogue = load(path.parent, path.stem)
    catalogue.told("")  # so that the processes that are forked from this one need not make ready
    _now[:] = [catalogue]
    os.environ[VARIABLE] = str(path)


@contextmanager
def speaking(catalogue: Catalogue) -> Iterator[None]:
    """Have this process, and those that it starts, speak a language for a while."""
    before = os.environ.get(VARIABLE)
    _now.append(catalogue)
    if catalogue.path is not None:
        os.environ[VARIABLE] = str(catalogue.path.resolve())
    else:
        os.environ.pop(VARIABLE, None)
    try:
        yield
    finally:
        _now.pop()
        if before is not None:
            os.environ[VARIABLE] = before
        else:
            os.environ.pop(VARIABLE, None)


def as_written(names: Iterable[str]) -> None:
    """Have this process, and those that it forks, leave names of a campaign as they are.

    A configuration that is labelled "16 slots" is none of the catalogue's "{n} slots".
    """
    catalogue = spoken()
    catalogue.names.update(names)
    if not catalogue.is_english:
        catalogue.forget()


def say(key: str, /, **values: Any) -> str:
    """A text of the catalogue that this process speaks, with ``{names}`` filled in.

    What is filled in is often a wording of another layer (a reason, a setting's level): ``told``.
    """
    catalogue = spoken()
    if not catalogue.is_english:
        values = {n: catalogue.told(v) if isinstance(v, str) else v for n, v in values.items()}
    return catalogue.texts[key].format(**values)


def called(group: str, name: str) -> str:
    """What this process shows for a name of ``group``; see ``Catalogue.called``."""
    return spoken().called(group, name)


def column(name: str) -> str:
    """What this process shows for a column; see ``Catalogue.column``."""
    return spoken().column(name)


def told(wording: str) -> str:
    """An English wording of another layer in the language of this process; ``Catalogue.told``."""
    return spoken().told(wording)
