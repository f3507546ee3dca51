"""No reason is forgotten: each wording of the layers below the page has its pattern."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_wordings import Wording, is_number, is_piece, wordings

from servebook.publish.text import TOLD, load
from servebook.publish.wordings import Wordings

#: Modules, or functions and names in them, whose wordings never come to page or charts.
NOT_SHOWN = {
    "errors.py:_LocatedError.__init__": "for the terminal; tables show an error's `reason`",
    "explain/engine.py": "a model's arguments: faults of a programmer",
    "explain/ledger_rows.py": "a wrong row of published.csv ends the command",
    "explain/next_run.py": "commands for a shell",
    "explain/reconstruct/": "writes dumps, not pages",
    "measure/gate.py:Gate.words": "for notebooks that ask for it",
    "measure/gate.py:gate": "a caller's fault",
    "measure/gates.py": "servebook check: the terminal and JUnit",
    "measure/glossary.py": "the catalogue's group glossary holds them; test_text.py",
    "measure/metrics.py": "the catalogue's group metrics holds them; test_text.py",
    "measure/metrics_stalls.py": "the same",
    "measure/report.py": "servebook measure: the terminal",
    "measure/settings.py:Comparison.words": "for notebooks that ask for it",
    "measure/stall_report.py": "servebook stalls: the terminal",
    "read/cache.py": "an entry that is read anew, silently",
    "read/campaign_remote.py": "the manifest's fault ends the command",
    "read/cluster": "a scheduler's fault ends the command",
    "read/counter_names.py:METRICS": "for docs/counters.md",
    "read/draft": "servebook init: campaign.yaml and the terminal",
    "read/errorkind.py": "what clients write, sought in dumps",
    "read/guidellm.py:_one": "names a record",
    "read/guidellm_requests.py:add_requests": "names a record",
    "read/inspect.py": "servebook inspect: the terminal",
    "read/manifest": "the manifest's fault ends the command; docs/manifest.md",
    "read/remote": "a URL's fault ends the command",
    "read/urls.py": "a URL's fault ends the command",
}
#: Names of ports, devices and engines: no language has others.
NAMES = re.compile(r"(device|engine|ifIndex|instance|lid|node|port|SGLang) \0(/\0)*|\0 of \0")
#: Errors that end a command: they are told in the terminal, in English.
ENDS = ("ManifestError", "ServebookError")
FAULTS = ("ValueError", "TypeError")  # of a caller, where no dump is read


def is_shown(one: Wording) -> bool:
    error = one.context.partition("#")[0].partition(".")[0]
    if NAMES.fullmatch(one.plain):
        return False
    if error in ENDS or (error in FAULTS and not one.module.startswith("read/")):
        return False
    place = f"{one.module}:{one.function}"
    return not any(
        place == hidden if ":" in hidden else one.module.startswith(hidden) for hidden in NOT_SHOWN
    )


@pytest.fixture(scope="module")
def made(project_root: Path) -> list[Wording]:
    return wordings(project_root, "read", "measure", "explain", "errors.py")


@pytest.fixture(scope="module")
def english(project_root: Path) -> dict[str, str]:
    texts = load(project_root / "report" / "text").texts
    return {key: text for key, text in texts.items() if key.startswith(TOLD)}


def said(made: list[Wording]) -> list[Wording]:
    return [one for one in made if one.is_prose and is_shown(one)]


def sample(one: Wording) -> list[str]:
    """A value for each field that no pattern holds and no other field has."""
    return [f"{i + 3},001" if is_number(f) else f"Qx{i}z" for i, f in enumerate(one.fields)]


def entry(one: Wording) -> str:
    """A line for the catalogue, but for the names of fields."""
    module = one.module.removesuffix(".py").replace("/", ".", 1).replace("/", "_")
    words = re.findall(r"[a-z0-9]+", one.plain.lower())
    fields = [
        f"{{n_{i}}}" if is_number(field) else f"{{{chr(97 + i)}}}"
        for i, field in enumerate(one.fields)
    ]
    return f"reasons.{module}.{'_'.join(words[:6])}: {one.filled(fields)}"


def test_every_wording_has_a_pattern_with_its_fields(
    made: list[Wording], english: dict[str, str]
) -> None:
    known = Wordings(english, english)
    whole = {text.replace("{{", "{").replace("}}", "}") for text in english.values()}
    wrong = []
    for one in said(made):
        values = sample(one)
        wording = one.filled(values)
        found = known.found(wording)
        fits = found and sorted(found[0][1].values()) == sorted(values)
        if not (wording in whole if not values else fits):
            wrong.append(f"{one.module}:{one.line}: {entry(one)}")
    assert sorted(set(wrong)) == []


def test_no_wording_is_a_part_of_one_that_is_put_together_unseen(made: list[Wording]) -> None:
    """Write it as one f-string, or as a choice between whole ones; two fields never touch."""
    pieces = [f"{one.module}:{one.line}: {one.plain!r}" for one in said(made) if is_piece(one)]
    touching = [f"{one.module}:{one.line}" for one in said(made) if "\0\0" in one.plain]
    assert pieces + touching == []


def test_no_two_patterns_fit_alike(made: list[Wording], english: dict[str, str]) -> None:
    """Which of two patterns counts is never an accident of their keys."""
    known = Wordings(english, english)
    alike = set()
    for one in said(made):
        wording = one.filled(sample(one))
        fits = [(p.own, text) for p, _ in known.found(wording) for text in (english[p.key],)]
        if one.fields and len(fits) > 1 and fits[0][0] == fits[1][0]:
            alike.add((wording, fits[0][1], fits[1][1]))
    assert alike == set()


def test_every_pattern_is_of_a_wording_that_is_made(
    made: list[Wording], english: dict[str, str]
) -> None:
    """Nothing in the catalogue outlives the code: a pattern is a wording's, or a case of one."""
    shapes = {
        re.compile(r"(.+)".join(map(re.escape, one.plain.split("\0"))), re.DOTALL)
        for one in said(made)
        if one.fields
    }
    plain = {one.plain for one in made}
    dead = []
    for key, text in english.items():
        bare = re.sub(r"(?<!\{)\{(\w+)\}", "\0", text).replace("{{", "{").replace("}}", "}")
        if key.startswith("reasons.") and bare not in plain:
            dead += [] if any(s.fullmatch(bare) for s in shapes) else [key]
    assert dead == []
