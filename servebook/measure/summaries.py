"""What runs say that left a summary alone: the client's own figures, by the client's definitions.

They stand in tables of their own and are never mixed with what is recomputed from records.
"""

from __future__ import annotations

import pandas as pd
import pyarrow.compute as pc

from servebook.measure.metrics import METRICS
from servebook.measure.native import native
from servebook.read.definition import family
from servebook.read.registry import FORMATS
from servebook.tables import Tables

__all__ = ["summaries"]

_COLUMNS = ["run_id", "client", "metric", "variant", "value", "definition"]


def summaries(tables: Tables) -> pd.DataFrame:
    """One row per figure of each run of level "summary", in the order of runs and metrics.

    Columns: run_id, client, metric, variant (the client's name of a second figure of that metric,
    else ""), value (in the metric's unit), definition (what the client means, in words, where it
    has a definition of its own for it; else "").
    """
    own = {form.name: form.definitions for form in FORMATS}
    order = {name: place for place, name in enumerate(METRICS)}
    rows = []
    runs = tables.runs.filter(pc.fill_null(pc.equal(tables.runs["level"], "summary"), False))
    for run in runs.select(["run_id", "format", "client", "native"]).to_pylist():
        values, codes = native(run["native"])
        found = []
        for name, value in values.items():
            metric, _, variant = name.partition("@")
            if metric not in METRICS or value is None:
                continue
            code = codes.get(name) or codes.get(f"@{variant}" if variant else family(metric))
            definition = own.get(run["format"], {}).get(code or "")
            found.append(
                {
                    "run_id": run["run_id"],
                    "client": run["client"] or "the client",
                    "metric": metric,
                    "variant": variant,
                    "value": float(value),
                    "definition": definition.words if definition else "",
                }
            )
        rows += sorted(found, key=lambda row: (order[str(row["metric"])], str(row["variant"])))
    return pd.DataFrame(rows, columns=_COLUMNS).astype({"value": "float64"})
