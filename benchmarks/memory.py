"""What a command and all that it starts take: CPU time, the largest process, all together.

Linux only. ``largest_mb`` is the highest resident set that the system noted of any one process
(VmHWM); ``together_mb`` the highest sum at one moment, with pages that processes share counted
once (PSS, looked at ten times a second).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
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
