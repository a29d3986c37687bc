"""Figures of a measured pair: hit curves with their laws, acceptance, correlation, sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ssdsim.reports.figure import Figure, LeftOut, enumerated, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import LOG2_TICKS, PALETTE, bars, colour_and_symbol, curve, new_plot
from ssdsim.tokens.pair_choice import ChosenFindings, chosen_by
from ssdsim.tokens.pair_file import Batch, Findings, HitLaw

_SECTION = "The measured pair"
_INTERVAL = "Bars: 95 %, over requests where it was measured, of the counts where it was logged."
_NO_INTERVAL = "No interval: the file has none."


def pair(study: Study) -> list[Figure | LeftOut]:
    """The figures of the pair that the run is about; none without one."""
    chosen = chosen_by(study.configurable(study.base), study.configuration.settings.get("temperature"))
    if chosen is None:
        return []
    made = (_hits(chosen), _acceptance(chosen), _correlation(chosen), _sets(chosen))
    return [
        each if isinstance(each, Figure) else LeftOut(what, each)
        for what, each in zip(("hit curves", "acceptance by position", "batches", "sets"), made, strict=True)
    ]


# hit curves


def _hits(chosen: ChosenFindings) -> Figure | str:
    laws = dict(_laws(chosen.findings))
    if not laws:
        return f"{chosen.name} knows no hit rates: an engine's log has none, ssdsim measure has"
    plot = new_plot("fan-out F (guesses; log scale)", "P(bonus token is cached)")
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:8])
    plot.update_yaxes(tickformat=".0%")
    for at, (name, law) in enumerate(laws.items()):
        _add_curve(plot, name, law, *colour_and_symbol(at))
    table = pd.DataFrame([row for name, law in laws.items() for row in _rows(name, law)])
    bounded = any(low is not None for law in laws.values() for _, _, low, _ in law.curve or ())
    return Figure(
        key="pair-hits",
        section=_SECTION,
        title=_hits_title(laws),
        about=f"Points are measured, lines the fitted law h(F) = 1 - c F^-r: {'; '.join(map(_as_text, laws.items()))}. "
        "Where a law misfits the curve itself is used.",
        plot=plot,
        table=table,
        provenance=chosen.source,
        interval=_INTERVAL if bounded else _NO_INTERVAL,
    )


def _laws(findings: Findings) -> Iterator[tuple[str, HitLaw]]:
    for name, law in findings.hits.laws.items():
        if law.curve or (law.c is not None and law.r is not None):
            yield f"after backup {name}" if name in findings.hits.after_backup else f"after {name}", law


def _add_curve(plot: Any, name: str, law: HitLaw, colour: str, symbol: str) -> None:
    points = law.curve or ()
    fan_outs = [f for f, *_ in points] or LOG2_TICKS[:7]
    if law.c is not None and law.r is not None:
        line = np.geomspace(1.0, max(fan_outs), 60)
        fitted, dash = 1.0 - law.c * line**-law.r, "dot" if law.fits is False else "solid"
        hover, legend = f"{name}, law %{{y:.1%}}<extra>F = %{{x:.3g}}</extra>", {"showlegend": not points}
        how: dict[str, Any] = {"mode": "lines", "line": {"width": 2, "dash": dash}, "legendgroup": name, **legend}
        plot.add_trace(curve(rounded(line), fitted, f"{name}, law", colour, hover, **how))
    if points:
        how = {"mode": "markers", "marker": {"symbol": symbol, "size": 8}, "legendgroup": name}
        how["error_y"] = _bars([(h, low, high) for _, h, low, high in points])
        hover = f"{name} %{{y:.1%}}<extra>F = %{{x}}</extra>"
        plot.add_trace(curve(fan_outs, (h for _, h, *_ in points), name, colour, hover, **how))


def _bars(points: Sequence[tuple[float, float | None, float | None]]) -> dict[str, Any]:
    """Error bars of values with their bounds; none where a bound is unknown."""
    low = [value if low is None else min(value, low) for value, low, _ in points]
    high = [value if high is None else max(value, high) for value, _, high in points]
    return bars([value for value, *_ in points], low, high)


def _rows(name: str, law: HitLaw) -> Iterator[dict[str, Any]]:
    for fan_out, h, low, high in law.curve or ():
        fitted = None if law.c is None or law.r is None else 1.0 - law.c * fan_out**-law.r
        yield {"hits": name, "F": fan_out, "measured": h, "low": low, "high": high, "law": fitted}
    if not law.curve:
        yield {"hits": name, "F": 1, "measured": None, "low": None, "high": None, "law": 1.0 - (law.c or 0.0)}


def _as_text(named: tuple[str, HitLaw]) -> str:
    name, law = named
    if law.c is None or law.r is None:
        return f"{name} none was fitted"
    fits = {True: "fits", False: "misfits", None: "given"}[law.fits]
    return f"{name} c {law.c:.3g}, r {law.r:.3g} ({fits})"


def _hits_title(laws: Mapping[str, HitLaw]) -> str:
    first = {name: rate for name, law in laws.items() if (rate := _at_3(law)) is not None}
    if not first:
        return "How often so many guesses hit"
    parts = [f"{rate:.0%} {name}" for name, rate in first.items()]
    return f"Three guesses hit {enumerated(parts)}"


def _at_3(law: HitLaw) -> float | None:
    exact = [h for f, h, *_ in law.curve or () if f == 3]
    if exact:
        return exact[0]
    return None if law.c is None or law.r is None else float(1.0 - law.c * 3.0**-law.r)


# acceptance


def _acceptance(chosen: ChosenFindings) -> Figure | str:
    findings = chosen.findings
    if not findings.rates:
        return f"{chosen.name} knows no acceptance by position"
    plot = new_plot("position in the draft", "P(accepted | all before it were)")
    plot.update_yaxes(tickformat=".0%", rangemode="tozero")
    plot.update_xaxes(dtick=1)
    sets = {} if chosen.set_name else getattr(_whole(chosen), "sets", {})
    shown = {chosen.set_name or "all requests": findings, **{n: each for n, each in sets.items() if each.rates}}
    rows = []
    for at, (name, each) in enumerate(shown.items()):
        bounds = each.alpha_k_bounds or (None,) * len(each.rates)
        points = [(r, *(b or (None, None))) for r, b in zip(each.rates, bounds, strict=False)]
        colour, symbol = colour_and_symbol(at)
        how: dict[str, Any] = {"line": {"width": 3 if at == 0 else 1.5}, "marker": {"symbol": symbol, "size": 8}}
        hover, positions = f"{name} %{{y:.1%}}<extra>position %{{x}}</extra>", range(1, len(points) + 1)
        plot.add_trace(curve(positions, (r for r, *_ in points), name, colour, hover, error_y=_bars(points), **how))
        rows += [
            {"set": name, "position": i, "accepted": rate, "low": low, "high": high}
            for i, (rate, low, high) in enumerate(points, 1)
        ]
    return Figure(
        key="pair-acceptance",
        section=_SECTION,
        title=_acceptance_title(findings),
        about="The conditional rate of each position, as the lookahead needs it; engines' own rates by position are "
        f"of all rounds, the running product of these. {_lengths(findings)}",
        plot=plot,
        table=pd.DataFrame(rows),
        provenance=chosen.source,
        interval=_INTERVAL if findings.alpha_k_bounds else _NO_INTERVAL,
    )


def _whole(chosen: ChosenFindings) -> Findings:
    return next(each for each in chosen.pair.by_temperature if each.temperature == chosen.temperature)


def _acceptance_title(findings: Findings) -> str:
    rates = findings.rates
    first, last = rates[0], rates[-1]
    if abs(last - first) < 0.02:
        return f"Acceptance is {first:.0%} at the first position and {last:.0%} at the last"
    return f"Acceptance {'rises' if last > first else 'falls'} from {first:.0%} at the first position to {last:.0%}"


def _lengths(findings: Findings) -> str:
    length = findings.length
    if length.pooled is None:
        return ""
    said = f"{length.pooled:.2f} tokens a round over all rounds"
    if length.mean_of_requests is not None:
        said += f", {length.mean_of_requests:.2f} as the mean of requests"
    return f"{said}."


# batches


def _correlation(chosen: ChosenFindings) -> Figure | str:
    batches = [each for each in chosen.findings.correlation.batch if each.p_all_hit is not None]
    if not batches:
        return f"{chosen.name} knows no rounds of batches"
    plot = new_plot("batch (log scale)", "P(all hit)")
    plot.update_xaxes(type="log", tickvals=LOG2_TICKS[:7])
    plot.update_yaxes(type="log", tickformat=".1%")
    sizes = [each.b for each in batches]
    lines = {
        "measured in lockstep": [each.p_all_hit for each in batches],
        "p^b": [each.independent for each in batches],
        "product of the requests' own": [each.by_request for each in batches],
    }
    for at, (name, values) in enumerate(lines.items()):
        if any(value is not None for value in values):
            colour, symbol = colour_and_symbol(at)
            shares = (float("nan") if value is None or value <= 0.0 else value for value in values)
            bounds = _bars([(each.p_all_hit or 0.0, each.low, each.high) for each in batches]) if at == 0 else None
            how = {"line": {"dash": ("solid", "dash", "dot")[at]}, "marker": {"symbol": symbol, "size": 8}}
            hover = f"{name} %{{y:.2%}}<extra>b = %{{x}}</extra>"
            plot.add_trace(curve(sizes, shares, name, colour, hover, error_y=bounds, **how))
    return Figure(
        key="pair-batches",
        section=_SECTION,
        title=_batch_title(batches[-1]),
        about="A round is only as fast as its slowest sequence, so a batch must hit together. "
        f"{_lags(chosen.findings)}",
        plot=plot,
        table=pd.DataFrame([each.as_dict() for each in batches]),
        provenance=chosen.source,
        interval=_INTERVAL if any(each.low is not None for each in batches) else _NO_INTERVAL,
    )


def _batch_title(largest: Batch) -> str:
    measured, independent = largest.p_all_hit or 0.0, largest.independent
    if independent is None:
        return f"All {largest.b} hit in {measured:.1%} of rounds"
    return f"All {largest.b} hit in {measured:.1%} of rounds; independent sequences would in {independent:.1%}"


def _lags(findings: Findings) -> str:
    correlation = findings.correlation
    parts = [
        f"{what} {value:+.2f}"
        for what, value in (
            ("lag-1 correlation of accepts", correlation.lag1),
            ("of hits", correlation.lag1_hits),
            ("intraclass correlation of hits", correlation.icc),
        )
        if value is not None
    ]
    return f"Inside a request: {', '.join(parts)}." if parts else ""


# sets


def _sets(chosen: ChosenFindings) -> Figure | str:
    whole = _whole(chosen)
    sets = {name: each for name, each in getattr(whole, "sets", {}).items() if each.alpha.mean is not None}
    if not sets:
        return f"{chosen.name} has no sets of requests"
    rows = [_set_row(name, each) for name, each in {"all": whole, **sets}.items()]
    means = [row["alpha"] for row in rows]
    plot = new_plot("set of requests", "acceptance rate")
    plot.update_yaxes(tickformat=".0%", rangemode="tozero")
    plot.add_bar(
        x=[row["set"] for row in rows],
        y=rounded(float("nan") if mean is None else mean for mean in means),
        error_y=_bars([(row["alpha"] or 0.0, row["low"], row["high"]) for row in rows]),
        marker={"color": [PALETTE[0], *[PALETTE[1]] * len(sets)]},
        hovertemplate="%{x} %{y:.1%}<extra></extra>",
        showlegend=False,
    )
    compared = sets if len(sets) > 1 else {**sets, "all requests": whole}
    rates = {name: each.alpha.mean or 0.0 for name, each in compared.items()}
    best, worst = max(rates, key=lambda name: rates[name]), min(rates, key=lambda name: rates[name])
    return Figure(
        key="pair-sets",
        section=_SECTION,
        title=f"Accepted: {rates[best]:.0%} of {best}, {rates[worst]:.0%} of {worst}",
        about="The same pair on other texts; --pair-set takes one of them.",
        plot=plot,
        table=pd.DataFrame(rows),
        provenance=chosen.source,
        interval=_INTERVAL if any(row["low"] is not None for row in rows) else _NO_INTERVAL,
    )


def _set_row(name: str, findings: Findings) -> dict[str, Any]:
    rejected = findings.hits.rejected
    return {
        "set": name,
        "requests": findings.count,
        "alpha": findings.alpha.mean,
        "low": findings.alpha.low,
        "high": findings.alpha.high,
        "tokens a round": findings.length.pooled,
        "h(3) after a rejection": None if rejected is None else _at_3(rejected),
    }
