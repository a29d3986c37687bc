"""Figures of serving: latencies and goodput over the request rate, and a minute of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.reports.figure import Figure, LeftOut, enumerated, rounded
from ssdsim.reports.style import PALETTE, band, bars, colour_of, curve, log_ticks, new_plot, symbol_of, title_of

_SECTION = "Requests that arrive"
_AUTO, AUTO_COLOUR = "auto", "#9560d0"
_RATE = "requests/s in all"
_GOOD = "%{x} requests/s: %{y} good, %{customdata} % of all<extra></extra>"
_MILLISECONDS = {"tpot_ms": "time per output token (ms)", "ttft_ms": "time to the first token (ms)"}

Answer = Mapping[str, Any]


def serving(answer: Answer) -> list[Figure | LeftOut]:
    """The figures of an answer of ``ssdsim plan``, and why others are left out."""
    if not answer["points"]:
        return [LeftOut("times over the rate", "capacities alone were asked for: give --rate")]
    rows = pd.DataFrame(list(_rows(answer)))
    shown: list[Figure | LeftOut] = []
    measured = "tpot_ms p50" in rows
    if rows["rate"].notna().sum() and rows["rate"].nunique() > 1:
        shown += [_over_rate(answer, rows, metric) for metric in _MILLISECONDS if measured]
        shown += [_closed(answer, rows)]
        kept = "goodput" in rows and rows["goodput"].notna().any()
        none = LeftOut("goodput and attainment over the rate", "no --slo was given")
        shown += [_goodput(answer, rows) if kept else none]
    else:
        shown += [LeftOut("times over the rate", "one load alone: give --rate a list or a range")]
    shown += [_fixed_k(answer)] if any(point.get("fixed_k") for point in answer["points"]) else []
    return [*shown, *([_minute(answer)] if measured else [])]


def serving_title(answer: Answer) -> str:
    """The title of the page: models, hardware and workload."""
    value = {name: each["value"] for name, each in answer["scenario"].items()}
    where = f"{value['target']} + {value['draft']} on {value['hardware']}, TP {value['tp']}"
    return f"{where}: {answer['points'][0]['workload']['source']}" if answer["points"] else where


def serving_lines(answer: Answer) -> list[str]:
    """The lines below the verdict."""
    said = [f"{_title(name)} from {each['rate']:.1f}" for name, each in answer["capacities"].items()]
    lines = [f"Saturated, in requests/s a replica: {enumerated(said)}."]
    if answer["within_slo"]:
        kept = [f"{_title(name)} {each['rate']:.2f}" for name, each in answer["within_slo"].items()]
        lines.append(f"{answer['attainment']:.0%} of the requests are good up to: {enumerated(kept)} requests/s.")
    return lines


def _title(name: str) -> str:
    return name if name == _AUTO else title_of(name)


def _colour(name: str) -> str:
    return AUTO_COLOUR if name == _AUTO else colour_of(name)


def _line(name: str, of: pd.DataFrame, column: str, what: str = "", **more: Any) -> go.Scatter:
    """A column over the rate, in the colour and symbol of a strategy or of the schedule."""
    marker = {"symbol": "x" if name == _AUTO else symbol_of(name), "size": 7}
    how = {"line": {"dash": _dash(name)}, "marker": marker, **more}
    return curve(rounded(of["rate"]), of[column].astype(float), f"{_title(name)} {what}".rstrip(), _colour(name), **how)


def _dash(name: str) -> str:
    """Dash of a line: a schedule's shows through the line of the strategy that it runs."""
    return "dash" if name == _AUTO else "solid"


def _rows(answer: Answer) -> Iterator[dict[str, Any]]:
    """A row per load and strategy."""
    for point in answer["points"]:
        for name, point_of in point["strategies"].items():
            row: dict[str, Any] = {"rate": point["rate"], "strategy": name, "gpus": point_of["gpus"]}
            if point_of["closed"] is not None:
                row["closed tpot_ms"] = point_of["closed"]["tpot_ms"]
            for metric in ("tpot_ms", "ttft_ms", "e2el_ms"):
                for percentile in ("p50", "p99"):
                    each = (point_of.get(metric) or {}).get(percentile)
                    if each is not None:
                        row[f"{metric} {percentile}"] = each["value"]
                        row |= {f"{metric} {percentile} {end}": each[end] for end in ("low", "high")}
            for metric in ("goodput", "tokens_per_s_per_gpu", "running", "saturated"):
                row[metric] = point_of.get(metric)
            row["attainment"] = (point_of.get("attainment") or {}).get("mean")
            yield row


def mark_crossings(plot: go.Figure, answer: Answer) -> None:
    """Add vertical lines at crossings, labelled at the top and at the bottom: the two are often close."""
    for crossing, height in zip(answer["crossings"][:2], (1.0, 0.0), strict=False):
        if not crossing["rate"]:
            continue
        over, basis = _title(crossing["over"]), "replica" if crossing["basis"] == "replica" else "GPU"
        rate = crossing["rate"] * answer["replicas"]
        plot.add_vline(x=rate, line={"color": "#808080", "width": 1, "dash": "dash"})
        if crossing["low"] is not None:
            low, high = (crossing[end] * answer["replicas"] for end in ("low", "high"))
            plot.add_vrect(x0=low, x1=high, fillcolor=band(PALETTE[0], 0.1), line_width=0)
        plot.add_annotation(
            x=rate,
            y=height,
            yref="paper",
            yanchor="top" if height else "bottom",
            showarrow=False,
            text=f"{over} catches up, {basis} for {basis}",
        )


def _over_rate(answer: Answer, rows: pd.DataFrame, metric: str) -> Figure:
    plot = new_plot(_RATE, _MILLISECONDS[metric], height=420)
    for name, of in rows.groupby("strategy", sort=False):
        for percentile, dash in (("p50", _dash(str(name))), ("p99", "dot")):
            column = f"{metric} {percentile}"
            bounds = bars(of[column], of[f"{column} low"], of[f"{column} high"], width=2)
            plot.add_trace(_line(str(name), of, column, percentile, line={"dash": dash}, error_y=bounds))
    if metric == "tpot_ms":
        mark_crossings(plot, answer)
    seen = rows[[f"{metric} p50", f"{metric} p99"]].astype(float).to_numpy().ravel().tolist()
    plot.update_yaxes(type="log", tickvals=log_ticks(seen))
    what = _MILLISECONDS[metric].removesuffix(" (ms)")
    columns = ["rate", "strategy", *(c for c in rows.columns if c.startswith(metric)), "saturated"]
    return Figure(
        key=f"serving-{metric.removesuffix('_ms')}",
        section=_SECTION,
        title=f"{what[0].upper()}{what[1:]} over the rate",
        about="The median request, and dotted one in a hundred. Where a strategy is saturated, of this finite run.",
        plot=plot,
        table=rows[columns],
        provenance=_predicted_with(answer),
        interval="Bars: 95 % of a run of as many requests; grey: 95 % of the crossing from what is not known.",
    )


def _closed(answer: Answer, rows: pd.DataFrame) -> Figure:
    plot = new_plot(_RATE, "mean time per output token (ms)", height=380)
    for name, of in rows.groupby("strategy", sort=False):
        plot.add_trace(_line(str(name), of, "closed tpot_ms"))
    mark_crossings(plot, answer)
    plot.update_yaxes(type="log", tickvals=log_ticks(rows["closed tpot_ms"].astype(float)))
    return Figure(
        key="serving-crossing",
        section=_SECTION,
        title="The closed form: where strategies change places",
        about="Processor sharing; a line ends where its strategy is saturated.",
        plot=plot,
        table=rows[["rate", "strategy", "gpus", "closed tpot_ms"]],
        provenance=_predicted_with(answer),
        interval="Grey: 95 % of the crossing from what is not known.",
    )


def _goodput(answer: Answer, rows: pd.DataFrame) -> Figure:
    slo = ", ".join(f"{name} {bound:g} ms" for name, bound in answer["slo"].items())
    plot = new_plot(_RATE, f"good requests/s ({slo})", height=400)
    for name, of in rows.groupby("strategy", sort=False):
        percent = rounded(100.0 * of["attainment"].astype(float))
        plot.add_trace(_line(str(name), of, "goodput", hover=_GOOD, customdata=percent))
    for name, each in answer["within_slo"].items():
        plot.add_vline(x=each["rate"], line={"color": _colour(name), "width": 1, "dash": "dash"})
    return Figure(
        key="serving-goodput",
        section=_SECTION,
        title="Goodput over the rate",
        about=f"Requests a second that keep {slo}. Dashed: the capacity of each strategy, where it was searched.",
        plot=plot,
        table=rows[["rate", "strategy", "goodput", "attainment"]],
        provenance=_predicted_with(answer),
        interval="No interval: the attainment's is in the answer (--json).",
    )


