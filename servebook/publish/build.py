"""Build pages: run all notebooks of a campaign, render, check, publish.

One driver process. Whatever fails, the last good page stays and the error names the cause.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from tqdm import tqdm

from servebook.errors import BuildError, ServebookError
from servebook.publish.about import About, about, spelled
from servebook.publish.checks import problems
from servebook.publish.collect import Chapter, Content, chapter, collect
from servebook.publish.draw import Studio
from servebook.publish.execute import quiet
from servebook.publish.files import write_chart, write_claims, write_tables
from servebook.publish.forks import Zygote
from servebook.publish.page import render
from servebook.publish.release import publish, staging, writable
from servebook.publish.text import DEFAULT
from servebook.publish.text import load as load_texts
from servebook.publish.together import run_all
from servebook.publish.workers import Workers

__all__ = ["build", "home"]

Load = Callable[[Path], Any]
BAR = "{desc:<32} {bar:24} {n_fmt}/{total_fmt} [{elapsed}]"


def home() -> Path:
    """The project's folder: where ``notebooks/`` and ``report/template/`` are.

    Raises:
        BuildError: neither the current folder nor the one of the package is one.

    """
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "report" / "template").is_dir():
            return folder
    raise BuildError("no notebooks/ and report/template/ here; run it in the project's folder")


class Reporter:
    """Bars on a terminal, details with ``-v``, else nothing."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose

    def bar(self, text: str) -> dict[str, Any]:
        """Options of a tqdm bar: silent where stderr is not a terminal."""
        return {"desc": text, "unit": "cell", "bar_format": BAR, "leave": False, "disable": None}

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Say what is being done and, with ``-v``, how long it took."""
        start = time.perf_counter()
        with tqdm(total=1, **(self.bar(text) | {"unit": "step"})) as bar:
            yield
            bar.update()
        self.say(f"{text}: {time.perf_counter() - start:.1f} s")

    def say(self, text: str) -> None:
        """A line of detail on stderr."""
        if self.verbose:
            tqdm.write(text, file=sys.stderr)


def _campaigns(given: Sequence[Path], root: Path) -> list[Path]:
    found = list(given) or sorted(path.parent for path in (root / "data").glob("*/campaign.yaml"))
    if not found:
        raise BuildError(
            f"no campaign below {root / 'data'}; name a folder that holds a campaign.yaml, or "
            "write one with: servebook init FOLDER"
        )
    for path in found:
        if not (path / "campaign.yaml").is_file():
            raise BuildError(
                f"{path} holds no campaign.yaml; write a first one with: servebook init {path}"
            )
    names = [path.resolve().name for path in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BuildError(f"two campaigns would write the same page: {', '.join(twice)}")
    return [path.resolve() for path in found]


@dataclass(frozen=True)
class _Site:
    """What the campaigns of one build share."""

    base: Path
    workers: Workers
    report: Reporter
    language: str = DEFAULT


class _Drawings:
    """The drawings asked for so far, by figure."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.pages: dict[str, Future[str]] = {}
        self.files: dict[str, Future[tuple[str, bytes]]] = {}

    def order(self, one: Chapter) -> None:
        for figure in one.figures:
            if figure.spec is not None:
                title, subtitle = figure.fields["title"], figure.fields["subtitle"]
                self.pages[figure.id] = self.studio.drawing(figure.spec, f"{figure.id}-")
                self.files[figure.id] = self.studio.files(figure.spec, title, subtitle)

    def fill(self, content: Content) -> None:
        for figure in content.figures:
            if figure.spec is not None:
                try:
                    figure.svg = self.pages[figure.id].result()
                    self.files[figure.id].result()
                except ValueError as error:
                    raise BuildError(
                        f"chapter {figure.chapter}: figure {figure.id!r} cannot be drawn: "
                        f"{str(error).splitlines()[0]}"
                    ) from None


def _chapters(
    root: Path, notebooks: Path, site: _Site, zygote: Zygote | None, drawings: _Drawings
) -> list[Chapter]:
    paths = sorted(notebooks.glob("*.ipynb"))
    if not paths:
        raise BuildError(f"no notebooks in {notebooks}")
    shown = spelled(root, site.base)
    shown = f"../{shown}" if "/" in shown else shown
    start = time.perf_counter()

    def finish(nb: NotebookNode, path: Path) -> Chapter:
        one = chapter(nb, path, shown)
        drawings.order(one)
        site.report.say(f"{root.name}: {path.stem} after {time.perf_counter() - start:.1f} s")
        return one

    with tempfile.TemporaryDirectory(dir=site.workers.folder, prefix="") as folder:
        return run_all(
            paths,
            {"campaign": str(root)},
            Path(folder),
            zygote=zygote,
            finish=finish,
            bar=lambda path: site.report.bar(f"{root.name}: {path.stem}"),
        )


