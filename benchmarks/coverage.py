"""How often the intervals of ratios cover the truth: integrated exactly, and simulated.

Prints one row per pair of arm sizes: the least and the largest coverage over true scatters that
differ up to a hundredfold, for Welch's interval as published and for ours, and what 20,000
simulated campaigns say at both of our extremes. Run ``python benchmarks/coverage.py``; it takes
some three minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from servebook.measure.coverage import coverage, simulated
from servebook.measure.ratio import CONFIDENCE, degrees

Floats = npt.NDArray[np.float64]
Degrees = Callable[[Floats, int, int], Floats]

SIZES = (
    (2, 2),
    (2, 3),
    (2, 10),
    (3, 3),
    (3, 4),
    (3, 5),
    (3, 10),
    (3, 30),
    (5, 5),
    (5, 10),
    (10, 10),
)
#: True standard deviation of the first arm over that of the second.
SCATTERS = np.geomspace(0.01, 100, 41)


def satterthwaite(share: Floats, n_first: int, n_second: int) -> Floats:
    """Degrees of freedom as B. L. Welch and F. E. Satterthwaite give them."""
    return np.asarray(1 / (share**2 / (n_first - 1) + (1 - share) ** 2 / (n_second - 1)))


def exact(df: Degrees, n_first: int, n_second: int, scatter: float, points: int = 300) -> float:
    """Coverage over normal logarithms, integrated over both arms' sample variances.

    Given the sample variances the difference of means is normal, so that only the two chi-square
    distributions are left to integrate (Gauss-Legendre in smoothed quantiles).
    """
    x, w = np.polynomial.legendre.leggauss(points)
    u = (x + 1) / 2
    quantile, weight = u**3 * (10 - 15 * u + 6 * u**2), w / 2 * 30 * u**2 * (1 - u) ** 2
    true = scatter**2 / n_first / (scatter**2 / n_first + 1 / n_second)
    first = true * stats.chi2.ppf(quantile, n_first - 1) / (n_first - 1)
    second = (1 - true) * stats.chi2.ppf(quantile, n_second - 1) / (n_second - 1)
    total = first[:, None] + second[None, :]
    limit = stats.t.ppf((1 + CONFIDENCE) / 2, df(first[:, None] / total, n_first, n_second))
    inside = 2 * stats.norm.cdf(limit * np.sqrt(total)) - 1
    return float(weight @ inside @ weight)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=20_000)
    campaigns = parser.parse_args().campaigns
    write = sys.stdout.write
    write(f"{'runs':>8} {'Welch, exact':>16} {'ours, exact':>16} {'ours, simulated':>16}\n")
    for n, m in SIZES:
        scatters = SCATTERS if n != m else SCATTERS[SCATTERS >= 1]
        welch = [exact(satterthwaite, n, m, s) for s in scatters]
        ours = [exact(degrees, n, m, s) for s in scatters]
        seen = []
        for at in (int(np.argmin(ours)), int(np.argmax(ours))):
            arms = simulated(
                n, m, campaigns=campaigns, seed=at, truth=1.3,
                scatter_first=0.05 * scatters[at], scatter_second=0.05,
            )  # fmt: skip
            seen.append(coverage(*arms, 1.3))
        cells = [f"{100 * min(v):.1f} to {100 * max(v):.1f} %" for v in (welch, ours, seen)]
        write(f"{f'{n} and {m}':>8} {cells[0]:>16} {cells[1]:>16} {cells[2]:>16}\n")


if __name__ == "__main__":
    main()
