"""The script of Vega for pages: made once for an environment, where that can be written to.

It hangs on vl-convert alone, and making it takes longer than drawing a dozen charts. ``make venv``
has it made (``python -m servebook.publish.bundle``); elsewhere the first build makes it, which then
keeps it in its cache.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from servebook.publish.draw import SNIPPET, javascript_bundle
from servebook.publish.fresh import digest_of
from servebook.publish.kept import Kept
from servebook.publish.spec import VL_VERSION

__all__ = ["main", "ready", "script"]

_NAME = "vega.js"


def _folder(prefix: Path | None) -> Path:
    return (prefix or Path(sys.prefix)) / "share" / "servebook"


def _kept(prefix: Path | None) -> Kept:
    from importlib.metadata import version

    made_of = digest_of(SNIPPET, VL_VERSION, version("vl-convert-python"))
    return Kept("vega", made_of, folder=_folder(prefix))


def ready(prefix: Path | None = None) -> str | None:
    """The script that the environment ``prefix`` (default: this one) holds; None where none."""
    found = _kept(prefix).get(_NAME)
    return None if found is None else found.decode()


def script() -> str:
    """The script, made where the environment does not hold it."""
    return ready() or javascript_bundle()


def main(prefix: Path | None = None) -> None:
    """Have it made for the environment; where that cannot be written to, nothing happens."""
    if ready(prefix) is None:
        _kept(prefix).put(_NAME, javascript_bundle().encode())
        with contextlib.suppress(OSError):  # a cache is its owner's alone, an environment is not
            for path in _folder(prefix).rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    main()
