"""A run that nobody made: its configuration, the client's command, the manifest's lines.

Built from what the campaign states: settings of the configurations that have the wanted levels,
and the client, model, lengths, concurrency and request count of the run that it is to stand
beside. What no dump tells is a placeholder in capitals (the server's address), or a comment. All
names are untrusted text, so words of a command are quoted for the shell and strings of the
manifest are written as JSON, which YAML reads alike.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from servebook.explain.factors import level
from servebook.read.manifest import Configuration

__all__ = ["CLIENTS", "Run", "client_command", "configuration_lines", "proposed", "run_line"]

#: Settings that belong to a factor of ``factors.FACTORS``.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "precision": ("precision", "bytes_per_parameter"),
    "nodes": ("nodes", "gpus_per_node", "gpus"),
    "GPU type": ("gpu", "hbm_gb"),
    "engine": ("engine", "engine_version"),
    "slots per replica": ("max_num_seqs",),
    "tokens per step": ("max_num_batched_tokens",),
    "prefix caching": ("prefix_caching",),
    "chunked prefill": ("chunked_prefill",),
    "layout": ("tp", "pp", "dp", "ep"),
}
_WRITTEN = (
    "engine", "engine_version", "gpu", "hbm_gb", "nodes", "gpus_per_node", "gpus", "tp", "dp",
    "ep", "pp", "precision", "bytes_per_parameter", "max_num_seqs", "max_num_batched_tokens",
    "prefix_caching", "chunked_prefill",
)  # fmt: skip
_FOLDERS = {"AIPerf": "aiperf", "vLLM bench serve": "vllm"}
CLIENTS = tuple(_FOLDERS)
_BREAK = " \\\n    "


@dataclass(frozen=True)
class Run:
    """What a client is asked to do; None where the campaign does not tell."""

    client: str
    model: str | None
    workload: str
    isl: int
    osl: int
    concurrency: int
    requests: int | None
    warmup: int = 0
    streaming: bool = True
    server_counts: bool = False  # the client took token counts from the server


def proposed(
    base: Configuration,
    settings: Sequence[Configuration],
    levels: Mapping[str, str],
    taken: set[str],
) -> Configuration | None:
    """``base`` at these levels of factors, each level's settings from one that has it.

    DP and EP follow the number of GPUs where they did before. None where a level is nobody's.
    ``taken`` are names that it must not have.
    """
    found = base
    for factor, wanted in levels.items():
        if level(found, factor) == wanted:
            continue
        donor = next((c for c in settings if level(c, factor) == wanted), None)
        if donor is None:
            return None
        values: dict[str, Any] = {name: getattr(donor, name) for name in _FIELDS[factor]}
        if factor == "layout":
            base = donor
        found = replace(found, **values)
    found = _following(found, base)
    parts = [
        f"{found.nodes}n" if found.nodes else "",
        found.precision or "",
        *(f"{k}{v}" for k, v in (("tp", found.tp), ("dp", found.dp)) if v),
    ]
    name = _slug("-".join(p for p in parts if p)) or "next"
    while name in taken:
        name += "-next"
    told = [level(found, n) for n in ("precision", "nodes", "layout")]
    label = ", ".join(t for t in told if t != "not stated") or ", ".join(levels.values())
    return replace(found, name=name, label=label, note=None)


def _following(new: Configuration, base: Configuration) -> Configuration:
    """DP and EP as they follow from the GPUs, where they did so in ``base``."""
    per = (base.tp or 0) * (base.pp or 1)
    if base.gpus and new.gpus and per and base.dp == base.gpus / per and new.gpus % per == 0:
        new = replace(new, dp=new.gpus // per)
    return replace(new, ep=new.gpus) if base.gpus and base.ep == base.gpus else new


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def configuration_lines(configuration: Configuration) -> str:
    """The configuration as it stands below ``configurations:`` of a manifest."""
    values = [("label", configuration.label)]
    values += [(k, v) for k in _WRITTEN if (v := getattr(configuration, k)) is not None]
    told = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in values)
    return f"  {json.dumps(configuration.name)}:\n{told}".rstrip()


def run_line(run: Run, configuration: str) -> str:
    """The line for it below ``runs:`` of a manifest."""
    suffix = ".json" if run.client == "vLLM bench serve" else ""
    parts = {
        "match": f"{_place(run, configuration)}{suffix}",
        "configuration": configuration,
        "workload": run.workload,
        "isl": run.isl,
        "osl": run.osl,
        "concurrency": run.concurrency,
    }
    return "  - {" + ", ".join(f"{k}: {json.dumps(v)}" for k, v in parts.items()) + "}"


def _place(run: Run, configuration: str) -> str:
    folder = _FOLDERS[run.client]
    return f"raw/{folder}/{_slug(configuration)}_{_slug(run.workload)}_c{run.concurrency}"


def client_command(run: Run, configuration: str) -> str | None:
    """The shell command of the client; None for a client whose options are not known here.

    It reads the server's address from ``$URL`` and, where no dump names a model, ``$MODEL``.
    """
    if run.client not in _FOLDERS:
        return None
    model = '"$MODEL"' if run.model is None else shlex.quote(run.model)
    place = _place(run, configuration)
    if run.client == "AIPerf":
        options = [
            f'aiperf profile --model {model} --url "$URL" --endpoint-type chat'
            + (" --streaming" if run.streaming else "")
            + (" --use-server-token-count" if run.server_counts else ""),
            f"--isl {run.isl} --osl {run.osl} --extra-inputs ignore_eos:true"
            f" --concurrency {run.concurrency}"
            + (f" --request-count {run.requests}" if run.requests else "")
            + (f" --warmup-request-count {run.warmup}" if run.warmup else ""),
            f"--artifact-dir {shlex.quote(place)}",
        ]
    else:
        folder, _, name = place.rpartition("/")
        options = [
            f'vllm bench serve --model {model} --base-url "$URL"',
            f"--dataset-name random --random-input-len {run.isl} --random-output-len {run.osl}"
            f" --ignore-eos --max-concurrency {run.concurrency}"
            + (f" --num-prompts {run.requests}" if run.requests else ""),
            "--save-result --save-detailed --percentile-metrics ttft,tpot,itl,e2el",
            f"--result-dir {shlex.quote(folder)} --result-filename {shlex.quote(name + '.json')}",
        ]
    return _BREAK.join(options)
