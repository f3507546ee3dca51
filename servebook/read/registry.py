"""The formats that Servebook reads, in order of priority: one line each."""

from __future__ import annotations

from servebook.read import (
    aiperf,
    csvmap,
    eos,
    eos_text,
    genai_bench,
    genai_perf,
    gnmic,
    grafana,
    guidellm,
    inference_perf,
    inferencex,
    iproute,
    llmd_report,
    llmperf,
    node_text,
    nvue,
    parquet_series,
    procnetdev,
    prometheus_api,
    sglang,
    snmpwalk,
    sonic,
    sonic_db,
    telegraf,
    vllm,
)
from servebook.read.source import Format

__all__ = ["FORMATS"]

FORMATS: tuple[Format, ...] = (
    aiperf.FORMAT,
    vllm.FORMAT,
    inferencex.FORMAT,
    sglang.FORMAT,
    guidellm.FORMAT,
    inference_perf.FORMAT,
    genai_bench.FORMAT,
    genai_perf.FORMAT,
    llmperf.FORMAT,
    llmd_report.FORMAT,
    prometheus_api.FORMAT,
    gnmic.FORMAT,
    node_text.FORMAT,
    iproute.FORMAT,
    procnetdev.FORMAT,
    snmpwalk.FORMAT,
    sonic_db.FORMAT,
    eos.FORMAT,
    eos_text.FORMAT,
    sonic.FORMAT,
    nvue.FORMAT,
    telegraf.FORMAT,
    grafana.FORMAT,
    parquet_series.FORMAT,
    csvmap.FORMAT,
)