def _secrets(root: Path, notebooks: Path) -> list[str]:
    places = {str(root), str(notebooks), str(Path.cwd()), str(Path.home()), sys.prefix}
    return sorted(place for place in places if len(place) > 1)


def _write(content: Content, page: str, facts: About, drawings: _Drawings, output: Path) -> Path:
    with staging(output, facts.name) as folder:
        beside = folder / facts.name
        for figure in content.figures:
            write_tables(figure, beside / "tables")
            if figure.spec is not None:
                write_chart(figure, *drawings.files[figure.id].result(), beside / "charts")
        write_claims(content, facts, beside)
        (folder / f"{facts.name}.html").write_text(page, encoding="utf-8")
        return publish(folder, output, facts.name)


@contextmanager
def _opened(root: Path, site: _Site, load: Load | None) -> Iterator[tuple[About, Zygote | None]]:
    """What the page says of the campaign, and what its kernels are forked from."""
    zygote = site.workers.zygote
    if zygote is not None and not zygote.ready():
        site.report.say("kernels are started one by one: the process to fork them from ended")
        zygote = None
    if load is not None or zygote is None:
        yield about(root, site.base, load), zygote
        return
    try:
        own, facts = zygote.campaign(root, site.base)
    except OSError:
        raise BuildError(
            f"{root.name}: the process that reads the campaign ended (killed, or out of memory)"
        ) from None
    with own:
        yield facts, own


def _build_one(root: Path, output: Path, notebooks: Path, site: _Site, load: Load | None) -> Path:
    report = site.report
    with contextlib.ExitStack() as stack:
        with report.step(f"{root.name}: reading"):
            facts, zygote = stack.enter_context(_opened(root, site, load))
        drawings = _Drawings(site.workers.studio)
        content = collect(_chapters(root, notebooks, site, zygote, drawings))
    with report.step(f"{root.name}: drawing"):
        try:
            drawings.fill(content)
            script = site.workers.bundle.result()
        except BrokenExecutor:
            raise BuildError(
                f"{root.name}: the process that draws the charts ended (killed, or out of memory)"
            ) from None
    with report.step(f"{root.name}: page"):
        template = site.base / "report" / "template"
        page = render(content, facts, script, template, site.language)
        if found := problems(page, _secrets(root, notebooks)):
            raise BuildError(
                f"the page of {root.name} is not fit to publish: {'; '.join(found[:5])}"
            )
        return _write(content, page, facts, drawings, output)


def build(
    campaigns: Sequence[Path],
    output: Path,
    verbose: bool = False,
    *,
    notebooks: Path | None = None,
    load: Load | None = None,
    workers: Workers | None = None,
    language: str = DEFAULT,
) -> int:
    """Build the page of each campaign; 0 when all are published.

    ``campaigns`` are folders with a ``campaign.yaml`` (none: all below ``data/``). Each becomes
    ``<output>/<name>.html`` with ``<output>/<name>/`` beside it. ``notebooks`` and ``load`` (in
    place of ``servebook.read.campaign.load``) are for tests, as are ``workers`` that serve many
    builds. ``language`` names a file in ``report/text/``.

    Raises:
        ServebookError: the first failure, after the other campaigns were built.

    """
    base = home()
    report = Reporter(verbose)
    failures: list[ServebookError] = []
    roots = _campaigns(campaigns, base)
    load_texts(base / "report" / "text", language)  # these faults are told before the work
    writable(output)
    with quiet(), contextlib.nullcontext(workers) if workers else Workers() as started:
        site = _Site(base, started, report, language)
        for root in roots:
            try:
                page = _build_one(
                    root, output, (notebooks or base / "notebooks").resolve(), site, load
                )
            except ServebookError as error:
                failures.append(error)
            else:
                print(page)  # noqa: T201 - the command's result
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BuildError("\n".join(str(error) for error in failures))
    return 0
