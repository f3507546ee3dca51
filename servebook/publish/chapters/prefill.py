"""Chapter 03: who prefills faster, by how much, until when, and what the last request waits."""

from __future__ import annotations

from servebook.publish.chapters import sweep
from servebook.publish.chapters.evidence import Sweep
from servebook.publish.chapters.saturation import gains
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["saturation", "throughput", "ttft", "verdict"]

_PREFILL = Sweep("prefill", "input_throughput_tok_s", "input tokens/s")


def throughput(campaign: Campaign) -> Figure:
    """Input tokens per second over concurrency."""
    return sweep.throughput(campaign, _PREFILL)


def ttft(campaign: Campaign) -> Figure:
    """Time to first token over concurrency."""
    return sweep.latency(campaign, _PREFILL, "ttft", "p50", "TTFT")


def saturation(campaign: Campaign) -> Figure:
    """What each step in concurrency gained."""
    return gains(campaign, _PREFILL)


def verdict(campaign: Campaign) -> Statement:
    """The chapter's sentence for the top of the page."""
    return sweep.verdict(campaign, _PREFILL, rank=20)
