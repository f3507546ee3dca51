"""The drawings of a page: ordered as chapters end, taken from the cache where they are kept."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from servebook.errors import BuildError
from servebook.publish.draw import Drawing
from servebook.publish.fresh import digest_of
from servebook.publish.kept import Kept
from servebook.publish.workers import Workers

if TYPE_CHECKING:
    from servebook.publish.collect import Chapter, Content

__all__ = ["Drawings"]

T = TypeVar("T")

_BUNDLE = "bundle"


class Drawings:
    """The drawings asked for so far, by figure; the worker that draws is started for the first."""

    def __init__(self, workers: Workers, kept: Kept) -> None:
        self._workers = workers
        self._kept = kept
        self._drawn: dict[str, tuple[str, Future[Drawing]]] = {}
        self._new: set[str] = set()

    def order(self, one: Chapter) -> None:
        """Have the figures of a chapter drawn."""
        for figure in one.figures:
            if figure.spec is None:
                continue
            title, subtitle = figure.fields["title"], figure.fields["subtitle"]
            asked = figure.spec, f"{figure.id}-", title, subtitle
            key = digest_of(json.dumps(asked))
            known = self._known(key)
            if known is None:
                self._new.add(key)
                self._drawn[figure.id] = key, self._workers.studio.drawing(*asked)
            else:
                self._drawn[figure.id] = key, _done(known)

    def _known(self, key: str) -> Drawing | None:
        parts = [self._kept.get(f"{key}.{kind}") for kind in Drawing._fields]
        page, svg, png = parts
        if page is None or svg is None or png is None:
            return None
        return Drawing(page.decode(), svg.decode(), png)

    def _keep(self, key: str, drawing: Drawing) -> None:
        parts = (drawing.page.encode(), drawing.svg.encode(), drawing.png)
        for kind, part in zip(Drawing._fields, parts, strict=True):
            self._kept.put(f"{key}.{kind}", part)

    def fill(self, content: Content) -> None:
        """Wait for all of them, and give each figure the one for the page.

        Raises:
            BuildError: a figure cannot be drawn.
            BrokenExecutor: the worker ended.

        """
        for figure in content.figures:
            if figure.spec is None:
                continue
            key, future = self._drawn[figure.id]
            try:
                drawing = future.result()
            except ValueError as error:
                raise BuildError(
                    f"chapter {figure.chapter}: figure {figure.id!r} cannot be drawn: "
                    f"{str(error).splitlines()[0]}"
                ) from None
            figure.svg = drawing.page
            if key in self._new:
                self._keep(key, drawing)

    def files(self, figure: str) -> tuple[str, bytes]:
        """SVG and PNG of a figure, for the folder beside the page."""
        drawing = self._drawn[figure][1].result()
        return drawing.svg, drawing.png

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
