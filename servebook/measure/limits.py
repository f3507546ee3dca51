"""The numbers that definitions state: each is used in one module and named in the glossary.

Apart from those modules, so that the definitions can be read without numpy and pandas.
"""

from __future__ import annotations

__all__ = [
    "BUNCHED_SHARE",
    "CONFIDENCE",
    "HELD",
    "LATE_SHARE",
    "LEAST_BLOCKS",
    "LEAST_FOR_INTERVAL",
    "LEAST_WAVES",
    "MARGIN",
    "PLATEAU_SHARE",
    "POWER",
    "SHIFT",
]

#: Blocks of consecutive requests that an interval within a run takes at least.
LEAST_BLOCKS = 20
#: More gaps of length 0 than this, and the client read chunks in bunches.
BUNCHED_SHARE = 0.01
#: Of the interval of a ratio.
CONFIDENCE = 0.95
#: Below this share of the set concurrency in the mean, the load was not what it is called.
HELD = 0.9
#: A client whose mean send delay exceeds this share of the mean TTFT distorts what it measures.
LATE_SHARE = 0.10
#: Conditions that a line of costs takes to have an interval.
LEAST_FOR_INTERVAL = 4
#: Waves of a run; a wave is as many requests as the client keeps in flight.
LEAST_WAVES = 3.0
#: Ratios within this of 1 count as no effect.
MARGIN = 0.05
#: The share of the highest rate from which on a curve is at its plateau.
PLATEAU_SHARE = 0.95
#: How often a detectable difference is found.
POWER = 0.80
#: The change between windows from which on a run was not steady.
SHIFT = 0.2
