"""A page does not grow with its dumps: the same campaign with a hundred times the requests."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small import campaign

from servebook.publish.chapters import confidence, decode, mixed, overview, prefill, setup, trust
from servebook.publish.display import payload
from servebook.publish.draw import page_svg
from servebook.publish.output import Figure, Output
from servebook.publish.pack import pack
from servebook.publish.spec import specification
from servebook.read.campaign import Campaign
from servebook.tables import Tables

CHAPTERS = (overview, setup, trust, prefill, decode, mixed, confidence)
TIMES = 100


def base() -> Campaign:
    """Eight runs of 120 requests with gaps that differ: enough for p99 before and after."""
    chance = np.random.default_rng(6)
    runs: dict[str, dict[str, Any]] = {}
    for name in "ab":
        for concurrency in (2, 4):
            gaps = np.round(chance.lognormal(1.6, 0.1, 6) * (1 + 0.1 * concurrency), 3)
            gaps[4] *= 6
            for workload in ("mixed", "decode"):
                runs[f"{name}{concurrency}{workload}"] = {
                    "configuration": name,
                    "concurrency": concurrency,
                    "workload": workload,
                    "gaps_ms": gaps.tolist(),
                    "n": 120,
                }
    return campaign(runs)


def _later(column: Any, shift: np.ndarray[Any, Any]) -> Any:
    return pa.compute.add(column, pa.array(shift))


def grown(small: Campaign) -> Campaign:
    """Every run goes on for a hundred times as long, with the same requests again and again."""
    runs = small.tables.runs
    span = dict(zip(runs["run_id"].to_pylist(), runs["end_ns"].to_pylist(), strict=True))

    def again(table: pa.Table) -> pa.Table:
        length = np.array([span[run] for run in table["run_id"].to_pylist()])
        parts = []
        for k in range(TIMES):
            part = table
            for at, name in enumerate(part.schema.names):
                if name == "request_id":
                    new = pa.compute.binary_join_element_wise(part[name], f"{k:03d}", "-")
                elif name.endswith("_ns") and name != "gap_ns":
                    new = _later(part[name], k * length)
                else:
                    continue
                part = part.set_column(at, part.schema.field(at), new.cast(part[name].type))
            parts.append(part)
        return pa.concat_tables(parts)

    def many(name: str) -> list[Any]:
        return [None if v is None else v * TIMES for v in runs[name].to_pylist()]

    for name in ("end_ns", "n_requests", "n_ok", "n_gaps"):
        at = runs.schema.get_field_index(name)
        field = runs.schema.field(at)
        runs = runs.set_column(at, field, pa.array(many(name), field.type))
    tables = Tables(runs=runs, requests=again(small.tables.requests), gaps=again(small.tables.gaps))
    return dataclasses.replace(small, tables=tables)


def sizes(book: Campaign) -> dict[str, int]:
    """Bytes of what each chapter function puts into the page: fields, chart and drawing."""
    out = {}
    for chapter in CHAPTERS:
        for name in chapter.__all__:
            function = getattr(chapter, name)
            made = function(book) if callable(function) else None
            if not isinstance(made, Output):
                continue
            fields = payload(made)[1]
            if fields.get("table"):
                fields["table"]["rows"] = fields["table"]["rows"][:100]
                fields["table"]["text"] = fields["table"]["text"][:100]
            n = len(json.dumps(fields))
            if isinstance(made, Figure) and made.chart is not None:
                spec = specification(made.chart)
                n += len(json.dumps(pack(spec, {}))) + len(page_svg(spec, "x-"))
            out[f"{chapter.__name__}.{name}"] = n
    return out


@pytest.mark.slow
def test_a_hundred_times_the_requests_leave_the_page_as_large() -> None:
    small = base()
    large = grown(small)
    assert large.tables.gaps.num_rows == TIMES * small.tables.gaps.num_rows
    before, after = sizes(small), sizes(large)
    assert len(before) > 20
    grew = {k: (before[k], after[k]) for k in before if after[k] > 1.15 * before[k] + 400}
    # It draws windows of a run, of which a long one has more: up to a fixed number.
    steady = grew.pop("servebook.publish.chapters.confidence.steady_window", (0, 0))
    assert steady[1] < 40_000
    assert grew == {}
    # Beside these a page carries the Vega bundle, the style and the scripts: some 500 KB.
    fixed = 500_000
    assert (sum(after.values()) + fixed) / (sum(before.values()) + fixed) == pytest.approx(
        1, abs=0.02
    )
