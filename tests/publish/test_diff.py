from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servebook.errors import DumpError
from servebook.publish.checks import problems
from servebook.publish.diff import page
from servebook.publish.diff_compare import difference
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


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"campaign": 3}', "\x00", "[" * 5000])
def test_what_is_no_claims_file_is_one_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(DumpError, match=r"claims\.json"):
        read_side(tmp_path, HOME / "notebooks", HOME)
    with pytest.raises(DumpError, match=r"neither|no such file"):
        read_side(tmp_path / "nothing", HOME / "notebooks", HOME)
