"""The drawings of a page: ordered as chapters end, taken from the cache where they are kept."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Future
from typing import TYPE_CHECKING, Any, TypeVar

from servebook.errors import BuildError
from servebook.publish.bundle import ready
from servebook.publish.draw import Drawing
from servebook.publish.fresh import digest_of
from servebook.publish.kept import Kept
from servebook.publish.names import KINDS, SPEC_MIME
from servebook.publish.workers import Workers

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from servebook.publish.collect import Chapter, Content
    from servebook.publish.spec import Spec

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
        self._lock = workers.lock

    def order(self, one: Chapter) -> None:
        """Have the figures of a chapter drawn, where that was not asked for cell by cell."""
        for figure in one.figures:
            self._order(figure.fields, figure.spec)

    def order_of_cell(self, cell: NotebookNode) -> None:
        """Have the figures of an executed cell drawn; called while others run, in any thread."""
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if KINDS["figure"] in data:
                with contextlib.suppress(BrokenExecutor):  # told when the chapter is there
                    self._order(data[KINDS["figure"]], data.get(SPEC_MIME))

    def _order(self, fields: Mapping[str, Any], spec: Spec | None) -> None:
        if spec is None:
            return
        name = str(fields["id"])
        asked = spec, f"{name}-", fields["title"], fields["subtitle"]
        key = digest_of(json.dumps(asked))
        with self._lock:
            if name in self._drawn and self._drawn[name][0] == key:
                return
            known = self._known(key)
            if known is None:
                self._new.add(key)
                self._drawn[name] = key, self._workers.studio.drawing(*asked)
            else:
                self._drawn[name] = key, _done(known)

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

    def start(self, *, ahead: bool = True) -> None:
        """Have the Vega script made while notebooks run, where it is neither ready nor kept.

        ``ahead``: the worker is to start now, since many charts will be asked for.
        """
        script = ready()
        if script is None and (kept := self._kept.get(_BUNDLE)) is not None:
            script = kept.decode()
        self._bundle = self._workers.bundle if script is None else _done(script)
        self._bundle_is_new = script is None
        if ahead and script is not None:
            with contextlib.suppress(BrokenExecutor):  # told when a chart is asked for
                self._workers.studio.begin()

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
