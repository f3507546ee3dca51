"""Files of counters for the tests of their readers: where they lie, how they are read and shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from servebook.read.files import survey
from servebook.read.source import Format, Source
from servebook.tables import Tables

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"
WRITTEN = FIXTURES / "written"

licensed = pytest.mark.skipif(
    "SERVEBOOK_THIRD_PARTY" not in os.environ,
    reason="SERVEBOOK_THIRD_PARTY names the folder of licensed dumps",
)


def licensed_folder(name: str) -> Path:
    """A folder of licensed counter dumps, for tests that are marked ``licensed``."""
    return Path(os.environ["SERVEBOOK_THIRD_PARTY"]) / "counters" / name


def read(form: Format, *paths: Path, **options: Any) -> Tables:
    """What a reader makes of files that are given to it."""
    return form.read(Source(form.name, paths[0].parent, paths[0], paths, options))


def claim(form: Format, path: Path, **options: Any) -> Tables:
    """What a reader makes of a file that it must claim as its own."""
    assert [source.main for source in form.find(survey(path))] == [path]
    return read(form, path, **options)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def rows(tables: Tables, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the samples, row by row."""
    return [tuple(row[name] for name in columns) for row in tables.samples.to_pylist()]


def leaf_log(folder: Path, text: str) -> Path:
    """A switch's log of one reading, its time before it."""
    return write(folder / "leaf1.log", f"### 1795972223.5\n{text}\n")