def _fixed_k(answer: Answer) -> Figure:
    """Time per output token of each fixed K, and of the policy that moves K, at every load."""
    rows = pd.DataFrame(list(_fixed_k_rows(answer))).astype({"tpot_ms": float, "low": float, "high": float})
    plot = new_plot("", "mean time per output token (ms)", height=380)
    for number, (load, of) in enumerate(rows.groupby("load", sort=False)):
        marker, bounds = {"size": 8, "symbol": number}, bars(of["tpot_ms"], of["low"], of["high"], width=2)
        how: dict[str, Any] = {"mode": "markers", "marker": marker, "error_y": bounds}
        plot.add_trace(curve(of["what"], of["tpot_ms"], str(load), PALETTE[number % len(PALETTE)], **how))
    plot.update_yaxes(type="log", tickvals=log_ticks(rows["tpot_ms"].dropna()))
    return Figure(
        key="serving-fixed-k",
        section=_SECTION,
        title="Each K for good, and the policy that moves K",
        about="The same requests each time. K 0 for good is decoding without a draft. What is saturated has no mark.",
        plot=plot,
        table=rows,
        provenance=_predicted_with(answer),
        interval="Bars: 95 % of a run of as many requests; none of the closed form.",
    )


def _fixed_k_rows(answer: Answer) -> Iterator[dict[str, Any]]:
    """A row per load and fixed K, then the policy's."""
    for point in answer["points"]:
        own = point["strategies"][_AUTO]
        by_policy = own["tpot_ms"]["mean"] if own.get("tpot_ms") else {"mean": (own["closed"] or {}).get("tpot_ms")}
        each = {f"K {k}": found for k, found in (point.get("fixed_k") or {}).items()}
        for what, found in {**each, "K by the policy": by_policy}.items():
            ends = {end: found.get(end) for end in ("low", "high")}
            yield {"load": _load(point), "what": what, "tpot_ms": found["mean"], **ends}


def _load(point: Mapping[str, Any]) -> str:
    return "the load" if point["rate"] is None else f"{point['rate']:.3g} requests/s"


def _minute(answer: Answer) -> Figure:
    """A minute of the last load: of the schedule if there is one, else of the subject."""
    point = answer["points"][-1]
    name = _AUTO if _AUTO in point["strategies"] else answer["verdict"]["subject"]
    minute = point["strategies"][name]["minute"]
    plot = new_plot("s after the start", "requests of a replica", height=340)
    for column, what, colour in (("held", "decoded or processed", PALETTE[0]), ("running", "decoded", _colour(name))):
        line = {"color": colour, "shape": "hv"}
        plot.add_scatter(x=rounded(minute["at_s"]), y=minute[column], name=what, mode="lines", line=line)
    labels = _labels(answer)
    variants = [int(number) for number in minute["variant"]]
    used = {number: variants.count(number) / len(variants) for number in sorted(set(variants))}
    said = [f"{labels[n]} {share:.0%}" for n, share in used.items() if n < len(labels)] if name == _AUTO else []
    return Figure(
        key="serving-minute",
        section=_SECTION,
        title=f"A minute of {_title(name)} at {_load(point)}",
        about="Every step is a round." + (f" Of the rounds: {', '.join(said)}." if said else ""),
        plot=plot,
        table=pd.DataFrame(minute),
        provenance=_predicted_with(answer),
        interval="No interval: one run.",
    )


def _labels(answer: Answer) -> Sequence[str]:
    """Labels of the schedule's variants by number; answers of older versions have those of its cells."""
    if answer.get("variants"):
        return list(answer["variants"])
    labels = {cell["number"]: cell["label"] for cell in answer.get("schedule") or ()}
    return [labels.get(number, "") for number in range(max(labels, default=-1) + 1)]


def _predicted_with(answer: Answer) -> str:
    """The profiles and the runtime behind a prediction, in words."""
    profiles = "; ".join(f"{each['profile']}: {each['summary']}" for each in answer["provenance"])
    return f"Predicted. {profiles}. Runtime {answer['runtime']}."
