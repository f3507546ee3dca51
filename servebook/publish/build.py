"""Build pages: run all notebooks of a campaign, render, check, publish.

One driver process. Whatever fails, the last good page stays and the error names the cause.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict
from tqdm import tqdm

from servebook.errors import BuildError, ServebookError
from servebook.publish.about import About, about, restored
from servebook.publish.checks import problems
from servebook.publish.collect import Chapter, Content, chapter, collect
from servebook.publish.drawings import Drawings
from servebook.publish.execute import quiet
from servebook.publish.files import write_chart, write_claims, write_tables
from servebook.publish.forks import Zygote
from servebook.publish.fresh import Ingredients, ingredients, record
from servebook.publish.kept import Kept, drawing_version
from servebook.publish.known_issues import attach
from servebook.publish.page import render
from servebook.publish.places import campaign_folders, home, spelled
from servebook.publish.release import publish, staging, writable
from servebook.publish.text import DEFAULT, speaking
from servebook.publish.text import load as load_texts
from servebook.publish.together import run_all
from servebook.publish.workers import Workers

__all__ = ["build"]

Load = Callable[[Path], Any]
BAR = "{desc:<32} {bar:24} {n_fmt}/{total_fmt} [{elapsed}]"


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


@dataclass(frozen=True)
class _Site:
    """What the campaigns of one build share."""

    base: Path
    workers: Workers
    report: Reporter
    language: str = DEFAULT
    force: bool = False


@dataclass(frozen=True)
class _Page:
    """One page in the making, and what the cache keeps of it; ``made_of`` is None in tests."""

    root: Path
    notebooks: tuple[Path, ...]
    made_of: Ingredients | None
    executed: Kept
    abouts: Kept
    language: str = DEFAULT

    @classmethod
    def of(cls, root: Path, notebooks: Path, site: _Site, keep: bool) -> _Page:
        """Raises BuildError where there are no notebooks."""
        paths = tuple(sorted(notebooks.glob("*.ipynb")))
        if not paths:
            raise BuildError(f"no notebooks in {notebooks}")
        made_of = ingredients(root, site.base, notebooks) if keep else None
        program = made_of.program if made_of else None
        executed, abouts = (
            Kept(kind, program, renew=site.force) for kind in ("notebooks", "abouts")
        )
        return cls(root, paths, made_of, executed, abouts, site.language)

    def key(self, path: Path) -> str:
        if self.made_of is None:
            return ""
        return self.made_of.chapter(path.name, self.root, self.language)

    def put(self, path: Path, nb: NotebookNode) -> None:
        self.executed.put_json(self.key(path), nb)

    def ready(self) -> dict[Path, NotebookNode]:
        """The notebooks that need not run: an earlier build ran the same ones on the same."""
        found = {path: self.executed.get_json(self.key(path)) for path in self.notebooks}
        return {path: from_dict(nb) for path, nb in found.items() if nb is not None}

    def about(self) -> About | None:
        """What the page says of the campaign, where an earlier build has read the same one."""
        fields = self.abouts.get_json(self._campaign())
        return None if fields is None else restored(fields)

    def put_about(self, facts: About) -> None:
        self.abouts.put_json(self._campaign(), asdict(facts))

    def _campaign(self) -> str:
        return self.made_of.about(self.language) if self.made_of else ""


def _chapters(
    page: _Page,
    ready: Mapping[Path, NotebookNode],
    site: _Site,
    zygote: Zygote | None,
    drawings: Drawings,
) -> list[Chapter]:
    root = page.root
    shown = spelled(root, site.base)
    shown = f"../{shown}" if "/" in shown else shown
    start = time.perf_counter()

    def drawn(nb: NotebookNode, path: Path) -> Chapter:
        one = chapter(nb, path, shown)
        drawings.order(one)
        return one

    def finish(nb: NotebookNode, path: Path) -> Chapter:
        page.put(path, nb)
        site.report.say(f"{root.name}: {path.stem} after {time.perf_counter() - start:.1f} s")
        return drawn(nb, path)

    found = {path: drawn(nb, path) for path, nb in ready.items()}
    left = [path for path in page.notebooks if path not in ready]
    if left:
        with tempfile.TemporaryDirectory(dir=site.workers.folder, prefix="") as folder:
            ran = run_all(
                left,
                {"campaign": str(root)},
                Path(folder),
                zygote=zygote,
                finish=finish,
                bar=lambda path: site.report.bar(f"{root.name}: {path.stem}"),
            )
        found |= zip(left, ran, strict=True)
    return [found[path] for path in page.notebooks]


def _secrets(root: Path, notebooks: Path) -> list[str]:
    places = {str(root), str(notebooks), str(Path.cwd()), str(Path.home()), sys.prefix}
    return sorted(place for place in places if len(place) > 1)


def _write(content: Content, page: str, facts: About, drawings: Drawings, output: Path) -> Path:
    with staging(output, facts.name) as folder:
        beside = folder / facts.name
        for figure in content.figures:
            write_tables(figure, beside / "tables")
            if figure.spec is not None:
                write_chart(figure, *drawings.files(figure.id), beside / "charts")
        write_claims(content, facts, beside)
        (folder / f"{facts.name}.html").write_text(page, encoding="utf-8")
        return publish(folder, output, facts.name)


@contextmanager
def _opened(
    page: _Page, n_left: int, site: _Site, load: Load | None
) -> Iterator[tuple[About, Zygote | None]]:
    """What the page says of the campaign, and what its kernels are forked from."""
    root = page.root
    if n_left == 0 and (facts := page.about()) is not None:
        yield facts, None
        return
    zygote = site.workers.zygote
    if zygote is not None and not zygote.ready():
        site.report.say("kernels are started one by one: the process to fork them from ended")
        zygote = None
    if load is not None or zygote is None:
        yield about(root, site.base, load), zygote
        return
    try:
        own, facts = zygote.campaign(root, site.base, measured=n_left > 1)
    except OSError:
        raise BuildError(
            f"{root.name}: the process that reads the campaign ended (killed, or out of memory)"
        ) from None
    with own:
        yield facts, own


def _build_one(page: _Page, output: Path, notebooks: Path, site: _Site, load: Load | None) -> Path:
    report, root = site.report, page.root
    drawings = Drawings(
        site.workers,
        Kept("drawings", drawing_version() if page.made_of else None, renew=site.force),
    )
    ready = page.ready()
    if len(ready) < len(page.notebooks):
        _ = site.workers.zygote  # it imports while the drawing worker starts
    drawings.start()
    with contextlib.ExitStack() as stack:
        with report.step(f"{root.name}: reading"):
            n_left = len(page.notebooks) - len(ready)
            facts, zygote = stack.enter_context(_opened(page, n_left, site, load))
        content = collect(_chapters(page, ready, site, zygote, drawings))
        facts = dataclasses.replace(facts, issues=tuple(attach(content, facts.issues)))
    with report.step(f"{root.name}: drawing"):
        try:
            drawings.fill(content)
            script = drawings.bundle()
        except BrokenExecutor:
            raise BuildError(
                f"{root.name}: the process that draws the charts ended (killed, or out of memory)"
            ) from None
    with report.step(f"{root.name}: page"):
        template = site.base / "report" / "template"
        text = render(content, facts, script, template, site.language)
        if found := problems(text, _secrets(root, notebooks)):
            raise BuildError(
                f"the page of {root.name} is not fit to publish: {'; '.join(found[:5])}"
            )
        written = _write(content, text, facts, drawings, output)
    if page.made_of is not None:
        page.put_about(facts)
        record(page.made_of.whole(site.language), output, root.name)
    return written


def build(
    campaigns: Sequence[Path],
    output: Path,
    verbose: bool = False,
    *,
    notebooks: Path | None = None,
    load: Load | None = None,
    workers: Workers | None = None,
    language: str = DEFAULT,
    force: bool = False,
) -> int:
    """Build the page of each campaign; 0 when all are published.

    ``campaigns`` are folders with a ``campaign.yaml`` (none: all below ``data/``). Each becomes
    ``<output>/<name>.html`` with ``<output>/<name>/`` beside it. Notebooks and drawings that an
    earlier build kept are not made again, unless ``force``; the bytes are the same. ``notebooks``
    and ``load`` (in place of ``servebook.read.campaign.load``, and without anything kept) are for
    tests, as are ``workers`` that serve many builds. ``language`` names a file in
    ``report/text/``, which kernels and page speak.

    Raises:
        ServebookError: the first failure, after the other campaigns were built.

    """
    base = home()
    report = Reporter(verbose)
    failures: list[ServebookError] = []
    roots = campaign_folders(campaigns, base)
    texts = load_texts(base / "report" / "text", language)  # its faults are told before the work
    writable(output)
    place = (notebooks or base / "notebooks").resolve()
    with (
        quiet(),
        speaking(texts),
        contextlib.nullcontext(workers) if workers else Workers() as started,
    ):
        site = _Site(base, started, report, language, force)
        for root in roots:
            try:
                page = _Page.of(root, place, site, load is None)
                written = _build_one(page, output, place, site, load)
            except ServebookError as error:
                failures.append(error)
            else:
                print(written)  # noqa: T201 - the command's result
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BuildError("\n".join(str(error) for error in failures))
    return 0
