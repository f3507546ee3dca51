"""What a stall amounts to, by arithmetic on summary figures alone: a model, not a measurement.

The engine is taken to prefill at its measured ceiling while it decodes nothing (head-of-line
blocking). Then a prompt of n tokens takes n / ceiling; a gap at p99 that exceeds the median by x
seconds held x ceiling prompt tokens; and of a request's mean time per output token, what lies above
the median gap is waiting. The last is a share of the decode time; of the whole response it is less,
because TTFT comes on top. With chunked prefill the first two do not apply: prompts do not stop
decoding.
"""

from __future__ import annotations

import pandas as pd

__all__ = ["prefill_s", "sums"]


def prefill_s(tokens: float, ceiling_tok_s: float) -> float:
    """Time of one prompt alone at the ceiling."""
    return tokens / ceiling_tok_s


def sums(mixed: pd.DataFrame, ceiling_tok_s: float | None) -> pd.DataFrame:
    """One row per row of ``mixed`` (same index): the arithmetic above.

    ``mixed`` needs isl, osl, itl_p50_ms, itl_p99_ms, tpot_mean_ms, e2e_mean_ms. Columns:
    one_prefill_s, stall_s (p99 less median), stall_tokens, stall_prompts, waiting_ms (per token;
    mean TPOT less median ITL, not below 0), share_of_decode, share_of_response (waiting over the
    whole response); NaN without a ceiling where one is needed.
    """
    ceiling = float("nan") if ceiling_tok_s is None else ceiling_tok_s
    stall_s = (mixed["itl_p99_ms"] - mixed["itl_p50_ms"]) / 1e3
    waiting = (mixed["tpot_mean_ms"] - mixed["itl_p50_ms"]).clip(lower=0)
    return pd.DataFrame(
        {
            "one_prefill_s": mixed["isl"] / ceiling,
            "stall_s": stall_s,
            "stall_tokens": stall_s * ceiling,
            "stall_prompts": stall_s * ceiling / mixed["isl"],
            "waiting_ms": waiting,
            "share_of_decode": waiting / mixed["tpot_mean_ms"],
            "share_of_response": waiting * (mixed["osl"] - 1) / mixed["e2e_mean_ms"],
        }
    )
