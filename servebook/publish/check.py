"""`servebook check`: the manifest's gates on a campaign, as a table, as JSON and as JUnit XML.

JUnit XML has no standard; the elements used here (testsuites, testsuite, testcase, failure) are
those that CI servers read. Times are left out, because they would make the bytes differ.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from servebook.errors import ServebookError
from servebook.measure.gates import FAIL, NOT_MEASURED, PASS, Result, bounds, evaluate
from servebook.publish import words
from servebook.publish.gate_runs import by_condition_name, gate_runs
from servebook.read.campaign import Campaign, load
from servebook.read.manifest import FILENAME, load_manifest

__all__ = ["Checked", "as_json", "check", "junit", "render", "run", "write"]

#: XML 1.0 allows no other characters, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Checked:
    """What `servebook check` found."""

    campaign: str
    provenance: str
    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(result.status == PASS for result in self.results)

    @property
    def standing(self) -> str:
        """What stands beside each status where nothing was measured; empty for a measurement."""
        return "" if self.provenance == "measured" else self.provenance


def check(folder: Path) -> Checked:
    """Hold a campaign to the gates of its manifest.

    Raises ManifestError for a manifest that is broken or states no gate (before the dumps are
    read) and DumpError for a campaign without a usable run. A baseline that cannot be read is no
    error: its gates are not measured.
    """
    found = bounds(load_manifest(folder))
    campaign = load(folder)
    slos = dict(campaign.manifest.slos)
    paths = list(dict.fromkeys(b.gate.against for b in found if b.gate.against is not None))
    others: dict[str, Campaign | str] = {}
    for path in paths:
        if (campaign.root / path).resolve() == campaign.root.resolve():
            others[path] = "it is this campaign itself, which loses nothing to itself"
            continue
        try:
            others[path] = load(campaign.root / path)
        except ServebookError as error:
            others[path] = getattr(error, "reason", str(error))
    read = {path: c for path, c in others.items() if isinstance(c, Campaign)}
    tables = by_condition_name(
        [gate_runs(campaign), *(gate_runs(other, slos) for other in read.values())]
    )
    baselines = {path: text for path, text in others.items() if isinstance(text, str)}
    results = evaluate(found, tables[0], baselines | dict(zip(read, tables[1:], strict=True)))
    own = _dumps(campaign)
    same = tuple(
        f"The baseline {path} holds the very dumps of this campaign: it shows no loss between two "
        "measurements."
        for path, other in read.items()
        if own and own == _dumps(other)
    )
    remarks = same + tuple(
        f"The baseline {path} is {other.manifest.provenance}, not measured."
        if other.manifest.provenance == "reconstructed"
        else f"The provenance of the baseline {path} is not stated."
        for path, other in read.items()
        if other.manifest.provenance != "measured"
    )
    return Checked(campaign.name, campaign.manifest.provenance, tuple(results), remarks)


def _dumps(campaign: Campaign) -> set[str]:
    """The sha256 of each file but the manifest."""
    rows = campaign.inputs.select(["path", "sha256"]).to_pylist()
    return {row["sha256"] for row in rows if row["path"] != FILENAME}


def _status(checked: Checked, result: Result) -> str:
    return f"{result.status} ({checked.standing})" if checked.standing else result.status


def _value(result: Result) -> str:
    if math.isnan(result.value):
        return "-"
    if result.unit == "fraction":
        return words.percent(result.value, 3)
    text = words.number(result.value, 4)
    return text if result.unit == "ratio" else f"{text} {result.unit}"


def _counts(checked: Checked) -> str:
    count = Counter(result.status for result in checked.results)
    return f"{count[PASS]} passed, {count[FAIL]} failed, {count[NOT_MEASURED]} not measured"


def render(checked: Checked) -> str:
    """The results as an aligned table, gate by gate, and the sum below."""
    standing = {
        "measured": "measured",
        "reconstructed": "RECONSTRUCTED, not measured: its gates say nothing of a real engine",
    }.get(checked.provenance, "it is not stated whether this was measured")
    lines = [f"{checked.campaign}: {standing}"]
    lines += [f"  {remark}" for remark in checked.remarks]
    for gate in dict.fromkeys((r.gate, r.metric, r.bound) for r in checked.results):
        own = [r for r in checked.results if (r.gate, r.metric, r.bound) == gate]
        called = gate[0] if gate[0].endswith(gate[1]) else f"{gate[0]} ({gate[1]})"
        lines += ["", f"{called}: {gate[2]}"]
        rows = [
            (
                _status(checked, r),
                r.condition,
                _value(r),
                "" if r.n is None else f"n={r.n:,}",
                r.reason,
            )
            for r in own
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines += [
            "  "
            + "  ".join(
                cell.rjust(widths[i]) if i in (2, 3) else cell.ljust(widths[i])
                for i, cell in enumerate(row[:4])
            )
            + (f"  {row[4]}" if row[4] else "")
            for row in rows
        ]
    verdict = "PASS" if checked.passed else "FAIL"
    lines += ["", f"{verdict}: {_counts(checked)}" + (f" ({checked.standing})" if checked.standing
                                                       else "")]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def as_json(checked: Checked) -> dict[str, Any]:
    """The same for programmes; a value that is not known is null."""
    rows = []
    for result in checked.results:
        row = asdict(result)
        row["value"] = None if math.isnan(result.value) else result.value
        rows.append(row)
    return {
        "campaign": checked.campaign,
        "provenance": checked.provenance,
        "passed": checked.passed,
        "remarks": list(checked.remarks),
        "results": rows,
    }


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def junit(checked: Checked) -> bytes:
    """The same as JUnit XML; what is not measured is a failure of that type."""
    failures = sum(result.status != PASS for result in checked.results)
    counts = {"tests": str(len(checked.results)), "failures": str(failures), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "servebook check", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(checked.campaign), **counts})
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(
        properties, "property", {"name": "provenance", "value": _xml(checked.provenance)}
    )
    mark = f" ({checked.standing})" if checked.standing else ""
    for result in checked.results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": _xml(f"{checked.campaign}.{result.gate}"),
                "name": _xml(f"{result.condition}: {result.metric} {result.bound}{mark}"),
            },
        )
        said = f"{_value(result)}; {result.reason}" if result.reason else _value(result)
        if result.status == PASS:
            ElementTree.SubElement(case, "system-out").text = _xml(said)
        else:
            ElementTree.SubElement(
                case,
                "failure",
                {"type": result.status, "message": _xml(f"{result.status}: {said}")},
            )
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def run(folder: Path, junit_file: Path | None, *, as_json_text: bool) -> tuple[str, bool]:
    """The text to print, and whether all passed; writes the JUnit file where one is asked for."""
    checked = check(folder)
    if junit_file is not None:
        write(junit_file, junit(checked))
    text = json.dumps(as_json(checked), indent=2) if as_json_text else render(checked)
    return text, checked.passed


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a CI server never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
