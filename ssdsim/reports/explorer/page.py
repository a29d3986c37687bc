"""The page: its HTML, its data as JSON with all numbers in one run of bytes, and its command lines."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import __version__
from ssdsim.answers.decision import SURE_SHARE, TIED
from ssdsim.answers.verdict import cannot_run, stands_alone
from ssdsim.base.option import Option, spelled
from ssdsim.question.options import ALL
from ssdsim.reports.explorer.doubts import Doubt
from ssdsim.reports.explorer.errors import LIKELY, Error
from ssdsim.reports.explorer.grid import ExplorerGrid, limits
from ssdsim.reports.explorer.space import SEARCHED, GridAxis, Space, side_axis
from ssdsim.reports.explorer.stop_sentences import Stops
from ssdsim.reports.explorer.table import WIDTH, GridTable
from ssdsim.reports.frame import asset, framed
from ssdsim.reports.style import WORK_COLOUR, WORK_PATTERN, colour_of, symbol_of, title_of
from ssdsim.rounds.round import PART_TITLES, PARTS

_SCRIPTS = ("grid.js", "figures.js", "explorer.js")


def html(
    found: ExplorerGrid, title: str, lines: Sequence[str], command: str, errors: Sequence[Error], footer: str = ""
) -> str:
    """The whole document.

    Parameters
    ----------
    lines : what the numbers rest on, plain text.
    command : the command that makes the page.
    errors : of interpolation, by quantity; none if nothing is interpolated.
    footer : more of the footer, as HTML.
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
    """The page's scripts, in one scope of their own: a report has names, too."""
    inside = "\n".join(asset(f"explorer/{name}") for name in _SCRIPTS)
    return [f'"use strict";\n{{\n{inside}\n}}']


def panel(data: Mapping[str, Any]) -> Iterator[str]:
    """Controls, and empty places for the answers."""
    yield '<div class="explorer">'
    yield '<form id="controls" aria-label="what to predict">'
    yield '<div class="sliders">'
    yield from (_control(axis, data) for axis in data["axes"] if axis["name"] != data["sides"])
    yield "</div>"
    yield '<div class="switches">'
    yield from _switches(data)
    yield "</div></form>"
    yield '<p id="notice" role="status"></p>'
    yield '<div id="answers"></div>'
    yield '<div id="sides"></div></div>'
    yield "<noscript>The figures need JavaScript; nothing is loaded from anywhere.</noscript>"


