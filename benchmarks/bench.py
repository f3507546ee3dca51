"""What reading and building cost beside the alternatives: one run, a table of ratios, and JSON.

Each way works in a process of its own, on the same file, one after the other, ``--rounds`` times in
turn, of which the run of median time counts; a way whose library is not installed is skipped by
name. CPU is user and system time of the process and its children,
and its rate is what the ratios compare: wall time on a busy machine tells of its other work. Reads
go to ``servebook.read`` as the build does them: identification, checks, sha256 and the Parquet
cache included, cache cold.

``make bench`` reads small dumps. More is asked for by ``ARGS``: ``--mb 1000`` (large dumps),
``--memory 1000 4000`` (Servebook alone on MB of AIPerf), ``--build`` (pages cold, warm, with one
notebook edited, and their notebooks by the command lines), ``--page PATH`` (opened in Chromium),
``--aiperf PATH --runs FOLDER ...`` (``aiperf plot`` and our page of the same runs).
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import building  # noqa: E402 - beside this file
import dumps  # noqa: E402
import opening  # noqa: E402
from timing import peak_bytes, times  # noqa: E402

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


#: Run by the interpreter that has AIPerf; it prints what took how long, as ``_child`` does.
_LOADER = """
import json, os, sys, time
from pathlib import Path
from aiperf.plot.core.data_loader import DataLoader
loader = DataLoader()
before, start = os.times(), time.perf_counter()
run = loader.load_run(Path(sys.argv[1]))
wall_s, after = time.perf_counter() - start, os.times()
assert run.requests is not None
status = Path("/proc/self/status").read_text()
rss = int(status.split("VmHWM:")[1].split()[0]) * 1024
cpu_s = sum(after[:4]) - sum(before[:4])
print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "peak_rss_bytes": rss,
                  "n_requests": len(run.requests)}))
