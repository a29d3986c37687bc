"""A verdict at the default K says that nobody chose it, and whether another one turns it."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import predict
from tests.ssdsim.cli.in_process import asked

V100: dict[str, Any] = {
    "target": "llama-3.1-8b",
    "hardware": "v100-sxm2-32gb",
    "dtype": "float16",
    "b": 8,
    "alpha": 0.8,
}


def test_a_k_that_turns_the_verdict_is_named() -> None:
    """Each strategy at the best K of those looked at, as a search would have it."""
    found = predict(**V100)
    assert found.verdict.sentence.startswith("No ")
    rates = {k: predict(**V100, k=k).estimates for k in (1, 3)}
    ratio = rates[1]["ssd"].tokens_per_second / rates[3]["sd"].tokens_per_second
    turned = f"SSD at K 1 is {ratio:.2f}x SD at K 3"
    assert found.other_k == f"K 6 is only the default, and turns this: {turned}; ssdsim recommend searches it."
    assert ratio > 1.0
    assert repr(found).split()[-4:] == "ssdsim recommend searches it.".split()


def test_where_no_k_turns_it_the_line_is_short_and_printed() -> None:
    done = asked("predict", "--b", "16", "--p-hit", "0.85")
    assert "         K 6 is only the default; ssdsim recommend searches it.\n" in done.stdout


@pytest.mark.parametrize("options", [{"k": 6}, {"t_sd": 0.2}, {"strategies": "ar"}, {"pair": None, "k": 4}])
def test_a_k_that_somebody_chose_is_not_doubted(options: dict[str, Any]) -> None:
    """Without hardware nothing says what another K would cost."""
    assert predict(**options).other_k == ""


def test_a_k_that_cannot_be_is_passed_over() -> None:
    assert predict(fl=[3, 2, 2, 1, 1, 1, 1]).other_k == "K 6 is only the default; ssdsim recommend searches it."
