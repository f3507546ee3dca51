"""A flame graph as a small static SVG from the stacks that ``py-spy record -f raw`` writes.

Each box is a function; as wide as its share of the samples, above the one that called it; its title
tells the share. Boxes below half a percent are left out. Without a script, unlike py-spy's own.

``python benchmarks/flame.py stacks.txt out.svg "title"`` draws what stands above ``read_sources``;
a fourth argument names another function. ``build`` there takes the stacks of a whole build with all
its processes (``py-spy record -s``): each process by what it does, without those that wait.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from html import escape
from pathlib import Path

WIDTH, ROW, LEAST = 1200, 17, 0.005
FRAME = re.compile(r"^(.*?) \((.*?)(?::\d+)?\)$")

Node = dict[str, "tuple[list[int], Node]"]


def name(frame: str) -> str:
    """Function and module, without the folders of a machine."""
    match = FRAME.match(frame)
    if match is None:
        return frame.split(" (")[0]
    path = match[2].replace("\\", "/")
    short = "/".join(path.split("/")[-2:])
    return f"{match[1]} ({short})"


def tree(lines: list[str], root: str) -> Node:
    """Counts by stack, from the first frame that contains ``root`` on."""
    top: Node = {}
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = [name(frame) for frame in stack.split(";")]
        start = next((i for i, frame in enumerate(frames) if root in frame), None)
        if start is None:
            continue
        level = top
        for frame in frames[start:]:
            found = level.setdefault(frame, ([0], {}))
            found[0][0] += int(count)
            level = found[1]
    return top


def boxes(level: Node, x: float, depth: int, total: int) -> Iterator[tuple[float, int, float, str]]:
    """Left edge, depth, share and name of each box."""
    for frame, (count, below) in sorted(level.items()):
        share = count[0] / total
        if share >= LEAST:
            yield x, depth, share, frame
            yield from boxes(below, x, depth + 1, total)
        x += share


#: Where a thread of a build stands while it waits for another process.
WAITING = re.compile(
    r"^(EpollSelector\.select|Condition\.wait|OutStream\._watch_pipe_fd|ParentPollerUnix\.run|device|"
    r"recv_fds|GarbageCollectorThread\.run|_start\.<locals>\.follow|_wait_for_tstate_lock|select|"
    r"Connection\._recv|_recv|poll|wait|SocketIO\.readinto|readinto|HistoryManager\.\w+) \("
)
_ROLES = ("driver", "zygote", "campaign", "kernels")


def by_process(lines: list[str]) -> list[str]:
    """Stacks of a build with each process named by its role, without those that wait."""
    out = []
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        parents = [frame for frame in frames if frame.startswith("process ")]
        calls = [frame for frame in frames if not frame.startswith("process ")]
        if not calls or WAITING.match(calls[-1]):
            continue
        role = _ROLES[min(len(parents), len(_ROLES)) - 1]
        if any("multiprocessing" in parent for parent in parents):
            role = "drawing worker"
        elif "_counters (" in stack and "_kernel (" not in stack:
            role = "campaign"  # what its counters tell
        out.append(";".join(["build", role, *calls]) + f" {count}")
    return out


def svg(lines: list[str], title: str, root: str) -> str:
    """The drawing."""
    top = tree(lines, root)
    total = sum(count[0] for count, _ in top.values())
    found = list(boxes(top, 0.0, 0, total))
    height = (max(depth for _, depth, _, _ in found) + 3) * ROW
    frame = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11"'
    head = f"{escape(title)} ({total:,} samples)"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="13" font-weight="bold">{head}</text>',
    ]
    for x, depth, share, frame in found:
        left, wide = round(x * WIDTH, 1), round(share * WIDTH, 1)
        y = height - (depth + 1) * ROW
        hue = 20 + zlib.crc32(frame.encode()) % 35
        shown = escape(frame[: int(wide / 6)]) if wide > 30 else ""
        out.append(
            f'<g><title>{escape(frame)}: {share:.1%}</title><rect x="{left}" y="{y}" '
            f'width="{wide}" height="{ROW - 1}" fill="hsl({hue} 75% 72%)"/>'
            f'<text x="{left + 2}" y="{y + 12}">{shown}</text></g>'
        )
    return "\n".join([*out, "</svg>\n"])


if __name__ == "__main__":
    stacks, target, title = sys.argv[1:4]
    root = sys.argv[4] if len(sys.argv) > 4 else "read_sources"
    lines = Path(stacks).read_text(encoding="utf-8").splitlines()
    lines = by_process(lines) if root == "build" else lines
    Path(target).write_text(svg(lines, title, root), encoding="utf-8")
