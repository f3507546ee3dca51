"""What runs on a worker of a Dask cluster: one named function of ours, and only in like company.

Answers are plain values, errors included: a worker logs what a task raises, with its arguments,
and a log is no place for paths and addresses. Every task says which versions sent it, because the
same file read by other code can become other tables.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import pickle
import platform
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import servebook
from servebook.errors import DumpError, ServebookError
from servebook.read.source import reading_fault

__all__ = ["NotHereError", "do", "versions"]

#: What decides the numbers that come out.
_PACKAGES = ("msgspec", "numpy", "orjson", "pandas", "pyarrow", "pysimdjson", "scipy")
#: Code that nothing is computed with.
_APART = ("publish/", "cli.py", "__main__.py")

#: Readers share room for numbers within a process; a worker may have several threads.
_ONE_AT_A_TIME = threading.Lock()

Answer = tuple[str, Any]


class NotHereError(Exception):
    """A worker that lacks what the task needs; the text says what."""


@functools.cache
def versions() -> dict[str, str]:
    """The versions that must be the same here and on each worker, by name."""
    digest = hashlib.sha256()
    top = Path(servebook.__file__).parent
    for module in sorted([*top.rglob("*.py"), *top.rglob("*.c")]):
        name = module.relative_to(top).as_posix()
        if not name.startswith(_APART):
            digest.update(name.encode() + b"\0" + module.read_bytes() + b"\0")
    python = ".".join(platform.python_version_tuple()[:2])
    own = f"{servebook.__version__} ({digest.hexdigest()[:12]})"
    return {"Servebook": own, "Python": python, **{name: version(name) for name in _PACKAGES}}


def do(function: str, payload: bytes, expected: dict[str, str]) -> Answer:
    """Call ``module:name`` of ours with the pickled arguments; what became of it, and a value.

    "value": what it returned; "versions": what differs here; "not here": what is missing, in
    words; "dump": the fields of a DumpError; "told": the text of another error for the user;
    "fault": that of a fault of ours.
    """
    found = versions()
    if other := {k: (found.get(k, "none"), v) for k, v in expected.items() if found.get(k) != v}:
        return "versions", other
    os.environ.pop("SERVEBOOK_SCHEDULER", None)  # a task asks no cluster
    module, _, name = function.partition(":")
    if not module.startswith("servebook."):
        return "fault", f"{module} is no part of Servebook"
    try:
        with _ONE_AT_A_TIME:
            return "value", getattr(importlib.import_module(module), name)(*pickle.loads(payload))
    except NotHereError as error:
        return "not here", str(error)
    except DumpError as error:
        return "dump", dict(vars(error))
    except ServebookError as error:
        return "told", str(error)
    except Exception as error:  # told on the other side, as a fault of the same code here would be
        return "fault", reading_fault(error)
