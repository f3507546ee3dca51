"""Link use of decode as a floor plus a slope, and what the wire should carry: models.

Use = floor + slope x tokens/s. Per token that is slope + floor / (tokens/s): the first part is
paid by each token, the second is shared by all tokens of a second. Whether the floor is paid per
engine step or by time cannot be told where steps/s hardly varies: the fit is the same for both.
Least squares; with two points the line goes through both and its residuals mean nothing.

``predicted_bytes`` is the published formula of a mixture of experts: each token goes to k experts
in each layer and comes back, as a vector. It counts payload only, all of it, wherever it goes:
what leaves a node is the share (M - 1) / M of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Line", "fit_line", "predicted_bytes"]


@dataclass(frozen=True)
class Line:
    """``use = floor + slope * rate``; ``residuals`` are relative (measured / line - 1)."""

    floor: float
    slope: float
    residuals: tuple[float, ...]

    def parts(self, rate: float) -> tuple[float, float]:
        """Use per token: (paid by each token, shared floor)."""
        return self.slope, self.floor / rate


def fit_line(rates: Sequence[float], use: Sequence[float]) -> Line:
    """Least squares through points at different rates; raises ValueError below two of them."""
    if len(set(rates)) < 2:
        raise ValueError("expected at least two different rates")
    x, y = np.asarray(rates, dtype=float), np.asarray(use, dtype=float)
    slope, floor = (float(v) for v in np.polyfit(x, y, 1))
    return Line(floor, slope, tuple(float(v) for v in y / (floor + slope * x) - 1))


def predicted_bytes(
    layers: float, experts_per_token: float, vector_values: float, bytes_per_value: float
) -> float:
    """Payload of one token to its experts and back, over all layers."""
    return layers * experts_per_token * vector_values * bytes_per_value * 2
