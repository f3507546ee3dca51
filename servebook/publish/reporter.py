"""What a build says while it works: bars on a terminal, lines with ``-v``, else nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

__all__ = ["Reporter"]

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
