"""Notebooks as they are stored. That they run from top to bottom is tested with the site, which shows them so."""

from __future__ import annotations

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
