"""Every notebook runs from top to bottom, with small sizes; each asserts what it shows."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).parents[2] / "notebooks"
SIZES: dict[str, dict[str, Any]] = {
    "theory": {"POINTS": 21, "TRIALS": 200},
    "paper-figures": {"VOCABULARY": 1000, "CONTEXTS": 2000},
    "calibrate-predict-validate": {
        "TARGET": "transformer-shaped-512x2",
        "DRAFT": "transformer-shaped-256x1",
        "CONTEXT": 32,
        "CALIBRATE_MINUTES": 1.0,
        "ROUNDS": 6,
        "REPEATS": 2,
    },
}


def test_every_notebook_has_sizes() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_notebook_is_stored_without_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert any("assert " in cell.source for cell in code)


@pytest.mark.notebooks
# jupyter_client's sockets and loops are closed by their finalisers
@pytest.mark.filterwarnings("ignore::ResourceWarning:zmq", "ignore::DeprecationWarning:jupyter_client")
@pytest.mark.parametrize("name", SIZES)
def test_notebook_runs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    known = {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)}
    assert set(SIZES[name]) <= known
    cell.source += "".join(f"\n{key} = {value!r}" for key, value in SIZES[name].items())
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(FOLDER.parent)}}
    )
    client.execute()
    figures = [o for cell in notebook.cells for o in cell.get("outputs", ()) if "data" in o and is_figure(o.data)]
    assert len(figures) >= notebook_figures(notebook)


def is_figure(data: dict[str, Any]) -> bool:
    return "application/vnd.plotly.v1+json" in data


def notebook_figures(notebook: Any) -> int:
    """Cells that end in a figure."""
    return sum(cell.cell_type == "code" and cell.source.rstrip().endswith("\nfigure") for cell in notebook.cells)
