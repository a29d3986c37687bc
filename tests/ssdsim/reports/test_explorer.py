"""``ssdsim.explore`` from Python: the page, its verdict, and what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import ssdsim
from tests.refusals import refused


@pytest.mark.long
def test_python_makes_the_page(tmp_path: Path) -> None:
    page = ssdsim.explore(b=[1, 2], k=[2, 3], alpha=0.8, t_sd=0.2, strategies="ar,sd")
    assert page.sentence == ssdsim.predict(alpha=0.8, k=3, t_sd=0.2, strategies="ar,sd").verdict.sentence
    assert {error.what for error in page.errors} == {"tokens/s of SD", "SD over AR"}
    assert max(error.worst for error in page.errors) < 0.005
    page.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "Made by <code>ssdsim explore " in text
    assert "--b 1,2 --k 2,3" in text
    with pytest.raises(ssdsim.InputError, match="the page cannot be written there"):
        page.save(tmp_path)


def test_a_wrong_option_is_told() -> None:
    with refused("optoin"):
        ssdsim.explore(optoin=[1, 2])  # type: ignore[call-arg]
