"""Build pages: run all notebooks of a campaign, render, check, publish.

One driver process. Whatever fails, the last good page stays and the error names the cause.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servebook.errors import BuildError, ServebookError
from servebook.publish.fixed import seldom_collected
from servebook.publish.making import Load, Making, Page, Site
from servebook.publish.places import campaign_folders, home
from servebook.publish.release import writable
from servebook.publish.reporter import Reporter
from servebook.publish.text import DEFAULT, speaking
from servebook.publish.text import load as load_texts
from servebook.publish.without import FORMATS, without
from servebook.publish.workers import Workers

__all__ = ["build"]


def _pages(
    roots: Sequence[Path], output: Path, site: Site, notebooks: Path, load: Load | None
) -> list[ServebookError]:
    """Build one page after the other; the failures, in their order.

    While the notebooks of one run, the next campaign is read and the page before is finished: as
    much as there is of either, so that no core waits.
    """
    failures: dict[int, ServebookError] = {}
    made: dict[int, Making] = {}

    def begin(number: int) -> None:
        if number < len(roots) and number not in made and number not in failures:
            try:
                page = Page.of(roots[number], notebooks, site, load is None)
                made[number] = Making(page, output, site, load)
            except ServebookError as error:
                failures[number] = error

    def finish(number: int, write: Callable[[], Path]) -> None:
        try:
            print(write())  # noqa: T201 - the command's result
        except ServebookError as error:
            failures[number] = error

    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="page"))
        finishing = []
        running = False
        for number in range(len(roots)):
            begin(number)
            begin(number + 1)
            if not running and any(one.n_left for one in made.values()):
                running = True
                _ready_to_run(stack)  # while the processes that were started get ready as well
            for one in made.values():
                stack.callback(one.close)
                one.read_ahead()
            if number in failures:
                continue
            try:
                write = made.pop(number).run()
            except ServebookError as error:
                failures[number] = error
            else:
                finishing.append(behind.submit(finish, number, write))
        for future in finishing:
            future.result()
    return [failures[number] for number in sorted(failures)]


def _ready_to_run(stack: contextlib.ExitStack) -> None:
    """Import what runs notebooks and renders pages, and keep the former quiet from now on."""
    with without("soupsieve", *FORMATS):  # a page is searched by lxml
        from servebook.publish.execute import quiet

        stack.enter_context(quiet())
        for name in ("checks", "collect", "files", "page", "together"):
            importlib.import_module(f"servebook.publish.{name}")


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
    roots = campaign_folders(campaigns, base)
    texts = load_texts(base / "report" / "text", language)  # its faults are told before the work
    writable(output)
    place = (notebooks or base / "notebooks").resolve()
    with (
        seldom_collected(),
        speaking(texts),
        contextlib.nullcontext(workers) if workers else Workers() as started,
    ):
        site = Site(base, started, report, language, force)
        failures = _pages(roots, output, site, place, load)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BuildError("\n".join(str(error) for error in failures))
    return 0
