"""The metrics of serving engines that are read, under one set of names.

vLLM, SGLang, TensorRT-LLM (its own server and Triton's backend), TGI, llama.cpp and LMDeploy each
export what they run and what waits. Names are compared with ``:`` as ``_`` and without the
``_total`` of counters, because tools on the way change both.

- ``running``, ``waiting``, ``swapped``: requests; ``slots``: the most that may run;
- ``kv_use_fraction``: KV cache in use, 1 is full; ``cache_hit_fraction``: the engine's own ratio;
- ``cache_hit_tokens`` of ``cache_query_tokens``: prompt tokens found in the prefix cache, of those
  looked up (vLLM before 0.9 counted blocks; the ratio is the same). SGLang and TensorRT-LLM count
  hits alone, so theirs are of all prompt tokens;
- ``preemptions``; ``prompt_tokens`` (computed or found) and ``generation_tokens``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["COUNTERS", "ENGINES", "Meaning", "identity", "meaning", "mentions"]

#: How the names of each engine begin.
ENGINES = (b"vllm", b"sglang", b"trtllm", b"tgi_", b"nv_trt", b"llamacpp", b"lmdeploy")

#: Our metrics that only grow.
COUNTERS = frozenset(
    (
        "cache_hit_tokens",
        "cache_query_tokens",
        "preemptions",
        "prompt_tokens",
        "generation_tokens",
    )
)


@dataclass(frozen=True)
class Meaning:
    """What a series is: our metric, and what its values are multiplied by."""

    metric: str
    factor: float = 1.0

    @property
    def kind(self) -> str:
        """Counter or gauge."""
        return "counter" if self.metric in COUNTERS else "gauge"


_NAMES = {
    "vllm_num_requests_running": "running",
    "vllm_num_requests_waiting": "waiting",
    "vllm_num_requests_swapped": "swapped",
    "vllm_kv_cache_usage_perc": "kv_use_fraction",
    "vllm_gpu_cache_usage_perc": "kv_use_fraction",
    "vllm_prefix_cache_hits": "cache_hit_tokens",
    "vllm_prefix_cache_queries": "cache_query_tokens",
    "vllm_gpu_prefix_cache_hits": "cache_hit_tokens",
    "vllm_gpu_prefix_cache_queries": "cache_query_tokens",
    "vllm_gpu_prefix_cache_hit_rate": "cache_hit_fraction",
    "vllm_num_preemptions": "preemptions",
    "vllm_prompt_tokens": "prompt_tokens",
    "vllm_generation_tokens": "generation_tokens",
    "sglang_num_running_reqs": "running",
    "sglang_num_queue_reqs": "waiting",
    "sglang_token_usage": "kv_use_fraction",
    "sglang_cache_hit_rate": "cache_hit_fraction",
    "sglang_prompt_tokens": "prompt_tokens",
    "sglang_generation_tokens": "generation_tokens",
    "sglang_cached_tokens": "cache_hit_tokens",
    "sglang_max_running_requests": "slots",
    "trtllm_num_requests_running": "running",
    "trtllm_num_requests_waiting": "waiting",
    "trtllm_kv_cache_utilization": "kv_use_fraction",
    "trtllm_kv_cache_hit_rate": "cache_hit_fraction",
    "trtllm_prompt_tokens": "prompt_tokens",
    "trtllm_prompt_cached_tokens": "cache_hit_tokens",
    "trtllm_generation_tokens": "generation_tokens",
    "tgi_batch_current_size": "running",
    "tgi_queue_size": "waiting",
    "llamacpp_requests_processing": "running",
    "llamacpp_requests_deferred": "waiting",
    "llamacpp_kv_cache_usage_ratio": "kv_use_fraction",
    "llamacpp_prompt_tokens": "prompt_tokens",
    "llamacpp_tokens_predicted": "generation_tokens",
    "lmdeploy_num_requests_running": "running",
    "lmdeploy_num_requests_waiting": "waiting",
    "lmdeploy_gpu_cache_usage_perc": "kv_use_fraction",
}
#: Triton's TensorRT-LLM backend keeps what it counts in a label.
_TRITON = {
    ("nv_trt_llm_request_metrics", "request_type"): {
        "scheduled": "running",
        "waiting": "waiting",
        "max": "slots",
    },
    ("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type"): {"fraction": "kv_use_fraction"},
}
_MENTION = re.compile(
    rb"(?:vllm|sglang|llamacpp|lmdeploy)[:_][a-z_]+|trtllm_[a-z_]+"
    rb"|tgi_(?:batch_current_size|queue_size)|nv_trt_llm_[a-z_]+"
)
#: Labels that tell nothing of which engine it is, and what tensor-parallel ranks repeat.
_ASIDE = frozenset(("model_name", "model", "le", "__name__", "priority", "engine_type", "version"))
_ASIDE |= {"cache_source"}
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")


def mentions(head: bytes) -> bool:
    """Whether the beginning of a file names a metric that is read."""
    return any(_plain(hit.decode()) in _KNOWN for hit in _MENTION.findall(head))


def meaning(name: str, labels: Mapping[str, str]) -> Meaning | None:
    """What a series is; None for one that is not read.

    SGLang repeats its gauges for each tensor and pipeline rank, and per priority beside their
    sum: rank 0 and the sum are read. Of the tokens that it found in a cache those on the GPU count.
    """
    plain = _plain(name)
    if labels.get("cache_source", "device") != "device":
        return None
    if any(labels.get(rank, "0") not in ("", "0") for rank in _RANKS) or labels.get("priority"):
        return None
    if found := _NAMES.get(plain):
        return Meaning(found)
    for (triton, label), metrics in _TRITON.items():
        if plain == triton and (found := metrics.get(labels.get(label, ""))):
            return Meaning(found)
    return None


def identity(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels that tell engines apart; they never leave the reader, an alias does."""
    triton = {label for _, label in _TRITON}
    drop = _ASIDE | triton | set(_RANKS)
    return tuple(sorted((k, v) for k, v in labels.items() if k not in drop))


def _plain(name: str) -> str:
    return name.replace(":", "_", 1).removesuffix("_total")


_KNOWN = {*_NAMES, *(name for name, _ in _TRITON)}
