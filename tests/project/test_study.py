"""The study's page is what its script prints: some of its cells are worked out again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def study() -> Iterator[ModuleType]:
    """docs/study_draft_gpu.py, whose neighbours it imports."""
    sys.path.insert(0, str(DOCS))
    try:
        import study_draft_gpu

        yield study_draft_gpu
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.long
@pytest.mark.parametrize(("target", "gpu", "budget"), [("qwen3-8b", "h100-sxm", 5), ("llama-3.1-70b", "h200-sxm", 5)])
def test_its_tables_are_what_its_script_works_out(study: ModuleType, target: str, gpu: str, budget: int) -> None:
    page = (DOCS / "study_draft_gpu.md").read_text(encoding="utf-8")
    place = study.Place(target, gpu)
    rows = [line for line in page.splitlines() if line.startswith(f"| {target} | {budget} {gpu[:4].upper()} |")]
    ratios, needed = ([cell.split()[0] for cell in row.split("|")[3:-1]] for row in rows)
    assert ratios == [f"{place.over(study.CENTRE, budget, b):.2f}" for b in study.BATCHES]
    break_evens = [place.break_even(budget, b, study.TEXT, study.HITS) for b in study.BATCHES]
    assert needed == [("never" if each >= 1.0 else f"{each:.2f}") for each in break_evens]


def test_its_pictures_are_there() -> None:
    page = (DOCS / "study_draft_gpu.md").read_text(encoding="utf-8")
    for name in ("winners", "speeds", "needed"):
        assert f"(study-{name}.svg)" in page
        assert (DOCS / f"study-{name}.svg").read_text(encoding="utf-8").startswith("<svg")
