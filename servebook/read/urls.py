"""URLs of dumps: which texts are URLs, how they are spelled without secrets, who opens them.

fsspec opens them. Packages for single protocols are installed by those who need them. What may
carry a key (a user before the host, a query, a fragment) is never shown.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from servebook.errors import ServebookError

__all__ = ["is_url", "last_name", "opened", "shown"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
#: What fsspec needs for a protocol beyond itself, as it is called on the index.
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "abfs": "adlfs",
    "az": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
_NAME = re.compile(r"[^\w.@=+,~-]")
_LONGEST = 120


def is_url(text: str) -> bool:
    """Whether a text is a URL and no path.

    >>> [is_url(text) for text in ("s3://bucket/run", "runs/a", "C:/runs", "/runs")]
    [True, False, False, False]
    """
    return _URL.match(text) is not None


def shown(url: str) -> str:
    """The URL as it may be printed: without user, password, query and fragment.

    >>> shown("https://me:secret@host:8443/a/b.jsonl?X-Amz-Signature=secret#c")
    'https://host:8443/a/b.jsonl'
    """
    try:
        parts = urlsplit(url)
        text = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:  # what is a key in it cannot be told
        text = url.partition("://")[0] + "://..."
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def last_name(url: str) -> str:
    """The last part of its path, as the name of a file or folder.

    >>> [last_name(url) for url in ("s3://bucket/a/run_1/", "https://host/x%20y.json?k=1")]
    ['run_1', 'x_y.json']
    """
    parts = urlsplit(url)
    name = posixpath.basename(unquote(parts.path).rstrip("/")) or parts.netloc.rpartition("@")[2]
    return _NAME.sub("_", name)[-_LONGEST:].lstrip("._") or "dumps"


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises ServebookError for a protocol that is unknown, or whose package is not installed.
    """
    import fsspec
    from fsspec.registry import known_implementations

    protocol = url.partition("://")[0]
    if "::" in url.partition("?")[0] and protocol in known_implementations:
        raise ServebookError(
            f"{shown(url)}: expected a URL without '::', which joins file systems for fsspec; name "
            "an IPv6 host by its name, and copy dumps whose path has it into a folder"
        )
    if protocol not in known_implementations:
        raise ServebookError(
            f"{shown(url)}: expected a URL of s3, gs, http, https, file or another protocol of "
            f"fsspec, found {protocol}; copy the dumps to one of these, or into a folder"
        )
    kind = protocol
    try:
        urlsplit(url)
        # No listing is kept: a mirror asks once, and wants what is there now.
        system, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError:
        package = _PACKAGES.get(kind, "its package")
        raise ServebookError(
            f"{shown(url)}: {kind}:// needs the package {package}, which is not installed here; "
            f"install it with: pip install {package}"
        ) from None
    except Exception as error:
        raise ServebookError(
            f"{shown(url)}: expected a URL that can be opened, found one that cannot "
            f"({type(error).__name__}); check its spelling and your access"
        ) from None
    return system, str(path)
