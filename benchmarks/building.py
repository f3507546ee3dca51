"""What pages cost beside the command lines that they could be made with.

``command_lines`` runs each notebook by ``papermill`` and then ``jupyter nbconvert --to html``, one
after the other, of the same campaigns in the same environment, from a cold cache of its own. It can
be read in two ways: the cache is cold at the start, so that from the second notebook on the dumps
are found in it, or it is cold for each notebook.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from timing import Took, run, times

__all__ = ["build", "command_lines", "plot", "project_copy", "rows"]

PROJECT = Path(__file__).resolve().parents[1]
SERVEBOOK = (sys.executable, "-m", "servebook")


def project_copy(work: Path) -> Path:
    """Notebooks, template and texts in a folder of their own, so that one can be edited."""
    copy = work / "project"
    for name in ("notebooks", "report/template", "report/text"):
        shutil.copytree(PROJECT / name, copy / name)
    return copy


def build(campaigns: Sequence[Path], work: Path) -> dict[str, Took]:
    """Pages of all campaigns in one build: cold, again without a change, and after edits."""
    project = project_copy(work)
    variables = {"SERVEBOOK_CACHE": str(work / "cache-build")}
    command = [*SERVEBOOK, "build", *campaigns, "-o", work / "pages"]
    found = {"cold": run(command, project, variables)}
    found["nothing changed"] = run(command, project, variables)
    for kind, text in (("prose", "\n\nOne sentence more."), ("code", "\n# One remark more.")):
        _edit(project / "notebooks" / "01-setup.ipynb", kind, text)
        found[f"{kind} of one edited"] = run(command, project, variables)
    return found


def _edit(notebook: Path, kind: str, text: str) -> None:
    """Add to the last cell of prose or of code."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    kinds = {"prose": "markdown", "code": "code"}
    cell = next(c for c in reversed(content["cells"]) if c["cell_type"] == kinds[kind])
    cell["source"] = "".join(cell["source"]) + text
    notebook.write_text(json.dumps(content), encoding="utf-8")


def command_lines(campaigns: Sequence[Path], work: Path, *, each_cold: bool = False) -> Took:
    """Every notebook of every campaign by the two command lines.

    ``each_cold``: with an empty cache for each notebook, not only for the first.
    """
    project = work / "project"
    if not project.exists():
        project_copy(work)
    bin_folder = Path(sys.executable).parent
    out = work / "executed"
    cache = work / "cache-lines"
    for folder in (out, cache):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir()
    variables = {"SERVEBOOK_CACHE": str(cache)}
    total = {"wall_s": 0.0, "cpu_s": 0.0}
    for campaign in campaigns:
        for path in sorted((PROJECT / "notebooks").glob("*.ipynb")):
            if each_cold:
                shutil.rmtree(cache, ignore_errors=True)
            for command in (
                [bin_folder / "papermill", "--no-progress-bar", path, out / path.name, "-p",
                 "campaign", campaign],
                [bin_folder / "jupyter", "nbconvert", "--to", "html", out / path.name],
            ):  # fmt: skip
                took = run(command, project / "notebooks", variables)
                total = {name: total[name] + took[name] for name in total}
    return total


def plot(runs: Sequence[Path], aiperf: Path, work: Path) -> dict[str, Any]:
    """``aiperf plot`` of runs, and our page of the same ones with all its figures, cold."""
    theirs, ours = work / "aiperf-plot", work / "campaign" / "quiet"
    for run_folder in runs:
        shutil.copytree(run_folder, theirs / run_folder.name)
        shutil.copytree(run_folder, ours / "raw" / run_folder.name)
    home = work / "home"
    home.mkdir()
    browser = shutil.which("chromium") or shutil.which("google-chrome") or ""
    variables = {"HOME": str(home), "BROWSER_PATH": browser}
    command = [aiperf, "plot", theirs, "--output", work / "plots"]
    run(command, work, variables)  # it writes its settings the first time
    found: dict[str, Any] = {"aiperf plot": run(command, work, variables)}
    found["aiperf plot"]["n_charts"] = len(list((work / "plots").glob("**/*.png")))
    run([*SERVEBOOK, "init", ours], PROJECT)
    cache = {"SERVEBOOK_CACHE": str(work / "cache-plot")}
    found["servebook build"] = run([*SERVEBOOK, "build", ours, "-o", work / "page"], PROJECT, cache)
    charts = work / "page" / ours.name / "charts"
    found["servebook build"]["n_charts"] = len(list(charts.glob("*.svg")))
    found["servebook build"] |= times(found["servebook build"], found["aiperf plot"])
    return found


def rows(found: dict[str, Any], of: str) -> list[str]:
    """A table of steps, each as a part of the step ``of``."""
    lines = [f"{'':26}{'wall s':>10}{'CPU s':>10}{'of wall':>10}{'of CPU':>10}   ({of} = 1)"]
    for name, took in found.items():
        part = times(took, found[of])
        shown = f"{took['wall_s']:10.2f}{took['cpu_s']:10.2f}"
        shown += f"{part['of_wall']:10.3f}{part['of_cpu']:10.3f}"
        charts = f"   {took['n_charts']} charts" if "n_charts" in took else ""
        lines.append(f"{name:26}{shown}{charts}")
    return lines
