"""Reader of SGLang ``bench_serving`` results.

- Written by SGLang's serving benchmark (``python -m sglang.bench_serving``, later
  ``sglang.benchmark.serving``): one JSON object a run, appended to ``--output-file``;
  ``--output-details`` adds per-request lists. Versions seen: real files of 2024 (17 keys) and of
  0.5.23; the schema of 0.4.6 and 0.5.10 from its source.
- Specified by SGLang's source alone; keys come and go between versions, so each is optional here.
- It cannot tell: the client's version; any time of day, nor when a request started; how many
  requests were asked for (so that lost ones stay unknown, and without the lists failed ones too);
  whether the output was counted by the server. ``server_info`` tells the server's layout where the
  server answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from servebook.read.bench_results import (
    LISTS,
    is_detailed,
    tables_of_results,
    workload_of_totals,
)
from servebook.read.json_columns import is_list
from servebook.read.json_split import lists_at_once
from servebook.read.json_stream import objects_of
from servebook.read.records import NO_STARTS, SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.sglang_server import model_of, told
from servebook.read.sglang_slots import MORE, add_slots
from servebook.read.sglang_summary import DEFINITIONS, NATIVE_BACKENDS, native, whole_replies
from servebook.read.source import File, Format, Source
from servebook.read.values import number, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_KEYS = ("backend", "completed", "total_output_tokens")
#: Keys that no other client writes; one is near the beginning, the other near the end.
_OWN = (b'"sharegpt_output_len"', b'"total_output_tokens_retokenized"')


def find(files: Sequence[File]) -> list[Source]:
    """The result files among ``files``."""
    return [
        Source("sglang", file.root, file.path, (file.path,))
        for file in files
        if file.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
        and b'"backend"' in file.head
        and any(key in file.head for key in _OWN)
    ]


def read(source: Source) -> Tables:
    """The tables of all results in one file; raises DumpError where it holds none."""
    path = source.main
    large = partial(lists_at_once, path)
    results = objects_of(path, (*LISTS, *MORE), unique=True, large=large)
    return tables_of_results(source, results, "SGLang", _wrong, _one, _content)


FORMAT = Format("sglang", "runs", find, read, DEFINITIONS)


def _content(value: Mapping[str, Any]) -> str:
    # Times are written to the last digit: two runs never share all single values.
    single = {k: v for k, v in value.items() if not (is_list(v) or isinstance(v, dict))}
    lengths = {k: len(v) for k, v in value.items() if is_list(v)}
    return json.dumps([single, lengths], sort_keys=True)


def _wrong(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "another JSON value"
    missing = [key for key in _KEYS if key not in value]
    return f"an object without {', '.join(missing)}" if missing else None


def _one(result: Mapping[str, Any], run_id: str, path: str, digest: str, line: int) -> Tables:
    requests = Requests(run_id)
    aside: Aside = []
    own = native(result)
    isl, osl, notes = _lengths(result)
    row: dict[str, Any] = {
        "run_id": run_id,
        "format": "sglang",
        "client": "SGLang bench_serving",
        "path": path,
        "sha256": digest,
        "model": model_of(result.get("server_info")),
        "isl_requested": isl,
        "osl_requested": osl,
        "concurrency": whole(result.get("max_concurrency")) or None,
        "request_rate": number(result.get("request_rate")),
        "clock": "none",
        "complete": True,
        "native": json.dumps(own) if own else None,
    }
    if result.get("request_rate") == "trace":
        notes.append("requests were sent at the times of a trace")
    per_token = result.get("backend") in NATIVE_BACKENDS
    streamed = bundled = False
    if is_detailed(result):
        streamed, bundled = add_slots(result, requests, aside, line, per_token=per_token, asked=osl)
    if len(requests):
        row |= requests.counts() | {"level": "records", "start_ns": None, "end_ns": None}
        first = requests.values("first_token_ns").null_count < len(requests)
        row["streaming"] = (first or None) if streamed else False
        row["workload"] = workload(requests.median("isl"), requests.median("osl"))
        notes.append(NO_STARTS)
        if not streamed:
            notes.append("replies came in one piece: there is no first-token time")
        if bundled:
            notes.append(
                "gaps were written once per token; equal ones in a row are taken for one chunk"
            )
    else:
        row |= {"level": "summary", "n_ok": own.get("n_ok")}
        row["workload"] = workload_of_totals(result, own.get("n_ok"))
        notes.append(SUMMARY_ONLY)
        if whole_replies(result):
            row["streaming"] = False
            notes.append(
                "replies came in one piece: there is no first-token time, and the client's TPOT is "
                "the whole latency, so it is not taken"
            )
    row["workload_from"] = "lengths" if row["workload"] else None
    row["notes"] = [*notes, *told(result.get("server_info"))]
    return Tables(
        runs=table("runs", [row]),
        requests=requests.requests(),
        gaps=requests.gaps(),
        set_aside=set_aside(path, aside),
    )


def _lengths(result: Mapping[str, Any]) -> tuple[int | None, int | None, list[str]]:
    """Input and output length asked for, where all requests asked for the same; else a note."""
    name = result.get("dataset_name")
    isl, osl = (whole(result.get(f"random_{side}_len")) or None for side in ("input", "output"))
    ratio = number(result.get("random_range_ratio"))
    # Other datasets leave the defaults of these options in the file.
    if not (isinstance(name, str) and name.startswith("random")) or ratio is None:
        return None, None, []
    if ratio == 1:
        return isl, osl, []
    if isl is None or osl is None or not 0 <= ratio < 1:
        return None, None, []
    low = [max(1, int(n * ratio)) for n in (isl, osl)]
    return (
        None,
        None,
        [f"lengths were drawn from {low[0]:,} to {isl:,} in, {low[1]:,} to {osl:,} out"],
    )
