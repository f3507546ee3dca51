"""Canaries in every text field of every fixture: none that could be private reaches a table.

Each fixture is read again and again with one of its fields replaced (a JSON key, a CSV column, a
label of a metrics page, a word of a log), whatever the field is for. A canary may then come out
only where the page puts an alias in its place or where a table names software; one from a field
that holds prompts, keys, users, hosts or addresses by its name not even there.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servebook.errors import DumpError
from servebook.read.discover import discover, read_source
from servebook.read.source import FAULTS
from servebook.tables import Tables

FIXTURES = Path(__file__).parents[1] / "fixtures"
CANARY = "kanarienvogel7"
READ = (".json", ".jsonl", ".csv", ".prom", ".log", ".yaml", ".influx")

#: Where a text of a dump may stand: under an alias on the page, or as the name of software.
ALIASED = {("samples", "device"), ("samples", "interface")}
SOFTWARE = {
    ("runs", "client"),
    ("runs", "client_version"),
    ("runs", "schema_version"),
    ("runs", "model"),
    ("requests", "request_id"),  # a random number of the client's; on no page
    ("gaps", "request_id"),
    ("runs", "notes"),  # "engine: x" where a dump names its engine
    ("refused", "reason"),  # which metric or interface, of which the reader can use nothing
    ("set_aside", "reason"),
}
#: Prometheus' own word for why it answered nothing ("bad_data"): it says what to do about it.
TOLD = {
    ("prometheus_error.json", "errorType"),
    ("prometheus_error.json", "prompt and all other private fields"),
}
PRIVATE = re.compile(
    r"prompt|message|content|text|generat|output_?str|answer|secret|passw|api_?key|auth|bearer|user"
    r"|host|url|uri|endpoint|address|serial|uuid|guid(?!ellm)|email|cookie|header|tokenizer|error|payload",
    re.IGNORECASE,
)


def units() -> list[Path]:
    """The smallest parts of the fixtures that are read together: folders of runs, single files."""
    found = []
    for group in ("clients", "runs"):
        found += [path for path in sorted((FIXTURES / group).iterdir()) if path.is_dir()]
    for group in ("counters", "engine"):
        found += [
            path
            for path in sorted((FIXTURES / group).rglob("*"))
            if path.is_file() and path.suffix in READ
        ]
    return found


def paths_in(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of texts in a JSON value; items of a list share a place."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from paths_in(one, (*at, key))
    elif isinstance(value, list):
        for one in value[:50]:
            yield from paths_in(one, (*at, "*"))
    elif isinstance(value, str):
        yield at


def planted(value: Any, where: tuple[str, ...]) -> Any:
    if not where:
        return CANARY if isinstance(value, str) else value
    if where[0] == "*" and isinstance(value, list):
        return [planted(one, where[1:]) for one in value]
    if isinstance(value, dict) and where[0] in value:
        return {**value, where[0]: planted(value[where[0]], where[1:])}
    return value


def json_lines(text: str) -> list[Any] | None:
    """The values of a file with one JSON value a line; None where it is none."""
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return None


def versions(path: Path) -> Iterator[tuple[str, str]]:
    """(the field, the file's text with a canary in it), for each field of a file."""
    text = path.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if whole is not None and path.suffix != ".jsonl":
        for where in sorted(set(paths_in(whole)))[:150]:
            yield ".".join(where), json.dumps(planted(whole, where))
        everywhere = {where for where in paths_in(whole) if PRIVATE.search(".".join(where))}
        value = whole
        for where in sorted(everywhere):
            value = planted(value, where)
        yield "prompt and all other private fields", json.dumps(added(value))
    elif (lines := json_lines(text)) is not None and lines:
        for where in sorted({where for line in lines[:20] for where in paths_in(line)}):
            yield ".".join(where), "\n".join(json.dumps(planted(one, where)) for one in lines)
        yield "prompt added", "\n".join(json.dumps(added(one)) for one in lines)
    elif path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        for column in range(len(rows[0]) if rows else 0):
            changed = [
                [CANARY if i == column else cell for i, cell in enumerate(row)] for row in rows[1:]
            ]
            out = io.StringIO()
            csv.writer(out).writerows([rows[0], *changed])
            yield f"column {rows[0][column]}", out.getvalue()
    elif path.suffix == ".yaml":
        for key in sorted(set(re.findall(r"^[ -]*(\w+): \S", text, re.MULTILINE))):
            yield f"key {key}", re.sub(rf"(?m)^([ -]*{key}: )\S.*$", rf"\g<1>{CANARY}", text)
    else:
        for label in sorted(set(re.findall(r'(\w+)="', text))):
            yield f"label {label}", re.sub(rf'\b{label}="[^"]*"', f'{label}="{CANARY}"', text)
        for word in sorted(set(re.findall(r"[A-Za-z][\w.-]{3,}", text)))[:60]:
            yield f"word {word}", re.sub(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", CANARY, text)


def added(value: Any) -> Any:
    """The value with private keys of our own in its first object."""
    if isinstance(value, dict):
        return {**value, "prompt": CANARY, "api_key": CANARY, "hostname": CANARY, "user": CANARY}
    return value


def leaks(root: Path) -> tuple[set[tuple[str, str]], int]:
    """The columns that hold the canary, and how many rows were read in all."""
    found, n_rows = set(), 0
    for source in discover(root).sources:
        try:
            tables = read_source(source)
        except (DumpError, *FAULTS):
            continue
        for part in dataclasses.fields(Tables):
            table = getattr(tables, part.name)
            n_rows += table.num_rows
            for name in table.column_names:
                column = table[name]
                if str(column.type).startswith("list"):
                    column = column.combine_chunks().flatten()
                if str(column.type) == "string" and any(
                    CANARY in str(value) for value in column.unique().to_pylist()
                ):
                    found.add((part.name, name))
    return found, n_rows


@pytest.mark.parametrize("unit", units(), ids=lambda p: str(p.relative_to(FIXTURES)))
def test_no_private_field_reaches_a_table(unit: Path, tmp_path: Path) -> None:
    root = tmp_path / "unit"
    if unit.is_dir():
        shutil.copytree(unit, root)
    else:
        root.mkdir()
        shutil.copy(unit, root)
    _, n_before = leaks(root)
    tried, told = 0, []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        if path.suffix not in READ:
            continue
        original = path.read_bytes()
        if len(original) > 400_000:
            continue
        for field, text in versions(path):
            path.write_text(text, encoding="utf-8")
            found, _ = leaks(root)
            private = PRIVATE.search(field) and (path.name, field) not in TOLD
            allowed = ALIASED if private else ALIASED | SOFTWARE
            told += [f"{path.name} {field} -> {t}.{c}" for t, c in sorted(found - allowed)]
            tried += 1
        path.write_bytes(original)
    assert told == []
    assert tried > 0 or n_before == 0


PACKED = Path(__file__).parents[2] / "data" / "loopback" / "raw" / "aiperf" / "quiet_mixed_c2"


def test_a_packed_run_hides_nothing(tmp_path: Path) -> None:
    root = tmp_path / "unit"
    shutil.copytree(PACKED, root)
    tried, told = set(), []
    for path in sorted(root.glob("*.gz")):
        original = path.read_bytes()
        plain = tmp_path / path.stem
        plain.write_bytes(gzip.decompress(original))
        for field, text in versions(plain):
            path.write_bytes(gzip.compress(text.encode(), 1))
            found, n_rows = leaks(root)
            allowed = ALIASED if PRIVATE.search(field) else ALIASED | SOFTWARE
            told += [f"{path.name} {field} -> {t}.{c}" for t, c in sorted(found - allowed)]
            tried.add(path.name)
            assert n_rows > 10, field
        path.write_bytes(original)
    assert told == []
    assert tried == {"profile_export.jsonl.gz", "server_metrics_export.json.gz"}


def test_a_large_file_is_read_as_carefully_as_a_small_one(tmp_path: Path) -> None:
    """Large files are read in pieces by other code; so is what one line in thousands holds."""
    run = FIXTURES / "runs" / "aiperf_failures"
    lines = (run / "profile_export.jsonl").read_text(encoding="utf-8").splitlines()
    where = [at for at in sorted({p for one in lines for p in paths_in(json.loads(one))})
             if PRIVATE.search(".".join(at))]  # fmt: skip
    assert where
    many = []
    for n in range(8_000_000 // sum(map(len, lines))):
        for line in lines:
            record = json.loads(line)
            if n % 7 == 3:
                for at in where:
                    record = planted(record, at)
                record = added(record)
            many.append(json.dumps(record, separators=(",", ":")))
    (tmp_path / "profile_export.jsonl").write_text("\n".join(many) + "\n", encoding="utf-8")
    shutil.copy(run / "profile_export_aiperf.json", tmp_path)
    assert CANARY in many[3 * len(lines)]
    found, n_rows = leaks(tmp_path)
    assert n_rows > len(many) // 2
    assert found - ALIASED == set()


SERIES: dict[str, list[Any]] = {
    "metric_name": ['node_network_transmit_bytes_total{device="eth0"}'] * 3,
    "metric_name_clean": ["node_network_transmit_bytes_total"] * 3,
    "scraper_endpoint": ["http://10.0.0.7:9100/metrics"] * 3,
    "metric_value": [1.0, 2.0, 3.0],
    "timestamp_ns": [(1795972223 + i) * 10**9 for i in range(3)],
    "hostname": ["node-a"] * 3,
}
SAMPLES: dict[str, list[Any]] = {
    "ts": SERIES["timestamp_ns"],
    "metric": ["node_network_transmit_bytes_total"] * 3,
    "value": [1.0, 2.0, 3.0],
    "instance": ["node-a:9100"] * 3,
    "device": ["eth0"] * 3,
    "job": ["node"] * 3,
}


@pytest.mark.parametrize("columns", [SERIES, SAMPLES], ids=["collector", "long"])
def test_parquet_holds_back_what_a_csv_would(columns: dict[str, list[Any]], tmp_path: Path) -> None:
    path = tmp_path / "final.parquet"
    pq.write_table(pa.table(columns), path)
    _, n_before = leaks(tmp_path)
    assert n_before >= 3
    texts = [name for name, values in columns.items() if isinstance(values[0], str)]
    told = []
    for name in texts:
        pq.write_table(pa.table({**columns, name: [CANARY] * 3}), path)
        found, _ = leaks(tmp_path)
        allowed = ALIASED if PRIVATE.search(name) else ALIASED | SOFTWARE
        told += [f"{name} -> {t}.{c}" for t, c in sorted(found - allowed)]
    more = {f"label_{n}": [CANARY] * 3 for n in ("prompt", "api_key", "user")}
    pq.write_table(pa.table({**columns, **more}), path)
    found, n_rows = leaks(tmp_path)
    assert n_rows >= n_before
    assert told + sorted(map(str, found)) == []
