"""The page of a report: its figures with their data, in the frame of every page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from ssdsim import __version__
from ssdsim.base.record import Record
from ssdsim.reports.explorer.page import scripts as explorer_scripts
from ssdsim.reports.explorer.page import styles as explorer_styles
from ssdsim.reports.figure import Figure, LeftOut, enumerated
from ssdsim.reports.frame import asset, framed
from ssdsim.reports.print_style import for_pages
from ssdsim.reports.swept import Swept

# a browser makes no PDF of a part of a page: ssdsim report --figure does
_PICTURES = "\n".join(
    f'<button type="button" class="picture" data-kind="{kind}">{kind.upper()}</button>' for kind in ("svg", "png")
)


class Page(Record):
    """The content of a report: ``strategies`` and ``origins`` are HTML, others plain; ``colour`` is the subject's.

    ``unfinished`` says how many points of a sweep are in, where they are not all; ``made_by`` is the command behind
    the run; ``follows`` is what the menus of a sweep move, which comes first.
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
    follows: Swept | None = None

    def html(self) -> str:
        """The whole document."""
        follows, (header, base) = self.follows, self._above()
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
            data=data if follows is None else {**data, "explorer": follows.data},
            styles=[asset("page.css")] if follows is None else explorer_styles(),
            scripts=[asset("page.js"), *([] if follows is None else explorer_scripts())],
        )

    def _above(self) -> tuple[list[str], list[str]]:
        """The header, and what stands above the figures: the answer, where the page's menus do not move it."""
        header = [
            f"<h1>{escape(self.title)}</h1>",
            f"<p><code>{escape(self.made_by)}</code></p>" if self.made_by else "",
            f'<p class="unfinished">{escape(self.unfinished)}</p>' if self.unfinished else "",
        ]
        verdict = f'<p class="verdict" style="--strategy: {self.colour}">{escape(self.sentence)}</p>'
        base = [verdict, *(f"<p>{escape(line)}</p>" for line in self.lines), self.strategies]
        if self.follows is None:
            return [*header, *base], []
        stays = f"<p>{escape(_stays(self.figures if self.grid else ()))}</p>"
        at = [self.follows.html, f"<h2>At {escape(self.follows.base)}</h2>", '<div class="base">', stays]
        return [*header, *(f"<p>{escape(line)}</p>" for line in self.follows.lines)], [*at, *base, "</div>"]


def _sections(figures: Sequence[Figure], grid: Mapping[str, Any] | None) -> Iterator[str]:
    for section, group in groupby(figures, key=lambda figure: figure.section):
        members = list(group)
        controls = _controls(grid) if grid and any(figure.axis for figure in members) else ""
        body = "\n".join(_figure(figure) for figure in members)
        yield f'<section><h2>{escape(section)}</h2>{controls}<div class="grid">{body}</div></section>'


def _stays(following: Sequence[Figure]) -> str:
    """The sentence on what of the page does not follow the controls above it."""
    axes = [figure.axis for figure in following if figure.axis]
    but = f", but for the speedups over {enumerated(axes)}, which follow" if axes else ""
    return (
        f"All that follows stays at these values wherever the controls stand{but}. A figure says itself what it varies."
    )


def _controls(grid: Mapping[str, Any]) -> str:
    """One menu an axis of the grid: at which of its values the charts over the other axes are drawn."""
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
