"""What results of vLLM's serving benchmark and of SGLang's, which came of it, have in common.

A file holds one result object or several. A detailed result has lists with one slot per request,
failed ones included, in seconds where its summary is in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.errors import DumpError
from servebook.read.errorkind import error_kind
from servebook.read.files import sha256
from servebook.read.json_columns import Column, is_list
from servebook.read.records import Aside, set_aside, workload
from servebook.read.source import Source, relative
from servebook.read.values import whole
from servebook.tables import Tables

__all__ = [
    "LISTS",
    "is_detailed",
    "last_token_ns",
    "lists_of",
    "outcome",
    "tables_of_results",
    "workload_of_totals",
]

#: Lists of which at least one makes a result detailed (others stand in summaries too).
LISTS = ("ttfts", "itls", "output_lens")


def tables_of_results(
    source: Source,
    results: Iterable[tuple[int, Any, str | None]],
    client: str,
    wrong: Callable[[Any], str | None],
    read: Callable[[Any, str, str, str, int], Tables],
    content: Callable[[Any], str] | None = None,
) -> Tables:
    """The tables of all ``results``, given as (line, value, why it is none); a run for each.

    ``wrong`` tells what a value is that is no result; ``read`` makes tables of (value, run id,
    path, SHA-256, line) or raises ValueError, in words. Where ``content`` gives a text that no two
    results share, a copy is set aside. Raises DumpError where there is no result.
    """
    path, digest = relative(source.main, source.root), ""
    base = str(source.options.get("run_id", source.main.stem))
    parts: list[Tables] = []
    aside: Aside = []
    seen: dict[str, int] = {}
    for line, value, reason in results:
        found = reason or wrong(value)
        if found is None and content is not None:
            first = seen.setdefault(content(value), line)
            if first != line:
                aside.append((line, "result", f"a copy of the result on line {first}"))
                continue
        if found is None:
            run_id = base if not parts else f"{base}#{len(parts) + 1}"
            digest = digest or sha256(source.main)  # late: another process may be at it
            try:
                parts.append(read(value, run_id, path, digest, line))
            except ValueError as error:
                found = str(error)
        if found is not None:
            aside.append((line, "result", f"expected one result object, found {found}"))
    if not parts:
        at, _, reason = aside[0] if aside else (None, "", "nothing")
        told = reason.removeprefix("expected one result object, found ")
        raise DumpError(path, f"a {client} benchmark result", told, "copy the file again", line=at)
    return Tables.concat([*parts, Tables(set_aside=set_aside(path, aside))])


def is_detailed(result: Mapping[str, Any]) -> bool:
    """Whether a result has per-request lists with something in them."""
    return any(is_list(v := result.get(name)) and len(v) for name in LISTS)


def lists_of(result: Mapping[str, Any], more: Sequence[str]) -> dict[str, Column | list[Any]]:
    """The per-request lists by name, ``more`` too; raises ValueError for different lengths."""
    lists = {n: v for n in (*LISTS, *more) if is_list(v := result.get(n))}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} with {n}" for name, n in lengths.items())
        raise ValueError(f"per-request lists of different lengths ({told})")
    return lists


def outcome(error: str, osl: int | None, ttft_ns: int | None) -> tuple[str, str | None]:
    """(status, kind of error) of a slot: failed with an error text, or without any output."""
    if error:
        kind = error_kind(None, error)
        return "failed", "stream_broken" if ttft_ns and kind == "other" else kind
    return ("failed", "stream_error") if osl == 0 else ("ok", None)


def last_token_ns(
    slot: Mapping[str, Any], ttft_ns: int | None, gap_ns: npt.NDArray[np.int64] | None
) -> int | None:
    """Time from a request's start to its last token; None where the slot does not tell."""
    if not ttft_ns or not ("itls" in slot or slot.get("output_lens") == 1):
        return None
    return ttft_ns + (0 if gap_ns is None else int(gap_ns.sum()))


def workload_of_totals(result: Mapping[str, Any], n_ok: int | None) -> str | None:
    """The workload by the mean lengths of a summary's ``n_ok`` requests; None where not told."""
    isl, osl = whole(result.get("total_input_tokens")), whole(result.get("total_output_tokens"))
    if not n_ok or isl is None or osl is None:
        return None
    return workload(round(isl / n_ok), round(osl / n_ok))
