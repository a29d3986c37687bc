"""The page of figures: every block on it is run when the site is built, and followed by its figure.

The blocks run in order in one folder that is empty but for ``models/``. A block of commands ends in ``ssdsim report
RUN --figure NAME``, one of Python in the figure itself.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from click.testing import CliRunner

from site_generator.drawn import place, scripts
from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.reports.build import figure
from ssdsim.reports.figure import Figure, bare

_MODELS = Path(__file__).parents[1] / "models"
_BLOCK = re.compile(r"^(#+ [^\n]*)$|^```(sh|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def gallery(markdown: str, root: str) -> str:
    """The page with its figures, and what draws them."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.symlink(_MODELS, "models")
        parts = list(_with_figures(markdown))
    return "".join([*parts, f"\n\n{scripts(root)}\n"])


def _with_figures(markdown: str) -> Iterator[str]:
    at, heading = 0, ""
    for block in _BLOCK.finditer(markdown):
        yield markdown[at : block.end()]
        at = block.end()
        title, language, source = block.groups()
        if title:
            heading = title.lstrip("# ")
        elif language == "python":
            yield f"\n\n{_drawn(of_python(source), heading)}\n"
        else:
            figure = of_commands(source)
            yield f"\n\n{_says(figure)}\n{_drawn(figure.plot, figure.title)}\n"
    yield markdown[at:]


def of_commands(source: str) -> Figure:
    """Run the commands of a block; the figure that the last one would write.

    Raises
    ------
    InputError : a command fails, or the last one writes no figure.
    """
    *before, last = [shlex.split(line) for line in source.replace("\\\n", " ").splitlines() if line.strip()]
    for words in before:
        done = CliRunner().invoke(cli, [*words[1:], "--quiet"])
        if done.exit_code:
            raise InputError(f"the gallery's 'ssdsim {' '.join(words[1:])}' fails: {done.exception or done.output}")
    if last[1:2] != ["report"] or "--figure" not in last:
        raise InputError(
            f"a block of the gallery must end in ssdsim report RUN --figure NAME, not in '{' '.join(last)}'"
        )
    return figure(last[2], last[last.index("--figure") + 1])


def of_python(source: str) -> go.Figure:
    """Run the Python of a block; what its last line is worth.

    Raises
    ------
    InputError : that is no figure.
    """
    *before, last = ast.parse(source).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(before, []), "gallery", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "gallery", "eval"), names) if isinstance(last, ast.Expr) else None
    if not isinstance(value, go.Figure):
        raise InputError("a Python block of the gallery must end in a figure")
    return value


def _says(figure: Figure) -> str:
    about = f"{figure.about} {figure.interval} {figure.provenance}"
    return f'<p class="figure-says">{escape(figure.title)}</p>\n<p class="figure-about">{escape(about)}</p>'


def _drawn(plot: go.Figure, label: str) -> str:
    return place(bare(plot), label)
