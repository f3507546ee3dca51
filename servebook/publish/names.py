"""What notebooks, driver and page agree on: MIME types, what a table is, the sign of absence.

Imports nothing, because the driver needs these names, but neither pandas nor Altair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["ABSENT", "KINDS", "PARQUET_MIME", "SPEC_MIME", "UNITS", "Kind", "Table"]

Kind = Literal["number", "integer", "boolean", "time", "text"]
Table = dict[str, Any]
#: The columns whose cells are units.
UNITS = ("Unit", "unit")

ABSENT = "–"
SPEC_MIME = "application/vnd.vegalite.v6+json"
PARQUET_MIME = "application/vnd.apache.parquet"
KINDS: Mapping[str, str] = {
    "figure": "application/vnd.servebook.figure+json",
    "statement": "application/vnd.servebook.statement+json",
    "section": "application/vnd.servebook.section+json",
}
