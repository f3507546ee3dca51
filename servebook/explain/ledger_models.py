"""Printed model and input rows: from the manifest, and from the models of ``servebook.explain``.

Inputs are what the manifest states; where several configurations or ports must agree, a figure
that they disagree on is not computable. Models take measured values through the normal path: a
prefill's time rests on the computed ceiling, the scale-out table on the usual prefill utilisation,
rounded as the input row is printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from servebook.explain import scaleout
from servebook.explain.ledger_evidence import Evidence, Found, NotComputableError
from servebook.explain.ledger_figures import Figure, ceiling
from servebook.explain.ledger_links import LINK_FIGURES, usual
from servebook.explain.ledger_rows import Printed
from servebook.explain.memory import Fit, crossed, fit
from servebook.read.manifest import Configuration, Port

__all__ = ["MODEL_FIGURES"]

_NODES = re.compile(r"(\d+|inf) nodes")
_SECONDS_PER_MS = 1e-3


def _stated(values: Iterable[Any], what: str) -> Found:
    """The one value that all state."""
    known = list(values)
    if not known or any(value is None for value in known):
        raise NotComputableError(f"the manifest does not state {what} everywhere")
    if len(set(known)) > 1:
        raise NotComputableError(f"the manifest states several values of {what}")
    return Found(float(known[0]), how="manifest")


def _all(what: str, of: Callable[[Configuration], Any]) -> Figure:
    """A setting on which the row's configuration, precision or all configurations agree."""

    def figure(row: Printed, evidence: Evidence) -> Found:
        return _stated([of(c) for c in _named(row, evidence)], what)

    return figure


def _named(row: Printed, evidence: Evidence) -> Sequence[Configuration]:
    """Configurations that the row names by name or by precision; all where it names none."""
    every = evidence.campaign.manifest.configurations
    if not row.configuration:
        return every
    wanted = row.configuration.casefold()
    found = [c for c in every if c.name == row.configuration]
    found = found or [c for c in every if (c.precision or "").casefold() == wanted]
    if not found:
        raise NotComputableError(f"the manifest has no configuration {row.configuration}")
    return found


def _model(what: str, name: str) -> Figure:
    def figure(_row: Printed, evidence: Evidence) -> Found:
        return _stated([getattr(evidence.campaign.manifest.model, name)], what)

    return figure


def _uplinks(evidence: Evidence) -> list[Port]:
    return [port for port in evidence.campaign.manifest.ports if port.role == "uplink"]


def _capacity(_row: Printed, evidence: Evidence) -> Found:
    return _stated([port.speed_gbps for port in _uplinks(evidence)], "the speed of uplinks")


def _uplinks_per_server(_row: Printed, evidence: Evidence) -> Found:
    nodes = [port.node for port in _uplinks(evidence)]
    if None in nodes:
        raise NotComputableError("the manifest does not say which server each uplink belongs to")
    return _stated([nodes.count(node) for node in sorted(set(nodes), key=str)], "uplinks a server")


def _hops(_row: Printed, evidence: Evidence) -> Found:
    """1 where each rail's uplinks of all servers end on one switch; longer paths are not stated."""
    ports = _uplinks(evidence)
    if len({port.node for port in ports}) < 2 or any(p.node is None for p in ports):
        raise NotComputableError("the manifest's uplinks do not tell two servers")
    rails: dict[int | None, set[str]] = {}
    for port in ports:
        rails.setdefault(port.rail, set()).add(port.device)
    if any(len(devices) > 1 for devices in rails.values()):
        raise NotComputableError("a rail's uplinks end on several switches: the path is not stated")
    return Found(1.0, how="each rail's uplinks of all servers end on one switch")


def _alone(row: Printed, evidence: Evidence) -> list[Fit]:
    parameters = evidence.campaign.manifest.model.parameters
    return [fit(c, parameters) for c in _named(row, evidence)]


def _one_node(row: Printed, evidence: Evidence) -> Fit:
    """The row's precision on one node, whether or not it was run."""
    manifest = evidence.campaign.manifest
    wanted = row.configuration.casefold()
    for cell in crossed(manifest.configurations, manifest.model.parameters):
        if cell.nodes == 1 and (not wanted or (cell.precision or "").casefold() == wanted):
            return cell
    raise NotComputableError(f"the manifest states no one-node GPUs for {row.configuration}")


def _of_cells(what: str, of: Callable[[Fit], Any], *, one_node: bool = False) -> Figure:
    def figure(row: Printed, evidence: Evidence) -> Found:
        cells = [_one_node(row, evidence)] if one_node else _alone(row, evidence)
        found = _stated([of(cell) for cell in cells], what)
        return Found(found.value, how="model: parameters x bytes per parameter, manifest")

    return figure


def _left_per_gpu(cell: Fit) -> float | None:
    if cell.kv_room_gb is None or not cell.gpus:
        return None
    return cell.kv_room_gb / cell.gpus


def _waiting(row: Printed, evidence: Evidence) -> Found:
    """Share of the requests in flight beyond the slots of all replicas."""
    slots = _stated([_slots(c) for c in _named(row, evidence)], "slots").value
    if not row.concurrency:
        raise NotComputableError("the figure names no concurrency")
    return Found(max(0.0, 1 - slots / row.concurrency) * 100, how="model: slots, manifest")


