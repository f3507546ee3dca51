"""Link use over time, with the runs behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.thin import LIMIT, envelope, segments, steps
from servebook.measure.timeline import bands, breaks, stretches
from servebook.publish import words
from servebook.publish.chapters.common import label
from servebook.publish.chapters.fabric_base import (
    Fabric,
    Scale,
    busier,
    evidence,
    measured,
    nothing,
    ordered,
    run_words,
    scale,
    speed_words,
    way,
)
from servebook.publish.charts.fabric_time import Panel, waveform
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["over_time"]

_ID = "fabric-over-time"
_PANELS = 6
_BY = ("place", "scope", "direction")
_SIGN = {"tx": 1.0, "rx": -1.0}
_LABEL_SHARE = 0.06  # of the axis: a group of runs narrower than this carries no label
_LABEL_APART = 0.14  # of it, so that two words do not touch on a phone
_LONG_NS = 600e9  # from here on the axis counts minutes
_DIGITS = 4  # of a drawn value: far below a pixel, and equal readings draw as one step
_ROOM = 1.4  # above the highest peak, for the labels


@dataclass(frozen=True)
class _Span:
    """What one panel shows: a place and scope in a stretch of time."""

    place: str
    scope: str
    t0_ns: int
    t1_ns: int

    @property
    def unit(self) -> str:
        return "minutes" if self.t1_ns - self.t0_ns > _LONG_NS else "seconds"

    def x(self, ns: float) -> float:
        """The place on the axis, to a ten-thousandth of its length or better."""
        divisor = 6e10 if self.unit == "minutes" else 1e9
        length = max((self.t1_ns - self.t0_ns) / divisor, 1e-9)
        return round((ns - self.t0_ns) / divisor, 4 - math.floor(math.log10(length)))


@dataclass
class _Drawn:
    """The rows of the chart's frames while they grow."""

    points: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)
    bands: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    breaks: list[dict[str, Any]] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    thinned: bool = False


def over_time(campaign: Campaign) -> Figure:
    """Use of each place's links over time: out above the line, in below it."""
    fabric = measured(campaign)
    if fabric is None:
        return nothing(_ID, say("fabric_time.over_time.link_use_time"))
    unit = scale(fabric.intervals)
    spans, skipped = _spans(fabric)
    drawn = _Drawn()
    for number, span in enumerate(spans):
        _draw(campaign, fabric, unit, str(number), span, drawn)
    title = _title(campaign, fabric, unit)
    chart = waveform(
        pd.DataFrame(drawn.points, columns=["panel", "series", "x", "mid"]),
        pd.DataFrame(drawn.ranges, columns=["panel", "series", "x", "low", "high"]),
        pd.DataFrame(drawn.bands, columns=["panel", "x", "x2", "workload", "words"]),
        pd.DataFrame(drawn.labels, columns=["panel", "x", "words"]),
        pd.DataFrame(drawn.breaks, columns=["panel", "x", "x2", "what", "words"]),
        drawn.panels,
    )
    return Figure(
        id=_ID,
        title=title,
        subtitle=(say("fabric_time.over_time.subtitle") + speed_words(campaign, fabric.intervals)),
        chart=chart,
        table=_table(campaign, fabric, unit),
        alt=say("fabric_time.over_time.alt", title=title, panels=words.count(len(spans), "panel")),
        source=evidence(campaign, fabric.intervals),
        runs=tuple(sorted(fabric.usage["run_id"].unique())),
        notes=_notes(fabric, drawn.thinned, skipped),
    )


def _spans(fabric: Fabric) -> tuple[list[_Span], int]:
    """The panels, at most ``_PANELS``, in time order, and how many more there would be."""
    found: list[tuple[int, _Span]] = []
    for row in stretches(fabric.intervals, fabric.phases).to_dict("records"):
        t0, t1 = int(row["t0_ns"]), int(row["t1_ns"])
        near = fabric.intervals[(fabric.intervals["t1_ns"] > t0) & (fabric.intervals["t0_ns"] < t1)]
        places = near[["place", "scope"]].drop_duplicates()
        for place, scope in sorted(places.itertuples(index=False, name=None)):
            found.append((int(row["n_phases"]), _Span(place, scope, t0, t1)))
    # Stretches with most runs are kept, whatever their order in time.
    kept = [s for _, s in sorted(found, key=lambda f: (-f[0], f[1].t0_ns, f[1].place, f[1].scope))]
    kept = kept[:_PANELS]
    return sorted(kept, key=lambda s: (s.t0_ns, s.place, s.scope)), len(found) - len(kept)


