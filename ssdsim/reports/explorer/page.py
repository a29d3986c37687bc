"""The page as HTML: its frame, a control for each axis, and places for what JavaScript fills in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ssdsim import __version__
from ssdsim.reports.explorer.content import content
from ssdsim.reports.explorer.errors import Error
from ssdsim.reports.explorer.explore import Explored, limits
from ssdsim.reports.frame import asset, framed

_SCRIPTS = ("grid.js", "figures.js", "explorer.js")


def html(
    found: Explored, title: str, lines: Sequence[str], command: str, errors: Sequence[Error], footer: str = ""
) -> str:
    """The whole document.

    Parameters
    ----------
    lines : what the numbers rest on, plain.
    command : that made the page.
    errors : of the interpolation, by quantity; none where nothing is interpolated.
    footer : more of it, as HTML.
    """
    data = content(found)
    return framed(
        title=title,
        brand="ssdsim explore",
        header=f"<h1>{escape(title)}</h1>",
        main="\n".join(panel(data)),
        footer="\n".join([*provenance(found, lines, command, errors), footer, f"<p>Made by ssdsim {__version__}.</p>"]),
        data={"explorer": data},
        styles=styles(),
        scripts=scripts(),
    )


def styles() -> list[str]:
    return [asset("page.css"), asset("explorer/explorer.css")]


def scripts() -> list[str]:
    """The page's scripts, in a scope of their own: a report has names too."""
    inside = "\n".join(asset(f"explorer/{name}") for name in _SCRIPTS)
    return [f'"use strict";\n{{\n{inside}\n}}']


def panel(data: Mapping[str, Any]) -> Iterator[str]:
    """Controls, and an empty place for the answers."""
    yield '<form id="controls" aria-label="what to predict">'
    yield '<div class="sliders">'
    yield from (_control(axis, data) for axis in data["axes"] if axis["name"] != data["sides"])
    yield "</div>"
    yield '<div class="switches">'
    yield from _switches(data)
    yield "</div></form>"
    yield '<p id="notice" role="status"></p>'
    yield '<div id="sides"></div>'
    yield "<noscript>The figures need JavaScript; nothing is loaded from anywhere.</noscript>"


def _control(axis: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    name, key = escape(axis["title"]), f"at-{axis['name']}"
    output = f'<output id="{key}-value" for="{key}"></output>'
    mark = ' <span class="standing"></span>' if axis["name"] in data["supposed"] else ""
    head = f'<label for="{key}">{name}</label>{mark}{output}'
    if axis["continuous"]:
        low, high = axis["values"][0], axis["values"][-1]
        control = f'<input type="range" id="{key}" min="{low}" max="{high}" step="{axis["step"]:g}">'
    elif axis["best"] or any(isinstance(value, str) or value is None for value in axis["values"]):
        words = ([axis["best"]] if axis["best"] else []) + axis["labels"]
        options = "".join(f"<option>{escape(word)}</option>" for word in words)
        control = f'<select id="{key}">{options}</select>'
    else:
        control = f'<input type="range" id="{key}" min="0" max="{len(axis["values"]) - 1}" step="1">'
    return f'<div class="control" data-axis="{escape(axis["name"])}">{head}{control}</div>'


def _switches(data: Mapping[str, Any]) -> Iterator[str]:
    names = [each for each in data["strategies"] if each["name"] != data["subject"]]
    if names:
        boxes = "".join(
            f'<label><input type="checkbox" data-strategy="{escape(each["name"])}" checked> '
            f"{escape(each['title'])}</label>"
            for each in names
        )
        yield f"<fieldset><legend>against</legend>{boxes}</fieldset>"
    if data["assumed"]:
        supposed = ", ".join(f"{name.replace('_', ' ')} {each['value']:g}" for name, each in data["supposed"].items())
        yield (
            f'<label class="measured" title="{escape(supposed)}"><input type="checkbox" id="measured"> '
            "acceptance and hits are known, not assumed</label>"
        )
    if data["unit"] == "s":
        yield '<label>GPU price ($/h) <input type="number" id="price" min="0" step="0.1" inputmode="decimal"></label>'
    yield '<button type="button" id="reset">reset</button>'
    yield '<button type="button" id="copy">copy as command</button>'
    yield '<code id="command"></code>'


def provenance(found: Explored, lines: Sequence[str], command: str, errors: Sequence[Error]) -> Iterator[str]:
    """The footer: what the numbers rest on, the command that made them, how far interpolation may be off."""
    yield "<h2>Provenance</h2>"
    yield f"<p>Made by <code>{escape(command)}</code>: {found.points:,} points, each worked out as by ssdsim sweep.</p>"
    yield from (f"<p>{escape(line)}</p>" for line in lines)
    yield from (f"<p>{escape(limit)}</p>" for limit in limits(found.space))
    if errors:
        between = ", ".join(axis.title for axis in found.space.axes if axis.continuous)
        yield f"<p>{escape(between)}: interpolated between points of the grid. All other stops are exact.</p>"
        rows = "".join(
            f"<tr><th scope='row'>{escape(each.what)}</th><td>{each.worst:.2%}</td><td>{each.most:.2%}</td>"
            f"<td>{each.points:,}</td></tr>"
            for each in errors
        )
        yield (
            '<div class="scroll"><table class="errors"><caption>How far interpolation is off, against exact answers at '
            "random points</caption><thead><tr><th scope='col'>of</th><th scope='col'>worst</th>"
            f"<th scope='col'>99 of 100 below</th><th scope='col'>points</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )
