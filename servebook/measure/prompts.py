"""How much of a run's prompts was sent before, and how much of them the server had cached.

The first follows from the prompts of the dump, counted while reading (``servebook/read/
prompt_prefix.py``), in characters; the second from the cached tokens that the server reported, in
tokens. The first is what a prefix cache could serve at best, the second what it did.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.tables import Tables

__all__ = ["shared_prefixes"]


def shared_prefixes(tables: Tables) -> pd.DataFrame:
    """One row per run whose dump holds prompts or cached tokens, in the order of ``runs``.

    Columns: run_id, n_requests, n_prompts, prompt_chars, shared_fraction (of the characters),
    n_cached (ok profiling requests with both counts), cached_fraction (of their input tokens).
    Missing is null.
    """
    names = ["run_id", "n_requests", "n_prompts", "prompt_chars", "prompt_shared_chars"]
    runs = tables.runs.select(names).to_pandas().set_index("run_id")
    requests = tables.requests.select(["run_id", "phase", "status", "isl", "cached_tokens"])
    known = requests.to_pandas()
    known = known[
        (known["phase"] == "profiling")
        & (known["status"] == "ok")
        & known["cached_tokens"].notna()
        & (known["isl"] > 0)
    ]
    by_run = known.groupby("run_id")
    sums = by_run[["isl", "cached_tokens"]].sum()
    counted = runs["prompt_chars"].astype(float)
    out = pd.DataFrame(
        {
            "n_requests": runs["n_requests"],
            "n_prompts": runs["n_prompts"],
            "prompt_chars": runs["prompt_chars"],
            "shared_fraction": runs["prompt_shared_chars"].astype(float)
            / counted.where(counted > 0, np.nan),
            "n_cached": by_run.size().reindex(runs.index).fillna(0).astype(int),
            "cached_fraction": (sums["cached_tokens"] / sums["isl"]).reindex(runs.index),
        }
    )
    kept = out["shared_fraction"].notna() | (out["n_cached"] > 0)
    return out[kept].reset_index()
