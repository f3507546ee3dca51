"""The fabric chapter: what the wire carried while the engines served.

One name per cell of ``notebooks/06-fabric.ipynb``; the figures live in modules of their own.
"""

from __future__ import annotations

from servebook.publish.chapters.fabric_levels import link_use, peak
from servebook.publish.chapters.fabric_ports import each_port, nodes
from servebook.publish.chapters.fabric_sources import agree, hidden, unwatched, watched
from servebook.publish.chapters.fabric_time import over_time
from servebook.publish.chapters.fabric_tokens import bytes_per_token, cost, in_and_out

__all__ = [
    "agree",
    "bytes_per_token",
    "cost",
    "each_port",
    "hidden",
    "in_and_out",
    "link_use",
    "nodes",
    "over_time",
    "peak",
    "unwatched",
    "watched",
]
