"""Reader of InferenceX (InferenceMAX) aggregates.

- Written by InferenceX's ``process_result.py``: one ``agg_<run>.json`` per run, or a list of them
  collected by its CI. Each is derived from a result of ``benchmark_serving.py``, which says more.
- Specified by its source alone; keys come and go, so each is optional here. Aggregates of agentic
  scenarios are made from AIPerf's records and hold counts, duration and totals.
- It cannot tell: single requests and when the run was; of fixed lengths also how many requests
  there were, its duration and totals. There lengths are those asked for. Parallelism and hardware
  are what the CI job was told, not what the server said. Latencies are seconds here, where the
  result has milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.client_figures import numbers, statistics_ms
from servebook.read.files import read_text, sha256
from servebook.read.json_objects import objects
from servebook.read.records import Aside, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import model_name, number, text, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_NAME = "inferencex"
_KEYS = (b'"tput_per_gpu"', b'"conc"', b'"framework"')
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
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
_SCALARS = {
    "duration_seconds": "duration_s",
    "input_tput_tps": "input_throughput_tok_s",
    "output_tput_tps": "output_throughput_tok_s",
    "total_tput_tps": "total_throughput_tok_s",
}
_ALONE = (
    "only an aggregate is there: nothing can be recomputed, and it holds no totals; the result "
    "that it was made from (without agg_ in its name) says more"
)
_AGENTIC = (
    "only an aggregate is there: nothing can be recomputed; the folder aiperf_artifacts that it "
    "was made from says more"
)
_COPY = "its ITL repeats its TPOT, one value per request: no gaps were measured for it"


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
    aside: Aside = []
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
    own, copied = _native(aggregate)
    total, n_ok = whole(aggregate.get("num_requests_total")), own.get("n_ok")
    told = [f"{key} {shown}" for key in _WHERE if (shown := _shown(aggregate.get(key)))]
    sampled = (number(aggregate.get(f"mean_{k}")) for k in ("input_tokens", "output_tokens_actual"))
    load = workload(isl, osl) or workload(*(None if v is None else round(v) for v in sampled))
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
        "n_requests": total,
        "n_ok": n_ok,
        "n_failed": own.get("n_failed"),
        "native": json.dumps(own) if own else None,
        "notes": [
            _ALONE if total is None else _AGENTIC,
            *([_COPY] if copied else []),
            *([f"the job was told: {', '.join(told)}"] if told else []),
        ],
    }


def _shown(value: Any) -> str | None:
    if isinstance(value, bool | int | float):
        return str(value)
    shown = text(value)
    return shown if shown and len(shown) <= _LONGEST else None


def _native(aggregate: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """What it says under our names, latencies in ms, and whether its ITL was only its TPOT.

    Rates per GPU are no rates of the run and stay out, as does mean_qps, a mean over whole seconds.
    """
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        if not number(aggregate.get(f"mean_{theirs}")):
            continue  # 0.0 is what the script before it writes where it has no value
        out |= statistics_ms(ours, aggregate, 1e3, key=f"{{}}_{theirs}")
    gaps = {key: value for key, value in out.items() if key.startswith("itl_")}
    copied = bool(gaps) and all(out.get(f"tpot{k[3:]}") == v for k, v in gaps.items())
    if copied:
        out = {key: value for key, value in out.items() if key not in gaps}
    out |= {ours: value for ours, value in numbers(aggregate, _SCALARS).items() if value > 0}
    total = whole(aggregate.get("num_requests_total"))
    n_ok = whole(aggregate.get("num_requests_successful"))
    if n_ok is not None and total is not None and n_ok <= total:
        out |= {"n_ok": n_ok, "n_failed": total - n_ok}
    if out:
        out["_definition"] = {"tpot": "mean_of_requests"}
    return dict(sorted(out.items())), copied
