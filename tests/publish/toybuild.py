"""Build the toy campaign in a folder: shared by the tests and runnable as a process of its own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from servebook.publish import forks
from servebook.publish.build import build
from servebook.publish.workers import Workers

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROVENANCE = "measured"


def load(root: Path) -> Any:
    """A campaign with just what the frame of the page needs."""
    inputs = pa.table(
        {
            "path": ["raw/b.jsonl", "raw/a.jsonl"],
            "sha256": ["b" * 64, "a" * 64],
            "bytes": pa.array([12345, 678], pa.int64()),
            "format": ["aiperf", "vllm"],
        }
    )
    manifest = SimpleNamespace(
        title="Toy: one node against two",
        provenance=(root / "campaign.yaml").read_text().strip().partition(": ")[2],
        provenance_note="Constant numbers, made for tests.",
    )
    return SimpleNamespace(
        root=root, name=root.name, manifest=manifest, inputs=inputs, findings=("Nothing <odd>.",)
    )


def make(folder: Path, notebooks: str = "toy", provenance: str = PROVENANCE) -> tuple[Path, Path]:
    """A campaign folder and a notebooks folder below ``folder``."""
    root = folder / "data" / "toy"
    root.mkdir(parents=True, exist_ok=True)
    shutil.copy(FIXTURES / "toy" / "toy.py", root)
    (root / "campaign.yaml").write_text(f"provenance: {provenance}\n")
    target = folder / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    source = FIXTURES / "notebooks" / notebooks
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.mkdir()
        shutil.copy(source.with_suffix(".ipynb"), target)
    return root, target


def build_toy(
    folder: Path, workers: Workers | None = None, verbose: bool = False, **options: str
) -> Path:
    """Build the toy's page; returns its path."""
    root, notebooks = make(folder, **options)
    build([root], folder / "report", verbose, notebooks=notebooks, load=load, workers=workers)
    return folder / "report" / "toy.html"


if __name__ == "__main__":
    if "--one-by-one" in sys.argv:  # kernels that are started, not forked, on one core
        forks.available = lambda: False
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    build_toy(Path(sys.argv[1]), verbose=True)
