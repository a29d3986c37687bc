"""Notebooks are stored without outputs; here they are executed, and become pages with their figures."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from filelock import FileLock

from site_generator.drawn import place, scripts
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / "notebooks"
CACHE = PROJECT / ".cache" / "notebooks"
_FIGURE = "application/vnd.plotly.v1+json"
_TIMEOUT_S = 900
_QUIET_KERNEL = ["--log-level=40"]  # no warning that it listens on a port of this machine


def names() -> list[str]:
    """The notebooks that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def small_sizes() -> dict[str, dict[str, Any]]:
    """For each notebook the parameters with which tests run it."""
    return tomllib.loads((FOLDER / "small.toml").read_text(encoding="utf-8"))


def sizes_asked_for() -> str:
    """How the environment asks for notebooks, ``NOTEBOOK_SIZES``: ``none`` shows them as they are stored.

    ``small`` and ``full`` execute them, which takes minutes and torch; ``quick``, the default, those that need no
    torch, with small sizes.

    Raises
    ------
    InputError : another word.
    """
    asked = os.environ.get("NOTEBOOK_SIZES", "quick")
    if asked not in ("none", "quick", "small", "full"):
        raise InputError(f"NOTEBOOK_SIZES must be none, quick, small or full, got '{asked}'")
    return asked


def shown(name: str, sizes: str, root: str) -> str:
    """The page of a notebook in these ``sizes``. One that is not executed says so, and what would show its figures."""
    notebook = _read(FOLDER / f"{name}.ipynb")
    needs = notebook.metadata.get("needs")
    if sizes != "none" and (needs is None or (sizes != "quick" and find_spec(needs) is not None)):
        return page(executed(name, sizes != "full"), root)
    missing = f" with {needs} installed" if needs else ""
    how = f"`NOTEBOOK_SIZES=small mkdocs build`{missing} executes it"
    notebook.cells[0].source += f'\n\n!!! note "Shown without its figures"\n\n    {how}, and so shows them.'
    return page(notebook, root)


def executed(name: str, small: bool) -> nbformat.NotebookNode:
    """The notebook with its outputs: executed here, or as it was last executed by the very same code.

    Raises
    ------
    nbclient.exceptions.CellExecutionError : a cell fails, an ``assert`` for example.
    """
    notebook = _read(FOLDER / f"{name}.ipynb")
    if small:
        _set_parameters(notebook, small_sizes()[name])
    kept = CACHE / f"{name}-{_digest(notebook)}.ipynb"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if kept.exists():
            return _read(kept)
        client = nbclient.NotebookClient(
            notebook,
            timeout=_TIMEOUT_S,
            kernel_name="python3",
            extra_arguments=_QUIET_KERNEL,
            resources={"metadata": {"path": str(PROJECT)}},
        )
        client.execute()
        write_whole(kept, nbformat.writes(notebook))
    return notebook


def _read(path: Path) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    return notebook


def _set_parameters(notebook: nbformat.NotebookNode, sizes: dict[str, Any]) -> None:
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    known = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
    if unknown := set(sizes) - known:
        raise InputError(f"notebooks/small.toml: no parameter {', '.join(sorted(unknown))} in the notebook")
    cell.source += "".join(f"\n{key} = {value!r}" for key, value in sizes.items())


def _digest(notebook: nbformat.NotebookNode) -> str:
    """Of all that an execution depends on: the cells, the sources, the cards, and what is installed."""
    digest = hashlib.sha256("\0".join(cell.source for cell in notebook.cells).encode())
    for folder in ("ssdsim", "calibration", "models"):
        for path in sorted((PROJECT / folder).rglob("*.*")):
            if path.suffix in (".py", ".toml", ".json"):
                digest.update(str(path.relative_to(PROJECT)).encode() + path.read_bytes())
    digest.update("".join(sorted(f"{d.name}=={d.version} " for d in distributions())).encode())
    return digest.hexdigest()[:16]


def figures(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """The plotly figures that cells left."""
    return [output.data[_FIGURE] for cell in notebook.cells for output in _outputs(cell) if _FIGURE in output.data]


def _outputs(cell: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """A code cell's outputs that hold data."""
    yield from (output for output in cell.get("outputs", ()) if "data" in output)


def page(notebook: nbformat.NotebookNode, root: str) -> str:
    """The executed notebook as Markdown; ``root`` is the way from the page to the site's root."""
    parts: list[str] = []
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = next(iter(re.findall(r"^#+ (.*)$", cell.source, flags=re.MULTILINE)), heading)
        parts += _cell(cell, heading)
    return "\n\n".join([*parts, scripts(root)]) + "\n"


def _cell(cell: nbformat.NotebookNode, heading: str) -> Iterator[str]:
    """A cell and its outputs; figures are called by the heading above them."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            yield f"```text\n{output.text.rstrip()}\n```"
        elif "data" in output:
            yield _shown(output.data, heading)


def _shown(data: dict[str, Any], heading: str) -> str:
    """The richest form that a page can show: a figure, a table, text."""
    if _FIGURE in data:
        return place(data[_FIGURE], heading)
    if "text/html" in data:
        table = re.search(r"<table.*</table>", data["text/html"], flags=re.DOTALL)
        if table is not None:
            return re.sub(r"<table[^>]*>", "<table>", re.sub(r"\n\s*", "", table.group()))
    return f"```text\n{data['text/plain'].rstrip()}\n```"