def _slots(configuration: Configuration) -> int | None:
    if configuration.max_num_seqs is None:
        return None
    return configuration.max_num_seqs * (configuration.dp or 1)


def _tokens_per_gpu(row: Printed, evidence: Evidence) -> Found:
    gpus = _stated([c.gpus for c in _named(row, evidence)], "GPUs").value
    if not row.concurrency:
        raise NotComputableError("the figure names no concurrency")
    return Found(row.concurrency / gpus, how="model: one token a request and step, manifest")


def _prefill_time(row: Printed, evidence: Evidence) -> Found:
    if row.isl is None:
        raise NotComputableError("the figure names no input length")
    top = ceiling(evidence, row.configuration, row.isl, row.osl)
    return Found(row.isl / top.value, top.runs, how="model: input length / prefill ceiling")


def _stall_tokens(row: Printed, evidence: Evidence) -> Found:
    """Tokens that prefill at the ceiling in (p99 - median ITL), at the highest concurrency."""
    top = ceiling(evidence, row.configuration, row.isl, row.osl)
    tail, middle = (
        evidence.curve(
            column, configuration=row.configuration, workload=row.workload, isl=row.isl, osl=row.osl
        ).iloc[-1]
        for column in ("itl_p99_ms", "itl_p50_ms")
    )
    stall_s = (tail["value"] - middle["value"]) * _SECONDS_PER_MS
    runs = tuple(sorted({*top.runs, *tail["runs"], *middle["runs"]}))
    return Found(float(stall_s) * top.value, runs, how="model: stall length x prefill ceiling")


def _nodes(row: Printed) -> float:
    found = _NODES.fullmatch(row.configuration)
    if not found:
        raise NotComputableError(f"no number of nodes in {row.configuration!r}")
    return math.inf if found[1] == "inf" else int(found[1])


def _leaving(row: Printed, _evidence: Evidence) -> Found:
    return Found(scaleout.share_leaving(_nodes(row)) * 100, how="model: (M - 1) / M")


def _growth(row: Printed, _evidence: Evidence) -> Found:
    return Found(scaleout.growth(_nodes(row)), how="model: (M - 1) / M, two nodes = 1")


def _utilisation(row: Printed, evidence: Evidence) -> Found:
    """A link's utilisation: measured, or by the scale-out model for a number of nodes."""
    if not _NODES.fullmatch(row.configuration):
        return LINK_FIGURES["link_utilisation"](row, evidence)
    put_in, base = _put_in(evidence)
    value = put_in.value * scaleout.growth(_nodes(row), base)
    how = f"model: (M - 1) / M from {put_in.value:g} % measured at {base:g} nodes, rounded"
    return Found(value, put_in.runs, put_in.counters, how)


def _put_in(evidence: Evidence) -> tuple[Found, float]:
    """Usual prefill utilisation in %, rounded to the printed digit of the input row; its nodes."""
    inputs = [
        row for row in evidence.printed if row.kind == "input" and row.metric == "link_utilisation"
    ]
    crossing = [c for c in evidence.campaign.manifest.configurations if (c.nodes or 0) > 1]
    if len(inputs) != 1 or len(crossing) != 1:
        raise NotComputableError("not one input utilisation of one configuration of several nodes")
    found = usual(evidence, crossing[0].name, "prefill")
    step = inputs[0].step or 1.0
    rounded = math.floor(found.value / step + 0.5) * step
    return Found(rounded, found.runs, found.counters), float(crossing[0].nodes or 0)


MODEL_FIGURES: Mapping[str, Figure] = {
    "parameters": _model("the model's parameter count", "parameters"),
    "active_parameters": _model("the active parameters", "active_parameters"),
    "bytes_per_parameter": _all("the bytes per parameter", lambda c: c.bytes_per_parameter),
    "gpus": _all("the GPUs", lambda c: c.gpus),
    "ep_size": _all("the expert-parallel size", lambda c: c.ep),
    "max_num_seqs": _all("the slots", lambda c: c.max_num_seqs),
    "hbm_per_gpu": _all("the HBM per GPU", lambda c: c.hbm_gb),
    "link_capacity": _capacity,
    "uplinks_per_server": _uplinks_per_server,
    "switch_hops": _hops,
    "weights_total": _of_cells("the weights", lambda c: c.weights_gb),
    "fits_one_node": _of_cells("the fit", lambda c: c.fits, one_node=True),
    "hbm_per_node": _of_cells("the HBM of a node", lambda c: c.hbm_gb, one_node=True),
    "hbm_shortfall": _of_cells("the shortfall", lambda c: c.shortfall_gb, one_node=True),
    "weights_per_gpu": _of_cells("the weights per GPU", lambda c: c.weights_per_gpu_gb),
    "hbm_left_per_gpu": _of_cells("the HBM that is left", _left_per_gpu),
    "share_waiting_for_a_slot": _waiting,
    "tokens_per_gpu_per_step": _tokens_per_gpu,
    "prefill_time": _prefill_time,
    "stall_tokens": _stall_tokens,
    "share_leaving_node": _leaving,
    "traffic_per_node": _growth,
    "link_utilisation": _utilisation,
}
