"""``servebook init``: a first campaign.yaml from whatever dumps lie in a folder.

It writes down what the dumps tell, as comments, and marks with FILL IN what only a person can
know. The draft is a valid manifest as it stands, so that a page can be built before it is filled.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from servebook.errors import DumpError, ManifestError, ServebookError
from servebook.read.discover import discover
from servebook.read.files import printable
from servebook.read.manifest import FILENAME, parse_manifest
from servebook.read.reading import Part, read_sources
from servebook.read.registry import FORMATS
from servebook.read.source import Source, relative

__all__ = ["draft"]

_CONCURRENCY = re.compile(
    r"(?:(?<=[_\-./])|^)((?:concurrency|conc|c)[_\-=]?)([0-9]+)(?![0-9A-Za-z])"
)
_MARK = "# FILL IN"
_CONFIGURATION = (
    ("label", "name shown in charts"),
    ("engine", "vLLM, SGLang, TensorRT-LLM"),
    ("engine_version", ""),
    ("gpu", "GPU type"),
    ("hbm_gb", "memory of one GPU in GB"),
    ("nodes", "servers"),
    ("gpus_per_node", ""),
    ("gpus", "nodes x gpus_per_node"),
    ("tp", "tensor-parallel size"),
    ("dp", "data-parallel replicas"),
    ("ep", "expert-parallel size"),
    ("precision", "FP8, NVFP4, BF16"),
    ("bytes_per_parameter", ""),
    ("max_num_seqs", "slots per replica"),
    ("max_num_batched_tokens", ""),
    ("prefix_caching", "true or false"),
    ("chunked_prefill", "true or false"),
)


@dataclass
class _Group:
    """Runs that one pattern covers, and what is known of them."""

    runs: list[Mapping[str, Any]] = field(default_factory=list)
    captured: bool = False


def draft(directory: Path, force: bool = False) -> str:
    """Write ``campaign.yaml`` for the dumps below ``directory``; returns what to do next.

    Raises DumpError for a folder without a usable dump and ManifestError where a manifest is
    there already and ``force`` is false.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise DumpError(
            directory, "a folder with dumps", "no such folder", "name the folder that holds them"
        )
    target = directory / FILENAME
    if target.exists() and not force:
        raise ManifestError(target, "no manifest yet", "one", "edit it, or replace it with --force")
    root = directory.resolve()
    found = discover(root)
    refused = list(found.refused)
    parts = read_sources(found.sources, refused)
    kinds = {form.name: form.kind for form in FORMATS}
    counters = [s for s in found.sources if kinds[s.format] == "counters"]
    groups = _groups(row for part in parts for row in part.tables.runs.to_pylist())
    if not groups:
        first = "; ".join(f"{path}: {reason}" for path, reason in sorted(refused)[:2])
        raise DumpError(
            directory,
            "at least one run of a benchmark client",
            f"none ({first})" if first else "none",
            "copy the clients' output folders below it; `servebook inspect` says what a file is",
        )
    by_path = {relative(part.source.main, root): part for part in parts}
    text = "\n".join(
        [
            *_head(_slug(root.name), groups),
            *_runs(groups),
            *_counters(counters, by_path, dict(refused)),
            *_ports(pa.concat_tables([part.tables.samples for part in parts])),
        ]
    )
    text += "\n"
    parse_manifest(text.encode(), target)  # never write what could not be read back
    _write(target, text)
    n_runs = sum(len(group.runs) for group in groups.values())
    return (
        f"Wrote {target}: {n_runs} runs in {len(groups)} entries, {len(counters)} counter files.\n"
        f"Fill in the {text.count(_MARK)} lines marked FILL IN where you know the answer "
        f"(null means not stated), then: servebook build {directory}"
    )


def _head(name: str, groups: Mapping[str, _Group]) -> list[str]:
    runs = [row for group in groups.values() for row in group.runs]
    models = _distinct(row["model"] for row in runs)
    clients = _distinct(" ".join(filter(None, (r["client"], r["client_version"]))) for r in runs)
    return [
        "# What the dumps below cannot tell. Keys, units and an example: docs/manifest.md.",
        "# null means: not stated. Nothing that is null is guessed.",
        "servebook: 1",
        f"name: {_scalar(name)}",
        f"title: null  {_MARK}: heading of the page",
        f"provenance: null  {_MARK}: measured or reconstructed",
        f"provenance_note: null  {_MARK}: who measured what with what, in a few sentences",
        f"client_time_zone: null  {_MARK}: zone of the clients' clocks, like UTC or Europe/Zurich",
        f"# clients found: {_comment(', '.join(clients))}",
        "",
        "model:",
        f"  # named in the dumps: {_comment(', '.join(models) or 'nothing')}",
        f"  name: {_scalar(models[0]) if len(models) == 1 else 'null'}  {_MARK}: check the name",
        f"  parameters: null  {_MARK}: all parameters, like 671e9",
        "",
        "# One entry per way in which the model was served; the order is the order of colours.",
        "configurations:",
        f"  config-1:  {_MARK}: a name of yours, and further entries",
        *(
            f"    {key}: null  {_MARK}" + (f": {hint}" if hint else "")
            for key, hint in _CONFIGURATION
        ),
        "",
        f"baseline: null  {_MARK}: the configuration that others are compared with",
        f"candidate: null  {_MARK}: the configuration that the comparison is about",
    ]