def _draw(
    campaign: Campaign, fabric: Fabric, unit: Scale, name: str, span: _Span, drawn: _Drawn
) -> None:
    inside = fabric.intervals[
        (fabric.intervals["place"] == span.place)
        & (fabric.intervals["scope"] == span.scope)
        & (fabric.intervals["t1_ns"] > span.t0_ns)
        & (fabric.intervals["t0_ns"] < span.t1_ns)
    ]
    thin = envelope(segments(inside, _BY), _BY, unit.value)
    for column in ("low", "mid", "high"):
        thin[column] = [float(f"{v:.{_DIGITS}g}") for v in thin[column]]
    coarse = set(thin.loc[thin["n"] > 1, "direction"])
    drawn.thinned = drawn.thinned or bool(coarse)
    for p in steps(thin, _BY).to_dict("records"):
        sign = _SIGN[p["direction"]] * unit.factor
        base = {
            "panel": name,
            "series": f"{p['direction'][0]}{p['segment']}",
            "x": span.x(p["t_ns"]),
        }
        drawn.points.append(base | {"mid": sign * p["mid"]})
        if p["direction"] in coarse:
            drawn.ranges.append(base | {"low": sign * p["low"], "high": sign * p["high"]})
    _draw_runs(campaign, fabric, name, span, drawn)
    cuts = breaks(inside).groupby(["t0_ns", "t1_ns", "what"], sort=True, as_index=False).size()
    for cut in cuts.to_dict("records"):
        drawn.breaks.append(
            {
                "panel": name,
                "x": span.x(cut["t0_ns"]),
                "x2": span.x(cut["t1_ns"]),
                "what": cut["what"],
                "words": _break_words(cut["what"], int(cut["size"])),
            }
        )
    directions = set(inside["direction"].unique())
    drawn.panels.append(
        Panel(
            name=name,
            title=_panel_title(inside),
            x_title=say(
                "fabric_time.draw.x_title", unit=words.told(span.unit), t0_ns=words.utc(span.t0_ns)
            ),
            x_end=span.x(span.t1_ns),
            y_title=words.unit(unit.unit),
            y_limit=(float(thin["high"].max()) * unit.factor * _ROOM if len(thin) else 0) or 1.0,
            full=unit.full,
            up="tx" in directions,
            down="rx" in directions,
        )
    )


def _draw_runs(campaign: Campaign, fabric: Fabric, name: str, span: _Span, drawn: _Drawn) -> None:
    watched = pd.DataFrame(
        [{"stretch": 0, "t0_ns": span.t0_ns, "t1_ns": span.t1_ns, "n_phases": 0}]
    )
    runs = bands(fabric.phases, watched)
    runs["workload"] = [w if isinstance(w, str) else "other" for w in runs["workload"]]
    for run in runs.to_dict("records"):
        drawn.bands.append(
            {
                "panel": name,
                "x": span.x(run["t0_ns"]),
                "x2": span.x(run["t1_ns"]),
                "workload": run["workload"],
                "words": f"{run_words(campaign, run)}: {run['run_id']}",
            }
        )
    end = span.x(span.t1_ns)
    kept: list[tuple[float, float, str]] = []  # middle, width, words
    for _, group in runs.groupby("group", sort=True):
        left, right = span.x(group["t0_ns"].min()), span.x(group["t1_ns"].max())
        one = ((left + right) / 2, right - left, str(group["workload"].iloc[0]))
        near = kept and abs(one[0] - kept[-1][0]) < _LABEL_APART * end
        if one[1] < _LABEL_SHARE * end or (near and one[1] <= kept[-1][1]):
            continue
        kept[len(kept) - bool(near) :] = [one]
    drawn.labels += [{"panel": name, "x": x, "words": words_} for x, _, words_ in kept]


