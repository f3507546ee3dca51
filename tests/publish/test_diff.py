from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servebook.errors import DumpError
from servebook.publish.checks import problems
from servebook.publish.diff import page, run
from servebook.publish.diff_compare import difference
from servebook.publish.diff_match import matched, pairs
from servebook.publish.diff_sides import Side, read_side, statements
from servebook.publish.diff_words import as_json, summary
from servebook.read.campaign import load

HOME = Path(__file__).parents[2]
LABEL = "one <script>alert(1)</script>"


def statement(name: str, sentence: str, value: float | None = None, unit: str = "") -> Any:
    return {"id": name, "sentence": sentence, "value": value, "unit": unit, "verdict": True}


def side(
    name: str,
    rates: list[float],
    told: list[Any],
    *,
    slots: str = "8",
    concurrency: tuple[int, ...] = (4,),
) -> Side:
    """One configuration; at each concurrency one run per rate (output tokens/s)."""
    keys = [(c, i) for c in concurrency for i in range(len(rates))]
    names = [f"c{c}-{i}" for c, i in keys]
    runs = pd.DataFrame(
        {
            "run": names,
            "configuration": LABEL,
            "workload": "mixed",
            "requests in flight": [c for c, _ in keys],
            "input tokens (mean)": [101.0 + i for _, i in keys],
            "output tokens (mean)": 50.0,
            "client": "AIPerf",
        }
    )
    metrics = pd.DataFrame(
        {
            "Run": names,
            "Output throughput (tokens/s)": [rates[i] for _, i in keys],
            "TTFT p99 (ms)": 9.0,
            "TTFT values": 20,  # too few for a p99
        }
    )
    settings = pd.DataFrame({"Setting": ["gpu", "max_num_seqs"], LABEL: ["X", slots]})
    return Side(name, name, "measured", tuple(told), settings, runs, metrics, ())


@pytest.mark.parametrize(
    ("a", "b", "noise", "ratio"),
    [
        ([100.0, 101.0, 99.0], [110.0, 111.0, 109.0], "beyond noise", 1.1),
        ([100.0, 120.0, 80.0], [110.0, 90.0, 130.0], "not beyond noise", None),
        ([100.0], [200.0], "not testable", 2.0),
        ([100.0], [0.0], "not testable", None),
    ],
)
def test_values_beyond_noise_or_not(
    a: list[float], b: list[float], noise: str, ratio: float | None
) -> None:
    found = difference(side("a", a, []), side("b", b, []))
    (row,) = found.results.to_dict("records")  # and no p99 of 20 values
    assert (row["metric"], row["noise"]) == ("Output throughput", noise)
    if ratio is not None:
        assert row["ratio"] == pytest.approx(ratio, rel=1e-3)
        assert (row["n_a"], row["n_b"]) == (len(a), len(b))
    if noise != "not testable":
        assert row["low"] < row["ratio"] < row["high"]


def test_settings_and_what_one_side_alone_has() -> None:
    found = difference(
        side("a", [100.0], [], concurrency=(4, 8)), side("b", [100.0], [], slots="16")
    )
    assert found.settings.to_dict("records") == [
        {"configuration": LABEL, "setting": "max_num_seqs", "a": "8", "b": "16"}
    ]
    assert [(r["what"], r["side"]) for r in found.one_sided.to_dict("records")] == [
        ("condition", "A")
    ]


@pytest.mark.parametrize(
    ("a", "b", "change"),
    [
        (("X is 2.1 times ahead", 2.1), ("X is 2.4 times ahead", 2.4), "other numbers"),
        (("X is 2.1 times ahead", 2.1), ("X is 2.1 times ahead", 2.1), "the same"),
        (("X is 2.1 times ahead", 2.1), ("Y is 2.1 times ahead", 2.1), "says something else"),
        (("X over Y: 1.2", 1.2), ("X over Y: 0.8", 0.8), "says something else"),
        (("it takes 980 ms", None), ("it takes 1.2 s", None), "other numbers"),
        (("it grows by 3 %", None), ("it falls by 3 %", None), "says something else"),
    ],
)
def test_findings_that_flip(a: Any, b: Any, change: str) -> None:
    told = [[statement("one", text, value, "ratio")] for text, value in (a, b)]
    found = difference(side("a", [1.0], told[0]), side("b", [1.0], told[1]))
    assert list(found.findings["change"]) == [change]


