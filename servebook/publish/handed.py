"""A campaign handed from the process that read it to the one that holds it.

While the zygote imports what draws and runs notebooks, another process reads the first campaign of
a build. Reading it once more, from the cache, would keep the other core waiting; a file in the
build's own folder, which nobody else can write to, costs a tenth of that. What cannot be handed
over is read from the cache as ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

from servebook.gap_table import GapTable, InFile
from servebook.read.campaign import Campaign

__all__ = ["MOST_BYTES", "hand", "take"]

MOST_BYTES = 256_000_000  # more would fill memory and disk twice for half a second


class _Bounded(io.FileIO):
    left = MOST_BYTES

    def write(self, content: Any, /) -> int:
        self.left -= memoryview(content).nbytes
        if self.left < 0:
            raise OSError("more than is handed over")
        return super().write(content)


def _place(folder: Path, root: Path) -> Path:
    return folder / f"handed-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]}"


def hand(campaign: Campaign, folder: Path) -> bool:
    """Leave the campaign in ``folder``, whole or not at all; whether it was.

    Not where it is larger than ``MOST_BYTES``, or rests on files that go with this process.
    """
    gaps = campaign.tables.gaps
    if isinstance(gaps, GapTable) and any(
        isinstance(part.data, InFile) and part.data.holder is not None for part in gaps.parts
    ):
        return False
    path = _place(folder, campaign.root)
    part = path.with_suffix(".part")
    try:
        with _Bounded(part, "wb") as file:
            pickle.dump(campaign, file, protocol=5)
        part.replace(path)
    except Exception:  # whatever it is, the campaign can be read
        with contextlib.suppress(OSError):
            part.unlink()
        return False
    return True


def take(root: Path, folder: Path) -> Campaign | None:
    """The campaign of the folder ``root`` that was left in ``folder``, once."""
    path = _place(folder, root)
    try:
        with path.open("rb") as file:
            campaign = pickle.load(file)
        path.unlink()
    except Exception:  # none was, or not whole
        return None
    return campaign if isinstance(campaign, Campaign) else None
