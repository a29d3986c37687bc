"""Python takes every spelling of the command line, and the names of before with a word on the new one."""

from __future__ import annotations

import numpy as np
import pytest

import ssdsim
from ssdsim.question.options import ALL
from ssdsim.question.spellings import SOLVERS, own_names
from tests.refusals import refused

SMALL = {"model": "llama-3.1-8b", "tensor_parallel_size": 1, "strategy": "ar,sd", "batch_size": 4}
OWN = {"target": "llama-3.1-8b", "tp": 1, "strategies": "ar,sd", "b": 4}


@pytest.mark.parametrize("name", ALL)
def test_every_flag_is_a_spelling_in_python(name: str) -> None:
    for flag in ALL[name].flags:
        assert own_names({flag.lstrip("-").replace("-", "_"): 1, "seed": 2}) == {name: 1, "seed": 2}


def test_a_prediction_is_the_same_by_any_spelling() -> None:
    one, other = ssdsim.predict(**SMALL, runtime="vllm"), ssdsim.predict(**OWN, engine="vllm")
    assert one.configuration.settings == other.configuration.settings
    assert one.estimates.keys() == other.estimates.keys()


def test_numpys_numbers_are_python_s() -> None:
    """What is written afterwards knows no others: a schedule of ``tp=np.int64(2)`` was a ValueError."""
    asked = {"b": np.int64(1), "k": np.int64(2), "f": np.int64(2), "tp": np.int64(2)}
    assert ssdsim.schedule(**asked) == ssdsim.schedule(b=1, k=2, f=2, tp=2)
    assert ssdsim.recommend(gpus=3, batch=2, tp=np.int64(2)).answers[0].best is not None


def test_a_configuration_takes_them() -> None:
    assert ssdsim.configure(model="llama-3.1-8b", batch_size=4).settings["b"] == 4


def test_points_of_a_grid_and_requests_take_them() -> None:
    by_one, by_other = (ssdsim.evaluate([each])["sd_tokens_per_second"][0] for each in (SMALL, OWN))
    assert by_one == by_other
    served = [ssdsim.serve(rate=1.0, solver="closed", model="llama-3.1-8b", tp=1, **n) for n in _BOTH]
    assert served[0].verdict == served[1].verdict


_BOTH = ({"max_num_seqs": 8}, {"max_batch": 8})


@pytest.mark.parametrize("word", ["closed", "mc"])
def test_the_solver_by_its_former_name_says_the_new_one(word: str) -> None:
    with pytest.warns(FutureWarning, match=f"solver='{word}' now"):
        assert ssdsim.predict(engine=word, t_sd=0.2, p_hit=0.9).solver == word  # type: ignore[arg-type]


def test_no_engine_is_called_as_a_solver() -> None:
    from ssdsim.hardware.runtime_catalog import runtime_names

    assert not set(SOLVERS) & set(runtime_names())


def test_one_option_in_two_spellings_is_refused() -> None:
    with refused("model", "target"):
        ssdsim.predict(model="qwen3-8b", target="qwen3-8b")
