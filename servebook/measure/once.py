"""Measure a table once while it lives: chapters, ledger and comparisons ask for the same ones."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pandas as pd

__all__ = ["once"]

F = TypeVar("F", bound=Callable[..., pd.DataFrame])


def once(function: F) -> F:
    """Remember what a pure function made of the very same argument objects, while they live.

    For functions of positional arguments that nobody alters (canonical tables). Each caller gets
    a frame of its own: pandas copies a column when one of them writes to it.
    """
    kept: dict[tuple[int, ...], tuple[tuple[weakref.ref[Any], ...], pd.DataFrame]] = {}

    @functools.wraps(function)
    def remembered(*args: Any, **named: Any) -> pd.DataFrame:
        if named:
            return function(*args, **named)
        key = tuple(id(one) for one in args)
        known = kept.get(key)
        if known is None or any(ref() is not one for ref, one in zip(known[0], args, strict=True)):
            found = function(*args)
            # Dropped with the first of the arguments, so that nothing outlives what it is of.
            refs = tuple(weakref.ref(one, lambda _: kept.pop(key, None)) for one in args)
            known = kept[key] = (refs, found)
        return known[1].copy(deep=False)

    return cast("F", remembered)
