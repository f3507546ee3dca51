"""The process that a build's kernels are forked from, so that imports are paid for once.

Starting a kernel costs seconds of imports, and reading a campaign as much again. This process
imports all of it, and for each campaign forks one of its kind that reads the campaign and measures
what several notebooks show. From that one a kernel is forked per notebook: a process of its own,
with the environment, hash seed and time zone of any kernel of a build, which shares nothing with
its siblings but pages of memory that nobody has written to.

No core waits for another one meanwhile: the first campaign is read into the cache while imports go
on, and what counters tell, which takes longest to measure and which few notebooks show, is measured
by a further one of its kind, while kernels of the other notebooks run.

It is driven through a socket (see ``forks``). Each request carries a socket for the new process,
whose end tells the driver that the process ended. When the driver is gone, however it went, the
socket closes: then the zygote kills its children and leaves. When the zygote is gone, the system
ends its kernels.

Own code: multiprocessing's forkserver imports modules once, too, but can neither hold a campaign
nor start with an environment other than its caller's.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from servebook.errors import ServebookError
from servebook.publish.fixed import seldom_collected
from servebook.publish.without import FORMATS, without

__all__ = ["main"]

_LATER = (  # what a kernel would import while it starts
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "sqlite3",
    "tornado.platform.asyncio",
)


def _import_all(names: Sequence[str] = ()) -> None:
    """What kernels need: the chapters of these names and what they import, else all of them."""
    from servebook.publish import chapters

    with without("anywidget", *FORMATS):  # a page shows no widgets of a notebook
        importlib.import_module("altair")
    with without("debugpy"):  # setting up a debugger takes half of a kernel's start
        importlib.import_module("ipykernel.debugger")
    for name in (*_LATER, "servebook.publish.display", "servebook.read.campaign"):
        importlib.import_module(name)
    for name in names or [found.name for found in pkgutil.iter_modules(chapters.__path__)]:
        # One that cannot be imported fails in the notebook that needs it, with its cell named.
        with contextlib.suppress(Exception):
            importlib.import_module(f"{chapters.__name__}.{name}")


def _read_ahead(root: str) -> int:
    """Have a campaign read by a process of its own; its id, 0 where there is none.

    It leaves the dumps in the cache and hands the campaign over. What cannot be read is told by the
    process that holds the campaign.
    """
    from servebook.publish.handed import hand
    from servebook.read.ahead import can_fork, fork
    from servebook.read.cache import default_folder
    from servebook.read.campaign import load
    from servebook.read.cluster import scheduler
    from servebook.read.privacy import masked

    if default_folder() is None or scheduler() or not can_fork():
        return 0
    parent = os.getpid()
    if pid := fork():
        return max(pid, 0)
    try:
        _die_with(parent)
        hand(masked(load(Path(root))), _own_folder())
    finally:
        os._exit(0)


class _Children:
    """The processes forked here; only these are ever killed."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        signal.signal(signal.SIGCHLD, self._reap)

    def _reap(self, *_: object) -> None:
        for pid in tuple(self.pids):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.pids.discard(pid)

    def kill(self, pid: int) -> None:
        if pid in self.pids:
            # A child that was forked just now may not lead its group yet: then it is all there is.
            for end in (os.killpg, os.kill):
                with contextlib.suppress(OSError):
                    end(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """End them, and wait for it: else nobody counts the time that they took."""
        for pid in tuple(self.pids):
            self.kill(pid)
        for pid in tuple(self.pids):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _serve(channel: socket.socket, reading: int = 0) -> NoReturn:
    """Do what is asked; ``reading`` is the id of a process that reads the first campaign."""
    children = _Children()
    gc.collect()
    gc.freeze()  # a collection in a child does not touch, and so not copy, what is here now
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(channel, 1 << 16, 1)
        except OSError:
            text, fds = b"", []
        if not text:
            if reading:
                os.kill(reading, signal.SIGKILL)
            children.kill_all()
            os._exit(0)
        request = json.loads(text)
        if reading and "campaign" in request:
            os.waitpid(reading, 0)
            reading = 0
        reply: dict[str, Any] = {}
        if "kill" in request:
            children.kill(request["kill"])
        else:
            reply["pid"] = _fork(request, socket.socket(fileno=fds[0]), channel, children)
        _send(channel, reply)


def _fork(
    request: dict[str, Any], own: socket.socket, channel: socket.socket, children: _Children
) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        with warnings.catch_warnings():
            # Python warns of threads; those of the libraries here know how to live on after a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _child(request, own, channel)
        children.pids.add(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    own.close()
    return pid


def _child(request: dict[str, Any], own: socket.socket, channel: socket.socket) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        channel.close()
        os.setsid()
        if "kernel" in request:
            _kernel(**request["kernel"])
            code = 0
        elif "counters" in request:
            _counters(own, **request["counters"])
        else:
            _campaign(own, **request["campaign"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _kernel(connection_file: str, cwd: str, environment: dict[str, str], parent: int) -> None:
    """Become the kernel; ends when the kernel is told to."""
    import numpy as np
    from ipykernel import kernelapp

    _die_with(parent)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # what cells write goes as messages; this is the kernel's own talk
        os.dup2(nowhere, stream)
    os.environ.update(environment)
    os.chdir(cwd)
    random.seed()
    np.random.seed()
    argv = ["-f", connection_file, f"--IPKernelApp.parent_handle={parent}"]
    argv.append("--HistoryManager.enabled=False")  # a database that nobody reads
    sys.argv = ["ipykernel_launcher", *argv[:2]]
    kernelapp.launch_new_instance(argv=argv)


def _die_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, even in the middle of native code."""
    set_signal_of_parents_death = 1
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(set_signal_of_parents_death, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _campaign(channel: socket.socket, root: str, home: str, measured: bool, text: str) -> NoReturn:
    """Read a campaign, answer with what the page says of it, and fork its kernels."""
    from servebook.publish.about import about
    from servebook.publish.handed import take
    from servebook.publish.text import speak
    from servebook.read.campaign import keep, load
    from servebook.read.privacy import masked

    try:
        if text:
            speak(Path(text))
        campaign = take(Path(root), _own_folder()) or masked(load(Path(root)))
        facts = about(Path(root), Path(home), lambda _: campaign)
    except ServebookError as error:
        fields = dict(vars(error)) or {"text": str(error)}
        _send(channel, {"error": {"kind": type(error).__name__, "fields": fields}})
        os._exit(0)
    except BaseException:
        _send(channel, {"error": {"kind": "", "fields": {"text": traceback.format_exc()}}})
        os._exit(1)
    keep(campaign)
    shown = []
    if measured:
        from servebook.publish.chapters.warm import of_counters, warm

        warm(campaign)
        shown = of_counters(campaign) if campaign.tables.samples.num_rows else []
    _send(channel, {"about": asdict(facts), "of_counters": shown})
    _serve(channel)


def _own_folder() -> Path:
    """The build's own folder, in which the place of the IPython profile is."""
    return Path(os.environ["IPYTHONDIR"]).parent


def _counters(channel: socket.socket, root: str) -> NoReturn:
    """Measure what the counters of the campaign tell, and fork the kernels that show it."""
    from servebook.publish.chapters.warm import warm_counters
    from servebook.read.campaign import load

    warm_counters(load(root))  # which is held already
    _send(channel, {"ready": os.getpid()})
    _serve(channel)


def _send(channel: socket.socket, reply: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # a driver that is gone is noticed by the next read
        channel.sendall(json.dumps(reply).encode() + b"\n")


def main() -> NoReturn:
    """Serve the socket whose number is the first argument.

    The others: a campaign to be read first, where it is not empty; the chapters to import, if not
    all.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    os.setsid()  # Ctrl-C is for the driver, which then lets go of the socket
    if sys.path[0] in ("", str(Path.cwd())):
        del sys.path[0]
    _, _, first, *names = sys.argv
    with seldom_collected():
        reading = _read_ahead(first) if first else 0
        _import_all(names)
        gc.freeze()  # modules stay: to look for cycles among them takes a tenth of a second
        _send(channel, {"ready": os.getpid()})
        _serve(channel, reading)


if __name__ == "__main__":
    main()
