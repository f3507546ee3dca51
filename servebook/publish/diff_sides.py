"""A side of a comparison: a campaign folder, or the claims.json (with its tables) of a page."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from servebook.errors import DumpError
from servebook.measure.glossary import GLOSSARY
from servebook.publish.about import about
from servebook.publish.chapters import appendix, setup
from servebook.publish.display import payload
from servebook.publish.output import Figure, Statement
from servebook.publish.release import paired
from servebook.publish.tabular import table
from servebook.publish.text import say
from servebook.read.campaign import Campaign, load
from servebook.read.manifest import FILENAME
from servebook.read.privacy import masked

__all__ = ["Side", "place_of", "read_side", "statements"]

_WORKLOADS = ("prefill", "decode", "mixed", "other")
_MOST_BYTES = 100_000_000


@dataclass(frozen=True)
class Side:
    """What one side tells: ``settings`` has the column Setting and one per configuration; ``runs``
    and ``metrics`` have a column run (or Run) and one row per run.

    ``names`` gives the manifest's name of a label, where the side tells it; ``renamed`` the labels
    that ``diff_match`` has put in the place of the side's own; ``definitions`` what a metric means
    to the ``version`` of Servebook that computed it.
    """

    name: str
    title: str
    provenance: str
    statements: tuple[dict[str, Any], ...]
    settings: pd.DataFrame
    runs: pd.DataFrame
    metrics: pd.DataFrame
    inputs: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    definitions: Mapping[str, str] = field(default_factory=dict)


def read_side(path: Path, notebooks: Path, home: Path) -> Side:
    """A campaign folder (or its campaign.yaml), a claims.json, or the folder that holds one.

    Raises DumpError for anything else, and as ``load`` does.
    """
    place = place_of(path)
    return _claims(place) if place.is_file() else _campaign(place, notebooks, home)


def place_of(path: Path) -> Path:
    """The campaign's folder or the claims.json that is meant, told without reading either.

    Raises DumpError where there is neither.
    """
    if path.name == FILENAME:
        path = path.parent
    if (path / FILENAME).is_file():
        return path
    claims = path / "claims.json" if path.is_dir() else path
    if claims.is_file():
        return claims
    raise DumpError(
        path,
        f"a campaign folder (with {FILENAME}) or a claims.json",
        "neither" if path.exists() else "no such file",
        "name one of the two; `servebook build` writes claims.json beside the page",
    )


def _campaign(path: Path, notebooks: Path, home: Path) -> Side:
    campaign = masked(load(path))
    facts = about(campaign.root, home, lambda _: campaign)
    told, remarks = statements(campaign, notebooks)
    frames = [
        frame
        for workload in _WORKLOADS
        for figure in (appendix.rates(campaign, workload), appendix.latencies(campaign, workload))
        if (frame := _plain(figure)) is not None
    ]
    none = pd.DataFrame()
    settings, runs = _plain(appendix.settings(campaign)), _plain(setup.runs(campaign))
    return Side(
        facts.name,
        facts.title,
        facts.provenance,
        tuple(told),
        none if settings is None else settings,
        none if runs is None else runs,
        _joined(frames),
        facts.inputs,
        tuple(remarks),
        names={one["label"]: one["name"] for one in facts.configurations},
        version=facts.versions["servebook"],
        definitions={name: entry.definition for name, entry in GLOSSARY.items()},
    )


def _plain(figure: Figure) -> pd.DataFrame | None:
    """A figure's table as its CSV holds it, so that both kinds of side are rounded alike."""
    if figure.table is None:
        return None
    plain = table(figure.table)
    return pd.DataFrame(plain["rows"], columns=plain["columns"])


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One row per run from tables that each hold some columns of some runs."""
    frames = [frame for frame in frames if "Run" in frame]
    if not frames:
        return pd.DataFrame({"Run": []})
    return pd.concat(frames, ignore_index=True).groupby("Run", sort=True).first().reset_index()


def statements(campaign: Campaign, notebooks: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The statements that a page of the campaign makes, without running its notebooks.

    Each cell of ours is one call ``chapter.function(book, ...)``; those whose function returns a
    ``Statement`` are called. What cannot be made is said in the second list.
    """
    found: list[dict[str, Any]] = []
    remarks: list[str] = []
    seen: set[str] = set()
    for chapter, function, arguments in _calls(notebooks):
        try:
            module = importlib.import_module(f"servebook.publish.chapters.{chapter}")
            if getattr(module, function).__annotations__.get("return") not in (
                "Statement",
                Statement,
            ):
                continue
            output = getattr(module, function)(campaign, *arguments)
        except Exception as error:  # a chapter that fails on this campaign hides no other
            call = f"{chapter}.{function}"
            remarks.append(say("diff.sides.failed", call=call, error=type(error).__name__))
            continue
        _, fields = payload(output)
        if fields["id"] not in seen:
            seen.add(fields["id"])
            found.append(fields)
    return found, remarks


