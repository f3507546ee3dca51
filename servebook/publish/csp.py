"""The page's content security policy: nothing loads, and only scripts of ours run, by hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

__all__ = ["policy", "script_hash"]


def script_hash(script: str) -> str:
    """The hash source of an inline script, quoted as the policy wants it."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def policy(scripts: Iterable[str]) -> str:
    """The policy that lets exactly these inline scripts run.

    Styles are free, because Vega and its tooltip set style attributes and a style element;
    without any source allowed, a style cannot load anything.
    """
    hashes = " ".join(script_hash(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )
