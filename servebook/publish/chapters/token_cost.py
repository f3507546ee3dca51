"""Chapter 08, the network's cost of a token: floor and slope over concurrency; the byte formula."""

from __future__ import annotations

import pandas as pd

from servebook.explain.network_cost import fit_line, predicted_bytes
from servebook.explain.scaleout import share_leaving
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.traffic import NO_COUNTERS, per_run
from servebook.publish.charts.parts import stacked
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["byte_formula", "relative_cost", "relative_cost_statement"]

_ID = "network-cost"
_TITLE = "Network cost per token: not measured"
_RATE = "output_throughput_tok_s"
_VARIES = 1.5  # steps per second within this ratio hardly vary
_TELLS = (
    "What would tell a floor per step from one per second: an engine that serves but idles, with "
    "its connections open; or decode at other batch sizes or output lengths, so that steps per "
    "second vary."
)


@common.memo
def _decode(campaign: Campaign) -> pd.DataFrame | str:
    """The watched decode line with most concurrencies, with cost relative to its lowest."""
    links = per_run(campaign)
    if links.empty:
        return NO_COUNTERS
    every = plain(campaign)
    rows = every[(every["workload"] == "decode") & every[_RATE].notna()]
    rows = rows[rows["n_runs"] == 1].assign(run_id=lambda f: [r[0] for r in f["runs"]])
    rows = rows.merge(links, on="run_id")
    # Without a speed the floor as a share is unknown; the relative cost needs one.
    rows = rows.dropna(subset=["floor_util"])
    sizes = rows.groupby(["series", "devices"]).size()
    if sizes.empty or sizes.max() < 2:
        return (
            "No configuration decoded at two concurrencies while counters watched links of known "
            "speed, so how the network's cost of a token changes is not known."
        )
    series, devices = sizes[sizes == sizes.max()].index[0]
    line = rows[(rows["series"] == series) & (rows["devices"] == devices)]
    line = line.sort_values("concurrency", kind="stable", ignore_index=True)
    cost = line["floor_util"] / line[_RATE]
    out: pd.DataFrame = line.assign(
        cost=cost / cost.iloc[0],
        steps_s=1e3 / line["tpot_mean_ms"],
    )
    return out


def relative_cost(campaign: Campaign) -> Figure:
    """Link use per output token, relative to the lowest concurrency, as floor and slope."""
    line = _decode(campaign)
    if isinstance(line, str):
        return Figure(id=_ID, title=_TITLE, missing=line)
    fitted = fit_line(list(line[_RATE]), list(line["floor_util"]))
    unit = float(line["floor_util"].iloc[0] / line[_RATE].iloc[0])
    first, last = line.iloc[0], line.iloc[-1]
    hue = theme.looks(campaign.manifest.configurations)[str(first["configuration"])].colour
    segments, ends = [], []
    for row in line.to_dict("records"):
        own, shared = (part / unit for part in fitted.parts(row[_RATE]))
        key = f"{row['concurrency']} in flight"
        segments += [
            {"row": key, "part": part, "low": low, "high": high, "colour": colour,
             "tip": words.number(high - low)}
            for part, low, high, colour in (
                ("paid by each token", 0.0, max(own, 0.0), hue),
                ("floor, shared", max(own, 0.0), own + shared, theme.PALE),
            )
        ]  # fmt: skip
        ends.append(
            {
                "row": key,
                "label": f"{key}: {words.percent(row['floor_util'], 3)} of a link, "
                f"{words.number(row[_RATE])} tokens/s",
                "end": max(own + shared, row["cost"]),
                "measured": row["cost"],
                "text": words.number(row["cost"]),
            }
        )
    own, shared = (part / unit for part in fitted.parts(float(first[_RATE])))
    change = float(last["cost"]) - 1
    steps = float(line["steps_s"].max() / line["steps_s"].min())
    title = (
        f"From {first['concurrency']} to {last['concurrency']} in flight a token's network cost "
        f"{'falls' if change < 0 else 'grows'} by {words.percent(abs(change))}: throughput grows "
        f"{words.times(last[_RATE] / first[_RATE])}, use "
        f"{words.times(last['floor_util'] / first['floor_util'], 3)}"
    )
    worst = max(abs(r) for r in fitted.residuals)
    gpus = campaign.manifest.configuration(first["configuration"])
    per_gpu = [c / gpus.gpus for c in line["concurrency"]] if gpus and gpus.gpus else None
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            f"{condition_words(line)} {common.label(campaign, first['configuration'])}. Lowest "
            "reading of a run over its tokens/s, gross; lowest concurrency = 1. Bars: "
            "least-squares line, use = floor + slope × tokens/s."
        ),
        chart=stacked(
            pd.DataFrame(segments),
            pd.DataFrame(ends),
            "relative cost: colour per token, grey floor; tick: measured",
        ),
        table=pd.DataFrame(
            {
                "Requests in flight": line["concurrency"],
                **({"Requests per GPU": per_gpu} if per_gpu else {}),
                "Floor of link use (%)": 100 * line["floor_util"],
                "Output tokens/s": line[_RATE],
                "Relative cost, measured": line["cost"],
                "Relative cost, line": [sum(fitted.parts(r)) / unit for r in line[_RATE]],
                "Off the line (%)": [100 * r for r in fitted.residuals],
                "Engine steps/s (1 / TPOT)": line["steps_s"],
                "Links": line["links"],
            }
        ),
        alt=f"{title}. " + " ".join(f"{e['label']}: {e['text']}." for e in ends),
        source=(
            f"{common.records_of(campaign, len(line))} and counters of "
            f"{words.count(int(first['links']), 'link')}; "
            "model: floor + slope"
        ),
        runs=tuple(sorted(line["run_id"])),
        notes=(
            f"At {first['concurrency']} in flight the floor is {words.times(shared / own, 3)} the "
            "part that each token pays."
            if own > 0
            else "The line's slope is not positive: no part is paid by each token.",
            f"{words.capital(words.count(len(line), 'point', spelled=True))}; the line misses them "
            f"by at most {words.percent(worst)}. "
            + ("Two points always lie on a line." if len(line) == 2 else "No interval is given."),
            f"Steps per second vary by {words.factor(steps)} only, so whether the floor is paid "
            f"per engine step or per second cannot be told. {_TELLS}"
            if steps < _VARIES
            else f"Steps per second vary by {words.factor(steps)}. {_TELLS}",
        ),
    )