def _control(axis: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    name, key = escape(axis["title"]), f"at-{axis['name']}"
    output = f'<output id="{key}-value" for="{key}"></output>'
    head = f'<label for="{key}">{name}</label>{output}'
    if axis["continuous"]:
        low, high = axis["values"][0], axis["values"][-1]
        control = f'<input type="range" id="{key}" min="{low}" max="{high}" step="{axis["step"]:g}">'
    elif axis["best"] or any(isinstance(value, str) or value is None for value in axis["values"]):
        labels = ([axis["best"]] if axis["best"] else []) + axis["labels"]
        options = "".join(f"<option>{escape(label)}</option>" for label in labels)
        control = f'<select id="{key}">{options}</select>'
    else:
        control = f'<input type="range" id="{key}" min="0" max="{len(axis["values"]) - 1}" step="1">'
    if axis["name"] in data["doubts"]:  # its range, and the tick that ends it
        head += f'<span class="range" id="range-{axis["name"]}"></span>'
        tick = f'<input type="checkbox" id="known-{axis["name"]}" aria-label="{name} is measured">'
        control += f'<label class="known">{tick} measured</label>'
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
    if data["unit"] == "s":
        yield '<label>GPU price ($/h) <input type="number" id="price" min="0" step="0.1" inputmode="decimal"></label>'
    yield '<button type="button" id="reset">reset</button>'
    yield '<button type="button" id="copy">copy as command</button>'
    yield '<code id="command"></code>'


def provenance(found: ExplorerGrid, lines: Sequence[str], command: str, errors: Sequence[Error]) -> Iterator[str]:
    """The footer: sources of the numbers, the command behind them, and errors of interpolation."""
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


_LOW_BITS = np.uint32(0xFFFFFF00)  # of the mantissa sixteen bits are left: 8e-6


def content(found: ExplorerGrid) -> dict[str, Any]:
    """The page's data; ``numbers`` are float32 in base64 of gzip, and each table says where its own begin."""
    numbers = _PackedNumbers()
    space = found.space
    assert found.stops is not None  # it is the whole grid
    return {
        **_question(space),
        "seed": found.seed,
        "axes": [_axis(space, axis) for axis in space.axes],
        "width": WIDTH,
        "tied": TIED,
        "surely": SURE_SHARE,
        "likely": LIKELY,
        "searched": SEARCHED,
        "parts": [_round_part(part) for part in PARTS],
        "rates": {name: numbers.table(each.table) for name, each in found.rates.items()},
        "refused": {
            name: {
                **numbers.array(each.refused, each.table.axes),
                "reasons": each.reasons,
                "sentences": [cannot_run(name, reason) for reason in each.reasons],
            }
            for name, each in found.rates.items()
        },
        "memory": {name: numbers.table(each) for name, each in found.memory.items()},
        "errors": {name: numbers.table(each) for name, each in found.errors.items()},
        "basis": {"draws": found.basis.draws, **numbers.array(found.basis.vectors, ())},
        "doubts": {each.name: _doubt(each, space, numbers) for each in found.doubts},
        "stops": _stops(found.stops),
        "numbers": numbers.encoded,
    }


def _question(space: Space) -> dict[str, Any]:
    """Who is compared, and what else no control says."""
    return {
        "unit": "T_v" if space.unit_free else "s",
        "subject": space.subject,
        "rivals": space.rivals,
        "strategies": [
            {"name": name, "title": title_of(name), "colour": colour_of(name), "symbol": symbol_of(name)}
            for name in space.names
        ],
        "alone": stands_alone(space.subject),
        "fixedStrategies": "strategies" in space.fixed,
        "fixed": [
            (name, _option_words({name: value}))
            for name, value in space.fixed.items()
            if name not in ("strategies", "ranges")
        ],
        "ranges": [spelled_value([each]) for each in space.known_ranges],
        "sides": side_axis(space),
    }


def _round_part(part: str) -> dict[str, Any]:
    look = {"colour": WORK_COLOUR[part], "pattern": WORK_PATTERN.get(part, {})}
    return {"name": part, "title": PART_TITLES[part], **look}


def _axis(space: Space, axis: GridAxis) -> dict[str, Any]:
    option = ALL[axis.name]
    return {
        "name": axis.name,
        "title": option.axis,
        "flag": spelled(axis.name),
        "values": axis.values,
        "words": ["" if value is None else shlex.quote(spelled_value(value)) for value in axis.values],
        "labels": [_unsaid(option) if value is None else spelled_value(value) for value in axis.values],
        "continuous": axis.continuous,
        "best": axis.best,
        "best_word": axis.best if axis.name not in SEARCHED else "",
        "log": axis.log,
        "start": axis.start,
        "opens": axis.opens,
        "read_by": [name for name in space.names if axis.name in space.read[name]],
        "step": _step(axis) if axis.continuous else None,
    }


def _doubt(each: Doubt, space: Space, numbers: _PackedNumbers) -> dict[str, Any]:
    return {
        "values": each.values.tolist(),
        "ends": each.ends.tolist(),
        "looks": numbers.array(each.looks, ()),
        "given": space.unsaid[each.name] is not None,
    }


def _stops(found: Stops) -> dict[str, Any]:
    """What is told, each once, and its number by stop."""
    told = list(dict.fromkeys(found.texts))
    number = {each: at for at, each in enumerate(told)}
    sentences = [(each.sentence, each.sure) for each in told]
    return {"axes": found.stops, "told": sentences, "numbers": [number[each] for each in found.texts]}


def _unsaid(option: Option) -> str:
    """The label of an option that is not given: its default in words, unless these name another option."""
    return option.default_note if option.default_note and "--" not in option.default_note else "not given"


def _step(axis: GridAxis) -> float:
    """The step of a slider: a power of ten, about a hundredth of the range."""
    return float(10.0 ** np.floor(np.log10((axis.values[-1] - axis.values[0]) / 30.0)))


class _PackedNumbers:
    """The numbers of all tables, one after the other."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.float32]] = []
        self._size = 0

    def table(self, table: GridTable) -> dict[str, Any]:
        return {**self.array(table.values, table.axes), "columns": table.columns}

    def array(self, values: NDArray[Any], axes: Sequence[GridAxis]) -> dict[str, Any]:
        """Axes, shape and start of an array; ``nodes`` are of the axes that are interpolated."""
        start = self._size
        self._parts.append(np.asarray(values, dtype=np.float32).reshape(-1))
        self._size += values.size
        nodes = {axis.name: axis.nodes for axis in axes if axis.continuous}
        return {"axes": [axis.name for axis in axes], "nodes": nodes, "shape": values.shape, "start": start}

    @property
    def encoded(self) -> str:
        rounded = (np.concatenate(self._parts).view(np.uint32) + np.uint32(0x80)) & _LOW_BITS
        return base64.b64encode(gzip.compress(rounded.astype("<u4").tobytes(), 7, mtime=0)).decode()


def _option_words(options: Mapping[str, Any]) -> list[str]:
    """The words of ``options``, quoted for a shell.

    >>> " ".join(_option_words({"b": 4, "fl": [4, 3], "extrapolate": True, "pair": "my pair.json"}))
    "--b 4 --fl 4,3 --extrapolate --pair 'my pair.json'"
    """
    found = []
    for name, value in options.items():
        if value is False:
            continue
        found += [spelled(name)] if value is True else [spelled(name), shlex.quote(spelled_value(value))]
    return found


def grid_words(options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """The words of a sweep's options and of the lists of its ``grid``.

    >>> " ".join(grid_words({"t_sd": 0.2}, {"b": [1, 2], "fl": [[4, 3], [2, 2]]}))
    '--t-sd 0.2 --b 1,2 --fl 4,3/2,2'
    """
    between = {name: "/" if ALL[name].kind.depth else "," for name in grid}
    lists = {name: between[name].join(map(spelled_value, values)) for name, values in grid.items()}
    return _option_words({**options, **lists})


def spelled_value(value: Any) -> str:
    """A value as the command line takes it.

    >>> spelled_value([(1, 0.6), (2, 0.7)])
    '1:0.6,2:0.7'
    >>> spelled_value([("alpha", 0.7, 0.8)])
    'alpha=0.7:0.8'
    """
    if not isinstance(value, list | tuple):
        return repr(value) if isinstance(value, float) else str(value)
    return ",".join(_part(each) for each in value)


def _part(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        first, *others = map(spelled_value, value)
        return f"{first}={':'.join(others)}" if isinstance(value[0], str) else ":".join((first, *others))
    return spelled_value(value)
