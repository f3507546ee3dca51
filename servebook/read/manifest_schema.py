"""The keys of ``campaign.yaml``: name, kind, unit and meaning of each, as dataclasses.

Null means "not stated" and is never guessed. Keys, units and an example in prose:
docs/manifest.md, which a test holds in step with this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servebook.read.manifest_gates import ManifestGate
from servebook.read.manifest_kinds import (
    BOOLEAN,
    REFERENCE,
    SLUG,
    TEXT,
    TIME,
    ZONE,
    choice,
    number,
    whole,
)
from servebook.read.manifest_record import key, listed, named, reference, texts, values

__all__ = [
    "Configuration",
    "CounterEntry",
    "Manifest",
    "ManifestGate",
    "Model",
    "Note",
    "Port",
    "Price",
    "Privacy",
    "RunEntry",
]

_COUNT = whole(1)


@dataclass(frozen=True)
class Model:
    """The served model."""

    name: str | None = key(TEXT, "name shown on the page")
    parameters: int | None = key(_COUNT, "parameters, all experts included")
    active_parameters: int | None = key(_COUNT, "parameters that one token passes through")
    moe_layers: int | None = key(_COUNT, "layers that send tokens to experts")
    experts_per_token: int | None = key(_COUNT, "experts that a token goes to in each such layer")
    hidden_size: int | None = key(_COUNT, "values in the vector that is sent to an expert")
    activation_bytes: float | None = key(
        number(0, above=True), "bytes of one such value on the wire", "bytes"
    )
    note: str | None = key(TEXT, "remark shown beside the model")


@dataclass(frozen=True)
class Configuration:
    """One way the model was served; None means "not stated" and is never guessed."""

    name: str
    line: int = field(repr=False)
    label: str = key(TEXT, "name shown in charts (default: the configuration's own name)")
    engine: str | None = key(TEXT, "serving engine")
    engine_version: str | None = key(TEXT, "version of the engine")
    gpu: str | None = key(TEXT, "GPU type")
    hbm_gb: float | None = key(number(0, above=True), "memory of one GPU", "GB (10^9 bytes)")
    nodes: int | None = key(_COUNT, "servers")
    gpus_per_node: int | None = key(_COUNT, "GPUs in one server")
    gpus: int | None = key(_COUNT, "GPUs in all; must be nodes x gpus_per_node")
    tp: int | None = key(_COUNT, "tensor-parallel size")
    dp: int | None = key(_COUNT, "data-parallel replicas")
    ep: int | None = key(_COUNT, "expert-parallel size")
    pp: int | None = key(_COUNT, "pipeline-parallel stages")
    precision: str | None = key(TEXT, "weight precision: FP8, NVFP4, BF16")
    bytes_per_parameter: float | None = key(
        number(0, above=True), "bytes that a parameter takes, scales included", "bytes"
    )
    max_num_seqs: int | None = key(_COUNT, "slots: requests that run at once, per replica")
    max_num_batched_tokens: int | None = key(_COUNT, "token budget of one step", "tokens")
    prefix_caching: bool | None = key(BOOLEAN, "prefix cache on")
    chunked_prefill: bool | None = key(BOOLEAN, "prompts are prefilled in chunks beside decodes")
    note: str | None = key(TEXT, "remark shown beside the configuration")

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)


@dataclass(frozen=True)
class RunEntry:
    """Which runs (by their path) are which condition; the first entry that matches wins."""

    line: int = field(repr=False)
    match: str = key(
        TEXT, "path of the runs below the campaign, or a URL; * ? ** and {field}", required=True
    )
    configuration: str | None = key(REFERENCE, "name of a configuration")
    workload: str | None = key(
        choice("prefill", "decode", "mixed", "other"), "what the run loads (default: from lengths)"
    )
    isl: int | None = key(_COUNT, "input length asked for", "tokens")
    osl: int | None = key(_COUNT, "output length asked for", "tokens")
    concurrency: int | None = key(_COUNT, "requests that the client keeps in flight")
    request_rate: float | None = key(number(0, above=True), "arrivals, open loop", "requests/s")
    repeat: int | None = key(_COUNT, "number among identical runs (default: by start)")
    start: int | None = key(TIME, "when the first request was sent, for dumps without a wall clock")
    clock_offset_s: float | None = key(
        number(), "added to the run's times to bring them to the counters' clock", "s"
    )
    cache_reuse: bool | None = key(BOOLEAN, "prompts were repeated so that the cache serves them")
    note: str | None = key(TEXT, "remark shown with these runs")


@dataclass(frozen=True)
class CounterEntry:
    """Which files are counters to use, and what they do not say of themselves."""

    line: int = field(repr=False)
    match: str = key(
        TEXT, "path of the files below the campaign, or a URL; * ? ** and {field}", required=True
    )
    device: str | None = key(TEXT, "switch or host that was read")
    interface: str | None = key(TEXT, "interface, for files of one interface that do not name it")
    interfaces: tuple[str, ...] | None = key(texts(), "use these interfaces only")
    columns: Mapping[str, str] = key(
        values(TEXT), "our column: the file's column (plain CSV, Parquet, Grafana)", default={}
    )
    kind: str | None = key(choice("counter", "rate"), "what a plain CSV's values are")
    unit: str | None = key(TEXT, "unit of a plain CSV's values: bytes, bits, words")
    bits: int | None = key(whole(32, 64), "width of a plain CSV's counters, if not 64", "bits")
    direction: str | None = key(
        choice("rx", "tx"), "direction of a rate without a name (a saved rate() of Prometheus)"
    )
    clock_offset_s: float | None = key(
        number(), "added to the counters' times to bring them to the campaign's clock", "s"
    )
    time_zone: str | None = key(ZONE, "zone of times written without one")
    note: str | None = key(TEXT, "remark shown with these counters")


@dataclass(frozen=True)
class Port:
    """A link: how fast it is and whose it is."""

    line: int = field(repr=False)
    device: str = key(TEXT, "switch or host", required=True)
    interface: str = key(TEXT, "interface as the counters name it", required=True)
    speed_gbps: float | None = key(number(0, above=True), "line rate of one direction", "Gbit/s")
    speed_note: str | None = key(TEXT, "where the speed is from, if not from the device")
    role: str | None = key(choice("uplink", "host", "spine"), "what the port connects")
    node: str | None = key(TEXT, "server at its other end")
    rail: int | None = key(whole(0), "rail of the port")
    gpu: int | None = key(whole(0), "GPU behind the port")


@dataclass(frozen=True)
class Price:
    """What a GPU hour costs."""

    per_gpu_hour: float = key(number(0, above=True), "price of one GPU for one hour", required=True)
    currency: str = key(TEXT, "currency of the price", required=True)
    note: str | None = key(TEXT, "where the price is from")


@dataclass(frozen=True)
class Note:
    """A known issue, listed at the head of the page and shown beside what it is about."""

    line: int = field(repr=False)
    text: str = key(TEXT, "the remark", required=True)
    figure: str | None = key(TEXT, "id of the figure")
    run: str | None = key(TEXT, "path of the run; wildcards allowed")
    configuration: str | None = key(REFERENCE, "name of the configuration")
    workload: str | None = key(
        choice("prefill", "decode", "mixed", "other"), "only runs of this load"
    )
    concurrency: int | None = key(_COUNT, "only runs with so many requests in flight")


@dataclass(frozen=True)
class Privacy:
    """What a page may show of whose machines were measured."""

    show_names: bool = key(
        BOOLEAN, "show hosts, switches and ports by their names, not by aliases", default=False
    )


_MODEL, _PRICE, _NOTES = reference(Model), reference(Price), listed(Note)
_PRIVACY = reference(Privacy)


@dataclass(frozen=True)
class Manifest:
    """A validated campaign.yaml; configurations are in file order, which is the colour order."""

    path: Path
    servebook: int = key(whole(1, 1), "version of the manifest's form: 1", required=True)
    name: str = key(SLUG, "name of the campaign; names the page", required=True)
    title: str = key(TEXT, "heading of the page (default: the name)")
    provenance: str = key(
        choice("measured", "reconstructed"),
        "whether a real engine wrote the dumps; otherwise the page says that it is not stated",
        default="provenance not stated",
    )
    provenance_note: str | None = key(TEXT, "who measured what with what, in a few sentences")
    client_time_zone: str | None = key(ZONE, "zone of local times in client dumps")
    model: Model = key(_MODEL, "the served model", default=Model())  # noqa: RUF009 (a field)
    configurations: tuple[Configuration, ...] = key(
        named(Configuration), "the ways the model was served, in order of colour", default=()
    )
    baseline: str | None = key(REFERENCE, "configuration that others are compared with")
    candidate: str | None = key(REFERENCE, "configuration that the comparison is about")
    sibling: str | None = key(
        TEXT, "path from this folder to a campaign of the same nominal conditions"
    )
    runs: tuple[RunEntry, ...] = key(listed(RunEntry), "which dumps are which runs", default=())
    counters: tuple[CounterEntry, ...] = key(
        listed(CounterEntry), "which files are counters", default=()
    )
    ports: tuple[Port, ...] = key(listed(Port), "the links", default=())
    slos: Mapping[str, float] = key(
        values(number(0, above=True)), "limits of latencies (ttft_p99_ms: 500)", default={}
    )
    gates: tuple[ManifestGate, ...] = key(
        listed(ManifestGate), "bounds that `servebook check` holds the campaign to", default=()
    )
    price: Price | None = key(_PRICE, "what a GPU hour costs")  # noqa: RUF009 (a field)
    privacy: Privacy = key(  # noqa: RUF009 (a field)
        _PRIVACY, "what the page may show of whose machines these are", default=Privacy()
    )
    notes: tuple[Note, ...] = key(_NOTES, "known issues", default=())

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)

    def configuration(self, name: str) -> Configuration | None:
        """The configuration of that name, or None."""
        return next((c for c in self.configurations if c.name == name), None)
