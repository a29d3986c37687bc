"""The page: one HTML document with plotly.js, the figures and their data inside it, and no reference to a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from ssdsim import __version__
from ssdsim.reports.figure import Figure, LeftOut

# Nothing may be fetched or sent: the policy makes of a mistake an error in the console, not a request.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

_SHELL = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<link rel="icon" href="data:,">
<title>ssdsim: $title</title>
<style>
$css
</style>
</head>
<body>
<header>
<div class="bar"><span class="brand">ssdsim report</span><button id="theme" type="button">dark</button></div>
<h1>$title</h1>
$unfinished
<p class="verdict" style="--strategy: $colour">$sentence</p>
$lines
$strategies
</header>
<main>
$sections
</main>
<footer>
<h2>Provenance</h2>
$origins
$left_out
<p>Made by ssdsim $version.</p>
</footer>
<script type="application/json" id="data">$data</script>
<script>$plotly</script>
<script>
$js
</script>
</body>
</html>
""")


def html(
    *,
    title: str,
    unfinished: str | None,
    sentence: str,
    colour: str,
    lines: Sequence[str],
    strategies: str,
    figures: Sequence[Figure],
    grid: Mapping[str, Any] | None,
    origins: str,
    left_out: Sequence[LeftOut],
) -> str:
    """The whole document. ``strategies`` and ``origins`` are HTML, others plain; ``colour`` is the subject's."""
    data = {
        "figures": [figure.plot_json() for figure in figures],
        "tables": {figure.key: figure.csv() for figure in figures},
        "grid": grid,
    }
    return _SHELL.substitute(
        policy=_POLICY,
        title=escape(title),
        css=_asset("page.css"),
        unfinished=f'<p class="unfinished">{escape(unfinished)}</p>' if unfinished else "",
        sentence=escape(sentence),
        colour=colour,
        lines="".join(f"<p>{escape(line)}</p>" for line in lines),
        strategies=strategies,
        sections="\n".join(_sections(figures, grid)),
        origins=origins,
        left_out=_left_out(left_out),
        version=__version__,
        # "</script>" in a text would end the element that holds it, "<!--<script>" have it never end
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        plotly=plotlyjs(),
        js=_asset("page.js"),
    )


def _asset(name: str) -> str:
    return files("ssdsim.reports").joinpath(name).read_text(encoding="utf-8")


def _sections(figures: Sequence[Figure], grid: Mapping[str, Any] | None) -> Iterator[str]:
    for section, group in groupby(figures, key=lambda figure: figure.section):
        members = list(group)
        controls = _controls(grid) if grid and any(figure.axis for figure in members) else ""
        body = "\n".join(_figure(figure) for figure in members)
        yield f'<section><h2>{escape(section)}</h2>{controls}<div class="grid">{body}</div></section>'


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
    wide = " wide" if figure.wide else ""
    return f"""<figure id="{figure.key}" class="card{wide}">
<h3>{escape(figure.title)}</h3>
<p class="about">{escape(figure.about)}</p>
<div class="plot" style="height:{figure.plot.layout.height}px"></div>
<figcaption><span class="interval">{escape(figure.interval)}</span>
{escape(figure.provenance)}</figcaption>
<details class="data"><summary>Data</summary><button type="button" class="csv">download CSV</button>
<div class="scroll"></div></details>
</figure>"""


def _left_out(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return ""
    items = "".join(f"<li>{escape(item.what)}: {escape(item.why)}</li>" for item in left_out)
    return f"<details><summary>Not shown</summary><ul>{items}</ul></details>"


def plotlyjs() -> str:
    """plotly.js with its factory in parentheses: browsers then compile it once, and do not parse it twice.

    Text that does not look as expected is left as it is.
    """
    plotly: str = get_plotlyjs()
    head, start, rest = plotly.partition(", () => {")
    body, end, tail = rest.rpartition("}));")
    return f"{head}, (() => {{{body}}})));{tail}" if start and end else plotly
