"""Reader of ``vllm bench serve`` results.

- Written by vLLM's serving benchmark: ``vllm bench serve --save-result`` and, before it,
  ``benchmarks/benchmark_serving.py``; ``--save-detailed`` adds per-request lists,
  ``--append-result`` puts several results into one file, ``vllm bench sweep`` runs many and adds
  what it set to each. InferenceX (InferenceMAX) and TensorRT-LLM ship copies of the older script.
- Specified by vLLM's source alone (``vllm/benchmarks/serve.py``); keys come and go between
  versions, so each one is optional here.
- It cannot tell: the client's version; the length asked for, and whether end-of-stream was
  ignored; wall-clock times (``start_times`` are seconds of a monotonic clock, ``date`` is naive
  local time of the end); whether output tokens are the server's count or the client's. An error
  object inside a stream leaves no error: the request counts as completed with fewer tokens. It
  shows only where all others share one length, as a ``short_output``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from servebook.read.bench_columns import GapLists
from servebook.read.bench_results import (
    LISTS,
    is_detailed,
    tables_of_results,
    workload_of_totals,
)
from servebook.read.json_each import each_object
from servebook.read.json_split import lists_at_once
from servebook.read.records import NO_STARTS, SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.source import File, Format, Source
from servebook.read.values import model_name, number, whole
from servebook.read.vllm_requests import MORE, add_requests
from servebook.read.vllm_summary import client, length_asked, native, setup_notes, wall_ns
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "is_list_of_results", "read"]

_KEYS = (b'"num_prompts"', b'"completed"', b'"total_input_tokens"')
#: Of a result that a script has relieved of its totals: its latencies are still its own.
_SHORTENED = (b'"num_prompts"', b'"model_id"', b'"tokenizer_id"', b'"mean_ttft_ms"')
#: Keys of a client that looks like this one. One of them alone can be metadata that somebody gave.
_SGLANG = (b'"server_info"', b'"dataset_name"')


def find(files: Sequence[File]) -> list[Source]:
    """The result files among ``files``, and lists of results where their runs are not there."""
    found = [
        file for file in files if _holds_results(file.head) and not _LEFT.search(file.path.name)
    ]
    runs = [file for file in found if file.head.lstrip()[:1] == b"{"]
    # A sweep writes each run, and lists of them into the same folder or the one above.
    below = {folder for file in runs for folder in file.path.parents}
    lists = [f for f in found if f.head.lstrip()[:1] == b"[" and f.path.parent not in below]
    outer = {file.path.parent for file in lists}
    lists = [f for f in lists if not outer & set(f.path.parent.parents)]
    return [Source("vllm", f.root, f.path, (f.path,)) for f in (*runs, *lists)]


#: What a sweep leaves beside its runs.
_LEFT = re.compile(r"^warmup\.json|failure\.json|\.pytorch\.json")


def is_list_of_results(head: bytes) -> bool:
    """Whether a file that begins so is a list of results, as a sweep makes of its runs."""
    return head.lstrip()[:1] == b"[" and _holds_results(head)


def _holds_results(head: bytes) -> bool:
    return (
        head.lstrip()[:1] in (b"{", b"[")
        and any(all(key in head for key in keys) for keys in (_KEYS, _SHORTENED))
        and not all(key in head[:8192] for key in _SGLANG)
    )


def read(source: Source) -> Tables:
    """The tables of all results in one file; raises DumpError where it holds none."""
    return tables_of_results(source, _results(source.main), "vLLM", _wrong, _one)


FORMAT = Format("vllm", "runs", find, read)


def _results(path: Path) -> Iterator[tuple[int, Any, str | None]]:
    """The objects of a file; those of a list one by one."""
    large = partial(lists_at_once, path)
    for line, value, reason in each_object(path, (*LISTS, *MORE), lists=GapLists, large=large):
        for one in value if isinstance(value, list) and reason is None else [value]:
            yield line, one, reason


def _wrong(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "another JSON value"
    missing, short = (
        [key.decode() for key in keys if key.decode().strip('"') not in value]
        for keys in (_KEYS, _SHORTENED)
    )
    if not short:
        return None
    return f"an object without {', '.join(missing)}" if missing else None


def _one(result: Mapping[str, Any], run_id: str, path: str, digest: str, line: int) -> Tables:
    requests = Requests(run_id)
    aside: Aside = []
    own = native(result)
    prompts = whole(result.get("num_prompts"))
    row: dict[str, Any] = {
        "run_id": run_id,
        "format": "vllm",
        "client": client(result),
        "path": path,
        "sha256": digest,
        "model": model_name(result.get("model_id")),
        "concurrency": whole(result.get("max_concurrency")),
        "request_rate": number(result.get("request_rate")),
        "isl_requested": length_asked(result, "input"),
        "osl_requested": length_asked(result, "output"),
        "complete": True,
        "native": json.dumps(own),
    }
    notes = setup_notes(result)
    if is_detailed(result):
        began = wall_ns(result, "start")
        clock = add_requests(result, requests, aside, line, began)
        row |= requests.counts() | {"level": "records", "clock": clock}
        if clock == "none":
            row |= {"start_ns": None, "end_ns": None}
            notes.append(NO_STARTS)
        recorded = len(requests) + len(aside)
        row["n_lost"] = None if prompts is None else max(0, prompts - recorded)
        row["streaming"] = requests.values("first_token_ns").null_count < len(requests) or None
        row["workload"] = workload(requests.median("isl"), requests.median("osl"))
        notes += _short_outputs(requests)
    else:
        row |= {"level": "summary", "clock": "none"}
        start, end = wall_ns(result, "start"), wall_ns(result, "end")
        if start is not None and end is not None and start <= end:
            row |= {"start_ns": start, "end_ns": end, "clock": "epoch"}
        row |= {"n_ok": own.get("n_ok"), "n_failed": own.get("n_failed")}
        row["n_requests"] = prompts if own.get("n_ok") is not None else None
        row["workload"] = workload_of_totals(result, own.get("n_ok"))
        notes.append(SUMMARY_ONLY)
        if own.get("n_ok") is None:
            asked = "some" if prompts is None else f"{prompts:,}"
            notes.append(
                f"its totals were taken out: of {asked} requests it does not say how they ended"
            )
    row["workload_from"] = "lengths" if row["workload"] else None
    row["notes"] = notes
    return Tables(
        runs=table("runs", [row]),
        requests=requests.requests(),
        gaps=requests.gaps(),
        set_aside=set_aside(path, aside),
    )


def _short_outputs(requests: Requests) -> list[str]:
    """Flags requests below the length that most share, and says what they may be."""
    ok = pc.and_(pc.equal(requests.values("status"), "ok"), requests.values("osl").is_valid())
    places = np.flatnonzero(ok.to_numpy())
    osl = requests.values("osl").filter(ok).to_numpy()
    top = int(osl.max(initial=0))
    short = places[osl < top].tolist()
    if not short or top < 2 or len(short) * 2 >= len(places):
        return []
    for index in short:
        requests.change("flags", index, ["short_output"])
    note = (
        f"{len(short):,} of {len(places):,} completed requests have fewer than the {top:,} output "
        "tokens that most share: an error inside the stream leaves just that trace, and so does a "
        "model that stopped early; the dump does not say which"
    )
    return [note]