def named(name: str, settings: dict[str, list[Any]], names: dict[str, str]) -> Side:
    """A side of one run per configuration; ``settings`` gives gpu, nodes and precision."""
    labels = list(settings)
    rows = ["gpu", "nodes", "precision", "note"]
    runs = pd.DataFrame(
        {
            "run": labels,
            "configuration": labels,
            "workload": "mixed",
            "requests in flight": 4,
            "input tokens (mean)": 100.0,
            "output tokens (mean)": 50.0,
            "client": "AIPerf",
        }
    )
    rates = [100.0 + i for i in range(len(labels))]
    metrics = pd.DataFrame({"Run": labels, "Output throughput (tokens/s)": rates})
    frame = pd.DataFrame({"Setting": rows, **{k: [*v, k] for k, v in settings.items()}})
    return Side(name, name, "measured", (), frame, runs, metrics, (), names=names)


ONE, TWO = ["X", 1, "FP8"], ["X", "2", "FP8"]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [  # label: (name, settings)
        ({"p": ("n1", ONE)}, {"q": ("n1", TWO)}, [("p", "q", "name")]),
        # Labels that changed places: the name knows better.
        (
            {"p": ("n1", ONE), "q": ("n2", TWO)},
            {"q": ("n1", ONE), "p": ("n2", TWO)},
            [("p", "q", "name"), ("q", "p", "name")],
        ),
        ({"p": ("n1", ONE)}, {"p": ("", TWO)}, [("p", "p", "label")]),
        ({"p": ("n1", ONE)}, {"p": ("n2", TWO)}, [("p", "p", "label")]),
        ({"p": ("n1", ONE)}, {"q": ("n2", ["X", 1.0, "FP8"])}, [("p", "q", "settings")]),
        ({"p": ("n1", ONE)}, {"q": ("n2", TWO)}, []),
        # Two that are alike are not told apart, and two stated settings are no sign.
        ({"p": ("n1", ONE)}, {"q": ("", ONE), "r": ("", ONE)}, []),
        ({"p": ("n1", ["X", 1, None])}, {"q": ("n2", ["X", 1, None])}, []),
    ],
)
def test_configurations_are_matched_by_name_label_or_settings(
    a: dict[str, Any], b: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    sides = [
        named(
            letter,
            {label: settings for label, (_, settings) in one.items()},
            {label: name for label, (name, _) in one.items() if name},
        )
        for letter, one in (("a", a), ("b", b))
    ]
    assert pairs(*sides) == expected


def test_a_new_label_is_neither_a_new_condition_nor_a_new_finding() -> None:
    a = named("a", {"old": ONE}, {"old": "n1"})
    b = named("b", {"new (two)": ONE, "old": TWO}, {"new (two)": "n1", "old": "n3"})
    a = dataclasses.replace(a, statements=(statement("s", "old is ahead by 3 %"),))
    b = dataclasses.replace(b, statements=(statement("s", "new (two) is ahead by 4 %"),))
    second, told = matched(a, b)
    assert told == ("Configurations matched by the name in the manifest: old (in B: new (two))",)
    found = difference(a, second, told)
    assert list(found.findings["change"]) == ["other numbers"]
    assert list(found.results["ratio"]) == [1.0]
    assert set(found.settings["setting"]) == {"note"}
    alone = [(r["what"], r["which"].partition(" ·")[0]) for r in found.one_sided.to_dict("records")]
    assert alone == [("configuration", "old (B)"), ("condition", "old (B)")]
    assert "in B: new (two)" in summary(a, second, found)


def test_what_two_versions_tell_differently_is_said() -> None:
    a = dataclasses.replace(
        side("a", [1.0], []), version="0.1.0", definitions={"x": "one", "y": "same"}
    )
    b = dataclasses.replace(
        side("b", [1.0], []), version="0.2.0", definitions={"x": "two", "y": "same", "z": "new"}
    )
    b = dataclasses.replace(b, metrics=b.metrics.assign(**{"TPOT mean (ms)": 5.0}))
    remarks = " ".join(difference(a, b).remarks)
    assert "A was computed by Servebook 0.1.0, B by 0.2.0." in remarks
    assert "may differ by that alone: x." in remarks
    assert "B alone has values of TPOT mean; not compared." in remarks
    assert difference(a, a).remarks == ()


def test_the_page_is_fit_to_publish_whatever_labels_say() -> None:
    told = [statement("one", f"{LABEL} is ahead")], [statement("two", "it is behind")]
    sides = side("a", [100.0, 101.0], told[0]), side("b", [150.0, 151.0], told[1], slots="9")
    found = difference(*sides)
    text = page(*sides, found, HOME / "report" / "template")
    assert problems(text, [str(HOME)]) == []
    assert "<script>alert" not in text
    assert "max_num_seqs" in text
    assert "1 changed beyond noise" in summary(*sides, found)
    rows = json.loads(json.dumps(as_json(*sides, found), allow_nan=False))
    assert {row["change"] for row in rows["findings"]} == {"only in A", "only in B"}


def test_all_statements_of_a_campaign_are_made_without_a_kernel() -> None:
    told, remarks = statements(load(HOME / "data" / "loopback"), HOME / "notebooks")
    assert remarks == []
    assert {"prefill-verdict", "decode-verdict", "goodput-peak"} <= {one["id"] for one in told}


def test_claims_of_a_page_are_a_side(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "tables").mkdir(parents=True)
    claims = {
        "campaign": {"name": "mine", "title": "Mine", "provenance": "measured"},
        "statements": [statement("one", "it is ahead", 2.0, "ratio")],
        "inputs": [],
    }
    (folder / "claims.json").write_text(json.dumps(claims))
    model = side("x", [100.0], [])
    model.settings.to_csv(folder / "tables" / "appendix-settings.csv", index=False)
    model.runs.to_csv(folder / "tables" / "setup-runs.csv", index=False)
    model.metrics.to_csv(folder / "tables" / "appendix-mixed-rates.csv", index=False)
    read = read_side(folder, HOME / "notebooks", HOME)
    found = difference(model, read)
    assert list(found.results["ratio"]) == [1.0]
    assert found.settings.empty
    assert found.remarks == ()
    (tmp_path / "mine.html").write_text("a page of another build")
    (folder / "page.sha256").write_text(f"{64 * '0'}  ../mine.html\n")
    (remark,) = read_side(folder, HOME / "notebooks", HOME).remarks
    assert "not of the page that lies beside" in remark
    (folder / "page.sha256").unlink()
    shutil.rmtree(folder / "tables")
    alone = difference(model, read_side(folder / "claims.json", HOME / "notebooks", HOME))
    assert len(alone.remarks) == 2
    assert alone.results.empty


def test_a_side_that_is_not_there_is_told_before_the_other_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servebook.publish.diff.read_side", None)
    with pytest.raises(DumpError, match=r"nothing: expected a campaign folder .*, found no such"):
        run(HOME / "data" / "loopback", tmp_path / "nothing", None, as_json_text=False)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", r"no valid JSON \(line 1\)"),
        ("\x00", r"no valid JSON \(line 1\)"),
        ("{\n3", r"no valid JSON \(line 2\)"),
        ("[]", "other JSON"),
        ("{}", "JSON without 'campaign'"),
        ('{"campaign": 3}', "JSON without 'statements'"),
        ("[" * 5000, "JSON nested deeper than any page writes"),
    ],
)
def test_what_is_no_claims_file_is_one_error(content: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(
        DumpError, match=rf"claims\.json: expected .*, found {found}; name the file"
    ):
        read_side(tmp_path, HOME / "notebooks", HOME)
    with pytest.raises(DumpError, match=r"neither|no such file"):
        read_side(tmp_path / "nothing", HOME / "notebooks", HOME)


def test_in_another_language_a_diff_leaves_labels_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label that reads like a wording of the catalogue is a name all the same."""
    shutil.copytree(HOME / "report" / "template", tmp_path / "report" / "template")
    shutil.copytree(HOME / "notebooks", tmp_path / "notebooks")
    texts = tmp_path / "report" / "text"
    texts.mkdir()
    english = (HOME / "report" / "text" / "en.yaml").read_text(encoding="utf-8")
    (texts / "en.yaml").write_text(english, encoding="utf-8")
    other = english.replace("'{n} slots'", "'{n} Plätze'").replace(
        "beyond_noise: beyond noise", "beyond_noise: über das Rauschen hinaus"
    )
    assert other.count("Plätze") + other.count("Rauschen") >= 2
    (texts / "de.yaml").write_text(other, encoding="utf-8")

    sides = {}
    for name, slots, rate in (("a", "8", 100.0), ("b", "16", 150.0)):
        one = side(name, [rate, rate + 1, rate - 1], [], slots=slots)
        sides[name] = dataclasses.replace(
            one,
            runs=one.runs.assign(configuration="16 slots"),
            settings=one.settings.rename(columns={LABEL: "16 slots"}),
        )
    monkeypatch.setattr("servebook.publish.diff.home", lambda: tmp_path)
    monkeypatch.setattr("servebook.publish.diff.place_of", lambda path: path)
    monkeypatch.setattr("servebook.publish.diff.read_side", lambda path, *_: sides[path.name])
    target = tmp_path / "page.html"
    terminal = run(Path("a"), Path("b"), target, as_json_text=False, language="de")
    html = target.read_text(encoding="utf-8")
    assert "16 slots" in html
    assert "16 Plätze" not in html
    assert "16 slots: " in terminal
    assert "16 Plätze" not in terminal
    assert "über das Rauschen hinaus" in html
