"""The canonical tables that every reader fills and every measure reads.

Integers are ns, bytes and tokens; times are UTC epoch ns where the clock is ``epoch`` and ns
since the run's first request where it is ``relative``. Null means "the dump does not say" and is
never 0. The tables are Arrow tables, so that a column keeps its integer type beside nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import SCHEMA as GAPS
from servebook.gap_table import GapTable

__all__ = ["SCHEMAS", "Tables", "empty", "of_run", "table"]

_S, _I, _F, _B = pa.string(), pa.int64(), pa.float64(), pa.bool_()

_RUNS = [
    ("run_id", _S),  # path of the run below the inspected root; "#2" for the second of one file
    ("campaign", _S),
    ("configuration", _S),  # from the manifest
    ("format", _S),  # reader's name: "aiperf", "vllm"
    ("client", _S),  # "AIPerf", "vLLM bench serve"
    ("client_version", _S),
    ("schema_version", _S),
    ("path", _S),  # relative to the inspected root, "/" separated
    ("sha256", _S),  # of the file that holds the records (or the summary where there are none)
    ("model", _S),
    ("workload", _S),  # prefill, decode, mixed, other
    ("workload_from", _S),  # manifest, lengths
    ("isl_requested", _I),
    ("osl_requested", _I),
    ("concurrency", _I),
    ("request_rate", _F),  # null: closed loop ("inf" in vLLM)
    ("repeat", _I),  # 1, 2, ... among runs of the same condition; set by the campaign
    ("cache_reuse", _B),
    ("n_prompts", _I),  # counted prompts whose text the dump holds; null where it holds none
    ("prompt_chars", _I),  # their characters
    ("prompt_shared_chars", _I),  # of these, in a prefix that an earlier prompt began with
    ("streaming", _B),
    ("start_ns", _I),  # first start of a profiling request
    ("end_ns", _I),  # last end of a profiling request, failed ones included
    ("clock", _S),  # epoch, relative, none
    ("n_requests", _I),  # profiling records: ok + failed + cancelled
    ("n_ok", _I),
    ("n_failed", _I),
    ("n_cancelled", _I),
    ("n_lost", _I),  # sent, but without a record; null where the dump cannot tell
    ("n_warmup", _I),
    ("n_gaps", _I),
    ("complete", _B),  # false: the client was killed or left no summary
    ("level", _S),  # records, summary
    ("tokens_counted_by", _S),  # server, client, nominal
    ("native", _S),  # JSON object: the client's own summary under our metric names
    ("notes", pa.list_(_S)),  # what a reader noticed and the page should say
]

_REQUESTS = [
    ("run_id", _S),
    ("request_id", _S),  # AIPerf: x_request_id
    ("phase", _S),  # warmup, profiling
    ("status", _S),  # ok, failed, cancelled
    ("scheduled_ns", _I),
    ("start_ns", _I),
    ("first_token_ns", _I),
    ("end_ns", _I),
    ("isl", _I),
    ("osl", _I),
    ("osl_requested", _I),
    ("cached_tokens", _I),
    ("error_kind", _S),  # http_500, stream_broken, stream_error, cancelled, timeout, other
    ("flags", pa.list_(_S)),  # short_output, ...
]

_SAMPLES = [
    ("source", _S),  # file, relative to the inspected root
    ("line", _I),
    ("format", _S),
    ("device", _S),
    ("interface", _S),
    ("ts_ns", _I),
    ("ts_kind", _S),  # device, collector, filename, grid
    ("ts_error_ns", _I),
    ("metric", _S),  # bytes, packets, errors, drops, pause, speed_bps, uptime, ...
    ("scope", _S),  # port, rdma, queue, prio
    ("index", pa.int32()),  # queue or priority
    ("direction", _S),  # rx, tx as the device sees it
    ("kind", _S),  # counter, rate, util, gauge
    ("count", pa.uint64()),  # exact value of a counter
    ("value", _F),  # value of a rate, utilisation or gauge
    ("bits", pa.int32()),  # 32, 53, 64: where the counter wraps
    ("window_s", _F),  # averaging window of a rate
    ("smoothing", _S),  # none, boxcar, ewma
]

_ENGINE = [
    ("source", _S),  # file, relative to the inspected root
    ("line", _I),
    ("format", _S),
    ("run_id", _S),  # the run in whose folder it lies; null: by its times alone
    ("engine", _S),  # "engine 1", ...: an alias of endpoint, replica and rank within the source
    ("start_ns", _I),  # of the window; a reading's start and end are one
    ("end_ns", _I),
    ("ts_kind", _S),  # collector, filename, device, grid
    ("metric", _S),  # running, waiting, kv_use_fraction, cache_hit_tokens, ...
    ("kind", _S),  # gauge, counter
    ("statistic", _S),  # reading; of a window: mean, min, max, p50, ..., total; slice_mean, ...
    ("value", _F),
]

_PORTS = [
    ("device", _S),
    ("interface", _S),
    ("speed_bps", _F),
    ("role", _S),  # uplink, host, spine
    ("node", _S),
    ("rail", _I),
    ("gpu", _I),
]

_SET_ASIDE = [
    ("path", _S),
    ("line", _I),
    ("record", _S),  # what kind of record it was; never its content
    ("reason", _S),
]

_REFUSED = [("path", _S), ("reason", _S)]

SCHEMAS: Mapping[str, pa.Schema] = {
    "runs": pa.schema(_RUNS),
    "requests": pa.schema(_REQUESTS),
    "gaps": GAPS,
    "samples": pa.schema(_SAMPLES),
    "engine": pa.schema(_ENGINE),
    "ports": pa.schema(_PORTS),
    "set_aside": pa.schema(_SET_ASIDE),
    "refused": pa.schema(_REFUSED),
}


def empty(name: str) -> pa.Table:
    """An empty table of the schema ``name``."""
    return SCHEMAS[name].empty_table()


def table(name: str, columns: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of the schema ``name`` from columns or from rows; absent columns are null.

    Raises KeyError for a column that the schema does not have.
    """
    schema = SCHEMAS[name]
    if not isinstance(columns, Mapping):
        rows = columns
        unknown = {key for row in rows for key in row} - set(schema.names)
        columns = {key: [row.get(key) for row in rows] for key in schema.names}
    else:
        unknown = set(columns) - set(schema.names)
    if unknown:
        raise KeyError(f"{name} has no column {sorted(unknown)}")
    length = max((len(values) for values in columns.values()), default=0)
    arrays = []
    for column in schema:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pa.nulls(length, column.type))
        elif isinstance(values, pa.Array | pa.ChunkedArray):
            arrays.append(values.cast(column.type))
        else:
            arrays.append(pa.array(values, type=column.type, from_pandas=True))
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True)
class Tables:
    """The canonical tables of one dump, or of many; each has its schema in ``SCHEMAS``."""

    runs: pa.Table = field(default_factory=lambda: empty("runs"))
    requests: pa.Table = field(default_factory=lambda: empty("requests"))
    gaps: pa.Table | GapTable = field(default_factory=lambda: empty("gaps"))
    samples: pa.Table = field(default_factory=lambda: empty("samples"))
    engine: pa.Table = field(default_factory=lambda: empty("engine"))
    set_aside: pa.Table = field(default_factory=lambda: empty("set_aside"))
    refused: pa.Table = field(default_factory=lambda: empty("refused"))

    @classmethod
    def concat(cls, parts: Iterable[Tables]) -> Tables:
        """All parts' rows, in the order given."""
        parts = list(parts)
        return cls(
            **{f.name: _together([getattr(p, f.name) for p in parts], f.name) for f in fields(cls)}
        )


def _together(tables: list[Any], name: str) -> Any:
    tables = [one for one in tables if one.num_rows]
    if any(isinstance(one, GapTable) for one in tables):
        if all(isinstance(one, GapTable) for one in tables):
            return GapTable(part for one in tables for part in one.parts)
        tables = [one.table if isinstance(one, GapTable) else one for one in tables]
    return pa.concat_tables(tables or [empty(name)])


def of_run(tables: Tables, run_id: str) -> Tables:
    """The runs, requests and gaps of one run, and nothing else."""
    gaps = tables.gaps
    if isinstance(gaps, GapTable):
        gaps = gaps.of_run(run_id)
    else:
        gaps = gaps.filter(pc.equal(gaps["run_id"], run_id))
    runs, requests = (
        one.filter(pc.equal(one["run_id"], run_id)) for one in (tables.runs, tables.requests)
    )
    return Tables(runs=runs, requests=requests, gaps=gaps)
