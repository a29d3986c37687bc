"""Every public function answers to wrong arguments with one line, an InputError, whatever their kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import ssdsim
from ssdsim import InputError
from tests.ssdsim.cli.test_misuse import ODD

pytestmark = pytest.mark.long

UNIT_FREE: Mapping[str, Any] = {"t_sd": 0.2, "k": 2, "p_hit": 0.8, "strategies": "ar,sd"}
SMALL: Mapping[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "k": 2, "strategies": "ar,sd"}
USUAL: Mapping[str, Mapping[str, Any]] = {
    "predict": UNIT_FREE,
    "sweep": {**UNIT_FREE, "k": [2]},
    "evaluate": {"points": [UNIT_FREE]},
    "window": {"k": 2},
    "schedule": {**SMALL, "b": 1},
    "export": {**SMALL, "format": "json", "b": 1},
    "recommend": {**SMALL, "gpus": 2},
    "compare": {**SMALL, "gpus": 2},
    "explore": {**UNIT_FREE, "alpha": 0.8, "b": 1},
    "plan": {**SMALL, "rate": 2.0, "requests": 50, "engine": "kernels"},
    "find_hardware": {"name": "h100-sxm"},
    "find_transformer": {"name": "llama-3.1-8b"},
    "fit_power_law": {"fan_outs": [1, 2, 4], "rates": [0.6, 0.8, 0.9]},
    "fit_token_model": {"alpha": 0.8, "c": 0.4, "r": 0.5, "vocabulary": 64, "contexts": 16},
    "report": {"folder": "absent"},
    "validate": {"output": "made", "hardware": "absent"},
    "validate_pair": {"pair": "absent", "prompts": "absent"},
    "validate_paper": {"paper": "absent"},
    "validate_rows": {"files": ["absent"]},
    "calibrate": {"output": "absent/x.json", "device": "cpu:99-1"},
}
NOT_PRIVATE = ("progress", "told", "noted", "folder")
"""What a caller's program makes, and a person does not."""
WRONG = (*ODD, 0, 10**40, "", "\0", [[1]])


@pytest.mark.parametrize("name", USUAL)
def test_a_wrong_argument_is_an_input_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function, mistaken = getattr(ssdsim, name), []
    own = [each.name for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    for argument in {*own, *USUAL[name]} - {*NOT_PRIVATE}:
        for wrong in WRONG:
            try:
                function(**{**USUAL[name], argument: wrong})
            except InputError:
                continue
            except Exception as error:
                mistaken.append(f"{argument}={wrong!r}: {error!r}")
    assert mistaken == []


def test_a_simulation_has_rounds_a_seed_and_a_scenario() -> None:
    (scenario,) = ssdsim.configure(**{**UNIT_FREE, "strategies": "sd"}).scenarios.values()
    for wrong in (
        {"rounds": -1}, {"rounds": 0}, {"rounds": 10**40}, {"rounds": 2.5}, {"rounds": "x"}, {"seed": -1},
        {"seed": 0.5}, {"precision": 0.0}, {"precision": math.nan}, {"precision": "x"}, {"confidence": 1.0},
        {"most": 0}, {"solver": "x"}, {"solver": ["mc"]},
    ):  # fmt: skip
        with pytest.raises(InputError):
            ssdsim.simulate(scenario, **{"rounds": 64, "solver": "mc", **wrong})
    for none in (None, {}, "sd", [scenario]):
        with pytest.raises(InputError, match="a scenario must be"):
            ssdsim.simulate(none, rounds=64)  # type: ignore[arg-type]
