"""Dumps of clients other than AIPerf of any size: their fixtures' records again and again.

The records are those of ``tests/fixtures/clients``, which the clients wrote; ids are made anew, so
that no record is another's double. What vLLM writes is made by ``dumps.py``. Same size, same bytes.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["CLIENTS", "write"]

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "clients"
#: Where the fixture lies, and where in it the list of requests.
_ARRAYS: dict[str, tuple[str, Sequence[str | int]]] = {
    "genai-bench": ("genai_bench/D*", ["individual_request_metrics"]),
    "genai-perf": ("genai_perf/profile_export.json*", ["experiments", 0, "requests"]),
    "inference-perf": ("inference_perf/per_request_lifecycle_metrics.json*", []),
    "llmperf": ("llmperf/*_individual_responses.json*", []),
    "guidellm": ("guidellm/mixed/*", ["benchmarks", 0, "requests", "successful"]),
}
CLIENTS = (*_ARRAYS, "sglang", "vllm", "vllm-short")
_ID = re.compile(r'("(?:request_id|response_id|x_request_id)": ")[^"]*(?=")')


def write(folder: Path, client: str, n_bytes: int) -> Path:
    """One result of ``client`` with at least about ``n_bytes``."""
    folder.mkdir(parents=True, exist_ok=True)
    if client.startswith("vllm"):
        sys.path.insert(0, str(Path(__file__).parent))
        import dumps

        return dumps.vllm(folder, n_bytes, 10 if client == "vllm-short" else 999)
    if client == "sglang":
        return _sglang(folder, n_bytes)
    pattern, place = _ARRAYS[client]
    source = min(FIXTURES.glob(pattern))
    result = json.loads(_read(source))
    records, holder = result, None
    for key in place:
        records, holder = records[key], records
    if holder is None:
        before, after = "", ""
    else:
        holder[place[-1]] = "@@"
        before, after = json.dumps(result).split('"@@"')
    path = folder / source.name.removesuffix(".gz")
    texts = [json.dumps(one) for one in records]
    with path.open("w") as stream:
        written = stream.write(before + "[")
        for number, text in enumerate(itertools.cycle(texts)):
            own = _ID.sub(rf"\g<1>{number:032x}", text)
            written += stream.write((", " if number else "") + own)
            if written >= n_bytes:
                break
        stream.write("]" + after)
    return path


def _read(source: Path) -> bytes:
    content = source.read_bytes()
    return gzip.decompress(content) if source.suffix == ".gz" else content


def _sglang(folder: Path, n_bytes: int) -> Path:
    """One line, whose lists hold one entry a request."""
    source = min((FIXTURES / "sglang" / "mixed_c4").iterdir())
    [line, *_] = _read(source).splitlines()
    result: dict[str, Any] = json.loads(line)
    n = len(result["itls"])
    times = max(1, n_bytes // len(line))
    path = folder / source.name.removesuffix(".gz")
    with path.open("w") as stream:
        for at, (name, value) in enumerate(result.items()):
            stream.write(("," if at else "{") + json.dumps(name) + ":")
            if isinstance(value, list) and len(value) == n:
                inside = json.dumps(value)[1:-1]
                stream.write("[")
                for round_ in range(times):
                    stream.write(("," if round_ else "") + inside)
                stream.write("]")
            else:
                stream.write(json.dumps(n * times if name == "completed" else value))
        stream.write("}\n")
    return path
