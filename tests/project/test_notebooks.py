"""Notebooks as they are stored. That they run from top to bottom is tested with the site, which shows them so."""

from __future__ import annotations

import ast

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


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_opens_with_one_public_call_and_a_picture(name: str) -> None:
    notebook = nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)
    opening = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    *before, last = ast.parse(opening).body
    assert len(opening.splitlines()) <= 5
    assert ast.unparse(last).startswith("figures.figure(ssdsim.")
    imported = [ast.unparse(each) for each in before if isinstance(each, ast.Import | ast.ImportFrom)]
    assert imported == ["import ssdsim", "from ssdsim import figures"]


@pytest.mark.parametrize("sizes", ["none", "quick", "small"])
def test_a_page_without_figures_says_what_would_show_them(sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without torch, which one of them needs."""
    executed: list[str] = []

    def noted(name: str, small: bool) -> nbformat.NotebookNode:
        executed.append(name)
        return nbformat.read(notebooks.FOLDER / f"{name}.ipynb", as_version=4)

    monkeypatch.setattr(notebooks, "find_spec", lambda name: None)
    monkeypatch.setattr(notebooks, "executed", noted)
    pages = {name: notebooks.shown(name, sizes, "../") for name in NAMES}
    said = {name for name, page in pages.items() if "Shown without its figures" in page}
    assert said == set(NAMES) - set(executed)
    assert said == (set(NAMES) if sizes == "none" else {"calibrate-predict-validate"})
    assert "`NOTEBOOK_SIZES=small mkdocs build` with torch installed" in pages["calibrate-predict-validate"]


def test_the_default_shows_what_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTEBOOK_SIZES", raising=False)
    assert notebooks.sizes_asked_for() == "quick"
