"""Runs joined with the manifest: configuration, condition, repeats, and one clock.

A value that the dump holds is kept; the manifest fills what is missing. Each disagreement becomes
a finding.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servebook.errors import ManifestError
from servebook.read.campaign_clock import number_repeats, shift_of, shifted
from servebook.read.manifest import Manifest, RunEntry
from servebook.read.manifest_match import Hit, Matcher
from servebook.read.manifest_pattern import RUN_FIELDS, nearest
from servebook.read.records import workload
from servebook.tables import Tables, table

__all__ = ["join_runs", "some"]

Row = dict[str, Any]

#: Our column, the manifest's key, and what it is in words.
_CONDITIONS = (
    ("concurrency", "concurrency", "concurrency"),
    ("request_rate", "request_rate", "request rate"),
    ("isl_requested", "isl", "input length"),
    ("osl_requested", "osl", "output length"),
    ("cache_reuse", "cache_reuse", "cache reuse"),
)
_LENGTH_TOLERANCE = 0.05  # of the length asked for; synthetic prompts miss it by a few tokens


def join_runs(parts: Sequence[Tables], manifest: Manifest) -> tuple[Tables, list[str]]:
    """The parts' tables as one, with runs filled from the manifest, and findings in words.

    Raises ManifestError where no entry of ``runs:`` matches any run, where one ``start`` would
    serve several runs, and for fields taken from a path that are no valid value.
    """
    matcher = Matcher(manifest.runs, RUN_FIELDS)
    findings: list[str] = []
    rows: list[Row] = []
    shifts: dict[str, int] = {}
    medians = _medians(pa.concat_tables([part.requests for part in parts]))
    for part in parts:
        for row in part.runs.to_pylist():
            row["campaign"] = manifest.name
            hit = matcher.match(_names(row))
            said = {} if hit is None else _said(hit, row["run_id"], manifest)
            findings += _fill(row, said, medians.get(row["run_id"], (None, None)))
            entry = None if hit is None else hit.entry
            shift = shift_of(row, entry, findings)
            if shift:
                shifts[row["run_id"]] = shift
            if entry is not None and entry.note:
                row["notes"] = [*(row["notes"] or []), entry.note]
            rows.append(row)
    _check_matches(matcher, manifest, rows)
    findings += matcher.unused("runs", "run")
    findings += _overview(rows, manifest)
    number_repeats(rows)
    joined = Tables.concat([shifted(part, shifts) for part in parts])
    return dataclasses.replace(joined, runs=table("runs", rows)), findings


def _names(row: Row) -> list[str]:
    """The paths by which a run can be matched: its id, its file, the folder of the file."""
    path = str(row["path"])
    names = [row["run_id"], str(row["run_id"]).rpartition("#")[0], path, path.rpartition("/")[0]]
    return list(dict.fromkeys(names))


def _said(hit: Hit[RunEntry], run_id: str, manifest: Manifest) -> Row:
    """What the manifest says of a run: the entry's keys and the fields of its pattern."""
    said: Row = {
        name: value
        for name in (*RUN_FIELDS, "cache_reuse")
        if (value := getattr(hit.entry, name)) is not None
    }
    for name, text in hit.fields.items():
        if name in ("configuration", "workload"):
            said[name] = text
            continue
        said[name] = float(text) if name == "request_rate" else int(text)
        if not said[name]:
            raise ManifestError(
                manifest.path,
                f"{name} of at least 1 from the name of {run_id}",
                text,
                "use * in the pattern and state it as a key",
                line=hit.entry.line,
            )
    configuration = said.get("configuration")
    if configuration is not None and manifest.configuration(configuration) is None:
        known = [c.name for c in manifest.configurations]
        raise ManifestError(
            manifest.path,
            f"a configuration named as in the path of {run_id}",
            f"`{configuration}`",
            nearest(configuration, known) if known else "describe it under `configurations:`",
            line=hit.entry.line,
        )
    return said


