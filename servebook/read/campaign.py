"""A campaign: its manifest and everything that its dumps hold, as canonical tables.

``load`` finds the dumps, reads each through the cache, and joins them with the manifest. What the
dumps tell is taken from them; the manifest adds what they cannot know, and where the two disagree
the campaign says so in its findings.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from servebook.errors import DumpError
from servebook.read import csvmap, parquet_series
from servebook.read.campaign_counters import counter_findings, moved
from servebook.read.campaign_remote import mirrored
from servebook.read.campaign_runs import join_runs, some
from servebook.read.discover import Discovery, discover
from servebook.read.engine_clock import engine_moved, run_shifts
from servebook.read.files import sha256
from servebook.read.manifest import FILENAME, CounterEntry, Manifest, load_manifest
from servebook.read.manifest_match import Matcher
from servebook.read.manifest_pattern import COUNTER_FIELDS
from servebook.read.parts import inputs_of
from servebook.read.privacy import masked
from servebook.read.reading import Part, read_sources
from servebook.read.registry import FORMATS
from servebook.read.source import Source, relative
from servebook.tables import Tables, table

__all__ = ["Campaign", "keep", "load"]

#: What a counters entry tells a reader.
_COUNTER_OPTIONS = (
    "device",
    "interface",
    "interfaces",
    "columns",
    "kind",
    "unit",
    "bits",
    "direction",
    "time_zone",
)

#: Files of a campaign that are no dumps, at the top of its folder.
_OWN = (
    FILENAME,
    "README.md",
    "SHA256SUMS",
    "published.csv",
    "contradictions.csv",
    "recipes.csv",
    "reconstruction.yaml",
)

_INPUTS = pa.schema(
    [("path", pa.string()), ("sha256", pa.string()), ("bytes", pa.int64()), ("format", pa.string())]
)


@dataclass(frozen=True)
class Campaign:
    """One campaign, read and joined; see ``load``.

    ``tables.runs`` has campaign, configuration, workload, concurrency and repeat filled; times
    are on one clock where the manifest allows it. ``ports`` has the schema "ports", ``inputs``
    the columns path, sha256, bytes, format of every file that was used, sorted by path.
    ``findings`` are sentences: where manifest and dumps disagree, and what was left out.
    ``masked`` is set by ``servebook.read.privacy.masked``.
    """

    root: Path
    name: str
    manifest: Manifest
    tables: Tables
    ports: pa.Table
    inputs: pa.Table
    findings: tuple[str, ...]
    masked: Mapping[str, int] | None = None  # aliases by kind; None: names are as they are


_kept: dict[Path, Campaign] = {}


def keep(campaign: Campaign) -> None:
    """Have ``load`` return this object for its folder from now on, in this process and its forks.

    For a build, which reads a campaign once and shows it in many notebooks.
    """
    _kept[campaign.root] = campaign


def load(campaign_dir: Path | str, *, runs_alone: bool = False) -> Campaign:
    """Read a campaign folder: ``campaign.yaml`` and the dumps below it.

    Dumps at URLs that the manifest names are fetched first (``campaign_remote``). With
    ``runs_alone`` the files of counters and engines, which take most of the time, are not read;
    ``inputs`` lists them as well.
    Raises ManifestError for a manifest that is missing or does not say what it must, and DumpError
    for a folder without a usable run and for two runs of one id. Single dumps that cannot be
    used become rows of ``tables.refused``.
    """
    if known := _kept.get(Path(campaign_dir).resolve()):
        return known
    manifest, elsewhere = mirrored(load_manifest(campaign_dir))
    root = manifest.path.parent.resolve()
    places = [discover(place) for place in (root, *elsewhere)]
    mapped = [source for found in places for source in _mapped(found, manifest)]
    usual = [source for found in places for source in found.sources]
    sources = sorted(
        (s for s in (*usual, *mapped) if relative(s.main, s.root) not in _OWN),
        key=lambda s: relative(s.main, s.root),
    )
    kinds = {f.name: f.kind for f in FORMATS}
    run_sources = [_with_zone(s, manifest) for s in sources if kinds[s.format] == "runs"]
    counters = Matcher(manifest.counters, COUNTER_FIELDS)
    findings: list[str] = []
    counter_sources, offsets = _counter_sources(
        [s for s in sources if kinds[s.format] == "counters"], counters, findings
    )
    engines = [source for source in sources if kinds[source.format] == "engine"]
    for source in engines:  # read in any case; an entry can give their clock's offset
        path = relative(source.main, source.root)
        if (hit := counters.match([path, path.rpartition("/")[0]])) is not None:
            offsets[source.main] = hit.entry.clock_offset_s
    told = {*_OWN, *(relative(source.main, source.root) for source in mapped)}
    if elsewhere and sources:
        told.add(".")  # that there is no dump beside the manifest
    refused = [
        (path, reason) for found in places for path, reason in found.refused if path not in told
    ]
    beside = [*counter_sources, *engines]
    unread = [_unread(source) for source in beside] if runs_alone else []
    parts = read_sources([*run_sources, *([] if runs_alone else beside)], refused)
    run_parts = [part.tables for part in parts if part.tables.runs.num_rows]
    if not run_parts:
        why = "; ".join(f"{path}: {reason}" for path, reason in refused[:3])
        raise DumpError(
            manifest.path.parent,
            "at least one run that can be read",
            f"{len(refused)} files refused ({why})" if refused else "none",
            "put the clients' dumps below it; `servebook inspect` says what a file is",
        )
    joined, run_findings = join_runs(run_parts, manifest)
    shifts = run_shifts(pa.concat_tables([part.runs for part in run_parts]), joined.runs)
    others = []
    for part in parts:
        if not part.tables.runs.num_rows:
            offset_s = offsets.get(part.source.main)
            others.append(engine_moved(moved(part.tables, offset_s), offset_s, shifts))
    refusals = table("refused", [{"path": p, "reason": r} for p, r in sorted(refused)])
    tables = Tables.concat([joined, *others, Tables(refused=refusals)])
    findings += run_findings
    findings += counters.unused("counters", "counter files")
    ports = _ports(manifest)
    findings += counter_findings(tables, ports)
    campaign = Campaign(
        root=root,
        name=manifest.name,
        manifest=manifest,
        tables=tables,
        ports=ports,
        inputs=_inputs([*parts, *unread], manifest),
        findings=tuple(dict.fromkeys(findings)),
    )
    # A kernel of a build that was not forked from the process that read the campaign.
    return masked(campaign) if os.environ.get("SERVEBOOK_BUILD") == "1" else campaign


def _unread(source: Source) -> Part:
    try:
        return Part(source, Tables(), inputs_of(source))
    except DumpError:
        return Part(source, Tables(), ())


def _with_zone(source: Source, manifest: Manifest) -> Source:
    if manifest.client_time_zone is None:
        return source
    options = {**source.options, "time_zone": manifest.client_time_zone}
    return dataclasses.replace(source, options=options)


def _counter_sources(
    sources: Iterable[Source], matcher: Matcher[CounterEntry], findings: list[str]
) -> tuple[list[Source], dict[Path, float | None]]:
    """The counters that the manifest names with the options of their entries, and offsets."""
    chosen = []
    offsets = {}
    left = []
    for source in sources:
        path = relative(source.main, source.root)
        hit = matcher.match([path, path.rpartition("/")[0]])
        if hit is None:
            left.append(path)
            continue
        options = dict(source.options)
        for name in _COUNTER_OPTIONS:
            value = hit.fields.get(name) or getattr(hit.entry, name, None)
            if value:
                options[name] = value
        chosen.append(dataclasses.replace(source, options=options))
        offsets[source.main] = hit.entry.clock_offset_s
    if left:
        findings.append(
            f"{len(left)} counter files are left out, because no `counters:` entry of the manifest "
            f"matches them: {some(left)}"
        )
    return chosen, offsets


def _mapped(found: Discovery, manifest: Manifest) -> list[Source]:
    """CSV and Parquet files that nobody knows, but whose columns a counters entry maps to ours."""
    entries = Matcher(manifest.counters, COUNTER_FIELDS)
    out = []
    for path, _ in found.refused:
        hit = entries.match([path])
        packed = found.packed.get(path)
        root, file = (packed.root, packed.path) if packed else (found.root, found.root / path)
        if hit is not None and hit.entry.columns and file.is_file():
            with file.open("rb") as stream:
                form = parquet_series if stream.read(4) == b"PAR1" else csvmap
            out.append(Source(form.FORMAT.name, root, file, (file,)))
    return out


def _ports(manifest: Manifest) -> pa.Table:
    return table(
        "ports",
        [
            {
                "device": port.device,
                "interface": port.interface,
                "speed_bps": None if port.speed_gbps is None else port.speed_gbps * 1e9,
                "role": port.role,
                "node": port.node,
                "rail": port.rail,
                "gpu": port.gpu,
            }
            for port in manifest.ports
        ],
    )


def _inputs(parts: Iterable[Part], manifest: Manifest) -> pa.Table:
    path = manifest.path
    rows = {(path.name, sha256(path), path.stat().st_size): "campaign manifest"}
    for part in parts:
        for entry in part.inputs:
            rows.setdefault(entry, part.source.format)
    return pa.Table.from_pylist(
        [
            {"path": p, "sha256": digest, "bytes": size, "format": name}
            for (p, digest, size), name in sorted(rows.items())
        ],
        schema=_INPUTS,
    )
