"""Plans of reconstructed campaigns that cannot be used: one error each, with the way out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.explain.reconstruct.generate import generate, reconstruct
from servebook.explain.reconstruct.plan import read_plan
from servebook.explain.reconstruct.settings import read_settings

SETTINGS = """\
start: "2026-01-05T00:00:00+00:00"
idle_s: 60
poll_s: 2
model: a-model
counters: prometheus
device: leaf1
watched: [x]
rails: 2
speed_bps: 400e+9
skew: 1.02
reset: {interface: Ethernet1/1, run: raw/aiperf/p}
"""
PRINTED = """\
run,metric,stat,unit,value,printed_step,kind,configuration,workload,concurrency
,link_utilisation,usual,%,6,0.1,measured,x,prefill,
,link_utilisation,peak,%,7,0.1,measured,x,prefill,
"""
RECIPES = """\
run,configuration,workload,isl,osl,concurrency,replicas,max_num_seqs,based_on,decode_s,waves
raw/aiperf/p,x,prefill,400,1,4,1,8,,0.01,4
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "reconstruction.yaml").write_text(SETTINGS)
    (tmp_path / "published.csv").write_text(PRINTED)
    (tmp_path / "recipes.csv").write_text(RECIPES)
    return tmp_path


def test_the_plan_itself_is_sound(plan: Path) -> None:
    files = generate(plan)
    assert {name.rpartition("/")[0] for name in files} == {"raw/aiperf/p", "raw/switch"}


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("reconstruction.yaml", "poll_s: 2", "poll_s: 0", "'poll_s' as seconds from 0.1"),
        ("reconstruction.yaml", "poll_s: 2", "poll_s: .nan", "'poll_s' as seconds"),
        ("reconstruction.yaml", "idle_s: 60", "idle_s: soon", "'idle_s' as seconds"),
        ("reconstruction.yaml", "idle_s: 60\n", "", "'idle_s' as seconds .* found none"),
        ("reconstruction.yaml", "rails: 2", "rails: 1.5", "'rails' as a whole number"),
        ("reconstruction.yaml", "rails: 2", "rails: true", "'rails' as a whole number"),
        ("reconstruction.yaml", "+00:00", "", "'start' as a moment with its UTC offset"),
        ("reconstruction.yaml", "2026-", "9999-", "'start' as a moment"),
        ("reconstruction.yaml", "prometheus", "carrier pigeon", "'counters' as one of"),
        ("reconstruction.yaml", "[x]", "x", "'watched' as a list"),
        ("reconstruction.yaml", "[x]", "[]", "'watched' as a list"),
        ("reconstruction.yaml", "[x]", "[y]", "'reset: run' as one that is watched"),
        ("reconstruction.yaml", "Ethernet1/1", "Ethernet9/9", "'reset: interface' as one"),
        ("reconstruction.yaml", "{interface: Ethernet1/1, run: raw/aiperf/p}", "7", "'reset' with"),
        ("reconstruction.yaml", "model: a-model", "modle: a-model", "the key 'modle'"),
        ("reconstruction.yaml", SETTINGS, "- a list", "keys with values, found a list"),
        ("reconstruction.yaml", SETTINGS, "a: [", "expected YAML"),
        ("reconstruction.yaml", SETTINGS, "!!python/object/apply:os.system [x]", "expected"),
        ("recipes.csv", "raw/aiperf/p", "../outside/p", "run is no path of plain names"),
        ("recipes.csv", "raw/aiperf/p", "raw/../../p", "run is no path of plain names"),
        ("recipes.csv", "raw/aiperf/p", "/etc/p", "run is no path of plain names"),
        ("recipes.csv", "prefill", "juggling", "workload is none of"),
        ("recipes.csv", "400,1,4", "many,1,4", "isl is no whole number"),
        ("recipes.csv", "400,1,4", "400,1,0", "concurrency is not from 1"),
        ("recipes.csv", "400,1,4", "400,99999,99999", "output tokens, more than"),
        ("recipes.csv", "0.01", "-1", "decode_s is not above 0"),
        ("recipes.csv", "0.01", "nan", "decode_s is not above 0"),
        ("recipes.csv", "isl,osl", "isl,other", "no column 'osl'"),
        ("recipes.csv", "8,,0.01", "8,raw/aiperf/q,0.01", "based_on names no run above it"),
        ("recipes.csv", "raw/aiperf/p,x", "raw/aiperf/p", "recipes.csv:2"),
        ("recipes.csv", RECIPES.splitlines()[1], "", "found no row"),
        ("published.csv", "printed_step", "step", "no printed_step"),
        ("published.csv", ",link_utilisation,usual", ",other,usual", "utilisation of every"),
        ("published.csv", "usual,%,6", "usual,%,six", "a link utilisation above 0"),
        (
            "published.csv",
            ",link_utilisation,usual",
            "raw/aiperf/p,ttft,mean",
            "a figure that the engine model yields",
        ),
    ],
)
def test_a_plan_that_cannot_be_used_says_why(
    plan: Path, file: str, old: str, new: str, told: str
) -> None:
    text = (plan / file).read_text()
    assert old in text
    (plan / file).write_text(text.replace(old, new, 1))
    with pytest.raises(DumpError, match=told) as error:
        generate(plan)
    assert error.value.way_out
    assert file in str(error.value)


@pytest.mark.parametrize("name", ["reconstruction.yaml", "recipes.csv", "published.csv"])
def test_a_folder_without_a_plan_is_told_what_a_plan_is(plan: Path, name: str) -> None:
    (plan / name).unlink()
    with pytest.raises(DumpError, match=f"the plan of a reconstructed campaign .* no {name}"):
        reconstruct([plan])
    with pytest.raises(DumpError, match="no such folder"):
        reconstruct([plan / "nowhere"])


def test_the_command_line_prints_one_sentence(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "servebook", "reconstruct", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "Errno" not in found.stderr + found.stdout
    assert "use inspect, init or build" in found.stderr
    assert "Traceback" not in found.stderr


READERS: tuple[Callable[[Path], object], ...] = (read_settings, read_plan)


@given(st.sampled_from(["reconstruction.yaml", "recipes.csv", "published.csv"]), st.binary())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    texts = {"reconstruction.yaml": SETTINGS, "published.csv": PRINTED, "recipes.csv": RECIPES}
    for file, text in texts.items():
        (folder / file).write_text(text)
    (folder / name).write_bytes(content)
    for reader in READERS:
        try:
            reader(folder)
        except DumpError:
            continue
    shutil.rmtree(folder)
