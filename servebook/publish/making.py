"""One page in the making: read, its notebooks run, drawn, rendered, checked, published.

What the page is made of and what the cache holds of it is asked first; only what is missing is
made. What renders is imported when it is needed, while other processes are at work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servebook.errors import BuildError
from servebook.publish.about import About, about, restored
from servebook.publish.chapter_names import chapters_of
from servebook.publish.drawings import Drawings
from servebook.publish.fresh import Ingredients, ingredients, record
from servebook.publish.kept import Kept, drawing_version
from servebook.publish.known_issues import attach
from servebook.publish.places import spelled
from servebook.publish.prose import code_digest, with_prose_of
from servebook.publish.release import publish, staging
from servebook.publish.reporter import Reporter
from servebook.publish.text import DEFAULT
from servebook.publish.without import FORMATS, without
from servebook.publish.workers import Workers

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from servebook.publish.collect import Chapter, Content
    from servebook.publish.forks import Reading, Zygote

__all__ = ["Load", "Making", "Page", "Site"]

Load = Callable[[Path], Any]


@dataclass(frozen=True)
class Site:
    """What the campaigns of one build share."""

    base: Path
    workers: Workers
    report: Reporter
    language: str = DEFAULT
    force: bool = False


@dataclass(frozen=True)
class Page:
    """One page in the making, and what the cache keeps of it; ``made_of`` is None in tests."""

    root: Path
    folder: Path
    notebooks: tuple[Path, ...]
    made_of: Ingredients | None
    executed: Kept
    abouts: Kept
    language: str = DEFAULT

    @classmethod
    def of(cls, root: Path, notebooks: Path, site: Site, keep: bool) -> Page:
        """Raises BuildError where there are no notebooks."""
        paths = tuple(sorted(notebooks.glob("*.ipynb")))
        if not paths:
            raise BuildError(f"no notebooks in {notebooks}")
        made_of = ingredients(root, site.base, notebooks) if keep else None
        program = made_of.program if made_of else None
        executed = Kept("notebooks", program, renew=site.force)
        abouts = Kept("abouts", program, renew=site.force)
        return cls(root, notebooks, paths, made_of, executed, abouts, site.language)

    def key(self, path: Path) -> str:
        """What the cache calls an executed notebook."""
        if self.made_of is None:
            return ""
        own = code_digest(path, self.made_of.notebooks[path.name])
        return self.made_of.chapter(path.name, own, self.root, self.language)

    def put(self, path: Path, nb: NotebookNode) -> None:
        """Keep an executed notebook."""
        self.executed.put_json(self.key(path), nb)

    def ready(self) -> dict[Path, Any]:
        """The notebooks that need not run: an earlier build ran the same code on the same."""
        kept = {path: self.executed.get_json(self.key(path)) for path in self.notebooks}
        found = {path: with_prose_of(path, nb) for path, nb in kept.items() if nb is not None}
        return {path: nb for path, nb in found.items() if nb is not None}

    def about(self) -> About | None:
        """What the page says of the campaign, where an earlier build has read the same one."""
        fields = self.abouts.get_json(self._campaign())
        return None if fields is None else restored(fields)

    def put_about(self, facts: About) -> None:
        """Keep what ``about`` returns."""
        self.abouts.put_json(self._campaign(), asdict(facts))

    def _campaign(self) -> str:
        return self.made_of.about(self.language) if self.made_of else ""


def _chapters(
    page: Page,
    ready: Mapping[Path, NotebookNode],
    site: Site,
    zygote: Zygote | None,
    drawings: Drawings,
) -> list[Chapter]:
    from servebook.publish.collect import chapter
    from servebook.publish.together import run_all

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
                ran=drawings.order_of_cell,
            )
        found |= zip(left, ran, strict=True)
    return [found[path] for path in page.notebooks]


def _nodes(notebooks: Mapping[Path, Any]) -> dict[Path, NotebookNode]:
    if not notebooks:
        return {}
    with without(*FORMATS):
        from nbformat import from_dict  # half a second, after the other processes were started

    return {path: from_dict(nb) for path, nb in notebooks.items()}


def _secrets(root: Path, notebooks: Path) -> list[str]:
    places = {str(root), str(notebooks), str(Path.cwd()), str(Path.home()), sys.prefix}
    return sorted(place for place in places if len(place) > 1)


@contextlib.contextmanager
def _drawn_by_a_worker(name: str) -> Iterator[None]:
    """Say what it means that the drawing worker took no more work, or left some undone."""
    try:
        yield
    except (BrokenExecutor, CancelledError):
        raise BuildError(
            f"{name}: the process that draws the charts ended (killed, or out of memory)"
        ) from None


def _write(content: Content, page: str, facts: About, drawings: Drawings, output: Path) -> Path:
    from servebook.publish.files import write_chart, write_claims, write_tables

    with staging(output, facts.name) as folder:
        beside = folder / facts.name
        for figure in content.figures:
            write_tables(figure, beside / "tables")
            if figure.spec is not None:
                write_chart(figure, *drawings.files(figure.id), beside / "charts")
        write_claims(content, facts, beside)
        (folder / f"{facts.name}.html").write_text(page, encoding="utf-8")
        return publish(folder, output, facts.name)


class Making:
    """One page on its way: read ahead of its turn, run, and drawn and written behind it."""

    def __init__(self, page: Page, output: Path, site: Site, load: Load | None) -> None:
        self.page, self.output, self.site = page, output, site
        self._load = load
        kept = page.ready()
        left = [path for path in page.notebooks if path not in kept]
        self.n_left = len(left)
        self._reading: Reading | None = None
        self._facts = None if self.n_left else page.about()
        self._drawings = Drawings(
            site.workers,
            Kept("drawings", drawing_version() if page.made_of else None, renew=site.force),
        )
        if self.n_left:
            if self.n_left == 1:  # little to import
                site.workers.chapters = sorted(chapters_of(left[0]))
            if load is None:
                site.workers.first = page.root
            _ = site.workers.zygote  # it imports while this process does
        self._drawings.start()
        self._ready = _nodes(kept)

    def read_ahead(self) -> None:
        """Have the campaign read, if it has to be, while others are at work."""
        if self._facts is not None or self._load is not None or self._reading is not None:
            return
        zygote = self.site.workers.zygote
        if zygote is None:
            return
        if not zygote.ready():
            if not self.site.workers.alone:  # a build says it once
                self.site.workers.alone = True
                self.site.report.say(
                    "kernels are started one by one: the process to fork them from ended"
                )
            return
        with contextlib.suppress(OSError):  # it is told when its turn comes
            self._reading = zygote.reading(self.page.root, self.site.base, measured=self.n_left > 1)

    def run(self) -> Callable[[], Path]:
        """Run its notebooks; what is left to do comes back as a function that writes the page."""
        report, name = self.site.report, self.page.root.name
        with contextlib.ExitStack() as stack:
            with report.step(f"{name}: reading"):
                self._prepare()
                facts, zygote = self._opened(stack)
            from servebook.publish.collect import collect

            with _drawn_by_a_worker(name):
                chapters = _chapters(self.page, self._ready, self.site, zygote, self._drawings)
        return lambda: self._written(collect(chapters), facts)

    def _prepare(self) -> None:
        """What can be done before there are notebooks, while the campaign is read."""
        from servebook.publish.page import prepare

        self.read_ahead()
        if self.n_left > 1:  # not before: a core that waits for nothing has better things to do
            self._drawings.begin()
        prepare(self._template)

    @property
    def _template(self) -> Path:
        return self.site.base / "report" / "template"

    def close(self) -> None:
        """Let go of a campaign that was read ahead and whose turn will not come."""
        if self._reading is not None:
            self._reading.close()

    def _opened(self, stack: contextlib.ExitStack) -> tuple[About, Zygote | None]:
        """What the page says of the campaign, and what its kernels are forked from."""
        if self._facts is not None:
            return self._facts, None
        self.read_ahead()
        root = self.page.root
        if self._reading is None:
            zygote = self.site.workers.zygote
            zygote = zygote if zygote is not None and zygote.ready() else None
            return about(root, self.site.base, self._load), zygote
        reading, self._reading = self._reading, None
        try:
            own, facts = reading.done()
        except OSError:
            raise BuildError(
                f"{root.name}: the process that reads the campaign ended (killed, or out of memory)"
            ) from None
        stack.enter_context(own)
        left = [path for path in self.page.notebooks if path not in self._ready]
        if counting := own.count(root, left):
            stack.enter_context(counting)
        return facts, own

    def _written(self, content: Content, facts: About) -> Path:

        from servebook.publish.checks import problems
        from servebook.publish.page import render

        page, site, name = self.page, self.site, self.page.root.name
        facts = dataclasses.replace(facts, issues=tuple(attach(content, facts.issues)))
        with site.report.step(f"{name}: drawing"), _drawn_by_a_worker(name):
            self._drawings.fill(content)
            script = self._drawings.bundle()
        with site.report.step(f"{name}: page"), _drawn_by_a_worker(name):
            text = render(content, facts, script, self._template, site.language)
            if found := problems(text, _secrets(page.root, page.folder)):
                raise BuildError(
                    f"the page of {name} is not fit to publish: {'; '.join(found[:5])}"
                )
            written = _write(content, text, facts, self._drawings, self.output)
        if page.made_of is not None:
            page.put_about(facts)
            record(page.made_of.whole(site.language), self.output, name, facts.name)
        return written
