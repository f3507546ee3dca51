"""What a command and all that it starts take: CPU time, the largest process, all together.

    python benchmarks/memory.py 250,1000                       # each client and form of counters
    python benchmarks/memory.py 1000,4000 vllm sglang

makes dumps of so many MB (``client_dumps.py``, ``counter_dumps.py``) and reads them with an empty
cache. Columns: form, MB, CPU s, wall s, CPU time a MB as a multiple of the first size's, the
largest process and all together in MB.

Linux only. ``largest_mb`` is the highest resident set that the system noted of any one process
(VmHWM); ``together_mb`` the highest sum at one moment, with pages that processes share counted
once (PSS, looked at ten times a second).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["watched"]

_EVERY_S = 0.1


def watched(
    command: Sequence[str | Path], variables: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Run a command: wall_s, cpu_s, largest_mb, together_mb.

    Raises:
        SystemExit: it failed, with the end of what it wrote.

    """
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, **(variables or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    largest = together = 0
    while process.poll() is None:
        shared = 0
        for pid in _family(process.pid):
            with contextlib.suppress(OSError):  # it ended
                largest = max(largest, _field(pid, "status", "VmHWM"))
                shared += _field(pid, "smaps_rollup", "Pss")
        together = max(together, shared)
        time.sleep(_EVERY_S)
    wall_s, after = time.perf_counter() - start, os.times()
    if process.returncode:
        told = process.stderr.read().decode("utf-8", "replace") if process.stderr else ""
        sys.exit(told[-2000:])
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "largest_mb": largest / 1024,
        "together_mb": together / 1024,
    }


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    below = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                below[int(parent)].append(int(entry.name))
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left += below[found[-1]]
    return found


def _field(pid: int, file: str, name: str) -> int:
    """A number of KiB from ``/proc``; 0 where it is not there."""
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def main(words: list[str]) -> int:
    """Print one row per form and size."""
    sys.path.insert(0, str(Path(__file__).parent))
    import client_dumps
    import counter_dumps

    sizes = [float(word) for word in (words or ["25,100"])[0].split(",")]
    for form in words[1:] or [*client_dumps.CLIENTS, *counter_dumps.FORMS]:
        first = None
        for n_mb in sizes:
            work = Path(tempfile.mkdtemp(prefix="memory-"))
            try:
                made = client_dumps if form in client_dumps.CLIENTS else counter_dumps
                path = made.write(work / form, form, int(n_mb * 1e6))
                n_read = path.stat().st_size / 1e6
                scale = Path(__file__).with_name("scale.py")
                command = [sys.executable, scale, "--step", "read", work / form]
                took = watched(command, {"SERVEBOOK_CACHE": str(work / "cache")})
            finally:
                shutil.rmtree(work, ignore_errors=True)
            first = first or (took["cpu_s"] / n_read)
            print(
                f"| {form} | {n_read:,.0f} | {took['cpu_s']:.1f} | {took['wall_s']:.1f} "
                f"| {took['cpu_s'] / n_read / first:.2f} | {took['largest_mb']:,.0f} "
                f"| {took['together_mb']:,.0f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
