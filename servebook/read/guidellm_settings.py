"""What was asked for, from the configuration of a guidellm report, whichever layout it has.

0.3 keeps it in each benchmark (``args``, ``worker``, ``request_loader``), schema 1 (0.4 to 0.6) in
``args`` of the report, schema 2 (from 0.7) in ``config.spec``. Addresses, keys, prompts and paths
stand beside it and are not taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servebook.read.values import boolean, model_name, number, object_of, whole

__all__ = ["Settings", "settings"]

_LENGTH = re.compile(r"\b(prompt|output)_tokens(_stdev|_min|_max)?\s*=\s*(\d{1,9})\b")
#: Strategies that send at set times, whether or not earlier replies have come.
_TIMED = {"constant", "poisson", "async", "trace", "replay"}


@dataclass(frozen=True)
class Settings:
    """What was asked for; None where the report does not say."""

    model: str | None
    streaming: bool | None
    strategy: str | None
    concurrency: int | None
    request_rate: float | None
    isl: int | None
    osl: int | None
    sample: int | None  # how many requests of each kind the report keeps at most
    trimmed: bool  # whether warm-up or cool-down was cut off

    @property
    def timed(self) -> bool:
        """Whether a request's target time means anything."""
        return self.strategy in _TIMED


def settings(report: Mapping[str, Any], benchmark: Mapping[str, Any]) -> Settings:
    """The settings of one benchmark of a report."""
    config = object_of(benchmark.get("config"))
    args = object_of(benchmark.get("args"))  # 0.3
    spec = object_of(object_of(report.get("config")).get("spec"))
    old = object_of(report.get("args"))  # schema 1
    worker = object_of(benchmark.get("worker"))
    backend = object_of(config.get("backend")) or object_of(spec.get("backend"))
    strategy = _strategy(
        config.get("strategy"),
        args.get("strategy"),
        object_of(benchmark.get("scheduler")).get("strategy"),  # early builds of 0.4
    ) or _asked_once(old)
    kind = strategy.get("type_") or strategy.get("kind")
    kind = kind if isinstance(kind, str) else None
    model = (
        model_name(backend.get("model"))
        or model_name(worker.get("backend_model"))
        or model_name(object_of(old.get("backend_kwargs")).get("model"))
        or model_name(old.get("model"))
    )
    isl, osl = _lengths(
        spec.get("data"), old.get("data"), object_of(benchmark.get("request_loader")).get("data")
    )
    if kind == "synchronous":
        concurrency: int | None = 1
    elif kind == "concurrent":
        concurrency = _some(strategy.get("streams")) or _some(strategy.get("max_concurrency"))
    else:
        concurrency = _some(strategy.get("max_concurrency")) if kind == "throughput" else None
    return Settings(
        model=model,
        streaming=boolean(backend.get("stream")),
        strategy=kind,
        concurrency=concurrency,
        request_rate=number(strategy.get("rate")) if kind in _TIMED else None,
        isl=isl,
        osl=osl,
        sample=whole(config.get("sample_size", benchmark.get("request_samples"))),
        trimmed=any(
            _trims(place.get(f"{name}{suffix}"))
            for place in (config, args)
            for name in ("warmup", "cooldown")
            for suffix in ("", "_number", "_duration")
        ),
    )


def _strategy(*places: Any) -> Mapping[str, Any]:
    for place in places:
        if isinstance(place, str):
            return {"type_": place}
        if found := object_of(place):
            return found
    return {}


def _asked_once(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The strategy of a reduced report of schema 1, from the command's one rate."""
    rate = args.get("rate")
    if isinstance(rate, list):
        rate = rate[0] if len(rate) == 1 else None
    return {"type_": args.get("profile"), "rate": rate, "streams": rate}


def _trims(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_trims(value.get(key)) for key in ("percent", "value"))
    return (number(value) or 0) > 0


def _some(value: Any) -> int | None:
    return whole(value) or None


def _lengths(*places: Any) -> tuple[int | None, int | None]:
    """Prompt and output tokens, where synthetic data of one fixed length was asked for."""
    for place in places:
        for data in place if isinstance(place, list) else [place]:
            found: dict[str, Any] = {}
            if isinstance(data, str):
                found = {f"{m[1]}_tokens{m[2] or ''}": int(m[3]) for m in _LENGTH.finditer(data)}
                if data.lstrip().startswith("{"):
                    found = {}  # JSON in a text: nothing more than a guess
            elif isinstance(data, dict):
                found = data
            if "prompt_tokens" in found or "output_tokens" in found:
                return _fixed(found, "prompt"), _fixed(found, "output")
    return None, None


def _fixed(data: Mapping[str, Any], side: str) -> int | None:
    name = f"{side}_tokens"
    spread = any(data.get(f"{name}_{key}") not in (None, 0) for key in ("stdev", "min", "max"))
    return None if spread else _some(data.get(name))
