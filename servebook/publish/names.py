"""What notebooks, the driver and the page agree on: MIME types, and the sign for what is absent.

Imports nothing, because the driver needs these names, but neither pandas nor Altair.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ABSENT", "KINDS", "PARQUET_MIME", "SPEC_MIME"]

ABSENT = "–"
SPEC_MIME = "application/vnd.vegalite.v6+json"
PARQUET_MIME = "application/vnd.apache.parquet"
KINDS: Mapping[str, str] = {
    "figure": "application/vnd.servebook.figure+json",
    "statement": "application/vnd.servebook.statement+json",
    "section": "application/vnd.servebook.section+json",
}
