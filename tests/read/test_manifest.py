from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import ManifestError
from servebook.read.manifest import load_manifest, parse_manifest
from servebook.read.manifest_schema import Model

PATH = Path("campaign.yaml")

GOOD = """\
servebook: 1
name: two
provenance: measured
configurations:
  one: &shared {nodes: 1, gpus_per_node: 8, gpus: 8, tp: 8, engine_version: 0.9}
  two:
    <<: *shared
    label: Two nodes
    nodes: 2
    gpus: 16
baseline: one
candidate: two
model: {name: m, parameters: 671e9}
runs:
  - match: raw/{configuration}/{workload}_c{concurrency}
  - match: raw/vllm
    configuration: two
    start: 2026-03-02T14:05:09.123456789+01:00
ports:
  - {device: leaf1, interface: Ethernet1, speed_gbps: 400, role: uplink, rail: 0}
"""


def error(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(ManifestError) as caught:
        parse_manifest(raw, PATH)
    return str(caught.value)


def test_a_manifest_becomes_typed_values() -> None:
    manifest = parse_manifest(GOOD.encode(), PATH)
    one, two = manifest.configurations
    assert (one.name, one.label, one.gpus, one.engine_version) == ("one", "one", 8, "0.9")
    assert (two.name, two.label, two.nodes, two.gpus, two.tp) == ("two", "Two nodes", 2, 16, 8)
    assert manifest.model == Model("m", 671_000_000_000, None)
    assert manifest.title == "two"
    assert manifest.runs[1].start == 1772456709_123456789
    assert manifest.runs[1].line == 16
    assert manifest.ports[0].speed_gbps == 400.0
    assert manifest.ports[0].gpu is None
    assert manifest.configuration("three") is None


@pytest.mark.parametrize(
    ("written", "part_ns"),
    [
        ("09.2+01:00", 200_000_000),
        ("09,25+01:00", 250_000_000),
        ("09.1234567891+01:00", 123456_000),
    ],
)
def test_a_time_keeps_its_fraction_however_it_is_written(written: str, part_ns: int) -> None:
    text = GOOD.replace("2026-03-02T14:05:09.123456789+01:00", f'"2026-03-02T14:05:{written}"')
    manifest = parse_manifest(text.encode(), PATH)
    assert manifest.runs[1].start == 1772456709 * 10**9 + part_ns


def test_what_is_not_stated_stays_so() -> None:
    manifest = parse_manifest(b"servebook: 1\nname: x\nprovenance: null\nruns:\n", PATH)
    assert manifest.provenance == "provenance not stated"
    assert manifest.runs == ()
    assert manifest.slos == {}
    assert manifest.price is None
    assert manifest.model == Model()


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("name: two", "nme: two"), 2, ("`nme`", "did you mean `name`?")),
        (("name: two", "name: two words"), 2, ("without spaces", "'two words'")),
        (("servebook: 1", "servebook: 2"), 1, ("the number 1", "the number 2")),
        (("servebook: 1", "servebook: yes"), 1, ("the number 1", "the text 'yes'")),
        (("measured", "guessed"), 3, ("measured, reconstructed", "'guessed'")),
        (("nodes: 1,", "nodes: true,"), 5, ("`configurations.one.nodes`", "found true")),
        (("nodes: 1,", "nodes: 1.5,"), 5, ("a whole number", "the number 1.5")),
        (("nodes: 1,", "nodes: 0,"), 5, ("at least 1", "the number 0")),
        (("gpus: 8,", "gpus: 4,"), 5, ("1 x 8 = 8", "found 4", "never inferred")),
        (("label: Two nodes", "label: one"), 6, ("a label of its own", "`one`")),
        (("    nodes: 2", "    nodes: 2\n    nodes: 3"), 10, ("once", "first at line 9")),
        (("baseline: one", "baseline: on"), 11, ("`baseline`", "did you mean `one`?")),
        (("candidate: two", "candidate: one"), 12, ("another configuration", "`one`")),
        (("configuration: two", "configuration: tow"), 16, ("`tow`", "did you mean `two`?")),
        (("{concurrency}", "{conc}"), 15, ("{conc}", "known: concurrency")),
        (("raw/vllm", "/raw/vllm"), 16, ("relative to the campaign folder",)),
        (("raw/vllm", "../vllm"), 16, ("inside the campaign folder",)),
        (("+01:00", ""), 18, ("offset from UTC",)),
        (("T14:05", "T25:05"), 18, ("ISO 8601",)),
        (("speed_gbps: 400", "speed_gbps: 400G"), 20, ("`ports[0].speed_gbps`", "'400G'")),
        (("speed_gbps: 400", "speed_gbps: .inf"), 20, ("a number above 0", "inf")),
        (("speed_gbps: 400", "speed_gbps: -1"), 20, ("a number above 0", "-1")),
        (("device: leaf1,", ""), 20, ("`ports[0].device`", "found nothing")),
        (("role: uplink", "role: upling"), 20, ("did you mean `uplink`?",)),
        (("runs:\n", "runs: raw\nnotes:\n"), 14, ("a list",)),
        (("model: {", "model: [{"), 14, ("valid YAML",)),
        (("baseline:", "client_time_zone: Mars/X\nbaseline:"), 11, ("a time zone", "'Mars/X'")),
    ],
)
def test_each_error_names_line_expectation_and_way_out(
    change: tuple[str, str], line: int, words: tuple[str, ...]
) -> None:
    assert change[0] in GOOD
    said = error(GOOD.replace(*change, 1))
    assert said.startswith(f"campaign.yaml:{line}: ")
    assert "; " in said
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("  - {device: leaf1, interface: Ethernet1}\n", "first at line 20"),
        ("notes:\n  - {text: x}\n", "exactly one of `figure`, `run` and `configuration`"),
        ("notes:\n  - {text: x, configuration: one, run: a}\n", "exactly one of"),
        ("counters:\n  - {match: a}\n  - {match: a}\n", "that of line 22"),
        ("counters:\n  - {match: 'x_{device}', device: d}\n", "either in the pattern or as a key"),
        ("counters:\n  - {match: 'x_{concurrency}'}\n", "known: device, interface"),
        ("price: {per_gpu_hour: 2}\n", "`price.currency`"),
        ("slos: {ttft_p99_ms: fast}\n", "`slos.ttft_p99_ms`"),
        ("- x\n", "valid YAML"),
    ],
)
def test_errors_between_keys(more: str, words: str) -> None:
    assert words in error(GOOD + more)


def test_a_missing_manifest_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="servebook init"):
        load_manifest(tmp_path)
    with pytest.raises(ManifestError, match="no such file"):
        load_manifest(tmp_path / "nowhere")


def test_a_folder_or_its_manifest_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(GOOD)
    assert load_manifest(tmp_path) == load_manifest(str(path))


def test_a_manifest_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").mkdir()
    with pytest.raises(ManifestError, match="a readable file"):
        load_manifest(tmp_path)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("raw/*")
)
KEYS = st.sampled_from(
    [
        *("servebook", "name", "runs", "counters", "ports", "configurations", "model", "notes"),
        *("match", "device", "interface", "slos", "baseline", "start", "text"),
    ]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_any_value_is_read_or_refused_in_words(tree: object) -> None:
    text = json.dumps(tree)  # JSON is YAML, but for NaN and Infinity, which are then texts
    assert "expected" in outcome(text.encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_words(noise: bytes) -> None:
    for text in (noise, GOOD.encode() + noise):
        assert "expected" in outcome(text)


def outcome(text: bytes) -> str:
    try:
        return f"as expected: {parse_manifest(text, PATH).name}"
    except ManifestError as said:
        return str(said)