def relative_cost_statement(campaign: Campaign) -> Statement:
    """The same as a sentence."""
    line = _decode(campaign)
    name = f"{_ID}-verdict"
    if isinstance(line, str):
        return Statement(id=name, sentence=line, marks=common.marks(campaign))
    first, last = line.iloc[0], line.iloc[-1]
    change = float(last["cost"]) - 1
    return Statement(
        id=name,
        sentence=(
            f"A larger batch {'lowers' if change < 0 else 'raises'} the network's cost of a "
            f"decoded token by {words.percent(abs(change))} from {first['concurrency']} to "
            f"{last['concurrency']} in flight: link use grows "
            f"{words.times(last['floor_util'] / first['floor_util'], 3)} while throughput grows "
            f"{words.times(last[_RATE] / first[_RATE])}."
        ),
        metric="network cost per output token, relative",
        value=100 * change,
        unit="%",
        n=len(line),
        n_of="runs",
        interval="no interval: one run per concurrency",
        runs=tuple(sorted(line["run_id"])),
        figure=_ID,
        would_change="the same with the floor net of idle, or runs at other batch sizes",
        verdict=True,
        rank=52,
        marks=common.marks(campaign, runs=tuple(sorted(line["run_id"]))),
    )


def byte_formula(campaign: Campaign) -> Figure:
    """Payload by the published formula against the measured bytes per token."""
    name = "byte-formula"
    title = "Bytes by formula: the manifest states no sizes"
    model = campaign.manifest.model
    sizes = {
        "layers": model.moe_layers,
        "experts_per_token": model.experts_per_token,
        "hidden_size": model.hidden_size,
        "activation_bytes": model.activation_bytes,
    }
    lacking = [
        f"model.{'moe_layers' if key == 'layers' else key}"
        for key, value in sizes.items()
        if value is None
    ]
    if lacking:
        return Figure(
            id=name,
            title=title,
            missing=(
                "The published formula (tokens × experts per token × vector × 2, in each layer) "
                f"needs {words.listed(lacking)}, which the manifest does not state. With them the "
                "payload of a token stands here beside its measured bytes."
            ),
        )
    links = per_run(campaign).dropna(subset=["bytes_per_token"])
    if links.empty:
        return Figure(id=name, title="Bytes by formula: nothing measured", missing=NO_COUNTERS)
    payload = predicted_bytes(*(float(v) for v in sizes.values() if v is not None))
    runs = common.metrics(campaign)[["run_id", "configuration", "workload", "concurrency"]]
    rows = links.merge(runs, on="run_id")
    rows = rows[rows["workload"].isin(["prefill", "decode"])]
    nodes = {c.name: c.nodes for c in campaign.manifest.configurations}
    out = []
    for row in rows.to_dict("records"):
        n = nodes.get(row["configuration"])
        # Every node's uplinks are summed, so that what each sends is counted once.
        predicted = payload * share_leaving(n) if n else float("nan")
        out.append(
            {
                "Run": row["run_id"],
                "Workload": row["workload"],
                "Configuration": common.label(campaign, row["configuration"]),
                "Requests in flight": row["concurrency"],
                "Payload of a token (B)": payload,
                "Of it between nodes (B)": predicted,
                "Measured (B/token)": row["bytes_per_token"],
                "Measured over predicted": row["bytes_per_token"] / predicted
                if predicted
                else None,
            }
        )
    table = pd.DataFrame(out)
    ratio = table["Measured over predicted"].dropna()
    return Figure(
        id=name,
        title=(
            f"The wire carries {words.span(ratio, 2)} times the payload that the formula predicts"
            if len(ratio)
            else "Nothing between nodes is predicted for these runs"
        ),
        subtitle=(
            f"Model: {model.moe_layers} layers × {model.experts_per_token} experts × "
            f"{model.hidden_size:,} values × {model.activation_bytes:g} B × 2 = "
            f"{words.bytes_size(payload)} a token, of which (M − 1) / M leave a node. Measured: "
            "gross, the busier direction of the links."
        ),
        table=table,
        open_table=True,
        source="model: byte formula, from the manifest; measured: counters",
        runs=tuple(sorted(rows["run_id"])),
        notes=("Headers, retransmissions, tensor-parallel traffic and padding come on top.",),
    )
