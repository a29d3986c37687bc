"""A word that leaves a value to the answer is as good as no value, also where a search varies it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ssdsim
from tests.refusals import refused

MODEL = {"target": "llama-3.1-8b", "tp": 1, "strategies": "ar,sd"}


def _recommended(**options: Any) -> object:
    answer = ssdsim.recommend(gpus=1, **MODEL, **options)
    return answer.answers[0].best


def _planned(**options: Any) -> object:
    return ssdsim.plan(rate=2, requests=30, output_len=9, **MODEL, **options).verdict


def _scheduled(**options: Any) -> object:
    return ssdsim.schedule(b=1, context=1024, **MODEL, **options).to_json()


@pytest.mark.parametrize("answer", [_recommended, _planned, _scheduled])
def test_auto_is_as_good_as_not_said(answer: Callable[..., object]) -> None:
    """A search took ``auto`` for a number: TypeError."""
    assert answer(k="auto") == answer()


def test_auto_stands_alone_in_a_search() -> None:
    with refused("--k", "auto"):
        _recommended(k=["auto", 2])


def test_a_drafter_that_is_no_name_is_refused_by_a_search() -> None:
    """NumPy does not say whether an array of names is true: ValueError."""
    with refused("--drafter"):
        _recommended(drafter=np.array([1, 2]))
