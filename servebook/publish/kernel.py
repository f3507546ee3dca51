"""The kernel that a build runs notebooks in: this interpreter, a fixed environment, local sockets.

A user's own kernelspec named "python3" may be another Python, and its profile may run start-up
files; neither may change a page. The sockets are files in a private folder, so that nothing
listens on the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from servebook.publish.display import BUILD_VARIABLE

__all__ = ["FIXED", "environment", "kernel_class"]

FIXED: Mapping[str, str] = {
    BUILD_VARIABLE: "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "COLUMNS": "120",
    "LINES": "40",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def environment(home: Path) -> dict[str, str]:
    """The environment of a build's processes; ``home`` takes the place of the IPython profile."""
    return {**os.environ, **FIXED, "IPYTHONDIR": str(home)}


def kernel_class(folder: Path) -> type[AsyncKernelManager]:
    """A kernel manager class whose kernels keep their sockets and files in ``folder``.

    ``folder`` must be absolute and short: a socket's path may have some hundred characters.
    """

    class BuildKernel(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.transport = "ipc"
            self.ip = str(folder / "k")
            self.connection_file = str(folder / "kernel.json")

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(
                argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                display_name="Servebook",
                language="python",
            )

        async def _async_pre_start_kernel(self, **kwargs: Any) -> Any:
            kwargs["env"] = environment(folder / "ipython")
            # What cells write comes as messages; the rest is the kernel's own talk of its end.
            kwargs["stdout"] = kwargs["stderr"] = subprocess.DEVNULL
            return await super()._async_pre_start_kernel(**kwargs)

        pre_start_kernel = _async_pre_start_kernel

    return BuildKernel
