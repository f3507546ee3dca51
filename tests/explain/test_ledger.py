"""The ledger on a small campaign whose printed values were worked out by hand."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import printed_campaign
import pytest

from servebook.cli import main
from servebook.explain.ledger import FIGURES, Entry, as_json, ledger, render, tolerance
from servebook.explain.ledger_evidence import MEASURED, Found
from servebook.explain.ledger_rows import Printed, read_published
from servebook.read.campaign import Campaign, load

DATA = Path(__file__).parents[2] / "data"
CAMPAIGNS = ("b300-one-vs-two-nodes", "b300-two-nodes")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return printed_campaign.build(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def book(made: Path) -> Campaign:
    return load(made)


@pytest.fixture(scope="module")
def entries(book: Campaign) -> dict[str, Entry]:
    return {e.printed.id: e for e in ledger(book)}


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def row(**changes: object) -> Printed:
    blank = Printed(
        2, "x", "X", "s", "measured", "a", "mixed", 512, 64, 4, "", "itl", "p99", 1.0, "ms", 0.1, ""
    )
    return replace(blank, **changes)  # type: ignore[arg-type]


def test_every_printed_figure_is_met(entries: dict[str, Entry]) -> None:
    assert {e.printed.id: e.why for e in entries.values() if e.verdict != "ok"} == {}
    assert len(entries) == printed_campaign.PUBLISHED.count("\n") - 1


@pytest.mark.parametrize(
    ("kind", "value", "step", "expected"),
    [
        ("measured", 2343, 1, 11.715),
        ("measured", 7.4, 0.1, 0.05),
        ("measured", 0, 0, 0),
        ("derived", 3.7, 0.1, 0.05),
        ("derived", 12900, 100, 129),
        ("derived", -45, 1, 0.5),
        ("model", 12, 1, 0.5),
        ("input", 400, 1, 0.5),
        ("model", 1, 0, 0),
    ],
)
def test_tolerance(kind: str, value: float, step: float, expected: float) -> None:
    assert tolerance(row(kind=kind, value=value, step=step)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "published", "step", "computed", "verdict"),
    [
        ("model", 11.3, 0.1, 11.25, "ok"),  # half a step away still rounds to it
        ("model", 11.3, 0.1, 11.249, "off"),
        ("input", 6, 1, 6.4, "ok"),
        ("input", 6, 1, 6.6, "off"),
        ("measured", 1000, 1, 1005, "ok"),
        ("measured", 1000, 1, 1005.1, "off"),
        ("derived", 4.0, 1.0, 3.51, "ok"),
        ("derived", 4.0, 0.1, 3.94, "off"),
        ("measured", 0, 0, 0, "ok"),
        ("measured", 0, 0, 1, "off"),
    ],
)
def test_verdict(kind: str, published: float, step: float, computed: float, verdict: str) -> None:
    printed = row(kind=kind, value=published, step=step)
    assert Entry(printed, Found(computed)).verdict == verdict


def test_a_figure_rests_on_the_runs_and_counters_that_it_says(entries: dict[str, Entry]) -> None:
    def of(name: str) -> tuple[set[str], set[str]]:
        found = entries[name].found
        assert found is not None
        return set(found.runs), set(found.counters)

    leaf = {"raw/switch/leaf1_octets.json.gz"}
    prefill = {f"raw/aiperf/prefill_c{c}" for c in (2, 4, 8)}
    assert of("p4") == ({"raw/aiperf/prefill_c4"}, set())
    assert of("ratio") == ({"raw/aiperf/prefill_c2", "raw/aiperf/prefill_c8"}, set())
    assert of("ceiling") == of("knee") == of("time") == (prefill, set())
    assert of("level") == ({"raw/stress", "raw/aiperf/decode_c4"}, set())
    assert of("prefill.usual") == ({"raw/aiperf/prefill_c8"}, leaf)
    assert of("floors") == ({"raw/aiperf/decode_c2", "raw/aiperf/decode_c4"}, leaf)
    assert of("weights") == of("four.out") == (set(), set())


def moved(before: dict[str, Entry], campaign: Path) -> set[str]:
    after = {e.printed.id: e for e in ledger(load(campaign))}
    assert list(after) == list(before)
    return {name for name, e in after.items() if e.computed != before[name].computed}


def test_longer_gaps_in_one_run_move_its_figures_only(
    entries: dict[str, Entry], copy: Path
) -> None:
    def longer(document: dict[str, list[list[float]]]) -> None:
        document["itls"] = [[gap * 2 for gap in gaps] for gaps in document["itls"]]

    printed_campaign.edit_vllm(copy / "raw/stress/mixed_c4.json.gz", longer)
    assert moved(entries, copy) == {"m4", "level"}
    after = {e.printed.id: e for e in ledger(load(copy))}
    assert after["m4"].computed == pytest.approx(160)
    assert after["m4"].verdict == after["level"].verdict == "off"


def test_a_slower_prefill_run_moves_all_that_rests_on_it(
    entries: dict[str, Entry], copy: Path
) -> None:
    """A summary of another rate would not: the records are what counts."""
    path = copy / "raw/aiperf/prefill_c4/profile_export_aiperf.json"
    summary = json.loads(path.read_text())
    summary["input_token_throughput"]["avg"] = 1.0
    path.write_text(json.dumps(summary))
    assert moved(entries, copy) == set()
    recipes = printed_campaign.RECIPES.replace("1,4,1,64,0.05,1950,1,16", "1,4,1,64,0.05,1500,1,16")
    other = printed_campaign.build(copy.parent / "other")
    (other / "recipes.csv").write_text(recipes)
    printed_campaign.write(other, printed_campaign.generate(other))
    for name in ("profile_export.jsonl.gz", "profile_export_aiperf.json"):
        shutil.copy(other / "raw/aiperf/prefill_c4" / name, path.parent / name)
    # 1000, 1500, 2000: no plateau, so what rests on the ceiling has none
    assert moved(entries, copy) == {"p4", "step", "ceiling", "knee", "share", "time"}
    after = {e.printed.id: e for e in ledger(load(copy))}
    assert after["p4"].computed == pytest.approx(1500)
    assert after["knee"].why == "the curve's finding: not saturated"
    assert after["time"].verdict == "not computable"


def test_without_counters_links_say_so_and_the_rest_stays(
    entries: dict[str, Entry], copy: Path
) -> None:
    shutil.rmtree(copy / "raw/switch")
    after = {e.printed.id: e for e in ledger(load(copy))}
    gone = {name for name, e in after.items() if e.verdict != "ok"}
    assert gone == {e.printed.id for e in entries.values() if e.printed.section == "links"}
    assert {after[name].why for name in gone} == {"the campaign holds no interface counters"}


def test_what_the_manifest_does_not_state_is_not_guessed(copy: Path) -> None:
    manifest = printed_campaign.MANIFEST.replace("parameters: 1e9", "name: m")
    (copy / "campaign.yaml").write_text(manifest.replace(", max_num_seqs: 64", ""))
    after = {e.printed.id: e for e in ledger(load(copy))}
    gone = {name: e.why for name, e in after.items() if e.verdict != "ok"}
    assert set(gone) == {"weights", "per_gpu", "left", "slots", "waiting"}
    assert gone["slots"] == "the manifest does not state the slots everywhere"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mixed,512,64,4,raw/none,itl,p99,1,ms", "the campaign holds no run raw/none"),
        ("mixed,512,64,8,raw/stress,itl,p99,1,ms", "raw/stress has concurrency 4, the figure is"),
        ("mixed,512,64,9,,itl,p99,1,ms", "no run: a, mixed, 512 in / 64 out, 9 in flight"),
        ("mixed,512,64,4,,itl,mean,1,ms", "2 runs that could be meant"),
        ("prefill,512,1,4,,itl,p99,1,ms", "itl_p99_ms is undefined in raw/aiperf/prefill_c4"),
        ("mixed,512,64,4,raw/stress,itl,p99,1,tok/s", "itl_p99_ms has no unit tok/s"),
        ("mixed,512,64,4,,wonder,,1,x", "no definition of the metric 'wonder'"),
        ("prefill,512,1,,,throughput_ratio,often,1,x", "no two concurrencies in the statistic"),
        ("decode,16,64,,,ceiling,,1,tok/s", "ok"),
        ("mixed,512,64,,,hol_onset_concurrency,first,1,requests", "2 runs that could be meant"),
        ("decode,16,64,,,saturation_concurrency,,1,requests", "the curve's finding: too few"),
        ("mixed,512,64,,,tool_deviation,max,1,%", "ok"),
        ("prefill,512,1,8,,tool_deviation,,1,%", "no run: a, prefill"),
        ("prefill,512,1,,,link_utilisation,often,1,%", "no definition of the statistic 'often'"),
        ("other,,,,,link_utilisation,usual,1,%", "no counters of uplinks: other runs of a"),
    ],
)
def test_reasons_are_words(book: Campaign, tmp_path: Path, line: str, why: str) -> None:
    text = f"{printed_campaign.HEADER}one,X,s,derived,a,{line},1,\n"
    (tmp_path / "published.csv").write_text(text)
    (entry,) = ledger(replace(book, root=tmp_path))
    if why == "ok":
        assert entry.found is not None
    else:
        assert why in entry.why
        assert (entry.computed, entry.verdict) == (None, "not computable")


def test_two_clients_of_one_condition_are_told_apart(book: Campaign, tmp_path: Path) -> None:
    """Deviation of the totals, (512 + 64) x 12 requests over each duration."""
    head = printed_campaign.HEADER
    total = "mixed,512,64,4,{},total_throughput,total,1,tok/s,1,\n"
    rows = [
        "a,X,s,measured,a," + total.format("raw/aiperf/mixed_c4"),
        "s,X,s,measured,a," + total.format("raw/stress/mixed_c4.json.gz"),
        "d,X,s,derived,a,mixed,512,64,4,,tool_deviation,,1,%,1,\n",
    ]
    (tmp_path / "published.csv").write_text(head + "".join(rows))
    one, two, apart = (e.computed for e in ledger(replace(book, root=tmp_path)))
    assert one is not None
    assert two is not None
    assert apart == pytest.approx(abs(one - two) / one * 100)
    assert apart > 1


def test_json_and_text_tell_the_same(entries: dict[str, Entry]) -> None:
    told = as_json(entries.values())
    assert json.loads(json.dumps(told)) == told
    assert told["counts"] == {"ok": len(entries), "off": 0, "not computable": 0}
    figure = next(f for f in told["figures"] if f["id"] == "p4")
    assert (figure["published"], figure["ok"], figure["verdict"]) == (1950, True, "ok")
    assert figure["runs"] == ["raw/aiperf/prefill_c4"]
    text = render(entries.values())
    assert text.splitlines()[-1] == f"{len(entries)} ok, 0 off, 0 not computable"
    assert all(name in text for name in entries)


def test_exit_codes(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", str(copy)]) == 0
    text = (copy / "published.csv").read_text()
    (copy / "published.csv").write_text(text.replace(",1950,tok/s", ",1900,tok/s"))
    capsys.readouterr()
    assert main(["ledger", str(copy), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [f["id"] for f in told["figures"] if not f["ok"]] == ["p4"]
    (copy / "published.csv").unlink()
    assert main(["ledger", str(copy)]) == 2
    assert "published.csv: expected the printed figures" in capsys.readouterr().err


def test_every_documented_metric_exists_and_the_other_way_round() -> None:
    text = (DATA.parent / "docs" / "ledger.md").read_text(encoding="utf-8")
    section = text.partition("## Metrics")[2].partition("## contradictions")[0]
    names = {metric for metric, _ in MEASURED} | set(FIGURES)
    assert {name for name in names if f"`{name}`" not in section} == set()


@functools.cache
def of_shipped(name: str) -> tuple[Entry, ...]:
    return tuple(ledger(load(DATA / name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_shipped_campaigns_meet_every_printed_figure(name: str) -> None:
    if not (DATA / name / "published.csv").is_file():
        pytest.skip(f"this clone has no data/{name}")
    entries = of_shipped(name)
    assert len(entries) == len(read_published(DATA / name)) > 0
    assert [f"{e.printed.id}: {e.computed}" for e in entries if e.verdict != "ok"] == []


#: A stress run of each campaign whose gaps are stretched, and the figures that must move by it.
#: A ratio of two of its gaps, a concurrency and a link's level do not move, though they rest on it.
STRETCHED = {
    "b300-one-vs-two-nodes": (
        "raw/stress/2n-fp8-tp8dp2_mixed_c128",
        {f"A.hol.2n-fp8-tp8dp2.{stat}" for stat in ("mean", "median", "p99")},
        {"A.hol.2n-fp8-tp8dp2.ratio"},
    ),
    "b300-two-nodes": (
        "raw/stress/mixed_c64",
        {f"B.mixed.{f}.c64" for f in ("itl_median", "itl_p99", "ratio", "stall_share", "tpot")}
        | {"B.tools.dev.c64", "B.tools.dev.max", "B.tools.stress.c64"},
        {"B.link.mixed.peak", "B.mixed.onset", "B.mixed.onset.lower"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_stretched_gaps_of_a_shipped_run_move_what_rests_on_it_alone(
    name: str, tmp_path: Path
) -> None:
    if not (DATA / name / "published.csv").is_file():
        pytest.skip(f"this clone has no data/{name}")
    run, moves, stays = STRETCHED[name]
    campaign = tmp_path / name
    shutil.copytree(DATA / name, campaign)
    before = {e.printed.id: e for e in of_shipped(name)}

    def stretched(document: dict[str, list[list[float]]]) -> None:
        document["itls"] = [[gap * 1.5 for gap in gaps] for gaps in document["itls"]]

    printed_campaign.edit_vllm(campaign / f"{run}.json.gz", stretched)
    assert moved(before, campaign) == moves
    resting = {n for n, e in before.items() if e.found is not None and run in e.found.runs}
    assert resting == moves | stays
