from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from settings import crossed, named

from servebook.explain.factors import level
from servebook.explain.next_run import (
    Run,
    client_command,
    configuration_lines,
    proposed,
    run_line,
)
from servebook.read.manifest import parse_manifest

RUN = Run("AIPerf", "a-model", "prefill", 16384, 1, 32, 128, server_counts=True)


def test_a_missing_cell_takes_its_settings_from_those_that_have_them() -> None:
    """FP4 on two nodes from FP8 on two nodes: what ``crossed`` states of it, but for its name."""
    fp8, fp4_one, fp4_two = named("2n-fp8", "1n-fp4", "2n-fp4")
    found = proposed(fp8, [fp8, fp4_one], {"precision": "FP4"}, {"2n-fp8", "1n-fp4"})
    assert found is not None
    assert replace(found, name="2n-fp4", label="two FP4", line=fp4_two.line) == fp4_two
    assert found.label == "FP4, 2 nodes, 16 GPUs, TP8"


def test_dp_and_ep_follow_the_gpus() -> None:
    (one,) = named("1n-fp4")
    one = replace(one, tp=4, dp=2, ep=8)
    (two,) = named("2n-fp4")
    found = proposed(one, [one, two], {"nodes": level(two, "nodes")}, set())
    assert found is not None
    assert (found.gpus, found.tp, found.dp, found.ep) == (16, 4, 4, 16)


def test_a_level_that_nobody_has_and_a_name_that_is_taken() -> None:
    fp8, fp4 = named("2n-fp8", "1n-fp4")
    assert proposed(fp8, [fp8, fp4], {"precision": "BF16"}, set()) is None
    first = proposed(fp8, [fp8, fp4], {"precision": "FP4"}, set())
    assert first is not None
    second = proposed(fp8, [fp8, fp4], {"precision": "FP4"}, {first.name})
    assert second is not None
    assert second.name == f"{first.name}-next"


COMMANDS = {
    "AIPerf": """
        aiperf profile --model a-model --url $URL --endpoint-type chat --streaming
        --use-server-token-count --isl 16384 --osl 1 --extra-inputs ignore_eos:true
        --concurrency 32 --request-count 128 --artifact-dir raw/aiperf/new_prefill_c32""",
    "vLLM bench serve": """
        vllm bench serve --model a-model --base-url $URL --dataset-name random
        --random-input-len 16384 --random-output-len 1 --ignore-eos --max-concurrency 32
        --num-prompts 128 --save-result --save-detailed --percentile-metrics ttft,tpot,itl,e2el
        --result-dir raw/vllm --result-filename new_prefill_c32.json""",
}


@pytest.mark.parametrize(("client", "expected"), COMMANDS.items())
def test_the_command_repeats_the_run(client: str, expected: str) -> None:
    told = client_command(replace(RUN, client=client), "new")
    assert told is not None
    # The line breaks are the shell's; what it sees is one command.
    assert shlex.split(told.replace("\\\n", "")) == expected.split()


def test_what_is_not_known_is_left_out_or_a_placeholder() -> None:
    bare = replace(RUN, model=None, requests=None, streaming=False, server_counts=False, warmup=4)
    told = client_command(bare, "new")
    assert told is not None
    assert '--model "$MODEL"' in told
    assert "--warmup-request-count 4" in told
    for absent in ("--request-count", "--streaming", "--use-server"):
        assert f" {absent} " not in told
    assert client_command(replace(RUN, client="another client"), "new") is None


@given(st.text(min_size=1), st.text(min_size=1))
def test_hostile_names_stay_words(model: str, configuration: str) -> None:
    told = client_command(replace(RUN, model=model), configuration)
    assert told is not None
    seen = shlex.split(told.replace(" \\\n", " "))
    if "\\\n" not in model:
        assert seen[3] == model
    assert re.fullmatch(r"raw/aiperf/[a-z0-9.-]*_prefill_c32", seen[-1])


def test_a_shell_reads_a_hostile_model_as_one_word(tmp_path: Path) -> None:
    model = "x'; touch pwned; $(touch pwned) `touch pwned` \n#"
    told = client_command(replace(RUN, model=model), "new")
    script = f'URL=u; aiperf() {{ printf %s "$3"; }}\n{told}\n'
    found = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout == model
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("label", ["plain", 'a "b": {c} # d', "- é\u202e", "no", "1e3"])
def test_a_manifest_reads_its_lines_back(label: str) -> None:
    (fp8,) = named("2n-fp8")
    new = replace(fp8, name="new", label=label, chunked_prefill=True, engine="[vLLM")
    text = (
        "servebook: 1\nname: back\nprovenance: measured\nconfigurations:\n"
        f"{configuration_lines(new)}\nruns:\n{run_line(RUN, 'new')}\n"
    )
    back = parse_manifest(text.encode(), Path("campaign.yaml"))
    (read,) = back.configurations
    assert replace(read, line=new.line) == replace(new, note=None)
    (entry,) = back.runs
    assert (entry.match, entry.configuration, entry.workload) == (
        "raw/aiperf/new_prefill_c32",
        "new",
        "prefill",
    )
    assert (entry.isl, entry.osl, entry.concurrency) == (16384, 1, 32)


def test_the_crossed_manifest_itself_is_complete() -> None:
    assert len(crossed().configurations) == 3
