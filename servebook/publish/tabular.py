"""A figure's table as plain JSON: columns with their kind, values, and each value as text.

The values are what CSV and Parquet are written from, the texts are what a reader sees. Floats
are rounded to six significant digits, so that bytes do not depend on the processor or on the
order of a sum. What is absent (None, NaN, NaT) stays null and reads as a dash, never as 0. A cell
that the catalogue knows by its English wording ("held", "plateau") is read in its language; its
value stays as it is. So is a unit in a column of units.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from servebook.publish import words
from servebook.publish.names import ABSENT, UNITS, Kind, Table

__all__ = ["ABSENT", "UNITS", "Kind", "Table", "round_float", "table"]

DIGITS = 6
#: What is closer to 0 is written by its power of ten.
LEAST = 1e-5


def round_float(value: float, digits: int = DIGITS) -> float | None:
    """The value to ``digits`` significant digits; None where it is not finite.

    >>> round_float(1234567.8), round_float(0.1 + 0.2), round_float(float("nan"))
    (1234570.0, 0.3, None)
    """
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """One cell as a JSON value: bool, int, rounded float, text or None."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round_float(value)
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, Iterable):
        return ", ".join(str(plain(item)) for item in value)
    return str(value)


def _kind(values: list[Any]) -> Kind:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "boolean"
    numbers = [value for value in known if not isinstance(value, bool | str)]
    if known and len(numbers) == len(known):
        return "integer" if all(isinstance(value, int) for value in known) else "number"
    return "text"


def _small(value: float) -> str:
    """A number that would be mostly zeros, by its power of ten.

    >>> _small(-7.055e-12), _small(1e-6)
    ('−7.055e-12', '1e-6')
    """
    digits, _, power = f"{value:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", "−", value < 0)


def _text(value: Any, kind: Kind, column: str) -> str:
    if value is None or value == "":
        return ABSENT
    if kind == "time":
        return str(value).replace("T", " ").replace("+00:00", " UTC")
    if isinstance(value, bool):
        return words.told("yes" if value else "no")
    if isinstance(value, int | float):
        return _small(value) if 0 < abs(value) < LEAST else words.number(value, 4)
    return words.told(words.unit(str(value)) if column in UNITS else str(value))


def table(frame: pd.DataFrame) -> Table:
    """The frame as ``{"columns", "kinds", "rows", "text"}``, row by row, in its own order.

    The index is left out: what identifies a row must be a column. Column names are made text.

    Raises:
        ValueError: two columns share a name, so that a CSV of them would be ambiguous.

    """
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) != len(columns):
        twice = sorted({name for name in columns if columns.count(name) > 1})
        raise ValueError(f"a table's columns must differ; twice there: {', '.join(twice)}")
    values = [[plain(value) for value in frame.iloc[:, i].tolist()] for i in range(len(columns))]
    times = [pd.api.types.is_datetime64_any_dtype(dtype) for dtype in frame.dtypes]
    kinds: list[Kind] = [
        "time" if is_time else _kind(v) for v, is_time in zip(values, times, strict=True)
    ]
    rows = [list(row) for row in zip(*values, strict=True)]
    return {
        "columns": columns,
        "kinds": kinds,
        "rows": rows,
        "text": [list(map(_text, row, kinds, columns)) for row in rows],
    }