def _calls(notebooks: Path) -> Iterator[tuple[str, str, list[Any]]]:
    for path in sorted(notebooks.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            tree = ast.parse("".join(cell["source"]))
            last = tree.body[-1] if tree.body else None
            call = last.value if isinstance(last, ast.Expr) else None
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and isinstance(call.func.value, ast.Name)
                and call.args
                and all(isinstance(a, ast.Constant | ast.Name) for a in call.args[1:])
                and not call.keywords
            ):
                # A name is a parameter of the notebook: as a build leaves it, empty.
                arguments = [a.value if isinstance(a, ast.Constant) else "" for a in call.args[1:]]
                yield call.func.value.id, call.func.attr, arguments


def _wrong(error: Exception) -> str:
    """What a file holds in the place of claims, in words."""
    if isinstance(error, json.JSONDecodeError):
        return f"no valid JSON (line {error.lineno})"
    if isinstance(error, KeyError):
        return f"JSON without {str(error.args[0])[:40]!r}"
    if isinstance(error, RecursionError):
        return "JSON nested deeper than any page writes"
    if isinstance(error, UnicodeDecodeError):
        return "bytes that are not UTF-8"
    return f"something else ({str(error)[:80]})" if type(error) is ValueError else "other JSON"


def _claims(path: Path) -> Side:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"{path.stat().st_size:,} bytes")
        claims = json.loads(path.read_text(encoding="utf-8"))
        campaign = claims["campaign"]
        told = tuple(_statement(one) for one in claims["statements"])
        inputs = tuple(
            {
                "path": str(one["path"]),
                "sha256": str(one["sha256"]),
                "bytes": int(one["bytes"]),
                "format": str(one["format"]),
            }
            for one in claims["inputs"]
        )
        names = {str(o["label"]): str(o["name"]) for o in claims.get("configurations", ())}
        definitions = {str(o["name"]): str(o["definition"]) for o in claims.get("glossary", ())}
        version = str(claims.get("servebook", ""))
        name, title = str(campaign["name"]), str(campaign["title"])
        provenance = str(campaign["provenance"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DumpError(
            path,
            "the claims.json of a page",
            _wrong(error),
            "name the file that `servebook build` wrote beside the page",
        ) from None
    tables = path.parent / "tables"
    frames = [
        frame
        for workload in _WORKLOADS
        for slug in ("rates", "latencies")
        if (frame := _csv(tables / f"appendix-{workload}-{slug}.csv")) is not None
    ]
    settings, runs = _csv(tables / "appendix-settings.csv"), _csv(tables / "setup-runs.csv")
    remarks = []
    if paired(path.resolve().parent) is False:
        remarks.append(say("diff.sides.not_paired"))
    if settings is None:
        remarks.append(say("diff.sides.no_settings"))
    if runs is None or not frames:
        remarks.append(say("diff.sides.no_runs"))
    none = pd.DataFrame()
    return Side(
        name,
        title,
        provenance,
        told,
        none if settings is None else settings,
        none if runs is None else runs,
        _joined(frames),
        inputs,
        tuple(remarks),
        names=names,
        version=version,
        definitions=definitions,
    )


def _statement(one: dict[str, Any]) -> dict[str, Any]:
    value = one.get("value")
    return {
        "id": str(one["id"]),
        "sentence": str(one["sentence"]),
        "value": float(value) if isinstance(value, int | float) else None,
        "unit": str(one.get("unit") or ""),
        "interval": str(one.get("interval") or ""),
        "low": one.get("low") if isinstance(one.get("low"), int | float) else None,
        "high": one.get("high") if isinstance(one.get("high"), int | float) else None,
        "verdict": bool(one.get("verdict")),
        "marks": [str(mark) for mark in one.get("marks") or ()],
    }


def _csv(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        return pd.read_csv(path, dtype={"Setting": str, "Run": str, "run": str})
    except (ValueError, UnicodeDecodeError) as error:
        raise DumpError(
            path, "a table as CSV", str(error).splitlines()[0][:120], "build the page again"
        ) from None
