"""What no caller should pass is one clear line, never a traceback from inside."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ssdsim
from ssdsim import InputError
from ssdsim.question.options import DEFAULTS
from tests.refusals import refused

ODD: list[Any] = [
    *(2.5, -1, True, float("nan"), 1j, "x", b"x", object(), Path("absent")),
    *([], {}, {"a": 1}, (1, 2), [1, "a"], [None], [[1, 2], [3]], np.array([1, 2])),
]
MODEL: dict[str, Any] = {"spread": 1.0, "sigma": 1.0, "vocabulary": 20, "contexts": 5}
CALLS: dict[str, Callable[[Any], Any]] = {
    "a point": lambda odd: ssdsim.evaluate([odd]),
    **{f"TokenModel {n}": lambda odd, n=n: ssdsim.TokenModel(**{**MODEL, n: odd}) for n in MODEL},
    "rates": lambda odd: ssdsim.TokenModel(**MODEL).rates(odd),
    "sample_rounds": lambda odd: ssdsim.TokenModel(**MODEL).sample_rounds(odd, 5),
}
"""Calls beside the public functions, which are in ``tests/ssdsim/answers/test_wrong_arguments.py``."""


def allowed_or_one_line(call: Callable[[], Any]) -> None:
    with suppress(InputError):  # any other exception fails the test
        call()


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_one_line(name: str) -> None:
    for odd in ODD:
        allowed_or_one_line(lambda odd=odd: CALLS[name](odd))


@pytest.mark.long
@pytest.mark.parametrize("name", DEFAULTS)
def test_an_odd_option_is_one_line(name: str) -> None:
    """Of a scenario and of a window, whose options may be lists."""
    for odd in ODD:
        allowed_or_one_line(lambda odd=odd: ssdsim.window(**{name: odd}))
        allowed_or_one_line(lambda odd=odd: ssdsim.evaluate([{name: odd}]))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ssdsim.recommend(gpus=2.5), "--gpus, got 2.5"),
        (lambda: ssdsim.window(hardware=5), "hardware, got 5"),
        (lambda: ssdsim.predict(fl=3), "--fl, got 3"),
        (lambda: ssdsim.predict(solver="closd"), "closd, closed"),
        (lambda: ssdsim.evaluate({"t_sd": 0.2}), "points must be several mappings of options"),
        (lambda: ssdsim.predict(batch_size=16, b=16), "batch_size, b, one option"),
        (lambda: ssdsim.predict(num_speculative_token=4), "num_speculative_token, k"),
        (lambda: ssdsim.plan(rate=1.0, max_batchh=4), "plan, max_batchh, max_batch"),
    ],
)
def test_what_it_says(call: Callable[[], Any], names: str) -> None:
    with refused(*names.split(", ")):
        call()


def test_a_wrong_name_at_a_point_is_that_points_error() -> None:
    frame = ssdsim.evaluate([{"target": 5}, {"t_sd": 0.2}])
    assert frame["error"].tolist() == ["--target must be a name or a path, got 5", None]


def test_paths_and_arrays_are_taken() -> None:
    assert ssdsim.find_hardware(Path("h100-sxm")).name == "h100-sxm"
    by_list = ssdsim.predict(t_sd=0.2, k=2, alpha=[0.9, 0.5], fl=[2, 1, 1])
    by_array = ssdsim.predict(t_sd=0.2, k=2, alpha=np.array([0.9, 0.5]), fl=np.array([2, 1, 1]))
    assert by_array.verdict == by_list.verdict


def test_every_public_name_is_there_and_nothing_returned_is_without_one() -> None:
    for name in ssdsim.__all__:
        assert getattr(ssdsim, name) is not None
    assert isinstance(ssdsim.schedule(b=1, k=2, f=2), ssdsim.Schedule)
    assert isinstance(ssdsim.predict(t_sd=0.2), ssdsim.Prediction)
    assert isinstance(ssdsim.TokenModel(**MODEL).sample_rounds([1, 2], 5).accepted, np.ndarray)
    assert isinstance(ssdsim.fit_power_law([1, 2], [0.5, 0.6]), ssdsim.PowerLawFit)