"""


def _aiperf_loader(path: Path, python: Path | None) -> dict[str, Any]:
    """The loader behind ``aiperf plot``; its run needs the client's summary beside the records."""
    if python is None:
        return {"skipped": "no --aiperf-python"}
    if path.suffix == ".json":
        return {"skipped": "AIPerf reads its own records alone"}
    shipped = dumps.LOOPBACK / "aiperf" / "spread" / "decode_c2" / "profile_export_aiperf.json"
    with tempfile.TemporaryDirectory(dir=path.parents[1]) as folder:
        (Path(folder) / path.name).symlink_to(path)
        shutil.copy(shipped, folder)
        command = [str(python), "-c", _LOADER, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _child(way: str, path: Path) -> None:
    """Run one way in this process and print what it took."""
    _import(way)  # what it imports is no reading
    before, wall_s = os.times(), time.perf_counter()
    try:
        n_gaps = WAYS[way](path)
    except ModuleNotFoundError as error:
        print(json.dumps({"skipped": str(error)}))
        return
    wall_s = time.perf_counter() - wall_s
    after = os.times()
    cpu_s = sum(after[:4]) - sum(before[:4])
    found = {"wall_s": wall_s, "cpu_s": cpu_s, "peak_rss_bytes": peak_bytes(), "n_gaps": n_gaps}
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


def _measured(
    way: str, path: Path, cache: Path, python: Path | str = sys.executable
) -> dict[str, Any]:
    shutil.rmtree(cache, ignore_errors=True)
    command = [str(python), str(Path(__file__)), "--child", way, str(path)]
    environment = {**os.environ, "SERVEBOOK_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _in_turn(
    path: Path, cache: Path, pythons: Mapping[str, Path], rounds: int
) -> dict[str, dict[str, Any]]:
    """Of each way the run of median time, the slower of two; all ways once, then all again."""
    os.sync()  # else the first way reads while the file is still being written to the disk
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, own in runs.items():
            if own and "wall_s" not in own[-1]:
                continue  # skipped or failed
            own.append(_measured(way, path, cache, pythons.get(way, sys.executable)))
    return {way: median(own) for way, own in runs.items()}


def median(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run of median ``wall_s``, with the times of all; what was not measured stays as it is."""
    if "wall_s" not in runs[-1]:
        return runs[-1]
    ordered = sorted(runs, key=lambda one: one["wall_s"])
    return {**ordered[len(runs) // 2], "all_wall_s": [one["wall_s"] for one in runs]}


def _reading(
    path: Path, cache: Path, pythons: Mapping[str, Path], rounds: int = 1
) -> dict[str, Any]:
    rows = _in_turn(path, cache, pythons, rounds)
    rows["AIPerf's loader"] = _aiperf_loader(path, pythons.get("aiperf"))
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


def _memory(sizes_mb: Sequence[float], work: Path) -> list[dict[str, Any]]:
    """Servebook alone on AIPerf's lines of each size: peak memory, and time beside the first's."""
    found: list[dict[str, Any]] = []
    for mb in sizes_mb:
        path = dumps.aiperf(work / f"memory-{mb:g}", round(mb * 1e6))
        row = {"mb": path.stat().st_size / 1e6, **_measured("servebook", path, work / "cache")}
        path.unlink()
        first = found[0] if found else row
        row |= times(row, first) | {"of_mb": row["mb"] / first["mb"]}
        found.append(row)
    return found


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
    if found["memory"]:
        lines.append("\nServebook alone, AIPerf's lines; parts of the first row's")
    for row in found["memory"]:
        parts = f"{row['of_mb']:.2f} of the size, {row['of_wall']:.2f} of the time"
        lines.append(f"{row['mb']:8.0f} MB, peak {row['peak_rss_bytes'] / 1e6:6.0f} MB, {parts}")
    if found["build"]:
        lines += [f"\npages of {', '.join(found['campaigns'])}"]
        lines += building.rows(found["build"], "cold")
    if found["plot"]:
        lines += ["\naiperf plot and our page of the same runs"]
        lines += building.rows(found["plot"], "aiperf plot")
    for page in found["page"]:
        lines += ["\nopened in Chromium, ms", *opening.rows(page)]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="bench")
    parser.add_argument("--mb", type=float, default=50, help="size of each dump; default: 50")
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 100), default=3, metavar="N",
        help="read so many times in turn, and take each way's run of median time; default: 3",
    )  # fmt: skip
    parser.add_argument("--no-reading", action="store_true", help="leave reading out")
    parser.add_argument("--memory", type=float, nargs="+", default=[], metavar="MB")
    parser.add_argument("--build", action="store_true", help="build pages, cold and warm")
    parser.add_argument("--no-command-lines", action="store_true", help="build, but not by them")
    b300 = sorted((HERE.parent / "data").glob("b300-*"))
    parser.add_argument("--campaigns", type=Path, nargs="+", default=b300, metavar="FOLDER")
    parser.add_argument("--page", type=Path, nargs="+", default=[], help="pages to open")
    parser.add_argument("--aiperf", type=Path, help="the command aiperf, for its plot")
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="runs for aiperf plot")
    parser.add_argument("--aiperf-python", type=Path, help="an interpreter that has AIPerf")
    parser.add_argument("--polars-python", type=Path, help="an interpreter that has polars")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/bench.json"))
    parser.add_argument("--child", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    args = _parser().parse_args(argv)
    if args.child:
        _child(args.child[0], Path(args.child[1]))
        return
    given = {"aiperf": args.aiperf_python, "polars": args.polars_python}
    pythons = {name: path for name, path in given.items() if path is not None}
    campaigns = [path.resolve() for path in args.campaigns]
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "campaigns": [path.name for path in campaigns],
        "reading": [],
        "build": {},
        "plot": {},
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = Path(folder)
        n_bytes = round(args.mb * 1e6)
        for make in () if args.no_reading else (dumps.aiperf, dumps.vllm):
            path = make(work / make.__name__, n_bytes)
            found["reading"].append(_reading(path, work / "cache", pythons, args.rounds))
            path.unlink()
        found["memory"] = _memory(args.memory, work)
        if args.build:
            found["build"] = building.build(campaigns, work)
            if not args.no_command_lines:
                lines = {"command lines": False, "command lines, each cold": True}
                for name, cold in lines.items():
                    found["build"][name] = building.command_lines(campaigns, work, each_cold=cold)
        if args.aiperf is None or not args.runs:
            found["plot_skipped"] = "no --aiperf or no --runs"
        else:
            found["plot"] = building.plot(args.runs, args.aiperf, work)
    found["page"] = [opening.opened(page) for page in args.page]
    found["load_after"] = os.getloadavg()[0]
    args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(_table(found))
    if "plot_skipped" in found:
        print(f"\naiperf plot: skipped, {found['plot_skipped']}")
    print(f"\nload {found['load_before']:.1f} to {found['load_after']:.1f}; {args.json}")


if __name__ == "__main__":
    main()