def _panel_title(inside: pd.DataFrame) -> str:
    ports = inside[["device", "interface"]].drop_duplicates()
    what = (
        str(ports["interface"].iloc[0])
        if len(ports) == 1
        else say("fabric_time.panel_title.what", n_ports=len(ports))
    )
    scope = str(inside["scope"].iloc[0])
    kind = "" if scope == "port" else say("fabric_time.panel_title.kind", scope=scope)
    return f"{inside['place'].iloc[0]} · {what}{kind}"


def _break_words(what: str, n: int) -> str:
    why = (
        say("fabric_time.break_words.why_counter_fell")
        if what == "reset"
        else say("fabric_time.break_words.why_nobody_read_counter")
    )
    return f"{words.told(what)}: {why}" + (
        say("fabric_time.break_words.counters", n=n) if n > 1 else ""
    )


def _title(campaign: Campaign, fabric: Fabric, unit: Scale) -> str:
    known = fabric.seen.dropna(subset=[f"peak_{unit.column}"])
    if known.empty:
        return say("fabric_time.title.counters_show_run")
    usual = busier(known)[f"usual_{unit.column}"].dropna()
    top = known.sort_values(f"peak_{unit.column}", kind="stable").to_dict("records")[-1]
    low, high = unit.words(float(usual.min())), unit.words(float(usual.max()))
    a_link = (
        say("fabric_time.title.a_link_link_level_known")
        if len(known) < len(fabric.seen)
        else say("fabric_time.title.a_link_link")
    )
    return say(
        "fabric_time.title.while_runs_go",
        a_link=a_link,
        low=low if low == high else say("fabric_time.title.to", low=low, high=high),
        words=unit.words(top[f"peak_{unit.column}"]),
        peak_window_s=words.duration(top["peak_window_s"]),
        run_words=run_words(campaign, top),
    )


def _table(campaign: Campaign, fabric: Fabric, unit: Scale) -> pd.DataFrame:
    """What the curves show of each run: one row per run, place and direction."""
    rows = []
    keys = ["run_id", "place", "scope", "direction"]
    use = ordered(campaign, fabric.usage)
    for (run_id, place, scope, direction), group in use.groupby(keys, sort=False):
        first = group.iloc[0]
        whys = sorted({w for w in group["why"] if w})
        rows.append(
            {
                "Run": run_id,
                "Workload": first["workload"],
                "Configuration": label(campaign, first["configuration"]),
                "Concurrency": first["concurrency"],
                "Place": place if scope == "port" else f"{place} ({scope})",
                "Direction": way(str(direction)),
                "Links": len(group),
                f"Usual ({unit.unit})": group[f"usual_{unit.column}"].median() * unit.factor,
                f"Peak ({unit.unit})": group[f"peak_{unit.column}"].max() * unit.factor,
                "Window of the peak (s)": _window(group, f"peak_{unit.column}"),
                f"Floor ({unit.unit})": group[f"floor_{unit.column}"].min() * unit.factor,
                "Readings": int(group["n_inside"].sum()),
                "Watched (% of the run)": 100 * group["coverage"].mean(),
                "Why not": "; ".join(whys),
            }
        )
    return pd.DataFrame(rows)


def _window(group: pd.DataFrame, peak: str) -> float:
    """How long the interval of the highest peak was; of several equal ones the last."""
    peaks = group[peak].to_numpy(dtype=float)
    known = np.flatnonzero(~np.isnan(peaks))
    if not len(known):
        return float("nan")
    highest = known[peaks[known] == peaks[known].max()][-1]
    return float(group["peak_window_s"].iloc[highest])


def _notes(fabric: Fabric, thinned: bool, skipped: int) -> tuple[str, ...]:
    notes = [
        say("fabric_base.sees"),
        say("fabric_time.notes.note_table_usual_median"),
    ]
    if thinned:
        notes.append(say("fabric_time.notes.note_curve_points_point", limit=LIMIT))
    if skipped:
        notes.append(
            say(
                "fabric_time.notes.note_left",
                further_panels=words.capital(words.count(skipped, "further panel")),
            )
        )
    for what, n in breaks(fabric.intervals)["what"].value_counts().sort_index().items():
        notes.append(
            say(
                "fabric_time.notes.note_line_crosses",
                whats=words.capital(words.count(int(n), str(what))),
            )
        )
    return tuple(notes)
