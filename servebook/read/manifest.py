"""The campaign manifest: what dumps cannot tell, validated with errors that name the line.

``campaign.yaml`` says which engine settings stand behind which dumps, what the links can carry,
and where clocks differ. Everything that a dump does tell is read from the dump. This module
reads the file and checks what one key alone cannot show: names that must exist, numbers that
must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from servebook.errors import ManifestError
from servebook.read.manifest_gates import check_gates, check_slos
from servebook.read.manifest_kinds import At
from servebook.read.manifest_pattern import (
    COUNTER_FIELDS,
    RUN_FIELDS,
    PatternError,
    compile_pattern,
    nearest,
)
from servebook.read.manifest_record import record
from servebook.read.manifest_schema import (
    Configuration,
    CounterEntry,
    Manifest,
    ManifestGate,
    Model,
    Note,
    Port,
    Price,
    RunEntry,
)
from servebook.read.manifest_yaml import parse_yaml

__all__ = [
    "FILENAME",
    "Configuration",
    "CounterEntry",
    "Manifest",
    "ManifestGate",
    "Model",
    "Note",
    "Port",
    "Price",
    "RunEntry",
    "load_manifest",
    "parse_manifest",
]

FILENAME = "campaign.yaml"


def load_manifest(campaign_dir: Path | str) -> Manifest:
    """Read and validate ``campaign.yaml`` of a campaign folder (or that file itself).

    Raises ManifestError naming the line, what was expected, what was found and the way out.
    """
    path = Path(campaign_dir)
    if path.is_dir() or path.suffix not in (".yaml", ".yml"):
        path = path / FILENAME
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ManifestError(
            path,
            "a campaign manifest",
            "no such file",
            f"name a campaign folder, or write a manifest with `servebook init {path.parent}`",
        ) from None
    except OSError as error:
        raise ManifestError(
            path, "a readable file", str(error.strerror), "check the path and its permissions"
        ) from None
    return parse_manifest(text, path)


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """The manifest in ``text``; ``path`` is where it stands, for errors.

    Raises ManifestError as ``load_manifest`` does.
    """
    at = At(path)
    root = parse_yaml(text, path)
    manifest = record(Manifest, root, at, path=path)
    top = root.value if isinstance(root.value, dict) else {}
    _check_configurations(manifest, at, {name: entry.line for name, entry in top.items()})
    _check_entries(manifest.runs, RUN_FIELDS, at.child("runs"))
    _check_entries(manifest.counters, COUNTER_FIELDS, at.child("counters"))
    _check_ports(manifest, at)
    slos = top.get("slos")
    check_slos(manifest.slos, at.child("slos"), slos.line if slos else None)
    check_gates(manifest.gates, at.child("gates"))
    for index, note in enumerate(manifest.notes):
        _check_note(note, at.child("notes").item(index))
    return manifest


def _check_note(note: Note, at: At) -> None:
    condition = note.workload is not None or note.concurrency is not None
    targets = sum(target is not None for target in (note.figure, note.run, note.configuration))
    if targets > 1 or (targets == 0 and not condition):
        raise at.error(
            note.line,
            "exactly one of `figure`, `run` and `configuration`",
            "none or several",
            "say what the note is about; `workload` and `concurrency` choose runs, too",
        )
    if note.figure is not None and condition:
        raise at.error(
            note.line,
            "`workload` and `concurrency` beside runs only",
            "a `figure`",
            "remove them, or name runs in place of the figure",
        )


def _check_configurations(manifest: Manifest, at: At, lines: Mapping[str, int]) -> None:
    names = [c.name for c in manifest.configurations]
    labels: dict[str, str] = {}
    for c in manifest.configurations:
        here = at.child("configurations").child(c.name)
        if c.label in labels:
            raise here.error(
                c.line,
                "a label of its own",
                f"that of `{labels[c.label]}`: {c.label}",
                "name them apart: charts show the label",
            )
        labels[c.label] = c.name
        if c.nodes and c.gpus_per_node and c.gpus and c.nodes * c.gpus_per_node != c.gpus:
            raise here.error(
                c.line,
                f"`gpus` to be nodes x gpus_per_node = {c.nodes} x {c.gpus_per_node}"
                f" = {c.nodes * c.gpus_per_node}",
                f"{c.gpus}",
                "correct the one that is wrong; GPUs are never inferred",
            )
    used: list[tuple[str, str | None, int | None]]
    used = [(name, getattr(manifest, name), lines.get(name)) for name in ("baseline", "candidate")]
    used += [
        (f"runs[{i}].configuration", e.configuration, e.line) for i, e in enumerate(manifest.runs)
    ]
    used += [
        (f"gates[{i}].configuration", g.configuration, g.line) for i, g in enumerate(manifest.gates)
    ]
    used += [
        (f"notes[{i}].configuration", n.configuration, n.line) for i, n in enumerate(manifest.notes)
    ]
    for keys, name, line in used:
        if name is not None and name not in names:
            way_out = nearest(name, names) if names else "describe it under `configurations:`"
            raise at.child(keys).error(
                line, "the name of a configuration in this file", f"`{name}`", way_out
            )
    if manifest.baseline is not None and manifest.baseline == manifest.candidate:
        raise at.child("candidate").error(
            lines.get("candidate"),
            "another configuration than the baseline",
            f"`{manifest.candidate}`",
            "change one of them",
        )


def _check_entries(
    entries: Iterable[RunEntry | CounterEntry], known: Mapping[str, str], at: At
) -> None:
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        here = at.item(index).child("match")
        try:
            pattern = compile_pattern(entry.match, known)
        except PatternError as error:
            raise here.error(entry.line, error.expected, error.found, error.way_out) from None
        for name in pattern.fields:
            if getattr(entry, name) is not None:
                raise here.error(
                    entry.line,
                    f"`{name}` either in the pattern or as a key",
                    "both",
                    f"use * in the pattern, or remove the key `{name}`",
                )
        if entry.match in seen:
            raise here.error(
                entry.line,
                "a pattern of its own",
                f"that of line {seen[entry.match]}",
                "the first entry that matches wins: merge the two",
            )
        seen[entry.match] = entry.line


def _check_ports(manifest: Manifest, at: At) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, port in enumerate(manifest.ports):
        place = (port.device, port.interface)
        if place in seen:
            raise (
                at.child("ports")
                .item(index)
                .error(
                    port.line,
                    "each port once",
                    f"{port.device} {port.interface} again (first at line {seen[place]})",
                    "remove one of them",
                )
            )
        seen[place] = port.line
