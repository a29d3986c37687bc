"""How well timings determine coefficients, and that predictions carry it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.timings.fit import directions, fit_line, fit_link
from calibration.timings.fit_attention import fit_additive_attention
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.checks import Array
from ssdsim.hardware.attention import AdditiveAttentionModel
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Gemm
from tests.refusals import refused

pytestmark = pytest.mark.long


def test_directions_have_the_covariance_of_least_squares() -> None:
    """Known in closed form: sigma^2 (X^T X)^-1."""
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(400), rng.uniform(-1.0, 1.0, 400), rng.uniform(-1.0, 1.0, 400)])
    noisy = columns @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(400)
    numbers = np.array(directions(lambda rows: np.linalg.lstsq(columns[rows], noisy[rows], rcond=None)[0], columns))
    assert numbers.shape == (3, 3)
    wanted = 0.01 * np.linalg.inv(columns.T @ columns)
    assert np.sqrt(np.diag(numbers.T @ numbers)) == pytest.approx(np.sqrt(np.diag(wanted)), rel=0.35)


def test_fewer_rows_than_coefficients_still_wander() -> None:
    """A ridge determines what the rows do not; every draw is taken as it comes."""
    rng = np.random.default_rng(5)
    columns, noisy = rng.standard_normal((12, 13)), rng.standard_normal(12)

    def ridge(rows: NDArray[np.intp]) -> Array:
        return np.asarray(
            np.linalg.solve(columns[rows].T @ columns[rows] + 0.1 * np.eye(13), columns[rows].T @ noisy[rows])
        )

    assert directions(ridge, columns)


def test_a_timings_shared_error_is_no_more_than_its_held_out_one() -> None:
    """Few timings make a bootstrap say more than there is."""
    model = find_hardware("h100-sxm").link
    assert model is not None
    wild = model.changed(uncertainty=((3.0 * model.latency_s, 0.0), (2.0 * model.latency_s, 0.0)))
    timing = find_hardware("h100-sxm").changed(link=wild).message_seconds(1024)
    assert np.hypot(*timing.shared.values()) == pytest.approx(timing.log_sd)
    assert timing.own_log_sd == pytest.approx(0.0, abs=1e-6)


def test_what_moves_no_prediction_has_no_directions() -> None:
    columns = np.column_stack([np.ones(20), np.arange(20.0)])
    assert directions(lambda rows: np.array([1.0, 2.0]), columns) == ()


@pytest.mark.parametrize(("sets", "least"), [(40, 0.82), pytest.param(200, 0.85, marks=pytest.mark.slow)])
def test_the_uncertainty_of_a_line_covers_the_truth_as_often_as_it_says(sets: int, least: float) -> None:
    """95 % intervals of a predicted message, over sets of timings with noise of 10 %.

    An interval half as wide as it should be (which covers 67 %) is caught with a probability of 0.98 by 40 sets, one
    that covers 80 % with 0.96 by 200; one that covers 99.9 % with 0.96 and 0.98.
    """
    sizes, covered = np.geomspace(64, 1 << 24, 24), 0
    for seed in range(sets):
        noise = np.exp(0.1 * np.random.default_rng(seed).standard_normal(len(sizes)))
        model = fit_link(sizes, (2e-5 + sizes / 2e9) * noise, "here")
        true_s, predicted_s = 2e-5 + 50_000 / 2e9, float(model.seconds(50_000))
        sd = np.sqrt(sum(moved**2 for moved in model.wander(50_000).values()))
        covered += abs(np.log(predicted_s / true_s)) < 1.96 * sd
    assert least <= covered / sets <= 0.99


def test_more_timings_determine_coefficients_better() -> None:
    def sd(rows: int) -> float:
        rng = np.random.default_rng(1)
        m, n, k = (rng.integers(low, high, rows).astype(float) for low, high in ((1, 64), (512, 8192), (512, 8192)))
        seconds = (5e-6 + 2.0 * n * k / 2e12) * np.exp(0.05 * rng.standard_normal(rows))
        wander = fit_gemm(m, n, k, seconds, 2, "here").wander(8, 4096, 4096)
        return float(np.sqrt(sum(moved**2 for moved in wander.values())))

    assert sd(3200) < sd(200)
    assert sd(3200) < 0.01


def test_operations_of_one_model_wander_together() -> None:
    """The wander of a pass is that of its operations' sum, not of independent errors."""
    errors = TimingErrors(4000, seed=3)
    alone = Cost({"gemm:a": (1.0, 0.0)}, shared={"gemm 0": 0.05})
    other = Cost({"gemm:b": (3.0, 0.0)}, shared={"gemm 0": 0.15})
    assert np.log(alone.sample(errors)).std() == pytest.approx(0.05, rel=0.05)
    assert np.log((alone + other).sample(errors)).std() == pytest.approx(0.05, rel=0.05)
    assert np.corrcoef(alone.sample(errors), other.sample(errors))[0, 1] == pytest.approx(1.0)
    assert (2.0 * (alone + other).sample(errors)).mean() == pytest.approx(
        (alone + other).__mul__(2.0).sample(errors).mean()
    )