def _groups(runs: Iterable[Mapping[str, Any]]) -> dict[str, _Group]:
    """Runs by pattern: paths that differ in their concurrency alone share one."""
    groups: dict[str, _Group] = {}
    for row in sorted(runs, key=lambda row: str(row["run_id"])):
        pattern, captured = _pattern(re.sub(r"#[0-9]+$", "", row["run_id"]), row["concurrency"])
        group = groups.setdefault(pattern, _Group())
        group.runs.append(row)
        group.captured = captured
    return dict(sorted(groups.items()))


def _pattern(path: str, concurrency: int | None) -> tuple[str, bool]:
    hits = [hit for hit in _CONCURRENCY.finditer(path) if concurrency in (None, int(hit[2]))]
    hit = hits[-1] if hits and int(hits[-1][2]) else None
    if hit is None:
        return _literal(path), False
    before, after = path[: hit.start(2)], path[hit.end(2) :]
    return f"{_literal(before)}{{concurrency}}{_literal(after)}", True


def _literal(text: str) -> str:
    """``text`` as a pattern; characters that mean something there or in YAML become ``?``."""
    plain = re.sub(r"[*?{}\\]|^\s|\s$", "?", text)
    return "".join(c if c.isprintable() else "?" for c in plain)


def _runs(groups: Mapping[str, _Group]) -> list[str]:
    lines = ["", "# The first entry that matches a run wins.", "runs:"]
    for pattern, group in groups.items():
        lines.append(f"  # {_comment(_about(group))}")
        lines.append(f"  - match: {_scalar(pattern)}")
        lines.append(f"    configuration: null  {_MARK}: name of a configuration above")
        if any(row["clock"] == "relative" for row in group.runs):
            hint = "when the first request was sent, like 2026-11-29T17:23:46+00:00"
            lines.append(f"    start: null  {_MARK}: {hint}")
            if len(group.runs) > 1:
                lines.append("    # a start serves one run: then give each run an entry of its own")
    return lines


def _about(group: _Group) -> str:
    runs = group.runs
    words = [f"{len(runs)} run" + "s" * (len(runs) != 1)]
    words.append(", ".join(_distinct(row["client"] for row in runs)))
    asked = {
        "input": _distinct(row["isl_requested"] for row in runs),
        "output": _distinct(row["osl_requested"] for row in runs),
        "concurrency": _distinct(row["concurrency"] for row in runs),
    }
    words += [f"{name} {'/'.join(values)}" for name, values in asked.items() if values]
    workloads = _distinct(row["workload"] for row in runs)
    words.append(f"workload by lengths: {'/'.join(workloads) or 'unknown'}")
    return "; ".join(words)


def _counters(
    sources: Iterable[Source], by_path: Mapping[str, Part], refused: Mapping[str, str]
) -> list[str]:
    lines = []
    for source in sources:
        path = relative(source.main, source.root)
        part = by_path.get(path)
        if part is None:
            about = f"not readable yet: {refused.get(path, 'no reason known')}"
            interfaces: list[str] = []
        else:
            samples = part.tables.samples
            interfaces = _distinct(samples["interface"].unique().to_pylist())
            interfaces = [] if interfaces == ["unknown"] else interfaces
            about = f"{source.format}; {samples.num_rows} readings; interfaces: " + (
                ", ".join(interfaces[:8]) + (", ..." if len(interfaces) > 8 else "")
                if interfaces
                else "not named"
            )
        lines.append(f"  # {_comment(about)}")
        lines.append(f"  - match: {_scalar(_literal(path))}")
        lines.append(f"    device: null  {_MARK}: switch or host that was read")
        if not interfaces:
            lines.append(f"    interface: null  {_MARK}: the file does not name it")
    return ["", "counters:", *lines] if lines else []


def _ports(samples: pa.Table) -> list[str]:
    pairs = samples.select(["device", "interface"]).group_by(["device", "interface"]).aggregate([])
    rows = sorted(
        (str(row["device"]), str(row["interface"]))
        for row in pairs.to_pylist()
        if row["device"] is not None and row["interface"] is not None
    )
    if not rows:
        return []
    hint = "line rate in Gbit/s; remove ports that do not matter"
    return [
        "",
        "# `device` must be the one of the counters, also after you name it there.",
        "ports:",
        *(
            f"  - {{device: {_scalar(device)}, interface: {_scalar(interface)}, "
            f"speed_gbps: null, role: null, node: null}}  {_MARK}: {hint}"
            for device, interface in rows
        ),
    ]


def _distinct(values: Iterable[Any]) -> list[str]:
    """The distinct values as text, numbers by size."""
    found = {value for value in values if value is not None}
    return [str(v) for v in sorted(found, key=lambda v: (isinstance(v, str), v))]


def _comment(text: str) -> str:
    """``text`` on one line of reasonable length; names in dumps are not to be trusted."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= 200 else line[:197] + "..."


def _scalar(text: str) -> str:
    """``text`` as a YAML scalar, in quotes unless it is a plain word or path."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", text)
    words = {"true", "false", "null", "yes", "no", "on", "off"}
    return text if plain and text.lower() not in words else json.dumps(text)


def _slug(name: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return slug or "campaign"


def _write(target: Path, text: str) -> None:
    try:
        handle, work = tempfile.mkstemp(prefix=".campaign-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(work).chmod(0o644)
        Path(work).replace(target)
    except OSError as error:
        raise ServebookError(
            f"{target}: cannot be written ({error.strerror}); make the folder writable or work "
            "on a copy"
        ) from None
