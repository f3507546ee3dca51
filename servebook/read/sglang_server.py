"""What SGLang's ``server_info`` tells of the server: its layout, and nothing that names a machine.

The object holds every server argument, among them hosts, keys and folders. Only numbers, switches
and short words of the arguments below are taken; of a model's path the last part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from servebook.read.values import boolean, model_name, object_of, objects_in, whole

__all__ = ["model_of", "told"]

#: A name of a method or type, such as "fp8_e5m2" or "fa3"; nothing that could be a path or a host.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}")
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9A-Za-z]{1,24}){1,5}(?:\+[0-9A-Za-z.]{1,24})?")
_NUMBERS = {
    "tp_size": "TP",
    "dp_size": "DP",
    "ep_size": "EP",
    "pp_size": "PP",
    "nnodes": "nodes",
    "max_running_requests": "max running requests",
    "chunked_prefill_size": "chunked prefill (tokens)",
}
_WORDS = {
    "quantization": "quantisation",
    "dtype": "dtype",
    "kv_cache_dtype": "KV dtype",
    "speculative_algorithm": "speculative decoding",
}
_SWITCHES = {
    "disable_radix_cache": ("prefix cache off", "prefix cache on"),
    "enable_dp_attention": ("DP attention", ""),
}
#: ``init_args`` and ``server_args`` are older places of the same arguments.
_INSIDE = ("server_args", "init_args")


def told(server_info: Any) -> list[str]:
    """One sentence per kind of worker: "prefill (2 servers): TP 4, DP 1, ..."; [] where none."""
    out = []
    for role, workers in _workers(server_info):
        known: dict[str, int] = {}
        for worker in workers:
            if sentence := _worker(worker):
                known[sentence] = known.get(sentence, 0) + 1
        for sentence, count in known.items():
            many = f" ({count} servers)" if count > 1 else ""
            out.append(f"the server says of {role}{many}: {sentence}")
    return out


def model_of(server_info: Any) -> str | None:
    """The served model's name; None where the server told none."""
    for _, workers in _workers(server_info):
        for worker in workers:
            for key in ("served_model_name", "model_path"):
                if name := model_name(worker.get(key)):
                    return name
    return None


def _workers(server_info: Any) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The arguments by role; a router of separate prefill and decode servers lists both."""
    info = object_of(server_info)
    found = [
        (role, workers)
        for role in ("prefill", "decode")
        if (workers := [_flat(worker) for worker in objects_in(info.get(role))])
    ]
    return found or ([("itself", [_flat(info)])] if info else [])


def _flat(worker: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in _INSIDE:
        worker = {**object_of(worker.get(key)), **worker}
    return worker


def _worker(worker: Mapping[str, Any]) -> str:
    parts = []
    version = worker.get("version")
    if isinstance(version, str) and _VERSION.fullmatch(version):
        parts.append(f"SGLang {version}")
    for key, label in _NUMBERS.items():
        if (count := whole(worker.get(key))) is not None and count < 10**9:
            parts.append(f"{label} {count:,}")
    for key, label in _WORDS.items():
        word = worker.get(key)
        if isinstance(word, str) and _WORD.fullmatch(word):
            parts.append(f"{label} {word}")
    for key, (on, off) in _SWITCHES.items():
        state = boolean(worker.get(key))
        if state is not None and (words := on if state else off):
            parts.append(words)
    return ", ".join(parts)
