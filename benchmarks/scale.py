"""What grows with what: reading and measuring one AIPerf dump of 1, 10, 100 million gaps.

    python benchmarks/scale.py 1 10 100
    python benchmarks/scale.py --gaps 10 1 4
    python benchmarks/scale.py --build 1 10 100
    python benchmarks/scale.py --build --gaps 10 --lanes 16,32 16

The second line has requests of 10 gaps each instead of 999: memory grows with requests. The third
builds whole pages, of two runs with so many gaps together, whose tokens follow the
clock of an engine (``engine_dumps.py``), with an empty cache: memory of the largest process and of
all together (``memory.py``), the CPU time of all, the size of the page. The fourth does so with
requests of 10 gaps, in two runs for 16 and two for 32 requests in flight.

Each step runs in a process of its own, so that its memory is its own: ``read`` identifies, hashes,
reads and writes the cache; ``again`` finds the tables there; ``measure`` computes every metric of
the run from them. CPU time is that of the process and of those that it forked; memory is the
largest resident set of the process itself. Dumps and caches are removed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = ("read", "again", "measure")
#: Bytes of a gap and of what stands around the gaps of a request, as AIPerf writes them, about; the
#: dump is cut to a number of bytes.
_BYTES_A_GAP, _BYTES_A_REQUEST = 10.95, 2450


def step(name: str, folder: Path) -> dict[str, Any]:
    """Do one step here, and what it took."""
    from servebook.measure.runs import run_metrics
    from servebook.read.discover import discover
    from servebook.read.reading import read_sources
    from servebook.tables import Tables

    start, begin = time.perf_counter(), _cpu_s()
    parts = read_sources(discover(folder).sources, [])
    tables = Tables.concat([part.tables for part in parts])
    if name == "measure":
        start, begin = time.perf_counter(), _cpu_s()
        run_metrics(tables)
    return {
        "gaps": tables.gaps.num_rows,
        "requests": tables.requests.num_rows,
        "wall_s": time.perf_counter() - start,
        "cpu_s": _cpu_s() - begin,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _cpu_s() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, kinds))


def builds(words: list[str]) -> int:
    """Print one row per whole build."""
    import engine_dumps
    import memory

    n_gaps, lanes = engine_dumps.TOKENS - 1, list(engine_dumps.LANES)
    if words[:1] == ["--gaps"]:
        n_gaps, words = int(words[1]), words[2:]
    if words[:1] == ["--lanes"]:
        lanes, words = [int(one) for one in words[1].split(",")], words[2:]

    print(
        "| million gaps | dumps, MB | CPU s | wall s | largest process, MB | all, MB | page, MB |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for millions in map(float, words or ["1"]):
        work = Path(tempfile.mkdtemp(prefix="scale-"))
        try:
            folder = engine_dumps.campaign(work / "engine", millions * 1e6, n_gaps + 1, lanes)
            n_mb = sum(path.stat().st_size for path in folder.rglob("*.jsonl")) / 1e6
            command = [sys.executable, "-m", "servebook", "build", folder, "-o", work / "out"]
            took = memory.watched(command, {"SERVEBOOK_CACHE": str(work / "cache")})
            page = (work / "out" / "engine.html").stat().st_size
            print(
                f"| {millions:.0f} | {n_mb:,.0f} | {took['cpu_s']:.0f} | {took['wall_s']:.0f} "
                f"| {took['largest_mb']:,.0f} | {took['together_mb']:,.0f} | {page / 1e6:.2f} |",
                flush=True,
            )
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return 0


def main(words: list[str]) -> int:
    """Print one row per size and step."""
    if words[:1] == ["--step"]:
        print(json.dumps(step(words[1], Path(words[2]))))
        return 0
    sys.path.insert(0, str(Path(__file__).parent))
    if words[:1] == ["--build"]:
        return builds(words[1:])
    import dumps

    n_gaps = 999
    if words[:1] == ["--gaps"]:
        n_gaps, words = int(words[1]), words[2:]
    print("| million gaps | step | dump, MB | CPU s | wall s | CPU ns a gap | peak MB | cache MB |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for millions in map(float, words or ["1"]):
        work = Path(tempfile.mkdtemp(prefix="scale-"))
        try:
            size = millions * 1e6 * (_BYTES_A_GAP + _BYTES_A_REQUEST / n_gaps)
            dump = dumps.aiperf(work / "run", int(size), n_gaps)
            n_mb = dump.stat().st_size / 1e6
            environment = {**os.environ, "SERVEBOOK_CACHE": str(work / "cache")}
            for name in STEPS:
                command = [sys.executable, __file__, "--step", name, str(work / "run")]
                done = subprocess.run(command, env=environment, capture_output=True, check=True)
                found = json.loads(done.stdout)
                cached = sum(p.stat().st_size for p in (work / "cache").rglob("*") if p.is_file())
                print(
                    f"| {found['gaps'] / 1e6:.1f} | {name} | {n_mb:,.0f} | {found['cpu_s']:.2f} "
                    f"| {found['wall_s']:.2f} | {1e9 * found['cpu_s'] / found['gaps']:.0f} "
                    f"| {found['peak_mb']:,.0f} | {cached / 1e6:,.0f} |",
                    flush=True,
                )
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
