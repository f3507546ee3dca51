"""Which settings of two configurations differ, and whether a ratio of them has one cause.

The marks are those of a comparison: ``SINGLE VARIABLE`` (one setting differs), ``n SETTINGS``
(several do, so a ratio cannot be put down to one), ``UNKNOWN`` (a setting is stated for one side
only, or nothing is stated that differs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from servebook.read.manifest import Configuration

__all__ = ["SETTINGS", "Comparison", "compare", "layout"]


def layout(c: Configuration) -> str | None:
    """The parallel layout as one word: "TP8/DP1"; None where none of it is stated."""
    parts = [("TP", c.tp), ("DP", c.dp), ("EP", c.ep), ("PP", c.pp)]
    return "/".join(f"{name}{size}" for name, size in parts if size is not None) or None


def _number(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:,g} {unit}".strip()


def _switch(value: bool | None) -> str | None:
    return None if value is None else ("on" if value else "off")


#: setting: its text for a configuration, None where the manifest does not state it.
SETTINGS: Mapping[str, Callable[[Configuration], str | None]] = {
    "engine": lambda c: c.engine,
    "engine version": lambda c: c.engine_version,
    "precision": lambda c: c.precision,
    "nodes": lambda c: _number(c.nodes, ""),
    "GPUs": lambda c: _number(c.gpus, ""),
    "GPU type": lambda c: c.gpu,
    "memory per GPU": lambda c: _number(c.hbm_gb, "GB"),
    "layout": layout,
    "slots per replica": lambda c: _number(c.max_num_seqs, ""),
    "tokens per step": lambda c: _number(c.max_num_batched_tokens, ""),
    "prefix caching": lambda c: _switch(c.prefix_caching),
    "chunked prefill": lambda c: _switch(c.chunked_prefill),
}


@dataclass(frozen=True)
class Comparison:
    """What two configurations have in common and what not, as names of ``SETTINGS``."""

    differ: tuple[str, ...]
    one_sided: tuple[str, ...]  # stated for one of the two only
    unstated: tuple[str, ...]  # stated for neither

    @property
    def mark(self) -> str:
        """SINGLE VARIABLE, n SETTINGS or UNKNOWN."""
        if len(self.differ) > 1:
            return f"{len(self.differ)} SETTINGS"
        if len(self.differ) == 1 and not self.one_sided:
            return "SINGLE VARIABLE"
        return "UNKNOWN"

    @property
    def words(self) -> str:
        """The mark as a sentence; a ratio of several causes is said to be one."""
        if self.differ:
            text = f"{self.mark}: they differ in {', '.join(self.differ)}"
            if len(self.differ) > 1:
                text += "; the ratio is theirs together"
        else:
            text = f"{self.mark}: no stated setting differs"
        if self.one_sided:
            text += f"; stated for one side only: {', '.join(self.one_sided)}"
        return text + "."


def compare(a: Configuration, b: Configuration) -> Comparison:
    """Compares two configurations setting by setting."""
    differ, one_sided, unstated = [], [], []
    for name, read in SETTINGS.items():
        left, right = read(a), read(b)
        if left is None and right is None:
            unstated.append(name)
        elif left is None or right is None:
            one_sided.append(name)
        elif left != right:
            differ.append(name)
    return Comparison(tuple(differ), tuple(one_sided), tuple(unstated))
