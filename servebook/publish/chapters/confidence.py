"""Chapter 09: how sure are these numbers? What each cell of the notebook calls."""

from __future__ import annotations

from servebook.publish.chapters.confidence_cost import cost_lines
from servebook.publish.chapters.confidence_floors import glossary, tails
from servebook.publish.chapters.confidence_ratios import comparable, ratios
from servebook.publish.chapters.confidence_repeats import method, repeats, verdict
from servebook.publish.chapters.confidence_runs import load_honesty, within
from servebook.publish.chapters.confidence_steady import steady_effect, steady_window
from servebook.publish.chapters.confidence_sweeps import matched, saturation_agreement

__all__ = [
    "comparable",
    "cost_lines",
    "glossary",
    "load_honesty",
    "matched",
    "method",
    "ratios",
    "repeats",
    "saturation_agreement",
    "steady_effect",
    "steady_window",
    "tails",
    "verdict",
    "within",
]
