"""The driver's side of the zygote: start it, have it read a campaign, have it fork kernels.

Where processes cannot be forked safely (anything but Linux), or the zygote does not start, there is
none, and kernels are started one by one; the page is the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from servebook import errors
from servebook.publish.about import About, restored
from servebook.publish.chapter_names import chapters_of
from servebook.publish.fixed import environment
from servebook.publish.text import VARIABLE

__all__ = ["Forked", "Reading", "Zygote", "available"]


def available() -> bool:
    """Whether kernels can be forked here."""
    return sys.platform == "linux" and hasattr(os, "fork") and hasattr(socket, "send_fds")


class _Channel:
    """Requests to one zygote, one at a time."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._replies = link.makefile("rb")
        self._lock = threading.Lock()

    def receive(self) -> dict[str, Any]:
        line = self._replies.readline()
        if not line:
            raise OSError("the zygote ended")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def ask(self, request: dict[str, Any], *sockets: socket.socket) -> dict[str, Any]:
        with self._lock:
            text = json.dumps(request).encode()
            socket.send_fds(self._link, [text], [one.fileno() for one in sockets])
            return self.receive()

    def answered(self) -> bool:
        """Whether there is something to receive."""
        return bool(select.select([self._link], [], [], 0)[0])

    def fork(self, request: dict[str, Any]) -> tuple[int, socket.socket]:
        """The id of the new process and the socket that ends with it."""
        ours, theirs = socket.socketpair()
        with theirs:
            return int(self.ask(request, theirs)["pid"]), ours

    def close(self) -> None:
        self._replies.close()
        self._link.close()


