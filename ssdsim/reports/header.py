"""The verdict on top of the page, and where everything came from at its end."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from ssdsim.answers.predict import STRATEGIES, provenance
from ssdsim.reports.study import Study
from ssdsim.reports.style import STRATEGY_NAME


def verdict_lines(study: Study) -> tuple[str, list[str]]:
    """The sentence, and the lines under it: settings, probability, hit rate, GPUs, and the recommendation if any."""
    prediction = study.prediction
    verdict, estimates = prediction.verdict, prediction.estimates
    lines = [f"At {prediction.configuration.shape}; the figures show other settings."]
    if verdict.probability_best is not None:
        lines.append(f"P(SSD is faster than SD and AR, given the timings' errors) = {verdict.probability_best:.2f}.")
    gpus = ", ".join(f"{STRATEGY_NAME[name]} {estimates[name].gpus}" for name in STRATEGIES)
    ssd = estimates["ssd"]
    together = f"; all {ssd.batch} hit in {ssd.p_all_hit:.1%} of rounds" if ssd.batch > 1 else ""
    lines.append(f"GPUs: {gpus}. Hit rate {ssd.p_hit:.3f}{together}.")
    recommended = _recommended(study)
    return verdict.sentence, [*lines, *([f"ssdsim recommend: {recommended}"] if recommended else [])]


def _recommended(study: Study) -> str | None:
    verdict = (study.folder.recommendation or {}).get("verdict")
    sentence = verdict.get("sentence") if isinstance(verdict, dict) else verdict
    return sentence if isinstance(sentence, str) else None


def strategies_table(study: Study) -> str:
    """AR, SD and SSD at the base point, as HTML."""
    prediction = study.prediction
    scale, unit = (1.0, "T_v") if study.unit_free else (1e3, "ms")
    rows = []
    for name in STRATEGIES:
        e, interval = prediction.estimates[name], prediction.intervals[name]
        rate = float(e.tokens_per_second)
        row = {
            "": STRATEGY_NAME[name],
            study.rate_unit: f"{rate:.4g}",
            "95 %": f"{interval.low:.4g} to {interval.high:.4g}" if interval else "",
            "per user": f"{rate / e.batch:.4g}",
            "per GPU": f"{rate / e.gpus:.4g}",
            "GPUs": str(e.gpus),
            f"round {unit}": f"{scale * float(e.round_s):.4g}",
            "tokens a round": f"{e.tokens_per_round:.2f}",
            "vs AR": f"{rate / float(prediction.estimates['ar'].tokens_per_second):.2f}×",
            "vs SD": f"{rate / float(prediction.estimates['sd'].tokens_per_second):.2f}×",
        }
        rows.append(row if any(prediction.intervals.values()) else {k: v for k, v in row.items() if k != "95 %"})
    head = "".join(f"<th>{escape(column)}</th>" for column in rows[0])
    body = "".join(
        f'<tr class="{name}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row.values()) + "</tr>"
        for name, row in zip(STRATEGIES, rows, strict=True)
    )
    table = f'<table class="strategies"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def origins(study: Study) -> str:
    """Every effective option with its source, the grid, the timings and their warnings, as HTML."""
    configuration = study.configuration
    parts = []
    for record in provenance(configuration):
        parts.append(f"<p><b>Timings of {escape(record['profile'])}</b>: {escape(record['summary'])}</p>")
    parts += [f"<p>Warning: {escape(warning)}</p>" for warning in configuration.warnings]
    if study.folder.grid:
        grid = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in study.folder.grid.items())
        parts.append(f"<p><b>Grid</b> {escape(grid)}</p>")
    impossible = _impossible(study.folder.results)
    parts += [f"<p>{escape(impossible)}</p>"] if impossible else []
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_plain(value))}</td>"
        f"<td>{escape(_source(study, name, configuration.sources.get(name, 'derived')))}</td></tr>"
        for name, value in configuration.values.items()
    )
    parts.append(f"<details><summary>Every option at the base point</summary><table>{rows}</table></details>")
    return "\n".join(parts)


def _source(study: Study, name: str, source: str) -> str:
    return "base value of the grid" if source == "given" and name in study.folder.grid else source


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _impossible(results: pd.DataFrame | None) -> str | None:
    if results is None or "error" not in results or results["error"].isna().all():
        return None
    errors = results["error"].dropna()
    return f"{len(errors)} of {len(results)} grid points are not possible; the first: {errors.iloc[0]}"
