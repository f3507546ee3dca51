"""What configurations differ in, as factors; settings that always change together are one.

A factor is a cause that can be changed by itself: precision, nodes (with their GPUs), engine,
slots, chunked prefill, ..., layout. The layout is tensor and pipeline parallelism; DP and EP are
part of it only where they do not follow from the GPUs (DP = GPUs / (TP x PP), EP = GPUs), so that
TP8 on one node and TP8 on two are the same layout. Factors whose values split the configurations
in the same way are *bundled*: what they do cannot be told apart by these configurations, and the
cells that would tell it apart are those of their cross that nobody ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from servebook.measure.settings import layout
from servebook.read.manifest import Configuration

__all__ = ["FACTORS", "Bundle", "Cell", "bundles", "cells", "differing", "level"]


def _gpus(c: Configuration) -> int | None:
    if c.gpus is None and c.nodes is not None and c.gpus_per_node is not None:
        return c.nodes * c.gpus_per_node
    return c.gpus


def _nodes(c: Configuration) -> str | None:
    gpus = _gpus(c)
    parts = []
    if c.nodes is not None:
        parts.append(f"{c.nodes} node{'' if c.nodes == 1 else 's'}")
    if gpus is not None:
        parts.append(f"{gpus} GPU{'' if gpus == 1 else 's'}")
    return ", ".join(parts) or None


def _layout(c: Configuration) -> str | None:
    gpus = _gpus(c)
    if c.tp is None or gpus is None:
        return layout(c)
    name = f"TP{c.tp}" + (f"/PP{c.pp}" if (c.pp or 1) > 1 else "")
    replicas = gpus / (c.tp * (c.pp or 1))
    name += f"/DP{c.dp}" if c.dp is not None and c.dp != replicas else ""
    return name + (f"/EP{c.ep}" if c.ep is not None and c.ep != gpus else "")


def _number(value: float | None, words: str) -> str | None:
    return None if value is None else words.format(n=value)


def _switch(value: bool | None, on: str, off: str) -> str | None:
    return None if value is None else on if value else off


def _joined(*parts: str | None) -> str | None:
    return " ".join(p for p in parts if p) or None


#: factor: its level for a configuration, None where the manifest does not state it.
FACTORS: Mapping[str, Callable[[Configuration], str | None]] = {
    "precision": lambda c: (
        c.precision or _number(c.bytes_per_parameter, "{n:,g} bytes a parameter")
    ),
    "nodes": _nodes,
    "GPU type": lambda c: _joined(c.gpu, _number(c.hbm_gb, "{n:,g} GB")),
    "engine": lambda c: _joined(c.engine, c.engine_version),
    "slots per replica": lambda c: _number(c.max_num_seqs, "{n:,g} slots"),
    "tokens per step": lambda c: _number(c.max_num_batched_tokens, "{n:,g} tokens a step"),
    "prefix caching": lambda c: _switch(c.prefix_caching, "prefix cache on", "prefix cache off"),
    "chunked prefill": lambda c: _switch(
        c.chunked_prefill, "chunked prefill on", "chunked prefill off"
    ),
    "layout": _layout,
}


def level(configuration: Configuration, factor: str) -> str:
    """The configuration's level of a factor in words; "not stated" where there is none."""
    return FACTORS[factor](configuration) or "not stated"


def differing(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    """The factors in which at least two of the configurations differ."""
    return tuple(name for name in FACTORS if len({level(c, name) for c in configurations}) > 1)


@dataclass(frozen=True)
class Bundle:
    """Factors that change together; ``levels`` in order of first appearance."""

    factors: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]

    def of(self, configuration: Configuration) -> tuple[str, ...]:
        """The bundle's level of a configuration."""
        return tuple(level(configuration, name) for name in self.factors)


def bundles(configurations: Sequence[Configuration]) -> tuple[Bundle, ...]:
    """The factors that differ, those that split the configurations alike taken together."""
    found: dict[tuple[int, ...], list[str]] = {}
    for name in differing(configurations):
        values = [level(c, name) for c in configurations]
        found.setdefault(tuple(values.index(v) for v in values), []).append(name)
    out = []
    for names in found.values():
        levels = dict.fromkeys(tuple(level(c, n) for n in names) for c in configurations)
        out.append(Bundle(tuple(names), tuple(levels)))
    return tuple(out)


@dataclass(frozen=True)
class Cell:
    """One combination of all factors' levels; without configurations, nobody ran it."""

    levels: Mapping[str, str]
    configurations: tuple[str, ...]


def cells(configurations: Sequence[Configuration]) -> tuple[Cell, ...]:
    """The full cross of the factors that differ, in order of the levels' first appearance."""
    names = differing(configurations)
    levels = [tuple(dict.fromkeys(level(c, n) for c in configurations)) for n in names]
    out = []
    for combination in product(*levels):
        here = dict(zip(names, combination, strict=True))
        ran = tuple(c.name for c in configurations if all(level(c, n) == here[n] for n in names))
        out.append(Cell(here, ran))
    return tuple(out)
