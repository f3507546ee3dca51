"""The drawings of a page: ordered as chapters end, taken from the cache where they are kept."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import TypeVar

from servebook.errors import BuildError
from servebook.publish.collect import Chapter, Content
from servebook.publish.fresh import digest_of
from servebook.publish.kept import Kept
from servebook.publish.workers import Workers

__all__ = ["Drawings"]

T = TypeVar("T")

_BUNDLE = "bundle"


class Drawings:
    """The drawings asked for so far, by figure; the worker that draws is started for the first."""

    def __init__(self, workers: Workers, kept: Kept) -> None:
        self._workers = workers
        self._kept = kept
        self._pages: dict[str, tuple[str, Future[str]]] = {}
        self._files: dict[str, tuple[str, Future[tuple[str, bytes]]]] = {}
        self._new: set[str] = set()

    def order(self, one: Chapter) -> None:
        """Have the figures of a chapter drawn, those for the page and those for the folder."""
        for figure in one.figures:
            if figure.spec is None:
                continue
            spec, prefix = figure.spec, f"{figure.id}-"
            key = digest_of("page", json.dumps(spec), prefix)
            drawn = self._kept.get(key)
            if drawn is None:
                self._new.add(key)
                self._pages[figure.id] = key, self._workers.studio.drawing(spec, prefix)
            else:
                self._pages[figure.id] = key, _done(drawn.decode())
            title, subtitle = figure.fields["title"], figure.fields["subtitle"]
            key = digest_of("files", json.dumps(spec), title, subtitle)
            svg, png = self._kept.get(f"{key}.svg"), self._kept.get(f"{key}.png")
            if svg is None or png is None:
                self._new.add(key)
                self._files[figure.id] = key, self._workers.studio.files(spec, title, subtitle)
            else:
                self._files[figure.id] = key, _done((svg.decode(), png))

    def fill(self, content: Content) -> None:
        """Wait for all of them, and give each figure the one for the page.

        Raises:
            BuildError: a figure cannot be drawn.
            BrokenExecutor: the worker ended.

        """
        for figure in content.figures:
            if figure.spec is None:
                continue
            try:
                key, drawing = self._pages[figure.id]
                figure.svg = drawing.result()
                if key in self._new:
                    self._kept.put(key, figure.svg.encode())
                key, files = self._files[figure.id]
                svg, png = files.result()
                if key in self._new:
                    self._kept.put(f"{key}.svg", svg.encode())
                    self._kept.put(f"{key}.png", png)
            except ValueError as error:
                raise BuildError(
                    f"chapter {figure.chapter}: figure {figure.id!r} cannot be drawn: "
                    f"{str(error).splitlines()[0]}"
                ) from None

    def files(self, figure: str) -> tuple[str, bytes]:
        """SVG and PNG of a figure, for the folder beside the page."""
        return self._files[figure][1].result()

    def start(self) -> None:
        """Have the Vega script made while notebooks run, and the worker started with it."""
        kept = self._kept.get(_BUNDLE)
        self._bundle = self._workers.bundle if kept is None else _done(kept.decode())
        self._bundle_is_new = kept is None

    def bundle(self) -> str:
        """The Vega script that was asked for at the start."""
        script = self._bundle.result()
        if self._bundle_is_new:
            self._kept.put(_BUNDLE, script.encode())
        return script


def _done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future
