"""Files that 0.2.0 and versions after it left behind are read, or refused in one line that says what is wrong.

Schedules of schema 1 are read in ``tests/ssdsim/advise/test_schedule.py``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ssdsim import InputError, find_hardware, predict, report, sweep
from ssdsim.tokens.pair_file import load_pair
from tests.calibration.pairs import sample
from tests.refusals import refused

OLD = Path(__file__).parent / "of_0_2_0"


@pytest.mark.long
def test_a_sweep_is_shown_and_not_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    shutil.copytree(OLD / "sweep", folder)
    page = report(folder)
    assert "ssd" in page.sentence.lower()
    with pytest.raises(InputError, match=r"holds another sweep \(schema, version differ\); choose another folder"):
        sweep(t_sd=[0.2, 0.3], b=[1, 4], folder=folder)


def test_a_hardware_profile_is_read() -> None:
    profile = find_hardware(str(OLD / "v100-sxm2-32gb.json"))
    assert profile.gemm
    assert profile.device.kind == "cuda"


def test_a_runtime_card_with_a_number_that_is_gone_is_refused() -> None:
    with refused("kernels", "launch_overlap", "overlap") as caught:
        predict(engine=str(OLD / "vllm.toml"), strategies="ar")
    assert "\n" not in str(caught.value)


def test_a_pair_of_the_first_schema_is_read(tmp_path: Path) -> None:
    """The schema is still the first: what was added since has a default."""
    pair = load_pair(sample.written(tmp_path))
    bare = pair.as_dict(without_none=True) | {"schema": 1, "kind": "pair"}
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    assert load_pair(tmp_path / "bare.json") == pair
