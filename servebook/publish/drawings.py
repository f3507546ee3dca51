"""The drawings of a page: ordered as chapters end, taken from the cache where they are kept."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, Future
from typing import TYPE_CHECKING, Any, TypeVar

from servebook.errors import BuildError
from servebook.publish.bundle import ready
from servebook.publish.draw import Drawing, Ordered
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
_KINDS = ("page", "svg", "png")  # what is kept of a drawing


class Drawings:
    """The drawings asked for so far, by figure; the worker that draws is started for the first."""

    def __init__(self, workers: Workers, kept: Kept) -> None:
        self._workers = workers
        self._kept = kept
        self._drawn: dict[str, tuple[str, Ordered]] = {}
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
                self._drawn[name] = key, known

    def _known(self, key: str) -> Ordered | None:
        page, svg, png = (self._kept.get(f"{key}.{kind}") for kind in _KINDS)
        if page is None or svg is None or png is None:
            return None
        return Ordered(_done(Drawing(page.decode(), svg.decode())), _done(png))

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
                drawing = self._drawn[figure.id][1].drawing.result()
            except ValueError as error:
                raise BuildError(
                    f"chapter {figure.chapter}: figure {figure.id!r} cannot be drawn: "
                    f"{str(error).splitlines()[0]}"
                ) from None
            figure.svg = drawing.page

    def files(self, figure: str) -> tuple[str, bytes]:
        """SVG and PNG of a figure, for the folder beside the page; waits for the latter.

        Raises:
            BuildError: it cannot be painted.
            BrokenExecutor: the worker ended.

        """
        key, ordered = self._drawn[figure]
        drawing = ordered.drawing.result()
        try:
            png = ordered.png.result()
        except ValueError as error:
            why = str(error).splitlines()[0]
            raise BuildError(f"figure {figure!r} cannot be painted: {why}") from None
        if key in self._new:
            parts = (drawing.page.encode(), drawing.svg.encode(), png)
            for kind, part in zip(_KINDS, parts, strict=True):
                self._kept.put(f"{key}.{kind}", part)
        return drawing.svg, png

    def start(self) -> None:
        """Have the Vega script made while notebooks run, where it is neither ready nor kept."""
        script = ready()
        if script is None and (kept := self._kept.get(_BUNDLE)) is not None:
            script = kept.decode()
        self._bundle = self._workers.bundle if script is None else _done(script)
        self._bundle_is_new = script is None

    def begin(self) -> None:
        """Have the workers get ready, since many charts will be asked for."""
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
