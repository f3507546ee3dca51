"""The ``stalls`` command: one row per gap into a Parquet file, and a table to read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from servebook.errors import ServebookError
from servebook.gap_table import GapTable
from servebook.measure.congestion import links, watched
from servebook.measure.run_gaps import MOST
from servebook.measure.runs import run_metrics
from servebook.measure.stalled_gaps import (
    GAP_COLUMNS,
    UNSTEPPED,
    ClassifiedRun,
    classify,
    gap_stalls,
    stalls_of_run,
)
from servebook.measure.stalls import in_part, stall_summary
from servebook.measure.step_quality import step_quality
from servebook.read.campaign import load
from servebook.read.discover import read_tree
from servebook.tables import Tables, table

__all__ = ["stalls", "write_gaps"]

_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("request_id", pa.string()),
        ("index", pa.int32()),
        ("end_ns", pa.int64()),
        ("gap_ns", pa.int64()),
        ("step_end_ns", pa.int64()),
        ("is_stall", pa.bool_()),
        ("cause", pa.string()),
        ("prefill_tokens", pa.int64()),
    ]
)


def stalls(path: Path, output: Path | None = None) -> tuple[str, int]:
    """Text for the terminal and the number of gaps; writes ``output`` where given.

    ``path`` is a dump, a tree of dumps or a campaign folder (with a campaign.yaml). Counters of
    links below it are used where their times are the runs' own, and the text says where none tell
    whether a link stalled a run. Raises
    DumpError or ManifestError for what cannot be read, ServebookError where ``output`` cannot be
    written.
    """
    if (path / "campaign.yaml").is_file():
        campaign = load(path)
        tables, ports = campaign.tables, campaign.ports
    else:
        tables, ports = read_tree(path), table("ports", [])
    seen = links(tables.samples, ports)
    gaps = tables.gaps
    if output is None or not isinstance(gaps, GapTable) or gaps.num_rows <= MOST:
        kept: list[ClassifiedRun] = []
        text = _render(
            tables, classify(tables, seen), seen, None if output is None else kept.append
        )
        if output is not None:
            write_gaps(gap_stalls(tables, seen, classified=kept), output)
        return text, gaps.num_rows
    with _written(output) as part, _Gaps(part, gaps) as file:
        text = _render(tables, classify(tables, seen), seen, file.add)
    return text, gaps.num_rows


class _Gaps:
    """A file of many gaps, run by run as they are classified, then those that were not."""

    def __init__(self, path: Path, gaps: GapTable) -> None:
        self._gaps = gaps
        self._left = gaps.run_ids()
        self._file = pq.ParquetWriter(path, _SCHEMA, compression="zstd")

    def add(self, one: ClassifiedRun) -> None:
        """The rows of a run."""
        self._write(one.tokens.run_id, one)

    def _write(self, run_id: str, one: ClassifiedRun | None) -> None:
        self._left.remove(run_id)
        for rows in stalls_of_run(self._gaps, run_id, one):
            self._file.write_table(_table(rows))

    def __enter__(self) -> _Gaps:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for run_id in list(self._left):
                self._write(run_id, None)
        self._file.close()


def write_gaps(gaps: pd.DataFrame, output: Path) -> None:
    """Write the columns ``GAP_COLUMNS`` of ``gap_stalls``; a file is whole or absent."""
    with _written(output) as part:
        pq.write_table(_table(gaps), part, compression="zstd")


def _table(gaps: pd.DataFrame) -> pa.Table:
    rows = pa.Table.from_pandas(gaps[list(GAP_COLUMNS)], schema=_SCHEMA, preserve_index=False)
    return rows.replace_schema_metadata(None)


@contextlib.contextmanager
def _written(output: Path) -> Iterator[Path]:
    """A file to write into that takes the place of ``output`` when it is whole."""
    part = output.with_name(output.name + ".part")
    try:
        yield part
        part.replace(output)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ServebookError(f"{output}: cannot be written: {error.strerror}") from None
        raise


def _render(
    tables: Tables,
    found: Iterable[ClassifiedRun],
    seen: pd.DataFrame,
    each: Callable[[ClassifiedRun], None] | None = None,
) -> str:
    """The text; ``each`` is given every classified run, of which no more than one is held here."""
    fits: list[pd.DataFrame] = []
    stepless: set[str] = set()

    def passed() -> Iterator[ClassifiedRun]:
        for one in found:
            if one.line:
                fits.append(step_quality([one.line]))
            else:
                stepless.add(one.tokens.run_id)
            if each is not None:
                each(one)
            yield one
            del one  # before the next run is made

    summary = stall_summary(tables, run_metrics(tables), classified=passed())
    if summary.empty:
        return "no runs found"
    by_counters = set(watched(tables.runs, seen))
    fit = {str(row["run_id"]): row for one in fits for row in one.to_dict("records")}
    words = {str(row["run_id"]): str(row["why"]) for row in summary.to_dict("records")}
    cells = {
        name: _cells(row, fit.get(name, {}), name in by_counters)
        for row in summary.to_dict("records")
        if not words[name := str(row["run_id"])]
    }
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells.values(), strict=True)]
    first = max(map(len, ["run", *words]))
    lines = ["  ".join(["run".ljust(first), *map(str.rjust, _HEADS, widths)])]
    for name, why in words.items():
        texts = [why] if why else map(str.rjust, cells[name], widths)
        lines.append("  ".join([name.ljust(first), *texts]))
    lines.append(
        "Gaps of ok profiling requests. % of time: what stalls take beyond the run's median gap. "
        "slow: in steps shared with a prompt. On time, jitter: how closely the tokens follow the "
        "recovered steps. -: not known from the dump."
    )
    lines.append(_link_words(list(cells), by_counters))
    lines += _unstepped([run for run in words if run in stepless])
    lines += [
        f"Of {row['run_id']} stalls were looked for in the first {int(row['n_told_gaps']):,} of "
        f"{int(row['n_run_gaps']):,} gaps, {row['told_s']:.0f} s, as if it had been stopped then."
        for row in summary[in_part(summary)].to_dict("records")
    ]
    lines += [
        f"Uncertain in {row['run_id']}: {row['doubt']}."
        for row in summary.to_dict("records")
        if row["doubt"]
    ]
    return "\n".join(lines)


def _link_words(names: list[str], by_counters: set[str]) -> str:
    """Of how many runs counters could tell a stall by a link."""
    known = sum(name in by_counters for name in names)
    if known == len(names):
        return "link: counters of links were read during every run."
    if known:
        return (
            f"link: counters of links were read during {known} of {len(names)} runs; of the others "
            "it is not known (-) whether a link stalled them."
        )
    return (
        "link: not known (-). No byte counter of a link of known speed and no pause counter was "
        "read while a run went on, so no stall is put down to a link. Put counter files beside the "
        "dumps, and link speeds into campaign.yaml."
    )


def _unstepped(names: list[str]) -> list[str]:
    """What holds for runs whose engine steps could not be recovered."""
    if not names:
        return []
    return [
        (
            f"No engine steps for {', '.join(names)}: {UNSTEPPED} A gap is a stall there if "
            "another request's first token came inside it."
        )
    ]


_HEADS = (
    *("gaps", "stalls", "% of gaps", "% inside", "% of steps", "% of time", "longest ms"),
    *("prefill", "link", "unexpl.", "slow", "on time %", "jitter ms"),
)


def _cells(row: Mapping[Hashable, Any], fit: Mapping[Hashable, Any], counters: bool) -> list[str]:
    return [
        _count(row["n_gaps"]),
        _count(row["n_stalls"]),
        _share(row["stall_fraction_of_gaps"]),
        _share(row["inside_stall_fraction"]),
        _share(row["stall_fraction_of_steps"]),
        _share(row["stall_share_of_decode_time"]),
        _value(row["longest_stall_ms"]),
        _count(row["n_prefill_stalls"]),
        _count(row["n_link_stalls"] if counters else np.nan),
        _count(row["n_unexplained_stalls"]),
        _count(row["n_slow_gaps"]),
        _share(fit.get("on_time_fraction", np.nan)),
        _value(fit.get("jitter_ms", np.nan)),
    ]


def _count(value: float) -> str:
    return "-" if pd.isna(value) else f"{int(value):,}"


def _share(value: float) -> str:
    return "-" if pd.isna(value) else f"{100 * value:.2f}"


def _value(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.3g}"
