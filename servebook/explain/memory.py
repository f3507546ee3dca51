"""Do the weights fit? Parameters times bytes per parameter against the HBM of a configuration.

A model, not a measurement: it rests on the manifest alone. GB is 1e9 bytes, as vendors count HBM.
The weights are counted once for a deployment and spread evenly over its GPUs; only where the
manifest states expert parallelism of 1 beside several data-parallel replicas does each replica
hold a copy. Whatever else an engine keeps (activations, graphs, communication buffers) is not
known to the manifest, so the room for KV cache is an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from servebook.read.manifest import Configuration

__all__ = ["Fit", "crossed", "fit"]

GB = 1e9


@dataclass(frozen=True)
class Fit:
    """Weights against memory for one configuration, or for a cell that nobody measured.

    GB throughout; None where the manifest does not state what the value needs, with the words in
    ``missing``. ``shortfall_gb`` is 0 where the weights fit; ``kv_room_gb`` is None where they
    do not.
    """

    configurations: tuple[str, ...]  # names; empty: a combination that the campaign did not run
    label: str
    precision: str | None
    nodes: int | None
    gpus: int | None
    hbm_per_gpu_gb: float | None
    copies: int
    weights_gb: float | None
    weights_per_gpu_gb: float | None
    hbm_gb: float | None
    fits: bool | None
    shortfall_gb: float | None
    kv_room_gb: float | None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def fit(configuration: Configuration, parameters: float | None) -> Fit:
    """Memory fit of one configuration; ``parameters`` is the model's total parameter count."""
    copies, notes = _copies(configuration)
    return _fit(
        configurations=(configuration.name,),
        label=configuration.label,
        precision=configuration.precision,
        bytes_per_parameter=configuration.bytes_per_parameter,
        nodes=configuration.nodes,
        gpus=_gpus(configuration),
        hbm_per_gpu_gb=configuration.hbm_gb,
        parameters=parameters,
        copies=copies,
        notes=notes,
    )


def crossed(configurations: Sequence[Configuration], parameters: float | None) -> list[Fit]:
    """Every stated precision on every stated set of GPUs, smallest set and precision first.

    It tells why a campaign compares what it compares: cells that do not fit could not be run, and
    cells that fit but were not run would separate precision from the number of nodes. Cells that
    several configurations share name them all. Configurations that lack a precision, a GPU count
    or the HBM size take no part; ``fit`` has the words for them. Weights are counted once.
    """
    usable = [d for d in configurations if d.bytes_per_parameter and _gpus(d) and d.hbm_gb]
    precisions = sorted({(d.bytes_per_parameter or 0.0, d.precision or "") for d in usable})
    sets = sorted({(_gpus(d) or 0, d.hbm_gb or 0.0, d.nodes or 0) for d in usable})
    cells = []
    for gpus, hbm, nodes in sets:
        for size, precision in precisions:
            here = tuple(
                d.name
                for d in usable
                if (d.bytes_per_parameter, d.precision or "") == (size, precision)
                and (_gpus(d), d.hbm_gb, d.nodes or 0) == (gpus, hbm, nodes)
            )
            cells.append(
                _fit(
                    configurations=here,
                    label=f"{precision or f'{size:g} bytes a parameter'} on {gpus} GPUs",
                    precision=precision or None,
                    bytes_per_parameter=size,
                    nodes=nodes or None,
                    gpus=gpus,
                    hbm_per_gpu_gb=hbm,
                    parameters=parameters,
                    copies=1,
                    notes=(),
                )
            )
    return cells


def _gpus(configuration: Configuration) -> int | None:
    if configuration.gpus is not None:
        return configuration.gpus
    if configuration.nodes is not None and configuration.gpus_per_node is not None:
        return configuration.nodes * configuration.gpus_per_node
    return None


def _copies(configuration: Configuration) -> tuple[int, tuple[str, ...]]:
    replicas = configuration.dp or 1
    if replicas == 1:
        return 1, ()
    if configuration.ep == 1:
        return replicas, (f"{replicas} data-parallel replicas, each with its own copy",)
    once = (
        f"weights counted once; what each of the {replicas} data-parallel replicas keeps for "
        "itself outside the experts comes on top"
    )
    return 1, (once,)


def _fit(
    *,
    configurations: tuple[str, ...],
    label: str,
    precision: str | None,
    bytes_per_parameter: float | None,
    nodes: int | None,
    gpus: int | None,
    hbm_per_gpu_gb: float | None,
    parameters: float | None,
    copies: int,
    notes: tuple[str, ...],
) -> Fit:
    missing = tuple(
        words
        for words, value in (
            ("the model's parameter count", parameters),
            ("the bytes per parameter", bytes_per_parameter),
            ("the number of GPUs", gpus),
            ("the HBM per GPU", hbm_per_gpu_gb),
        )
        if value is None
    )
    weights = hbm = None
    if parameters is not None and bytes_per_parameter is not None:
        weights = parameters * bytes_per_parameter * copies / GB
    if gpus is not None and hbm_per_gpu_gb is not None:
        hbm = gpus * hbm_per_gpu_gb
    both = weights is not None and hbm is not None
    room = (hbm or 0.0) - (weights or 0.0)
    return Fit(
        configurations=configurations,
        label=label,
        precision=precision,
        nodes=nodes,
        gpus=gpus,
        hbm_per_gpu_gb=hbm_per_gpu_gb,
        copies=copies,
        weights_gb=weights,
        weights_per_gpu_gb=weights / gpus if weights is not None and gpus else None,
        hbm_gb=hbm,
        fits=room >= 0 if both else None,
        shortfall_gb=max(-room, 0.0) if both else None,
        kv_room_gb=room if both and room >= 0 else None,
        missing=missing,
        notes=notes,
    )
