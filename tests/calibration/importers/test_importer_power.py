"""Watts by operation: a law is found again from rows that follow it, though loops that are too short tell less."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from calibration.importers.power import fit_load, import_power
from ssdsim.hardware.catalog import find_hardware

H200 = find_hardware("h200-sxm")
LIMIT_W = 700.0


@pytest.mark.quick
def test_the_law_is_found_from_rows_that_follow_it() -> None:
    rng = np.random.default_rng(1)
    memory, arithmetic = rng.random(3000), rng.random(3000) * 0.4
    exact = 140.0 + (LIMIT_W - 140.0) * np.minimum(1.0, (0.9 * memory) ** 1.4 + 1.3 * arithmetic)
    watts = exact * np.exp(rng.normal(0.0, 0.03, 3000))
    watts[::5] = 0.5 * (watts[::5] + 130.0)  # the sensor's second had not passed
    found, apart = fit_load(memory, arithmetic, watts, rng.integers(0, 60, 3000), LIMIT_W)
    assert found.busy_w == pytest.approx(140.0, rel=0.05)
    assert (found.memory, found.arithmetic, found.bend) == pytest.approx((0.9, 1.3, 1.4), rel=0.12)
    assert found.report.rows_fitted + found.report.rows_held_out == 3000
    assert apart < found.report.log_sd


def gemms(power: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sizes = [(m, n, k) for m in (1, 2, 8, 16, 64, 512) for n in (2048, 8192, 16384) for k in (2048, 4096, 8192)]
    table = pd.DataFrame(sizes, columns=["m", "n", "k"]).assign(gemm_dtype="bfloat16")
    seconds = 2.0 * table["n"] * table["k"] / 4e12 + 2e-6
    table = table.assign(seconds=seconds, framework="vllm")
    share = 2.0 * table["n"] * table["k"] / seconds / H200.device.memory_bandwidth
    watts = 130.0 + 400.0 * share * np.exp(rng.normal(0.0, 0.02, len(table)))
    return table.assign(power=watts.map(str), power_limit="700.0") if power else table


@pytest.mark.quick
def test_tables_without_watts_give_no_law_and_those_with_them_one_between_rest_and_limit() -> None:
    assert import_power({"gemm_perf": gemms(power=False)}, H200.device) is None
    law = import_power({"gemm_perf": gemms(power=True)}, H200.device)
    assert law is not None
    assert law.limit_w == LIMIT_W
    assert law.kinds.keys() == {"gemm"}
    assert 130.0 <= law.idle_w < 400.0
    assert law.pass_log_sd < 0.2
