"""The page of a report: the verdict, the figures with their data, and the provenance of all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ssdsim import __version__
from ssdsim.answers.evidence import inputs_text
from ssdsim.answers.verdict import cannot_run, worth_measuring
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import format_count
from ssdsim.reports.explorer.page import scripts as explorer_scripts
from ssdsim.reports.explorer.page import styles as explorer_styles
from ssdsim.reports.figure import Figure, LeftOut, enumerated
from ssdsim.reports.frame import asset, framed
from ssdsim.reports.study import Study
from ssdsim.reports.style import colour_of, title_of
from ssdsim.reports.sweep_controls import SweepControls
from ssdsim.reports.theme import for_pages

if TYPE_CHECKING:
    import pandas as pd

# a browser makes no PDF of a part of a page: ssdsim report --figure does
_PICTURES = "\n".join(
    f'<button type="button" class="picture" data-kind="{kind}">{kind.upper()}</button>' for kind in ("svg", "png")
)


class Page(Record):
    """The content of a report; ``strategies`` and ``origins`` are HTML, other texts plain; ``colour`` is the subject's.

    ``unfinished`` says how many points of a sweep are in, unless all are. ``made_by`` is the command behind the run.
    ``controls`` are those of a sweep; they come first.
    """

    title: str
    sentence: str
    colour: str
    figures: Sequence[Figure]
    lines: Sequence[str] = ()
    left_out: Sequence[LeftOut] = ()
    strategies: str = ""
    origins: str = ""
    grid: Mapping[str, Any] | None = None
    unfinished: str | None = None
    made_by: str | None = None
    controls: SweepControls | None = None

    def html(self) -> str:
        """The whole document."""
        controls, (header, base) = self.controls, self._above()
        left_out, version = _left_out(self.left_out), f"<p>Made by ssdsim {__version__}.</p>"
        data = {
            "figures": [figure.plot_json() for figure in self.figures],
            "tables": {figure.key: figure.csv() for figure in self.figures},
            "grid": self.grid,
            "print": for_pages(),
        }
        return framed(
            title=self.title,
            brand="ssdsim report",
            header="\n".join(header),
            main="\n".join([*base, *_sections(self.figures, self.grid)]),
            footer="\n".join(["<h2>Provenance</h2>", self.origins, left_out, version]),
            data=data if controls is None else {**data, "explorer": controls.data},
            styles=[asset("page.css")] if controls is None else explorer_styles(),
            scripts=[asset("page.js"), *([] if controls is None else explorer_scripts())],
        )

    def _above(self) -> tuple[list[str], list[str]]:
        """The header, and what stands above the figures; the answer is in the header unless there are controls."""
        header = [
            f"<h1>{escape(self.title)}</h1>",
            f"<p><code>{escape(self.made_by)}</code></p>" if self.made_by else "",
            f'<p class="unfinished">{escape(self.unfinished)}</p>' if self.unfinished else "",
        ]
        verdict = f'<p class="verdict" style="--strategy: {self.colour}">{escape(self.sentence)}</p>'
        base = [verdict, *(f"<p>{escape(line)}</p>" for line in self.lines), self.strategies]
        if self.controls is None:
            return [*header, *base], []
        stays = f"<p>{escape(_stays(self.figures if self.grid else ()))}</p>"
        at = [self.controls.html, f"<h2>At {escape(self.controls.base)}</h2>", '<div class="base">', stays]
        return [*header, *(f"<p>{escape(line)}</p>" for line in self.controls.lines)], [*at, *base, "</div>"]


def _sections(figures: Sequence[Figure], grid: Mapping[str, Any] | None) -> Iterator[str]:
    for section, group in groupby(figures, key=lambda figure: figure.section):
        members = list(group)
        menus = _menus(grid) if grid and any(figure.axis for figure in members) else ""
        body = "\n".join(_figure(figure) for figure in members)
        yield f'<section><h2>{escape(section)}</h2>{menus}<div class="grid">{body}</div></section>'


def _stays(following: Sequence[Figure]) -> str:
    """A sentence on what does not follow the controls above it."""
    axes = [figure.axis for figure in following if figure.axis]
    but = f", but for the speedups over {enumerated(axes)}, which follow" if axes else ""
    return (
        f"All that follows stays at these values wherever the controls stand{but}. A figure says itself what it varies."
    )


def _menus(grid: Mapping[str, Any]) -> str:
    """A menu per axis of the grid: the value at which charts over the other axes are drawn."""
    menus = []
    for name, values in grid["axes"].items():
        choices = "".join(
            f'<option value="{i}"{" selected" if i == grid["base"][name] else ""}>{escape(value)}</option>'
            for i, value in enumerate(values)
        )
        label = escape(grid["titles"][name].split(" (")[0])
        menus.append(f'<label>{label} <select data-axis="{escape(name)}">{choices}</select></label>')
    menus.append('<button type="button" id="to-base">base values</button>')
    return f'<div class="controls">{"".join(menus)}</div>'


def _figure(figure: Figure) -> str:
    wide, title = " wide" if figure.wide else "", escape(figure.title)
    return f"""<figure id="{figure.key}" class="card{wide}" aria-labelledby="{figure.key}-title">
