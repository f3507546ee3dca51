"""A small SGLang result by hand."""

from __future__ import annotations

import math
from typing import Any


def sglang_result(**changes: Any) -> dict[str, Any]:
    """Two ok requests (TTFT 10 and 20 ms) and a refused one, without a usage message."""
    out: dict[str, Any] = {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random-ids",
        "request_rate": math.inf,
        "max_concurrency": 2,
        "sharegpt_output_len": None,
        "random_input_len": 16,
        "random_output_len": 3,
        "random_range_ratio": 1.0,
        "server_info": None,
        "duration": 0.2,
        "completed": 2,
        "total_input_tokens": 32,
        "total_output_tokens": 6,
        "total_output_tokens_retokenized": 6,
        "request_throughput": 10.0,
        "input_throughput": 160.0,
        "output_throughput": 30.0,
        "total_throughput": 190.0,
        "mean_ttft_ms": 15.0,
        "median_ttft_ms": 15.0,
        "mean_tpot_ms": 5.0,
        "mean_itl_ms": 5.0,
        "max_itl_ms": 6.0,
        "mean_e2e_latency_ms": 25.0,
        "input_lens": [16, 16, 16],
        "output_lens": [3, 3, 0],
        "ttfts": [0.01, 0.02, 0.0],
        "itls": [[0.004, 0.006], [0.0045, 0.0055], []],
        "generated_texts": ["a secret", "", ""],
        "errors": ["", "", "Internal Server Error"],
    }
    return out | changes
