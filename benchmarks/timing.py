"""What a command takes: wall time, and CPU time of it and of all that it started."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Took", "peak_bytes", "run", "times"]

Took = dict[str, float]


def run(
    command: Sequence[str | Path],
    cwd: Path,
    variables: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 1800,
) -> Took:
    """Run a command and say what it took (``wall_s``, ``cpu_s``), on stderr as well.

    Raises:
        SystemExit: it failed, with the end of what it wrote.

    """
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    wall_s = time.perf_counter() - start
    after = os.times()
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{(done.stderr or done.stdout)[-2000:]}")
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    shown = " ".join(Path(str(part)).name for part in command)
    print(f"{wall_s:8.2f} s, CPU {cpu_s:8.2f} s: {shown}", file=sys.stderr, flush=True)
    return {"wall_s": wall_s, "cpu_s": cpu_s}


def times(took: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """Both times of the first as parts of the second's."""
    return {
        f"of_{name}": took[f"{name}_s"] / max(other[f"{name}_s"], 1e-9) for name in ("wall", "cpu")
    }


def peak_bytes() -> int:
    """Peak memory of this process, or of the largest that it started and waited for.

    Linux tells of each process; ``getrusage`` also counts what was there before it ran its own
    program, that is, the memory of whoever started it.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        own = int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):  # another system
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own, children) * unit