<h3 id="{figure.key}-title">{title}</h3>
<p class="about">{escape(figure.about)}</p>
<div class="plot" role="img" aria-label="{title}" style="height:{figure.plot.layout.height}px"></div>
<figcaption><span class="interval">{escape(figure.interval)}</span>
{escape(figure.provenance)}</figcaption>
<div class="give" role="group" aria-label="download {figure.key}">download
{_PICTURES}
<button type="button" class="csv">CSV</button></div>
<details class="data"><summary>Data<span class="unseen"> of {figure.key}</span></summary>
<div class="scroll" tabindex="0" role="region" aria-label="data of {figure.key}"></div></details>
</figure>"""


def _left_out(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return ""
    items = "".join(f"<li>{escape(item.what)}: {escape(item.why)}</li>" for item in left_out)
    return f"<details><summary>Not shown</summary><ul>{items}</ul></details>"


def verdict_lines(study: Study) -> tuple[str, list[str]]:
    """The verdict's sentence, and lines on settings, probability, hit rates, GPUs and the recommendation if any."""
    prediction = study.prediction
    verdict = prediction.verdict
    lines = [f"At {prediction.configuration.shape}; the figures show other settings."]
    measure = worth_measuring(verdict.decision)
    lines += [f"{each}." for each in (verdict.sure, verdict.turns, measure and f"Measure {measure}") if each]
    lines.append(" ".join([_gpus(study), *_hit_rates(study)]))
    refused = prediction.configuration.refused.items()
    lines += [cannot_run(name, why) for name, why in refused if name != verdict.subject]
    recommended = _recommended(study)
    return verdict.sentence, [*lines, *([f"ssdsim recommend: {recommended}"] if recommended else [])]


def _gpus(study: Study) -> str:
    estimates = study.prediction.estimates
    devices = study.configuration.devices.replace("cores", "Cores")
    return f"{devices}: {', '.join(f'{title_of(name)} {format_count(e.gpus)}' for name, e in estimates.items())}."


def _hit_rates(study: Study) -> list[str]:
    """A sentence per strategy with a cache, with its name if there are several."""
    several, said = len(study.caching) > 1, []
    for scenario in study.caching:
        e = study.prediction.estimates[scenario.strategy.name]
        of_pass = scenario.in_a_pass
        together = f"; all {of_pass} hit in {e.p_all_hit:.1%} of rounds" if of_pass > 1 else ""
        said.append(f"Hit rate{f' of {scenario.strategy.title}' if several else ''} {e.p_hit:.3f}{together}.")
    return said


def _recommended(study: Study) -> str | None:
    verdict = (study.folder.recommendation or {}).get("verdict")
    sentence = verdict.get("sentence") if isinstance(verdict, dict) else verdict
    return sentence if isinstance(sentence, str) else None


def strategies_table(study: Study) -> str:
    """The strategies at the base point, as HTML."""
    told = study.prediction.display
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
    tokens = inputs_text(configuration.inputs)
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
