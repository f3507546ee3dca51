"""The tables that several notebooks show, measured once before kernels are forked."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType

from servebook.explain.ledger_rows import PUBLISHED
from servebook.publish import chapters
from servebook.publish.chapters import ledger
from servebook.publish.chapters.common import by_condition
from servebook.publish.chapters.fabric_base import measured
from servebook.read.campaign import Campaign

__all__ = ["of_counters", "warm", "warm_counters"]


def warm(campaign: Campaign) -> None:
    """Fill the memos of what nearly all notebooks show.

    What cannot be measured fails again in the notebook that shows it, with its cell named.
    """
    with contextlib.suppress(Exception):
        by_condition(campaign)


def warm_counters(campaign: Campaign) -> None:
    """As ``warm``, with what the counters of the campaign tell."""
    with contextlib.suppress(Exception):
        measured(campaign)


def of_counters(campaign: Campaign) -> list[str]:
    """The modules of chapters, of those imported, that may ask for what counters tell, sorted.

    The ledger does for printed figures of links, where the campaign has printed figures.
    """
    folder = f"{chapters.__name__}."
    uses = {
        name.removeprefix(folder): _used(module, folder)
        for name, module in sys.modules.items()
        if name.startswith(folder)
    }
    found = {measured.__module__.removeprefix(folder)}
    if (campaign.root / PUBLISHED).is_file():
        found.add(ledger.__name__.removeprefix(folder))
    while more := {name for name, used in uses.items() if used & found} - found:
        found |= more
    return sorted(found)


def _used(module: ModuleType, folder: str) -> set[str]:
    """The chapters' modules that something in a module's namespace is from."""
    found = set()
    for value in vars(module).values():
        name = (
            value.__name__
            if isinstance(value, ModuleType)
            else str(getattr(value, "__module__", ""))
        )
        if name.startswith(folder):
            found.add(name.removeprefix(folder))
    return found
