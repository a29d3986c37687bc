"""A draft on a device that has timings of another dtype alone, as a CPU beside a GPU has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ssdsim import InputError, predict
from ssdsim.base.bundled import models_folder
from tests.refusals import refused

SMALL: dict[str, Any] = {"target": "llama-3.1-8b", "draft": "llama-3.2-1b", "tp": 1, "k": 3, "f": 2}


@pytest.fixture(name="of_float32")
def profile_of_float32(tmp_path: Path) -> str:
    bundled = (models_folder() / "hardware" / "h100-sxm.json").read_text()
    path = tmp_path / "cpu.json"
    path.write_text(bundled.replace('"bfloat16"', '"float32"').replace('"name": "h100-sxm"', '"name": "cpu"'))
    return str(path)


@pytest.mark.quick
def test_each_refusal_says_what_helps_until_it_runs(of_float32: str) -> None:
    given = {**SMALL, "draft_hardware": of_float32}
    advised = {"--draft-dtype": "float32", "--sd-draft": "separate"}
    for flag, value in advised.items():
        with pytest.raises(InputError) as raised:
            predict(**given)
        assert re.search(rf"{flag} {value}\b", str(raised.value)), raised.value
        given[flag.removeprefix("--").replace("-", "_")] = value
    assert predict(**given).estimates["sd"].gpus == 2


@pytest.mark.quick
def test_a_dtype_that_both_have_is_still_advised() -> None:
    with refused("v100-sxm2-32gb", "bfloat16", "--dtype float16"):
        predict(draft_hardware="v100-sxm2-32gb")
