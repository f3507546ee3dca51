"""The text of a drafted manifest: what dumps tell as comments, the rest marked FILL IN."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from servebook.read.files import printable
from servebook.read.reading import Part
from servebook.read.source import Source, relative

__all__ = ["MARK", "Group", "counters", "head", "literal", "ports", "runs"]

MARK = "# FILL IN"
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
class Group:
    """Runs that one pattern covers, and what is known of them."""

    runs: list[Mapping[str, Any]] = field(default_factory=list)


def head(name: str, groups: Mapping[str, Group]) -> list[str]:
    """Everything above ``runs:``; ``name`` is the campaign's."""
    rows = [row for group in groups.values() for row in group.runs]
    models = _distinct(row["model"] for row in rows)
    clients = _distinct(" ".join(filter(None, (r["client"], r["client_version"]))) for r in rows)
    return [
        "# What the dumps below cannot tell. Keys, units and an example: docs/manifest.md.",
        "# null means: not stated. Nothing that is null is guessed.",
        "servebook: 1",
        f"name: {_scalar(name)}",
        f"title: null  {MARK}: heading of the page",
        f"provenance: null  {MARK}: measured or reconstructed",
        f"provenance_note: null  {MARK}: who measured what with what, in a few sentences",
        f"client_time_zone: null  {MARK}: zone of the clients' clocks, like UTC or Europe/Zurich",
        f"# clients found: {_comment(', '.join(clients))}",
        "",
        "model:",
        f"  # named in the dumps: {_comment(', '.join(models) or 'nothing')}",
        f"  name: {_scalar(models[0]) if len(models) == 1 else 'null'}  {MARK}: check the name",
        f"  parameters: null  {MARK}: all parameters, like 671e9",
        "",
        "# One entry per way in which the model was served; the order is the order of colours.",
        "configurations:",
        f"  config-1:  {MARK}: a name of yours, and further entries",
        *(
            f"    {key}: null  {MARK}" + (f": {hint}" if hint else "")
            for key, hint in _CONFIGURATION
        ),
        "",
        f"baseline: null  {MARK}: the configuration that others are compared with",
        f"candidate: null  {MARK}: the configuration that the comparison is about",
    ]


def runs(groups: Mapping[str, Group]) -> list[str]:
    """Section ``runs:``, one entry per pattern."""
    lines = ["", "# The first entry that matches a run wins.", "runs:"]
    for pattern, group in groups.items():
        lines.append(f"  # {_comment(_about(group))}")
        lines.append(f"  - match: {_scalar(pattern)}")
        lines.append(f"    configuration: null  {MARK}: name of a configuration above")
        if any(row["clock"] == "relative" for row in group.runs):
            hint = "when the first request was sent, like 2026-11-29T17:23:46+00:00"
            lines.append(f"    start: null  {MARK}: {hint}")
            if len(group.runs) > 1:
                lines.append("    # a start serves one run: then give each run an entry of its own")
    return lines


def _about(group: Group) -> str:
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


def counters(
    sources: Iterable[Source], by_path: Mapping[str, Part], refused: Mapping[str, str]
) -> list[str]:
    """Section ``counters:``, one entry per file; nothing where there is none."""
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
        lines.append(f"  - match: {_scalar(literal(path))}")
        lines.append(f"    device: null  {MARK}: switch or host that was read")
        if not interfaces:
            lines.append(f"    interface: null  {MARK}: the file does not name it")
    return ["", "counters:", *lines] if lines else []


def ports(samples: pa.Table) -> list[str]:
    """Section ``ports:``, one line per interface that the counters name."""
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
            f"speed_gbps: null, role: null, node: null}}  {MARK}: {hint}"
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
    return text if plain and text.lower() not in words else json.dumps(text, ensure_ascii=False)


def literal(text: str) -> str:
    """``text`` as a pattern; characters that mean something there or in YAML become ``?``."""
    plain = re.sub(r"[*?{}\\]|^\s|\s$", "?", text)
    return "".join(c if c.isprintable() else "?" for c in plain)
