"""Compiles the one part of the reader that is C; without a compiler the package goes without it.

hatchling calls this when a wheel is built or the folder is installed. The library lies beside its
source; its name holds checksums of the source and of itself, which ``aiperf_lists.py`` compares
before it loads it. It is called by ctypes, so that any Python can use it.
``CC`` names another compiler, ``SERVEBOOK_COMPILED=0`` leaves it out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "servebook/read/aiperf_lists.c"
LIBRARIES = "libaiperf_lists-*.so"
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
    source = root / SOURCE
    work = source.with_suffix(f".{os.getpid()}.new")
    options = ["-std=c11", "-O3", "-shared", "-fPIC", "-o", str(work), str(source)]
    try:
        subprocess.run(
            [*compiler, *options],
            check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
        name = "-".join(["libaiperf_lists", *(_digest(one.read_bytes()) for one in (source, work))])
        # Whole or not at all; who has an old one open keeps it.
        for old in source.parent.glob(LIBRARIES):
            old.unlink()
        work.replace(source.with_name(f"{name}.so"))
    except (OSError, subprocess.SubprocessError) as error:
        with contextlib.suppress(OSError):
            work.unlink()
        return f"{compiler[0]} did not compile its C part ({type(error).__name__})"
    return ""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
