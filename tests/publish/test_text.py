"""The catalogue: complete, used, and all that the template and the scripts say."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TypeGuard

import pytest
import yaml
from markupsafe import Markup
from ruamel.yaml import YAML

from servebook.errors import BuildError
from servebook.measure.glossary import GLOSSARY
from servebook.measure.metrics import METRICS
from servebook.measure.settings import SETTINGS
from servebook.publish.text import (
    VARIABLE,
    Catalogue,
    _fields,
    as_written,
    languages,
    load,
    say,
    speaking,
    spoken,
)
from servebook.publish.text_starter import starter

JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
TAG = re.compile(r"<[^>]*>", re.DOTALL)
ASKED = re.compile(r"""\b(?:t|text|texts)(?:\.html|\.count)?\(\s*['"]([a-z_.0-9]+)['"]""")
SAID = re.compile(r"""\b(?:say|count)\("([a-z_.]+)\"""")


@pytest.fixture(scope="session")
def report(project_root: Path) -> Path:
    return project_root / "report"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_english_is_there_and_complete(report: Path) -> None:
    assert "en" in languages(report / "text")
    texts = load(report / "text").texts
    assert all(texts.values())
    assert texts["code"] == "en"


#: Texts of names (columns, units ...) are looked up by the name, as the page shows it.
NAMES = (
    "columns",
    "counted",
    "glossary",
    "marks",
    "metrics",
    "nouns",
    "reasons",
    "settings",
    "told",
    "units",
    "words",
)


def asked(report: Path, root: Path) -> set[str]:
    files = [*(report / "template").glob("*.j2"), root / "servebook" / "publish" / "page.py"]
    keys = {key for path in files for key in ASKED.findall(path.read_text())}
    # Keys that are chosen between stand as text of their own.
    keys |= {key for path in files for key in re.findall(r'"(page\.[a-z_]{4,})"', path.read_text())}
    said = {
        key for path in (report / "template").glob("*.js") for key in SAID.findall(path.read_text())
    }
    return keys | {f"script.{key}" for key in said} | in_modules(root)


def in_modules(root: Path) -> set[str]:
    """The keys that stand in the package's modules, and those that a pattern there stands for."""
    known = set(load(root / "report" / "text").texts)
    found = set()
    for path in (root / "servebook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if is_say(node) and isinstance(node.args[0], ast.JoinedStr):
                parts = [
                    re.escape(part.value) if isinstance(part, ast.Constant) else r"[a-z0-9_]+"
                    for part in node.args[0].values
                ]
                found |= {key for key in known if re.fullmatch("".join(parts), key)}
            elif is_say(node) and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value)
            elif isinstance(node, ast.Constant) and node.value in known:
                found.add(node.value)
    return found


def is_say(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"


def test_every_text_is_filled_with_the_names_that_it_holds(project_root: Path) -> None:
    texts = load(project_root / "report" / "text").texts
    wrong = [
        f"{path.name}:{node.lineno}: {node.args[0].value}"
        for path in sorted((project_root / "servebook").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if is_say(node) and isinstance(node.args[0], ast.Constant)
        if {word.arg for word in node.keywords} != _fields(texts[node.args[0].value])
    ]
    assert wrong == []


def test_no_module_asks_for_a_text_while_it_is_imported(project_root: Path) -> None:
    """The language is known only when a build has begun; a default is such a text, too."""
    found = []
    for path in sorted((project_root / "servebook").rglob("*.py")):
        tree = ast.parse(path.read_text())
        late = [
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.Lambda)
            for part in (function.body if isinstance(function.body, list) else [function.body])
            for node in ast.walk(part)
        ]
        early = {id(node) for node in ast.walk(tree) if is_say(node)} - {id(n) for n in late}
        found += [path.name] * len(early)
    assert found == []


def test_every_text_is_used_and_every_used_text_is_there(report: Path, project_root: Path) -> None:
    keys = {
        key
        for key in load(report / "text").texts
        if not key.startswith(tuple(f"{n}." for n in NAMES))
    }
    used = asked(report, project_root)
    counts = {key for key in used if f"{key}.one" in keys}
    used = {key for key in used if not key.startswith(tuple(f"{n}." for n in NAMES))}
    wanted = (used - counts) | {f"{key}.{form}" for key in counts for form in ("one", "many")}
    assert wanted - keys == set()
    assert keys - wanted == {"language"}


@pytest.mark.parametrize("name", ["index.html.j2", "parts.html.j2"])
def test_the_template_holds_no_words_of_its_own(report: Path, name: str) -> None:
    source = (report / "template" / name).read_text()
    left = set(re.findall(r"[A-Za-z]{2,}", TAG.sub(" ", JINJA.sub("", source))))
    assert left == set()
    labels = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"{]+)"', source)
    assert labels == []


def test_scripts_hold_no_words_of_their_own(report: Path) -> None:
    for path in (report / "template").glob("*.js"):
        code = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
        shown = re.findall(r"""textContent\s*=\s*["'`]([^"'`]+)""", code)
        assert shown == [], path.name


def test_values_are_filled_in_and_escaped() -> None:
    catalogue = Catalogue({"a": "<{name}>", "b.one": "{n} row", "b.many": "{n} rows"})
    assert catalogue("a", name="x") == "<x>"
    assert catalogue.html("a", name="<i>") == "&lt;&lt;i&gt;&gt;"
    assert catalogue.html("a", name=Markup("<i>")) == "&lt;<i>&gt;"
    assert [catalogue.count("b", n) for n in (0, 1, 1204)] == ["0 rows", "1 row", "1,204 rows"]
    assert catalogue.group("b") == {"one": "{n} row", "many": "{n} rows"}
    # What is filled in is no pattern: braces of a hostile name stay as they are.
    assert catalogue("a", name="{n.__class__}") == "<{n.__class__}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: Eins\nb: {one: '{n} Zeile', many: '{n} Zeilen'}", None),
        ("a: Eins", "b.many is missing; b.one is missing"),
        ("a: Eins\nc: x\nb: {one: '{n} Z', many: '{n} Z'}", "c is not a known text"),
        (
            "a: Eins\nb: {one: Zeile, many: '{n} Z'}",
            r"b.one must hold these names in braces: \{n\}",
        ),
        ("a: '{'\nb: {one: '{n}', many: '{n}'}", "a must hold these names in braces: none"),
        ("- a\n- b", "expected a YAML file of texts by key, found"),
        ("a: [", "expected a YAML file of texts by key; "),
    ],
)
def test_a_second_language_is_one_complete_file(
    tmp_path: Path, text: str, message: str | None
) -> None:
    write(tmp_path, "en", "a: One\nb: {one: '{n} row', many: '{n} rows'}\n")
    write(tmp_path, "de", text)
    if message is None:
        assert load(tmp_path, "de")("a") == "Eins"
        return
    with pytest.raises(BuildError, match=message):
        load(tmp_path, "de")


