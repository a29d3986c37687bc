"""Cards: checked where they are made, copied without a check, complained of by their first mistake."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile


def test_a_call_checks_and_takes_the_floats_of_numpy() -> None:
    link = LinkModel(source="bench", latency_s=np.float64(1e-6), bandwidth=1)
    assert type(link.latency_s) is type(link.bandwidth) is float
    for wrong in ("1e-6", True, float("nan"), float("inf"), -1.0):
        with pytest.raises(ValueError, match="latency_s: Input should be"):
            LinkModel(source="bench", latency_s=wrong, bandwidth=1.0)  # type: ignore[arg-type]


def test_a_copy_is_not_checked_but_for_its_names() -> None:
    link = LinkModel(source="bench", latency_s=1e-6, bandwidth=1.0)
    assert link.changed(bandwidth=2.0) == LinkModel(source="bench", latency_s=1e-6, bandwidth=2.0)
    with pytest.raises(AttributeError, match="has no field 'bandwith'"):
        link.changed(bandwith=2.0)


def test_a_card_survives_json_and_pickling() -> None:
    profile = find_hardware("v100-sxm2-32gb")
    assert as_record(HardwareProfile, profile.as_dict(without_none=True), "memory", "profile") == profile
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert "e16" not in find_hardware("b200-sxm").as_json(indent=1)


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("attention", "float16", "roofline", "launch_s"), -1.0, "greater than or equal to 0, got -1.0"),
        (("attention", "float16", "rooflin"), {}, "unknown key 'rooflin'; did you mean 'roofline'?"),
        (("collectives", "all_reduce", "x"), {}, "Input should be a valid integer"),
        (("gemm", "float16", "segments"), [], "Tuple should have at least 1 item after validation, not 0"),
    ],
)
def test_the_first_mistake_is_found_at_any_depth(keys: tuple[str, ...], value: object, said: str) -> None:
    data = find_hardware("v100-sxm2-32gb").as_dict(without_none=True)
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(InputError) as refused:
        as_record(HardwareProfile, data, "a.json", "profile")
    at = keys[:-1] if said.startswith("unknown") else keys
    assert str(refused.value).startswith(f"a.json: {'.'.join(at)}: ")
    assert said in str(refused.value)
