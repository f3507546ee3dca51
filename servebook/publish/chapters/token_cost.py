"""Chapter 08, the network's cost of a token: floor and slope over concurrency; the byte formula."""

from __future__ import annotations

import pandas as pd

from servebook.explain.network_cost import fit_line, predicted_bytes
from servebook.explain.scaleout import share_leaving
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import condition_words
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.traffic import per_run
from servebook.publish.charts.parts import stacked
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["byte_formula", "relative_cost", "relative_cost_statement"]

_ID = "network-cost"
_RATE = "output_throughput_tok_s"
_VARIES = 1.5  # steps per second within this ratio hardly vary


@common.memo
def _decode(campaign: Campaign) -> pd.DataFrame | str:
    """The watched decode line with most concurrencies, with cost relative to its lowest."""
    links = per_run(campaign)
    if links.empty:
        return say("traffic.no_counters")
    every = plain(campaign)
    rows = every[(every["workload"] == "decode") & every[_RATE].notna()]
    rows = rows[rows["n_runs"] == 1].assign(run_id=lambda f: [r[0] for r in f["runs"]])
    rows = rows.merge(links, on="run_id")
    # Without a speed the floor as a share is unknown; the relative cost needs one.
    rows = rows.dropna(subset=["floor_util"])
    sizes = rows.groupby(["series", "devices"]).size()
    if sizes.empty or sizes.max() < 2:
        return say("token_cost.decode")
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
        return Figure(id=_ID, title=say("token_cost.title"), missing=line)
    fitted = fit_line(list(line[_RATE]), list(line["floor_util"]))
    unit = float(line["floor_util"].iloc[0] / line[_RATE].iloc[0])
    first, last = line.iloc[0], line.iloc[-1]
    hue = theme.looks(campaign.manifest.configurations)[str(first["configuration"])].colour
    segments, ends = [], []
    for row in line.to_dict("records"):
        own, shared = (part / unit for part in fitted.parts(row[_RATE]))
        key = say("shared.in_flight", concurrency=row["concurrency"])
        segments += [
            {
                "row": key,
                "part": part,
                "low": low,
                "high": high,
                "colour": colour,
                "tip": words.number(high - low),
            }
            for part, low, high, colour in (
                (say("token_cost.relative_cost.segments_paid_token"), 0.0, max(own, 0.0), hue),
                (
                    say("token_cost.relative_cost.segments_floor_shared"),
                    max(own, 0.0),
                    own + shared,
                    theme.PALE,
                ),
            )
        ]
        ends.append(
            {
                "row": key,
                "label": say(
                    "token_cost.relative_cost.label",
                    key_=key,
                    floor_util=words.percent(row["floor_util"], 3),
                    row=words.number(row[_RATE]),
                ),
                "end": max(own + shared, row["cost"]),
                "measured": row["cost"],
                "text": words.number(row["cost"]),
            }
        )
    own, shared = (part / unit for part in fitted.parts(float(first[_RATE])))
    change = float(last["cost"]) - 1
    steps = float(line["steps_s"].max() / line["steps_s"].min())
    title = say(
        "token_cost.relative_cost.title_flight_token_network",
        concurrency=first["concurrency"],
        concurrency_2=last["concurrency"],
        falls=say("token_cost.relative_cost.title_falls")
        if change < 0
        else say("token_cost.relative_cost.title_grows"),
        change=words.percent(abs(change)),
        last=words.times(last[_RATE] / first[_RATE]),
        floor_util=words.times(last["floor_util"] / first["floor_util"], 3),
    )
    worst = max(abs(r) for r in fitted.residuals)
    gpus = campaign.manifest.configuration(first["configuration"])
    per_gpu = [c / gpus.gpus for c in line["concurrency"]] if gpus and gpus.gpus else None
    return Figure(
        id=_ID,
        title=title,
        subtitle=say(
            "token_cost.relative_cost.subtitle",
            condition_words=condition_words(line),
            configuration=common.label(campaign, first["configuration"]),
        ),
        chart=stacked(
            pd.DataFrame(segments),
            pd.DataFrame(ends),
            say("token_cost.relative_cost.chart", standing=common.standing(campaign)),
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
        source=say(
            "token_cost.relative_cost.source",
            records_of=common.records_of(campaign, len(line)),
            links=words.count(int(first["links"]), "link"),
        ),
        runs=tuple(sorted(line["run_id"])),
        notes=(
            say(
                "token_cost.relative_cost.note_flight_floor_part",
                concurrency=first["concurrency"],
                shared=words.times(shared / own, 3),
            )
            if own > 0
            else say("token_cost.relative_cost.note_line_slope_positive"),
            say(
                "token_cost.relative_cost.note_line_misses",
                points=words.capital(words.count(len(line), "point", spelled=True)),
                worst=words.percent(worst),
            )
            + (
                say("token_cost.relative_cost.note_points_always_lie")
                if len(line) == 2
                else say("token_cost.relative_cost.note_interval_given")
            ),
            say(
                "token_cost.relative_cost.note_steps_second_vary",
                steps=words.factor(steps),
                tells=say("token_cost.tells"),
            )
            if steps < _VARIES
            else say(
                "token_cost.relative_cost.note_steps_second_vary_2",
                steps=words.factor(steps),
                tells=say("token_cost.tells"),
            ),
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
        sentence=say(
            "token_cost.relative_cost_statement.sentence_larger_batch_network",
            lowers=say("token_cost.relative_cost_statement.sentence_lowers")
            if change < 0
            else say("token_cost.relative_cost_statement.sentence_raises"),
            change=words.percent(abs(change)),
            concurrency=first["concurrency"],
            concurrency_2=last["concurrency"],
            floor_util=words.times(last["floor_util"] / first["floor_util"], 3),
            last=words.times(last[_RATE] / first[_RATE]),
        ),
        metric="network cost per output token, relative",
        value=100 * change,
        unit="%",
        caption=say("token_cost.relative_cost_statement.caption"),
        n=len(line),
        n_of="runs",
        interval=say("token_cost.relative_cost_statement.interval"),
        runs=tuple(sorted(line["run_id"])),
        figure=_ID,
        would_change=say("token_cost.relative_cost_statement.would_change"),
        verdict=True,
        rank=52,
        marks=common.marks(campaign, runs=tuple(sorted(line["run_id"]))),
    )


def byte_formula(campaign: Campaign) -> Figure:
    """Payload by the published formula against the measured bytes per token."""
    name = "byte-formula"
    title = say("token_cost.byte_formula.title_bytes_formula_manifest")
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
            missing=say("token_cost.byte_formula.missing", lacking=words.listed(lacking)),
        )
    links = per_run(campaign).dropna(subset=["bytes_per_token"])
    if links.empty:
        return Figure(
            id=name,
            title=say("token_cost.byte_formula.title_bytes_formula_nothing"),
            missing=say("traffic.no_counters"),
        )
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
            say("token_cost.byte_formula.title_wire_carries_times", ratio=words.span(ratio, 2))
            if len(ratio)
            else say("token_cost.byte_formula.title_nothing_between_nodes")
        ),
        subtitle=say(
            "token_cost.byte_formula.subtitle",
            moe_layers=model.moe_layers,
            experts_per_token=model.experts_per_token,
            hidden_size=model.hidden_size,
            activation_bytes=model.activation_bytes,
            payload=words.bytes_size(payload),
        ),
        table=table,
        open_table=True,
        source=say("token_cost.byte_formula.source"),
        runs=tuple(sorted(rows["run_id"])),
        notes=(say("token_cost.byte_formula.note"),),
    )
