"""The first screen of bench: a row a load, and whether the rows can be fitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.cli.first_screens import print_bench
from ssdsim.readers.row import repeated
from tests.ssdsim.cli.test_hold import rows_of


@pytest.mark.parametrize(
    ("noise", "repeats", "said"),
    [(0.01, 3, "no fit can be trusted further"), (0.3, 3, "too noisy to fit: at "), (0.01, 1, "nothing was repeated")],
)
def test_a_screen_says_how_sure_it_is_and_what_comes_next(
    noise: float, repeats: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_bench(repeated(rows_of(noise, repeats)), Path("rows.csv"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("a server, llama-3.1-8b: 21 settings, each")
    assert said in " ".join(" ".join(lines).split())
    assert "ssdsim fit runtime rows.csv" in " ".join(" ".join(lines).split())
    assert sum(line.lstrip()[:1].isdigit() for line in lines) == 7  # a row a load
