"""Time series as collectors store them: labels as text, and how exact their times are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from servebook.read.files import loads

__all__ = ["device_of", "interface_of", "label_map", "series_text", "shared_step"]

_HEAD = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)?\s*(?:\{(?P<labels>.*)\})?", re.DOTALL | re.ASCII)
_BARE = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*([^",{}]*)\s*(?:,|$)', re.ASCII)
_INTERFACES = ("ifName", "ifDescr", "device", "interface", "interface_name", "ifname", "name")
_DEVICES = ("instance", "host", "hostname", "source", "agent_host", "node", "job")


def series_text(text: str) -> tuple[str | None, dict[str, str]]:
    """The name and labels of a series as Prometheus prints it.

    Labels without quotation marks, as some collectors write them, are read where they are all so.
    Raises ValueError for anything else.
    """
    match = _HEAD.fullmatch(text.strip())
    if match is None or (match["name"] is None and match["labels"] is None):
        raise ValueError("no series")
    body = (match["labels"] or "").strip()
    if body and '"' not in body:
        pairs = _BARE.findall(body)
        if _BARE.sub("", body).strip():
            raise ValueError("no series")
        return match["name"], {key: value.strip() for key, value in pairs}
    try:
        [family] = text_string_to_metric_families(f"x{{{body}}} 0\n" if body else "x 0\n")
        [sample] = family.samples
    except (ValueError, IndexError, KeyError):
        raise ValueError("no series") from None
    return match["name"], dict(sample.labels)


def label_map(value: Any) -> dict[str, str]:
    """Labels as a column of a table holds them: a map, pairs, JSON or Prometheus' own text.

    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{") and text[1:].lstrip().startswith(('"', "}")) and ":" in text:
            value = loads(text)
        else:
            return series_text(text if text.startswith("{") else f"{{{text}}}")[1]
    if value is None:
        return {}
    if isinstance(value, list):
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in value):
            raise ValueError("no labels")
        value = dict(value)
    if not isinstance(value, dict):
        raise ValueError("no labels")
    return {str(key): str(text) for key, text in value.items() if text is not None}


def interface_of(labels: Mapping[str, str], name: str | None = None) -> str | None:
    """The interface that the labels name; a RoCE or InfiniBand port as ``mlx5_0/1``."""
    interface = next((labels[key] for key in _INTERFACES if labels.get(key)), None)
    if interface and labels.get("port") and (name or "").startswith(("node_infiniband", "infini")):
        return f"{interface}/{labels['port']}"
    return interface


def device_of(labels: Mapping[str, str]) -> str | None:
    """The host or switch that the labels name, as they name it: ``Rows.alias`` hides addresses."""
    return next((labels[key] for key in _DEVICES if labels.get(key)), None)


def shared_step(times: Iterable[int]) -> int:
    """The largest power of ten of ns, up to a second, that divides all times.

    Collectors round; a column in ns says more digits than were known.
    """
    step = 10**9
    for ns in times:
        while ns % step:
            step //= 10
    return step