def _fill(row: Row, said: Row, medians: tuple[int | None, int | None]) -> list[str]:
    findings = []
    row["configuration"] = said.get("configuration")
    row["repeat"] = said.get("repeat")
    for column, key, words in _CONDITIONS:
        if key not in said:
            continue
        if row[column] is None:
            row[column] = said[key]
        elif row[column] != said[key]:
            findings.append(
                f"{row['run_id']}: the manifest says {words} {said[key]}, the dump {row[column]}; "
                "the dump's value is used"
            )
    for key, words, median in zip(("isl", "osl"), ("input", "output"), medians, strict=True):
        if key not in said or median is None:
            continue
        if abs(median - said[key]) > max(2.0, _LENGTH_TOLERANCE * said[key]):
            findings.append(
                f"{row['run_id']}: the manifest says {words} length {said[key]}, the median "
                f"request had {median} tokens"
            )
    isl, osl = (
        row[f"{key}_requested"] if row[f"{key}_requested"] is not None else median
        for key, median in zip(("isl", "osl"), medians, strict=True)
    )
    by_length = row["workload"] or workload(isl, osl)
    if "workload" in said:
        row["workload"], row["workload_from"] = said["workload"], "manifest"
        if by_length not in (None, said["workload"]) and said["workload"] != "other":
            findings.append(
                f"{row['run_id']}: the manifest calls it {said['workload']}, its lengths (input "
                f"{isl}, output {osl}) make it {by_length}; the manifest's word is used"
            )
    else:
        row["workload"] = by_length
        row["workload_from"] = "lengths" if by_length else None
    return findings


def _check_matches(matcher: Matcher[RunEntry], manifest: Manifest, rows: Sequence[Row]) -> None:
    if manifest.runs and not matcher.any_matched:
        first = manifest.runs[0]
        raise ManifestError(
            manifest.path,
            "an entry of `runs:` that matches a run",
            f"none; the runs are {some([row['run_id'] for row in rows])}",
            "correct `match`: it is the path below the campaign folder",
            line=first.line,
        )
    for index, entry in enumerate(manifest.runs):
        if entry.start is not None and matcher.count(index) > 1:
            raise ManifestError(
                manifest.path,
                f"one run for the `start` of `runs[{index}]`",
                f"{matcher.count(index)} runs that match {entry.match}",
                "give each run an entry of its own",
                line=entry.line,
            )


def _overview(rows: Sequence[Row], manifest: Manifest) -> list[str]:
    findings = []
    nameless = [row["run_id"] for row in rows if row["configuration"] is None]
    if nameless:
        findings.append(
            f"{len(nameless)} of {len(rows)} runs have no configuration and are left out of "
            f"comparisons: {some(nameless)}"
        )
    clockless = [
        row["run_id"] for row in rows if row["clock"] != "epoch" and row["start_ns"] is not None
    ]
    if clockless:
        findings.append(
            f"{len(clockless)} runs have no wall clock and no `start` in the manifest, so they "
            f"cannot be laid beside counters: {some(clockless)}"
        )
    name = manifest.model.name
    others = sorted({row["model"] for row in rows if row["model"] not in (None, name)})
    if name is not None and others:
        findings.append(f"the manifest names the model {name}, dumps name it {some(others)}")
    for c in manifest.configurations:
        if c.name not in {row["configuration"] for row in rows}:
            findings.append(f"configuration `{c.name}` of the manifest has no run")
        sizes = (c.tp or 1, c.dp or 1, c.pp or 1)
        if c.gpus is not None and c.tp is not None and math.prod(sizes) != c.gpus:
            findings.append(
                f"configuration `{c.name}`: tp x dp x pp = {' x '.join(map(str, sizes))} "
                f"does not make its {c.gpus} GPUs"
            )
    return findings


def _medians(requests: pa.Table) -> Mapping[str, tuple[int | None, int | None]]:
    """Median input and output length per run, over ok profiling requests."""
    ok = requests.filter(
        pc.and_(pc.equal(requests["phase"], "profiling"), pc.equal(requests["status"], "ok"))
    )
    frame = ok.select(["run_id", "isl", "osl"]).to_pandas()
    medians = frame.groupby("run_id", sort=True)[["isl", "osl"]].median()
    return {
        str(run_id): (
            None if np.isnan(isl) else round(isl),
            None if np.isnan(osl) else round(osl),
        )
        for run_id, isl, osl in medians.astype(float).itertuples()
    }


def some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    shown = ", ".join(names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