def test_an_unknown_language_names_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, "en", "a: One")
    with pytest.raises(BuildError, match=r"no texts in the language '../x'; there are: en"):
        load(tmp_path, "../x")


def test_labels_of_other_layers_are_those_that_are_made_there(report: Path) -> None:
    texts = load(report / "text").texts
    for name, metric in METRICS.items():
        assert texts[f"metrics.{name}.label"] == metric.label
        assert texts[f"metrics.{name}.definition"] == metric.definition
        assert metric.source in {text for key, text in texts.items() if key.startswith("told.")}
    told = {text for key, text in texts.items() if key.startswith("glossary.")}
    assert {one.label for one in GLOSSARY.values() if one.name not in METRICS} <= told
    assert set(SETTINGS) <= {text for key, text in texts.items() if key.startswith("settings.")}


def test_a_wording_of_another_layer_is_found_by_its_english() -> None:
    english = {"metrics.a.label": "TTFT mean", "other.b": "mean"}
    german = Catalogue({"metrics.a.label": "mittlere TTFT", "other.b": "Mittel"}, None, english)
    assert german.told("TTFT mean") == "mittlere TTFT"
    assert german.told("mean") == "mean"  # of no group that is found by its wording
    columns = Catalogue({"columns.run": "Lauf", "columns.wait": "Warten", "units.ms": "ms."})
    assert [columns.column(n) for n in ("run", "wait (ms)", "a (b)", "a")] == [
        "Lauf",
        "Warten (ms.)",
        "a (b)",
        "a",
    ]


def test_a_language_is_spoken_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    write(tmp_path, "en", "a: One")
    write(tmp_path, "de", "a: Eins\nprose: {n: {c: '# Titel'}}")
    with speaking(load(tmp_path, "de")):
        assert say("a") == "Eins"
        assert os.environ[VARIABLE] == str(tmp_path / "de.yaml")
        assert spoken().prose("n", "c", "# Title") == "# Titel"
        assert spoken().prose("n", "d", "# Title") == "# Title"
        with speaking(load(tmp_path)):
            assert say("a") == "One"
        assert os.environ[VARIABLE] == str(tmp_path / "de.yaml")
    assert VARIABLE not in os.environ
    assert "a" not in spoken().texts


def test_names_of_a_campaign_stay_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, "en", "told: {slots: '{n} slots', with: with}\na: '{x}'")
    write(tmp_path, "de", "told: {slots: '{n} Plätze', with: mit}\na: '{x}'")
    with speaking(load(tmp_path, "de")):
        assert say("a", x="16 slots") == "16 Plätze"
        as_written(["16 slots"])
        assert say("a", x="16 slots") == "16 slots"
        assert say("a", x="8 slots, 16 slots") == "8 Plätze, 16 slots"


def test_no_key_stands_twice(report: Path) -> None:
    for path in (report / "text").glob("*.yaml"):
        YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))  # refuses one that does


def test_keys_are_texts_to_every_program_that_reads_yaml(report: Path) -> None:
    def keys(value: object) -> list[object]:
        if not isinstance(value, dict):
            return []
        return [key for name, one in value.items() for key in (name, *keys(one))]

    text = (report / "text" / "en.yaml").read_text(encoding="utf-8")
    assert [key for key in keys(yaml.safe_load(text)) if not isinstance(key, str)] == []  # On: True


def test_a_first_file_of_a_language_is_a_whole_one(report: Path, tmp_path: Path) -> None:
    write(tmp_path, "en", (report / "text" / "en.yaml").read_text(encoding="utf-8"))
    write(tmp_path, "de", starter(report.parent))
    texts = load(tmp_path, "de")
    assert texts.prose("00-overview", "opening", "").startswith("# ")
    assert len(texts.group("prose")) > 50
