"""The tables that several notebooks show, measured once before kernels are forked."""

from __future__ import annotations

import contextlib

from servebook.publish.chapters.common import by_condition
from servebook.publish.chapters.fabric_base import measured
from servebook.read.campaign import Campaign

__all__ = ["warm"]


def warm(campaign: Campaign) -> None:
    """Fill the memos of the campaign.

    What cannot be measured fails again in the notebook that shows it, with its cell named.
    """
    for table in (by_condition, measured):
        with contextlib.suppress(Exception):
            table(campaign)
