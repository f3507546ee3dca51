"""The kernel that a build runs a notebook in: this interpreter, a fixed environment, local sockets.

A user's own kernelspec named "python3" may be another Python, and its profile may run start-up
files; neither may change a page. The sockets are files in a private folder, so that nothing
listens on the network. Kernels are forked from a zygote where there is one, else started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from servebook.publish.fixed import environment

if TYPE_CHECKING:
    from servebook.publish.forks import Forked, Zygote

    Running: TypeAlias = subprocess.Popen[bytes] | Forked

__all__ = ["end", "kernel_class"]


def end(process: Running) -> None:
    """End a kernel and all that it started, at once."""
    if isinstance(process, subprocess.Popen) and process.poll() is None:
        with contextlib.suppress(OSError):  # it leads a session, and so a group, of its own
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def kernel_class(
    folder: Path, cwd: Path, zygote: Zygote | None, launched: Callable[[Running], None]
) -> type[AsyncKernelManager]:
    """A kernel manager class whose kernels run in ``cwd`` and keep their files in ``folder``.

    ``folder`` must be absolute and short: a socket's path may have some hundred characters.
    ``launched`` is given the process (a ``Popen`` or ``Forked``), which ``end`` ends.
    """
    profile = folder / "ipython"

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
            kwargs["env"] = environment(profile)
            kwargs["cwd"] = str(cwd)
            # What cells write comes as messages; the rest is the kernel's own talk of its end.
            kwargs["stdout"] = kwargs["stderr"] = subprocess.DEVNULL
            return await super()._async_pre_start_kernel(**kwargs)

        pre_start_kernel = _async_pre_start_kernel

        async def _async_launch_kernel(self, kernel_cmd: list[str], **kwargs: Any) -> None:
            local: Any = self.provisioner
            if zygote is None:
                await super()._async_launch_kernel(kernel_cmd, **kwargs)
            else:
                variables = {"IPYTHONDIR": str(profile)}
                local.process = zygote.kernel(self.connection_file, str(cwd), variables)
                local.pid = local.process.pid
                # Without a group: signals go through the zygote, which knows its children.
                local.pgid, local.cwd = None, str(cwd)
                self._reconcile_connection_info(local.connection_info)
            launched(local.process)

    return BuildKernel
