"""What a build made and the next one needs again: executed notebooks, drawings, what stands around.

Each is a file of the cache under the digest of all that it hangs on, in a folder of the version of
the program that makes it, with a checksum of its content; one that does not hold is made again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from servebook.publish.fresh import digest_of
from servebook.read.sums import cache_folder, write_whole

__all__ = ["Kept", "drawing_version"]

_PARTS = ("draw.py", "svg.py", "spec.py", "fixed.py", "fonts.py")


class Kept:
    """The kept results of one kind, made by one version; without a ``version`` nothing is kept.

    They lie in the ``folder``, by default that of the cache.
    """

    def __init__(
        self,
        kind: str,
        version: str | None,
        *,
        renew: bool = False,
        folder: Path | None = None,
    ) -> None:
        folder = folder or cache_folder()
        self._folder = None
        self._renew = renew
        if folder is not None and version is not None:
            self._folder = folder / kind / version[:16]

    def get(self, key: str) -> bytes | None:
        """What is kept under ``key``; None where nothing is, or where it was altered."""
        if self._folder is None or self._renew:
            return None
        try:
            content = (self._folder / key).read_bytes()
        except OSError:
            return None
        digest, found = content[:64], content[65:]
        return found if digest == self._sum(key, found) else None

    def put(self, key: str, content: bytes) -> None:
        """Keep ``content`` under ``key``; where that cannot be, nothing is kept."""
        if self._folder is not None:
            write_whole(self._folder / key, self._sum(key, content) + b"\n" + content)

    def get_json(self, key: str) -> Any:
        """As ``get``, of a value that ``put_json`` kept; no value of it is None."""
        content = self.get(key)
        return None if content is None else json.loads(content)

    def put_json(self, key: str, value: Any) -> None:
        """Keep a value of JSON, with the order of its keys."""
        self.put(key, json.dumps(value).encode())

    @staticmethod
    def _sum(key: str, content: bytes) -> bytes:
        return hashlib.sha256(key.encode() + b"\0" + content).hexdigest().encode()


def drawing_version() -> str:
    """A digest of what turns a chart's specification into a drawing."""
    from importlib.metadata import version

    here = Path(__file__).parent
    sources = [hashlib.sha256((here / name).read_bytes()).hexdigest() for name in _PARTS]
    return digest_of(sources, version("vl-convert-python"), version("lxml"))