class Forked:
    """A forked kernel as jupyter_client sees a process: what it uses of ``subprocess.Popen``."""

    stdin = stdout = stderr = None

    def __init__(self, channel: _Channel, pid: int, lifeline: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._lifeline = lifeline
        self._lifeline.setblocking(False)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """None while it runs, then a number (its own exit code is the zygote's to know)."""
        if self.returncode is None:
            try:
                ended = self._lifeline.recv(1) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            if ended:
                self.returncode = 1
                self._lifeline.close()
        return self.returncode

    def wait(self) -> int | None:
        """Wait for its end."""
        while self.poll() is None:
            # Another thread may see the end first and close the socket under this one's hands.
            with contextlib.suppress(OSError, ValueError):
                select.select([self._lifeline], [], [], 0.1)
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """End it and all that it started; any signal but an interrupt kills."""
        if self.poll() is None and signum != signal.SIGINT:
            with contextlib.suppress(OSError):
                self._channel.ask({"kill": self.pid})

    def kill(self) -> None:
        """End it and all that it started."""
        self.send_signal(signal.SIGKILL)

    terminate = kill


class Zygote:
    """A zygote that has imported everything, or one that has read a campaign besides.

    ``of_counters`` are the modules of chapters that show what counters tell, where there is much to
    measure; ``counting`` is then a zygote that has measured it, for notebooks that import them.
    """

    def __init__(self, channel: _Channel, pid: int, *, ready: bool = True) -> None:
        self._channel = channel
        self._ready = ready
        self._lock = threading.Lock()
        self.pid = pid
        self.of_counters: frozenset[str] = frozenset()
        self.counting: Zygote | None = None

    @classmethod
    def start(
        cls, folder: Path, first: Path | None = None, chapters: Sequence[str] = ()
    ) -> Zygote | None:
        """Start one that imports while the caller goes on; None where none can be.

        ``folder`` takes the place of the user's IPython profile; ``first`` is a campaign that is
        read into the cache meanwhile; ``chapters`` are the modules to import, where not all.
        """
        if not available():
            return None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "servebook.publish.zygote", str(theirs.fileno())),
                        *(str(first or ""), *chapters),
                    ],
                    env=environment(folder),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            except OSError:
                ours.close()
                return None
        zygote = cls(_Channel(ours), process.pid, ready=False)
        zygote._process = process
        return zygote

    _process: subprocess.Popen[bytes] | None = None

    def ready(self) -> bool:
        """Wait until it can fork; False where it ended instead."""
        with self._lock:
            if not self._ready:
                try:
                    self._channel.receive()
                except OSError:
                    return False
                self._ready = True
            return True

    def reading(self, root: Path, home: Path, *, measured: bool = True) -> Reading:
        """Have a zygote of its own read the campaign, while the caller goes on.

        ``measured``: with the tables that several notebooks show, which one alone may not need.

        Raises:
            OSError: the zygote ended.

        """
        spoken = os.environ.get(VARIABLE, "")
        asked = {"root": str(root), "home": str(home), "measured": measured, "text": spoken}
        request = {"campaign": asked}
        pid, link = self._channel.fork(request)
        return Reading(_Channel(link), pid)

    def count(self, root: Path, notebooks: Iterable[Path]) -> Zygote | None:
        """Have counters measured by a zygote of its own, where one of the notebooks shows them.

        ``root`` is the campaign that this one has read. The caller closes what is returned.
        """
        if any(self._counts(path) for path in notebooks):
            with contextlib.suppress(OSError):
                pid, link = self._channel.fork({"counters": {"root": str(root)}})
                self.counting = Zygote(_Channel(link), pid, ready=False)
        return self.counting

    def _counts(self, notebook: Path) -> bool:
        return not self.of_counters.isdisjoint(chapters_of(notebook))

    def waits(self, notebook: Path) -> bool:
        """Whether ``of`` would have to wait."""
        one = self.counting
        return one is not None and self._counts(notebook) and not one.stands()

    def stands(self) -> bool:
        """Whether it can fork or has ended."""
        return self._ready or (not self._lock.locked() and self._channel.answered())

    def of(self, notebook: Path) -> Zygote:
        """The one to fork the notebook's kernel from."""
        one = self.counting
        return one if one is not None and self._counts(notebook) and one.ready() else self

    def campaign(self, root: Path, home: Path, *, measured: bool = True) -> tuple[Zygote, About]:
        """``reading(...).done()``."""
        return self.reading(root, home, measured=measured).done()

    def kernel(self, connection_file: str, cwd: str, variables: dict[str, str]) -> Forked:
        """A new kernel.

        Raises:
            OSError: the zygote ended.

        """
        request = {
            "connection_file": connection_file,
            "cwd": cwd,
            "environment": variables,
            "parent": self.pid,
        }
        return Forked(self._channel, *self._channel.fork({"kernel": request}))

    def close(self) -> None:
        """Let it go: it kills its kernels and ends."""
        self._channel.close()
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reading:
    """A campaign that is being read in a process of its own."""

    def __init__(self, channel: _Channel, pid: int) -> None:
        self._channel = channel
        self._pid = pid

    def done(self) -> tuple[Zygote, About]:
        """A zygote that holds the campaign, and what the page says of it; waits for both.

        Raises:
            ServebookError: the campaign cannot be read.
            OSError: the process ended.

        """
        try:
            reply = self._channel.receive()
        except BaseException:
            self._channel.close()
            raise
        if "error" in reply:
            self._channel.close()
            raise _rebuilt(**reply["error"])
        zygote = Zygote(self._channel, self._pid)
        zygote.of_counters = frozenset(reply["of_counters"])
        return zygote, restored(reply["about"])

    def close(self) -> None:
        """Let it go, read or not."""
        self._channel.close()


def _rebuilt(kind: str, fields: dict[str, Any]) -> Exception:
    """The error that was raised in the zygote."""
    if kind in ("DumpError", "ManifestError"):
        error: Exception = getattr(errors, kind)(**fields)
        return error
    if not kind:
        return RuntimeError(f"the campaign could not be read:\n{fields['text']}")
    return errors.BuildError(fields["text"])
