"""Compiles the part of the reader that is C; without a compiler the package goes without it.

hatchling calls this when a wheel is built or the folder is installed. The library lies beside its
sources; its name holds checksums of the sources and of itself, which ``aiperf_lists.py`` compares
before it loads it. It is called by ctypes, so that any Python can use it.
``CC`` names another compiler, ``SERVEBOOK_COMPILED=0`` leaves it out.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = tuple(f"servebook/read/aiperf_{name}.c" for name in ("lists", "rows", "wide"))
LIBRARIES = "libaiperf-*.so"
#: What other versions left beside them.
_OLD = ("libaiperf_lists-*.so", LIBRARIES)
_COMPILERS = ("cc", "gcc", "clang")
_TIMEOUT_S = 120


class CustomBuildHook(BuildHookInterface):
    """Puts the library into wheels, and beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say in one line where that could not be."""
        reason = compiled(Path(self.root))
        if reason:
            self.app.display_warning(f"servebook: reading large dumps takes longer: {reason}")
            return
        build_data["artifacts"].append(f"servebook/read/{LIBRARIES}")
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}


def compiled(root: Path) -> str:
    """Compile the library; else a text that says why there is none."""
    if os.environ.get("SERVEBOOK_COMPILED") == "0":
        return "SERVEBOOK_COMPILED=0 leaves the compiled part out"
    try:
        named = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        return f"CC is no command ({error})"
    compiler = named or [path for name in _COMPILERS if (path := shutil.which(name))][:1]
    if not compiler:
        return f"there is no C compiler ({', '.join(_COMPILERS)})"
    sources = [root / source for source in SOURCES]
    folder = sources[0].parent
    work = folder / f"libaiperf.{os.getpid()}.new"
    options = ["-std=c11", "-O3", "-shared", "-fPIC", "-o", str(work), *map(str, sources)]
    try:
        subprocess.run(
            [*compiler, *options],
            check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
        of_sources = _digest(b"\0".join(source.read_bytes() for source in sources))
        # Whole or not at all; who has an old one open keeps it.
        for old in itertools.chain.from_iterable(map(folder.glob, _OLD)):
            old.unlink()
        work.replace(folder / f"libaiperf-{of_sources}-{_digest(work.read_bytes())}.so")
    except (OSError, subprocess.SubprocessError) as error:
        with contextlib.suppress(OSError):
            work.unlink()
        return f"{compiler[0]} did not compile its C part ({type(error).__name__})"
    return ""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
