"""Every notebook runs from top to bottom, with small sizes; each asserts what it shows."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from site_generator import notebooks

NAMES = notebooks.names()


def test_every_notebook_has_small_sizes() -> None:
    assert set(notebooks.small_sizes()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_stored_without_outputs(name: str) -> None:
    notebook = nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert any("assert " in cell.source for cell in code)


@pytest.mark.notebooks
# jupyter_client's sockets and loops are closed by their finalisers
@pytest.mark.filterwarnings("ignore::ResourceWarning:zmq", "ignore::DeprecationWarning:jupyter_client")
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_and_its_page_has_its_figures(name: str) -> None:
    """Executed here, or by the site's build of the very same code."""
    notebook = notebooks.executed(name, small=True)
    assert len(notebooks.figures(notebook)) == cells_that_end_in_a_figure(notebook)
    assert notebooks.page(notebook, "../assets").count('<div class="figure">') == cells_that_end_in_a_figure(notebook)


def cells_that_end_in_a_figure(notebook: Any) -> int:
    return sum(cell.cell_type == "code" and cell.source.rstrip().endswith("\nfigure") for cell in notebook.cells)
