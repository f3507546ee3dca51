"""``servebook export``: the runs of a campaign in a form that other tools read."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from servebook.errors import BuildError
from servebook.publish.export_llmd import reports
from servebook.read.campaign import load

__all__ = ["FORMATS", "export"]

FORMATS = ("llm-d",)
_YAML = (".yaml", ".yml")


def export(campaign_dir: Path, output: Path) -> str:
    """Write one llm-d Benchmark Report 0.2 per run; returns what was written where.

    ``output`` ending in .yaml or .yml takes all documents as one stream, .jsonl one a line, .json
    the one of a campaign of a single run; any other is a folder of one YAML file per run. Raises
    ManifestError and DumpError as ``load`` does, and BuildError for an output inside the campaign,
    whose next reading would take it for a dump, and for .json and several runs.
    """
    root, target = Path(campaign_dir).resolve(), Path(output).resolve()
    if target.is_relative_to(root if root.is_dir() else root.parent):
        raise BuildError(
            f"{output}: lies inside the campaign, which would read it as a dump; "
            "write it somewhere else"
        )
    campaign = load(campaign_dir)
    found = list(reports(campaign))
    suffix = target.suffix.lower()
    if suffix in _YAML:
        _write(target, _stream(report for _, report in found))
    elif suffix == ".jsonl":
        _write(target, "".join(_json(report) + "\n" for _, report in found))
    elif suffix == ".json":
        if len(found) > 1:
            raise BuildError(
                f"{output}: a JSON document holds one report, the campaign has {len(found)} runs; "
                "name a .jsonl, a .yaml or a folder"
            )
        _write(target, _json(found[0][1], indent=2) + "\n")
    else:
        for name, (_, report) in zip(_names(run for run, _ in found), found, strict=True):
            _write(target / f"{name}.yaml", _stream([report]))
    return f"{len(found)} llm-d Benchmark Reports of {campaign.name} in {output}"


def _names(runs: Iterable[str]) -> list[str]:
    """A file name for each run, told apart by a number where two would be one."""
    out: list[str] = []
    for run in runs:
        plain = re.sub(r"[^\w.+-]+", "_", run).strip("._")[:150] or "run"
        name, n = plain, 1
        while name.lower() in {known.lower() for known in out}:
            n += 1
            name = f"{plain}_{n}"
        out.append(name)
    return out


def _json(report: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(report, indent=indent, allow_nan=False)


def _stream(found: Iterable[Mapping[str, Any]]) -> str:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.explicit_start = True
    writer.width = 10_000  # a folded text would differ with the length of names
    writer.allow_unicode = True
    writer.representer.sort_base_mapping_type_on_output = False
    stream = io.StringIO()
    writer.dump_all(list(found), stream)
    return stream.getvalue()


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
