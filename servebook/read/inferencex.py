"""Reader of InferenceX (InferenceMAX) aggregates.

- Written by InferenceX's ``process_result.py``: one ``agg_<run>.json`` per run, or a list of them
  collected by its CI. Each is derived from a result of ``benchmark_serving.py``, which says more.
- Specified by its source alone; keys come and go, so each is optional here.
- It cannot tell: single requests, how many there were, when the run was, its duration or totals.
  Lengths are those asked for. Parallelism and hardware are what the CI job was told, not what the
  server said. Latencies are seconds here, where the result has milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.files import read_text, sha256
from servebook.read.records import set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import model_name, number, text, whole
from servebook.read.vllm_objects import objects
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_NAME = "inferencex"
_KEYS = (b'"tput_per_gpu"', b'"conc"', b'"framework"')
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95"}
_STATISTICS |= {"p99": "p99", "p99.9": "p999"}
_WHERE = (
    "hw",
    "framework",
    "precision",
    "tp",
    "pp",
    "ep",
    "dp_attention",
    "disagg",
    "num_prefill_gpu",
    "num_decode_gpu",
    "spec_decoding",
)
_LONGEST = 40
_ALONE = (
    "only an aggregate is there: nothing can be recomputed, and it holds no totals; the result "
    "that it was made from (without agg_ in its name) says more"
)


def find(files: Sequence[File]) -> list[Source]:
    """The aggregate files among ``files``, single ones and lists."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if file.head.lstrip()[:1] in (b"{", b"[") and all(key in file.head for key in _KEYS)
    ]


def read(source: Source) -> Tables:
    """One summary row per aggregate; raises DumpError where the file holds none."""
    path = relative(source.main, source.root)
    digest = sha256(source.main)
    base = str(source.options.get("run_id", source.main.stem))
    rows: list[dict[str, Any]] = []
    aside: list[tuple[int | None, str, str]] = []
    for line, value, reason in objects(read_text(source.main)):
        for one in value if isinstance(value, list) else [value]:
            if reason or not isinstance(one, dict) or "conc" not in one:
                wrong = reason or "another JSON value"
                aside.append((line, "aggregate", f"expected one aggregate, found {wrong}"))
                continue
            run_id = base if not rows else f"{base}#{len(rows) + 1}"
            rows.append(_row(one, run_id) | {"path": path, "sha256": digest})
    if not rows:
        found = aside[0][2].removeprefix("expected one aggregate, found ") if aside else "nothing"
        raise DumpError(path, "an aggregate of InferenceX", found, "copy the file again")
    return Tables(runs=table("runs", rows), set_aside=set_aside(path, aside))


FORMAT = Format(_NAME, "runs", find, read)


def _row(aggregate: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    isl, osl = whole(aggregate.get("isl")), whole(aggregate.get("osl"))
    own = _native(aggregate)
    told = [f"{key} {shown}" for key in _WHERE if (shown := _shown(aggregate.get(key)))]
    load = workload(isl, osl)
    return {
        "run_id": run_id,
        "format": _NAME,
        "client": "InferenceX aggregate",
        "model": model_name(aggregate.get("model")),
        "concurrency": whole(number(aggregate.get("conc"))),
        "isl_requested": isl,
        "osl_requested": osl,
        "workload": load,
        "workload_from": "lengths" if load else None,
        "complete": True,
        "level": "summary",
        "clock": "none",
        "native": json.dumps(own) if own else None,
        "notes": [
            _ALONE,
            *([f"the job was told: {', '.join(told)}"] if told else []),
        ],
    }


def _shown(value: Any) -> str | None:
    if isinstance(value, bool | int | float):
        return str(value)
    shown = text(value)
    return shown if shown and len(shown) <= _LONGEST else None


def _native(aggregate: Mapping[str, Any]) -> dict[str, Any]:
    """Latencies under our names, in ms; rates per GPU are no rates of the run and stay out."""
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        if not number(aggregate.get(f"mean_{theirs}")):
            continue  # 0.0 is what the script before it writes where it has no value
        for key, statistic in _STATISTICS.items():
            seconds = number(aggregate.get(f"{key}_{theirs}"))
            if seconds is not None:
                out[f"{ours}_{statistic}_ms"] = seconds * 1e3
    if out:
        out["_definition"] = {"tpot": "mean_of_requests"}
    return dict(sorted(out.items()))
