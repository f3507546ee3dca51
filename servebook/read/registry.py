"""The formats that Servebook reads, in order of priority: one line each."""

from __future__ import annotations

from servebook.read import (
    aiperf,
    csvmap,
    gnmic,
    grafana,
    inference_perf,
    iproute,
    node_text,
    procnetdev,
    prometheus_api,
    sglang,
    snmpwalk,
    telegraf,
    vllm,
)
from servebook.read.source import Format

__all__ = ["FORMATS"]

FORMATS: tuple[Format, ...] = (
    aiperf.FORMAT,
    vllm.FORMAT,
    sglang.FORMAT,
    inference_perf.FORMAT,
    prometheus_api.FORMAT,
    gnmic.FORMAT,
    node_text.FORMAT,
    iproute.FORMAT,
    procnetdev.FORMAT,
    snmpwalk.FORMAT,
    telegraf.FORMAT,
    grafana.FORMAT,
    csvmap.FORMAT,
)