def test_a_pass_carries_its_coefficients_uncertainty() -> None:
    """With few timings all matrices of a pass are off the same way, which their own errors would average out."""
    rng = np.random.default_rng(4)
    m, n, k = (rng.integers(low, high, 40).astype(float) for low, high in ((1, 64), (512, 8192), (512, 8192)))
    few = fit_gemm(m, n, k, (5e-6 + 2.0 * n * k / 2e12) * np.exp(0.1 * rng.standard_normal(40)), 2, "gemm_perf")
    profile = find_hardware("h100-sxm").changed(gemm={"bfloat16": few})
    forward = forward_pass(find_transformer("llama-3.1-8b"), batch=4, queries=6, context=512)
    cost = cost_of_operations([(op, count) for op, count in forward.counted if isinstance(op, Gemm)], profile)
    assert {direction.split(" ")[0] for direction in cost.terms.shared} == {"gemm:bfloat16"}
    assert {direction.split("@")[1] for direction in cost.terms.shared} == {"h100-sxm"}
    errors = TimingErrors(4000, seed=0)
    independent = Cost({key: (seconds, few.log_sd) for key, (seconds, _) in cost.terms.timings.items()})
    assert np.log(cost.sample(errors)).std() > 1.1 * np.log(independent.sample(errors)).std()


def attention_rows(seed: int, noise: float) -> dict[str, Array]:
    """A core that takes 20 us, 5 us a head, 3 us a block and streams 10 GB/s, a fifth slower for several query rows."""
    rng = np.random.default_rng(seed)
    grid = [(b, q, c, h) for b in (1, 2, 4) for q in (1, 6) for c in (64, 128, 256, 512) for h in (6, 12)]
    batch, queries, context, heads = np.array(grid, float).T
    rows = {"batch": batch, "queries": queries, "context": context, "heads": heads, "kv_heads": heads}
    rows["head_dim"] = np.full(len(batch), 128.0)
    values = AdditiveAttentionModel.variables(**rows, element_bytes=4)
    seconds = 2e-5 + 5e-6 * heads + 3e-6 * values["blocks"] + values["kv"] / 1e10
    slower = np.where(queries > 1, 1.2, 1.0) * np.exp(noise * rng.standard_normal(len(batch)))
    return rows | {"seconds": seconds * slower}


def test_attention_that_adds_up_is_found_again() -> None:
    model = fit_additive_attention(attention_rows(0, 0.0), 4, "here")
    one, several = model.laws
    assert (one.group, several.group) == (1.0, 6.0)
    assert (one.launch_s, one.head_s, one.block_s, one.bandwidth) == pytest.approx((2e-5, 5e-6, 3e-6, 1e10), rel=1e-3)
    assert several.bandwidth == pytest.approx(1e10 / 1.2, rel=1e-3)
    between = model.seconds(2, 3, 256, 6, 6, 128, 4)
    assert model.seconds(2, 1, 256, 6, 6, 128, 4) < between < model.seconds(2, 6, 256, 6, 6, 128, 4)
    at_most, beyond = (float(model.seconds(2, rows, 256, 6, 6, 128, 4)) for rows in (6, 60))
    assert at_most == pytest.approx(float(several.seconds(model.values(2, 6, 256, 6, 6, 128, 4))), rel=0.01)
    assert at_most < beyond < 10 * at_most
    assert model.timed((2, 60, 256, 6, 6, 128), 4)[1] == "group above the largest timed, 6"


def test_the_wander_of_attention_is_that_of_the_law_that_serves() -> None:
    model = fit_additive_attention(attention_rows(1, 0.05), 4, "here")
    assert {name.split(".")[0] for name in model.wander(2, 1, 256, 6, 6, 128, 4)} == {"1"}
    assert {name.split(".")[0] for name in model.wander(2, 3, 256, 6, 6, 128, 4)} == {"1", "6"}
    sd = np.sqrt(sum(moved**2 for moved in model.wander(2, 6, 256, 6, 6, 128, 4).values()))
    assert 0.005 < sd < 0.05


def test_too_few_shapes_of_a_group_are_refused() -> None:
    rows = {name: column[:5] for name, column in attention_rows(0, 0.0).items()}
    with refused("6"):
        fit_additive_attention(rows, 4, "here")


def test_a_line_fits_what_it_says() -> None:
    sizes = np.geomspace(64, 1 << 20, 12)
    latency_s, bandwidth = fit_line(sizes, 1e-5 + sizes / 5e9)
    assert (latency_s, bandwidth) == pytest.approx((1e-5, 5e9), rel=1e-3)
