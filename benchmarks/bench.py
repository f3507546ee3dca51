"""What reading and building cost beside the alternatives: one run, a table of ratios, and JSON.

Each way works in a process of its own, on the same file, one after the other; a way whose library
is not installed is skipped by name. CPU is user and system time of the process and its children,
and its rate is what the ratios compare: wall time on a busy machine tells of its other work. Reads
go to ``servebook.read`` as the build does them: identification, checks, sha256 and the Parquet
cache included, cache cold.

``make bench`` runs it with small sizes; ``make bench ARGS="--mb 1000 --build"`` with large ones.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
GAPS = ("metrics", "inter_chunk_latency", "value")


def _servebook(path: Path) -> int:
    from servebook.read.discover import discover
    from servebook.read.reading import read_sources

    refused: list[tuple[str, str]] = []
    parts = read_sources(discover(path.parent).sources, refused)
    assert not refused, refused
    return sum(part.tables.gaps.num_rows for part in parts)


def _json(path: Path) -> int:
    return _lines(path, json.loads)


def _orjson(path: Path) -> int:
    import orjson

    return _lines(path, orjson.loads)


def _lines(path: Path, loads: Callable[[bytes], Any]) -> int:
    if path.suffix == ".json":
        return sum(map(len, loads(path.read_bytes())["itls"]))
    with path.open("rb") as stream:
        return sum(len(loads(line)["metrics"]["inter_chunk_latency"]["value"]) for line in stream)


def _simdjson(path: Path) -> int:
    import simdjson

    parser = simdjson.Parser()
    if path.suffix == ".json":
        document = parser.parse(path.read_bytes())
        return sum(
            memoryview(one.as_buffer(of_type="d")).nbytes // 8 for one in _each(document["itls"])
        )
    n = 0
    with path.open("rb") as stream:
        for line in stream:
            value = parser.parse(line).at_pointer("/" + "/".join(GAPS))
            n += memoryview(value.as_buffer(of_type="d")).nbytes // 8
            del value  # the parser may not be used again before
    return n


def _each(array: Any) -> list[Any]:
    return [array[i] for i in range(len(array))]


def _pandas(path: Path) -> int:
    import pandas as pd

    if path.suffix == ".json":
        raise ModuleNotFoundError("pandas has no way to read one object of lists")
    frame = pd.read_json(path, lines=True)
    return sum(len(one["inter_chunk_latency"]["value"]) for one in frame["metrics"])


def _polars(path: Path) -> int:
    import polars as pl

    if path.suffix == ".json":
        raise ModuleNotFoundError("polars has no way to read one object of lists")
    frame = pl.read_ndjson(path)
    metric = pl.col("metrics").struct.field("inter_chunk_latency").struct.field("value")
    return int(frame.select(metric.list.len().sum()).item())


WAYS: dict[str, Callable[[Path], int]] = {
    "servebook": _servebook,
    "json": _json,
    "orjson": _orjson,
    "pysimdjson": _simdjson,
    "polars": _polars,
    "pandas": _pandas,
}


def _child(way: str, path: Path) -> None:
    """Run one way in this process and print what it took."""
    import resource

    _import(way)  # what it imports is no reading
    before, wall_s = os.times(), time.perf_counter()
    try:
        n_gaps = WAYS[way](path)
    except ModuleNotFoundError as error:
        print(json.dumps({"skipped": str(error)}))
        return
    wall_s = time.perf_counter() - wall_s
    after = os.times()
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    rss = max(resource.getrusage(kind).ru_maxrss for kind in kinds)
    unit = 1 if sys.platform == "darwin" else 1024
    cpu_s = sum(after[:4]) - sum(before[:4])
    found = {"wall_s": wall_s, "cpu_s": cpu_s, "peak_rss_bytes": rss * unit, "n_gaps": n_gaps}
    print(json.dumps(found))


def _import(way: str) -> None:
    names = {
        "pysimdjson": ("simdjson",),
        # pyarrow imports pandas for its first array, and every command needs it later.
        "servebook": ("servebook.read.discover", "servebook.read.reading", "pandas"),
    }
    try:
        for name in names.get(way, (way,)):
            importlib.import_module(name)
    except ImportError as error:
        print(json.dumps({"skipped": str(error)}))
        sys.exit()


def _measured(way: str, path: Path, cache: Path) -> dict[str, Any]:
    shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, str(Path(__file__)), "--child", way, str(path)]
    environment = {**os.environ, "SERVEBOOK_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _reading(path: Path, cache: Path) -> dict[str, Any]:
    rows = {way: _measured(way, path, cache) for way in WAYS}
    mb = path.stat().st_size / 1e6
    if "cpu_s" not in rows["servebook"]:
        sys.exit(f"servebook could not be measured: {rows['servebook']}")
    counts = {row["n_gaps"] for row in rows.values() if "n_gaps" in row}
    assert len(counts) == 1, rows  # all of them found the same gaps
    own_s = rows["servebook"]["cpu_s"], rows["servebook"]["wall_s"]
    for row in rows.values():
        if "cpu_s" in row:
            row["mb_per_cpu_s"] = mb / max(row["cpu_s"], 1e-9)
            row["mb_per_s"] = mb / max(row["wall_s"], 1e-9)
            row["servebook_times_cpu"] = row["cpu_s"] / max(own_s[0], 1e-9)
            row["servebook_times_wall"] = row["wall_s"] / max(own_s[1], 1e-9)
    return {"file": path.name, "mb": mb, "n_gaps": counts.pop(), "ways": rows}


def _build(campaign: Path, work: Path) -> dict[str, Any]:
    """A page cold, warm without a change, and warm with one notebook edited."""
    project = work / "project"
    for name in ("notebooks", "report/template", "report/text"):
        shutil.copytree(HERE.parent / name, project / name)
    notebook = project / "notebooks" / "01-setup.ipynb"
    command = [sys.executable, "-m", "servebook", "build", str(campaign), "-o", str(work / "out")]
    environment = {**os.environ, "SERVEBOOK_CACHE": str(work / "build-cache")}
    found = {}
    for name in ("cold", "nothing_changed", "one_notebook_edited"):
        if name == "one_notebook_edited":
            content = json.loads(notebook.read_text(encoding="utf-8"))
            content["cells"][0]["source"] = ["# Setup\n", "\n", "One sentence more."]
            notebook.write_text(json.dumps(content), encoding="utf-8")
        before, wall_s = os.times(), time.perf_counter()
        subprocess.run(command, env=environment, cwd=project, check=True, capture_output=True)
        after = os.times()
        cpu_s = after.children_user + after.children_system
        cpu_s -= before.children_user + before.children_system
        found[name] = {"wall_s": time.perf_counter() - wall_s, "cpu_s": cpu_s}
    for row in found.values():
        row["of_cold_cpu"] = row["cpu_s"] / found["cold"]["cpu_s"]
    return {"campaign": campaign.name, "steps": found}


def _table(found: dict[str, Any]) -> str:
    lines = []
    for reading in found["reading"]:
        lines.append(f"\n{reading['file']}: {reading['mb']:.0f} MB, {reading['n_gaps']:,} gaps")
        head = ("", "MB / CPU s", "MB / s", "peak MB", "its CPU / ours", "its time / ours")
        lines.append(("{:12}" + "{:>16}" * 5).format(*head))
        for way, row in reading["ways"].items():
            if "cpu_s" not in row:
                lines.append(f"{way:12}  skipped: {row.get('skipped') or row.get('failed')}")
                continue
            shown = (row["mb_per_cpu_s"], row["mb_per_s"], row["peak_rss_bytes"] / 1e6)
            ratios = (row["servebook_times_cpu"], row["servebook_times_wall"])
            numbers = "".join(f"{x:16.0f}" for x in shown) + "".join(f"{x:16.2f}" for x in ratios)
            lines.append(f"{way:12}{numbers}")
    for build in found["build"]:
        lines.append(f"\nbuild of {build['campaign']}")
        for name, row in build["steps"].items():
            of_cold = f"{row['of_cold_cpu']:.3f} of the cold build's"
            lines.append(f"{name:22}{row['wall_s']:8.2f} s, CPU {row['cpu_s']:7.2f} s, {of_cold}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench")
    parser.add_argument("--mb", type=float, default=50, help="size of each dump; default: 50")
    parser.add_argument("--build", action="store_true", help="build a page cold and warm as well")
    parser.add_argument("--campaign", type=Path, default=HERE.parent / "data" / "loopback")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/bench.json"))
    parser.add_argument("--child", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        _child(args.child[0], Path(args.child[1]))
        return
    sys.path.insert(0, str(HERE))
    import dumps

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = Path(folder)
        n_bytes = round(args.mb * 1e6)
        paths = [dumps.aiperf(work / "aiperf", n_bytes), dumps.vllm(work / "vllm", n_bytes)]
        found = {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "reading": [_reading(path, work / "cache") for path in paths],
            "build": [_build(args.campaign.resolve(), work)] if args.build else [],
        }
    args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(_table(found))
    print(f"\n{args.json}")


if __name__ == "__main__":
    main()
