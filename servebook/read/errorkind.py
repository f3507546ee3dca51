"""One word for what went wrong with a request, from what a client wrote about it.

The texts that clients keep hold host names, addresses and tracebacks; only the word goes on.
"""

from __future__ import annotations

import re
from http import HTTPStatus

__all__ = ["error_kind"]

_PATTERNS = (
    ("cancelled", r"RequestCancellation|CancelledError|was cancelled"),
    ("timeout", r"time[d ]?\s*out|Timeout"),
    ("stream_broken", r"ClientPayloadError|TransferEncoding|ContentLengthError|IncompleteRead"),
    ("stream_broken", r"not completed|ChunkedEncoding|RemoteProtocolError|peer closed"),
    ("stream_broken", r"ServerDisconnected|ConnectionReset|Connection reset|ClientOSError"),
    ("connection", r"ClientConnector|Cannot connect|Connection ?refused|ConnectError|gaierror"),
    ("stream_error", r"SSE|InvalidInferenceResult|NoContent|valid chunk|no content"),
)
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)
_CODE = re.compile(r"\b(?:status|code|HTTP)\W{0,4}([45]\d\d)\b", re.IGNORECASE)
_PHRASES = {status.phrase.lower(): int(status) for status in HTTPStatus if status >= 400}


def error_kind(code: int | None, text: str) -> str:
    """http_<code>, cancelled, timeout, stream_broken, connection, stream_error or other.

    ``code`` is an HTTP status that the client recorded as such; 499 is its own cancellation.
    A text that is nothing but an HTTP reason phrase names its status.
    """
    if code == 499:
        return "cancelled"
    if re.search(r"SSE\w*Error", text):
        return "stream_error"
    if code is not None and 400 <= code < 600:
        return f"http_{code}"
    phrase = _PHRASES.get(text.strip().lower())
    if phrase is not None:
        return f"http_{phrase}"
    for kind, pattern in _COMPILED:
        if pattern.search(text):
            return kind
    stated = _CODE.search(text)
    return f"http_{stated[1]}" if stated else "other"
