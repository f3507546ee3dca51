"""How the traffic between nodes grows with their number: a model, not a measurement.

A token is sent to a fixed number of experts and back, so that the bytes to move do not depend on
the number of nodes; only the share of them that leaves a node does. It is (M - 1) / M for M nodes
if

- experts are spread evenly over the nodes and tokens ask for them evenly,
- each node goes on to process as many tokens as it did at the measured size,
- the fabric between the nodes does not block.

What it cannot show comes first in practice: messages that get smaller when one batch is split over
more GPUs, many senders that meet at one port, popular experts, oversubscribed spines, and the wait
of every step for the slowest link. Utilisations are fractions of one link's speed, averages over
time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

__all__ = ["NODES", "ceiling", "growth", "projection", "share_leaving"]

NODES = (1, 2, 4, 8, 16, math.inf)


def share_leaving(nodes: float) -> float:
    """Share of the traffic to experts that leaves its node: (M - 1) / M; ``math.inf`` gives 1.

    Raises ValueError below one node.
    """
    if not nodes >= 1:
        raise ValueError(f"expected at least one node, found {nodes}")
    return 1 - 1 / nodes


def growth(nodes: float, measured_nodes: float = 2) -> float:
    """Traffic that a node sends out, relative to that at ``measured_nodes`` (at least 2)."""
    base = share_leaving(measured_nodes)
    if not base:
        raise ValueError("expected a measurement on at least two nodes: one sends nothing out")
    return share_leaving(nodes) / base


def ceiling(utilisation: float, measured_nodes: float = 2) -> float:
    """The utilisation that no number of nodes exceeds, by this model."""
    return utilisation * growth(math.inf, measured_nodes)


def projection(
    utilisation: float, measured_nodes: float = 2, nodes: Sequence[float] = NODES
) -> pd.DataFrame:
    """One row per number of nodes: nodes, share_leaving, growth, util_fraction.

    ``utilisation`` is what was measured at ``measured_nodes``, as a fraction.
    """
    return pd.DataFrame(
        {
            "nodes": list(nodes),
            "share_leaving": [share_leaving(n) for n in nodes],
            "growth": [growth(n, measured_nodes) for n in nodes],
            "util_fraction": [utilisation * growth(n, measured_nodes) for n in nodes],
        }
    )
