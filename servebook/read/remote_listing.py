"""What lies at a URL: the names of its files, their sizes, and what tells that one has changed.

Object stores and file systems list themselves. A web server is asked for its index pages, of which
only links to what is further down are followed. Names from elsewhere become paths here, so a name
that would leave the mirror is an error.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from servebook.errors import DumpError
from servebook.read.urls import shown

__all__ = ["FOLDER", "Remote", "TooMuchError", "listing", "remote_path"]

#: Of the cache: what was fetched.
FOLDER = "remote"

#: What file systems say of a file that changes with its content, by the names that they use.
_MARKS = (
    "ETag",
    "etag",
    "Content-MD5",
    "Digest",
    "md5Hash",
    "crc32c",
    "generation",
    "content_settings",
    "LastModified",
    "Last-Modified",
    "last_modified",
    "updated",
    "mtime",
    "created",
)
_WEB = ("http", "https")
_MOST_PAGES = 10_000
_MAX_NAME, _MAX_PATH = 255, 3000


class TooMuchError(Exception):
    """More bytes than may come."""


@dataclass(frozen=True)
class Remote:
    """A file below a URL; ``size`` is None and ``mark`` empty where the server does not say."""

    name: str
    size: int | None
    mark: str


def remote_path(url: str, base: str, name: str) -> str:
    """The path in its file system of the file ``name`` below ``base``.

    A query of a folder on a web server, which may be its key, goes to its files as well.
    """
    if urlsplit(url).scheme not in _WEB:
        return f"{base.rstrip('/')}/{name}"
    folder, query = _apart(base)
    return f"{folder.rstrip('/')}/{quote(name)}{query}"


def _apart(url: str) -> tuple[str, str]:
    """A web address without its query, and that with its mark; a fragment goes."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")), query


def listing(system: Any, base: str, url: str) -> tuple[bool, list[Remote]]:
    """Whether the URL is one file, and the files, sorted by name.

    Raises DumpError for a name that cannot be one here, and whatever the file system raises.
    """
    if urlsplit(url).scheme in _WEB:
        single, found = _web(system, base)
    else:
        info = system.info(base)
        single = info["type"] == "file"
        below = {base: info} if single else system.find(base, detail=True)
        found = {_below(path, base): info for path, info in below.items()}
    files = [
        Remote(name, _size(info), _mark(info))
        for name, info in sorted(found.items())
        # An object whose name ends in "/" stands for a folder.
        if single or (name and not name.endswith("/"))
    ]
    if not single:
        _check([file.name for file in files], url)
    return single, files


def _below(path: str, base: str) -> str:
    return path[len(base.rstrip("/")) :].removeprefix("/")


def _size(info: dict[str, Any]) -> int | None:
    size = info.get("size")
    return size if isinstance(size, int) else None


def _mark(info: dict[str, Any]) -> str:
    said = {name: str(info[name]) for name in _MARKS if info.get(name)}
    return json.dumps(said, sort_keys=True) if said else ""


def _web(system: Any, base: str) -> tuple[bool, dict[str, dict[str, Any]]]:
    """One file, or what the index pages of a folder lead to."""
    if not urlsplit(base).path.endswith("/"):
        info = system.info(base)
        if not urlsplit(str(info.get("url", ""))).path.endswith("/"):
            return True, {"": info}
        folder, query = _apart(base)  # a folder: the server added the stroke itself
        base = f"{folder}/{query}"
    base, query = _apart(base)
    found: dict[str, dict[str, Any]] = {}
    pages, seen = [base], {base}
    while pages:
        page = pages.pop()
        for link in _links(system, page, query):
            name = link.removeprefix(page)
            inner = name.removesuffix("/")
            if name == link or not inner or "/" in inner or set("?#") & set(name):
                continue  # not below the page, or another order of the same page
            if not name.endswith("/"):
                found[unquote(link.removeprefix(base))] = system.info(f"{link}{query}")
            elif link not in seen and len(seen) < _MOST_PAGES:
                seen.add(link)
                pages.append(link)
    return False, found


def _links(system: Any, page: str, query: str) -> list[str]:
    """Where an index page leads to, sorted; fsspec puts relative links behind its query."""
    asked = f"{page}{query}"
    behind = f"{asked}/" if query else page
    found = {entry["name"] for entry in system.ls(asked, detail=True)}
    return sorted(
        page + link.removeprefix(behind) if link.startswith(behind) else link for link in found
    )


def _check(names: list[str], url: str) -> None:
    folders = {name[:at] for name in names for at, char in enumerate(name) if char == "/"}
    for name in names:
        parts = name.split("/")
        long = max(len(os.fsencode(part)) for part in parts) > _MAX_NAME
        if (
            "" in parts
            or {".", ".."} & set(parts)
            or "\0" in name
            or "\\" in name
            or long
            or len(os.fsencode(name)) > _MAX_PATH
            or name in folders
        ):
            what = "".join(c if c.isprintable() else "\ufffd" for c in name[:200])
            raise DumpError(
                shown(url),
                "names that can be files of one folder",
                f"{what!r}",
                "rename it there, or copy the rest into a folder",
            )
