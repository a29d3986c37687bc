"""The verdict on top of the page, and where everything came from at its end."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ssdsim.answers.evidence import inputs_told
from ssdsim.answers.verdict import called_together
from ssdsim.pricing.room import counted
from ssdsim.reports.study import Study
from ssdsim.reports.style import colour_of, title_of

if TYPE_CHECKING:
    import pandas as pd


def verdict_lines(study: Study) -> tuple[str, list[str]]:
    """The sentence, and the lines under it: settings, probability, hit rates, GPUs, and the recommendation if any."""
    prediction = study.prediction
    verdict = prediction.verdict
    lines = [f"At {prediction.configuration.shape}; the figures show other settings."]
    if verdict.probability_best is not None:
        faster = f"{title_of(verdict.subject)} is faster than {called_together(list(verdict.over))}"
        rest = f"; not known: {verdict.doubts_told}" if verdict.doubts_told else ""
        lines.append(f"P({faster}) = {verdict.probability_best:.2f}{rest}.")
    lines.append(" ".join([_gpus(study), *_hit_rates(study)]))
    refused = prediction.configuration.no_room.items()
    lines += [f"No room for {title_of(name)}: {why}." for name, why in refused if name != verdict.subject]
    recommended = _recommended(study)
    return verdict.sentence, [*lines, *([f"ssdsim recommend: {recommended}"] if recommended else [])]


def _gpus(study: Study) -> str:
    estimates = study.prediction.estimates
    return f"GPUs: {', '.join(f'{title_of(name)} {counted(e.gpus)}' for name, e in estimates.items())}."


def _hit_rates(study: Study) -> list[str]:
    """A sentence a strategy that caches, which names it where several do."""
    several, said = len(study.caching) > 1, []
    for scenario in study.caching:
        e = study.prediction.estimates[scenario.strategy.name]
        together = f"; all {e.batch} hit in {e.p_all_hit:.1%} of rounds" if e.batch > 1 else ""
        said.append(f"Hit rate{f' of {scenario.strategy.title}' if several else ''} {e.p_hit:.3f}{together}.")
    return said


def _recommended(study: Study) -> str | None:
    verdict = (study.folder.recommendation or {}).get("verdict")
    sentence = verdict.get("sentence") if isinstance(verdict, dict) else verdict
    return sentence if isinstance(sentence, str) else None


def strategies_table(study: Study) -> str:
    """Each strategy at the base point, as HTML."""
    told = study.prediction.told
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in ("strategy", *told.header[1:]))
    body = "".join(map(_strategy_html, study.prediction.estimates, told.rows))
    caption = "<caption>Each strategy at the base point</caption>"
    table = f'<table class="strategies">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="strategies">{table}</div>'


def _strategy_html(name: str, cells: Sequence[str]) -> str:
    first, *others = (escape(cell) for cell in cells)
    row = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr style="--strategy: {colour_of(name)}"><th scope="row">{first}</th>{row}</tr>'


def origins(study: Study) -> str:
    """Every effective option with its source, the grid, the timings and their warnings, as HTML."""
    configuration = study.configuration
    parts = []
    for record in configuration.provenance:
        parts.append(f"<p><b>Timings of {escape(record['profile'])}</b>: {escape(record['summary'])}</p>")
    if configuration.runtime:
        parts.append(f"<p><b>Runtime</b> {escape(configuration.runtime)}</p>")
    tokens = inputs_told(configuration.inputs)
    if tokens:
        parts.append(f"<p><b>Tokens</b> {escape(tokens)}</p>")
    parts += [f"<p>Warning: {escape(warning)}</p>" for warning in configuration.warnings]
    if study.folder.grid:
        grid = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in study.folder.grid.items())
        parts.append(f"<p><b>Grid</b> {escape(grid)}</p>")
    impossible = _impossible(study.folder.results)
    parts += [f"<p>{escape(impossible)}</p>"] if impossible else []
    sources = {name: configuration.settings.source(name) for name in configuration.settings}
    sources |= {name: "base value of the grid" for name in study.folder.grid if sources.get(name) == "given"}
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(_plain(value))}</td><td>{escape(sources[name])}</td></tr>'
        for name, value in configuration.settings.items()
    )
    head = "".join(f'<th scope="col">{column}</th>' for column in ("option", "value", "origin"))
    table = f"<table><caption>Options</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    parts.append(f"<details><summary>Every option at the base point</summary>{table}</details>")
    return "\n".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _impossible(results: pd.DataFrame | None) -> str | None:
    if results is None or "error" not in results or results["error"].isna().all():
        return None
    errors = results["error"].dropna()
    return f"{len(errors)} of {len(results)} grid points are not possible; the first: {errors.iloc[0]}"
