"""The fits: they find the machine that made the timings, and their reports tell how good they are."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.timings.fit import fit_collective, fit_elementwise, fit_link, hold_out
from calibration.timings.fit_attention import ATTENTION_SHAPE, fit_attention
from calibration.timings.fit_gemm import fit_gemm
from calibration.timings.fit_roofline import fit_roofline
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.laws import Roofline
from tests.refusals import refused

MACHINE = Roofline(launch_s=4e-6, bandwidth=3e12, peak_flops=8e14, sharpness=2.0)


def gemm_grid(most_m: int = 64) -> tuple[Array, Array, Array]:
    """Every combination of tokens up to ``most_m`` and layer widths, each of shape ``(rows,)``."""
    tokens = [m for m in (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 4096) if m <= most_m]
    widths = [256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
    m, n, k = (axis.ravel().astype(float) for axis in np.meshgrid(tokens, widths, widths))
    return m, n, k


def gemm_seconds(m: Array, n: Array, k: Array) -> Array:
    return MACHINE.seconds(2 * (m * k + k * n + m * n), 2 * m * n * k)


def noise(rows: int, log_sd: float, seed: int = 0) -> Array:
    return np.exp(log_sd * np.random.default_rng(seed).standard_normal(rows))


def test_a_roofline_is_found_again() -> None:
    m, n, k = gemm_grid(4096)
    roofline = fit_roofline(2 * (m * k + k * n + m * n), 2 * m * n * k, gemm_seconds(m, n, k))
    assert roofline.launch_s == pytest.approx(MACHINE.launch_s, rel=0.01)
    assert roofline.bandwidth == pytest.approx(MACHINE.bandwidth, rel=0.01)
    assert roofline.peak_flops == pytest.approx(MACHINE.peak_flops, rel=0.01)
    assert roofline.sharpness == pytest.approx(MACHINE.sharpness, rel=0.05)


def test_a_table_without_small_matrices_has_the_launches_of_its_base() -> None:
    """One model's layers, as a profiler of an engine times them: the smallest streams for 40 us, a launch takes 2."""
    card = MACHINE.changed(launch_s=2e-6, bandwidth=9e11, peak_flops=1.6e14)
    tokens, layers = np.array([1.0, 2, 4, 8, 16, 32, 64, 128]), np.array([[6144, 4096], [4096, 4096], [28672, 4096.0]])
    m, (n, k) = np.repeat(tokens, 3), np.tile(layers.T, 8)
    seconds = card.seconds(2 * (m * k + k * n + m * n), 2 * m * n * k) * noise(len(m), 0.02)
    small = gemm_grid()
    base = fit_gemm(*small, gemm_seconds(*small) / 2, 2, "base")
    bound = fit_gemm(m, n, k, seconds, 2, "here", base=base)
    assert max(each.roofline.launch_s for each in bound.segments) <= 1.01 * base.segments[0].roofline.launch_s
    assert bound.report is not None
    assert bound.report.median_error < 0.03
    assert float(bound.seconds(1.0, 2048.0, 2048.0)) < 15e-6  # which stream for 9 us
    of_its_own = fit_gemm(*small, gemm_seconds(*small), 2, "again", base=base)
    assert of_its_own == fit_gemm(*small, gemm_seconds(*small), 2, "again")


def test_gemms_of_a_known_machine_are_predicted_between_and_beyond_the_timed_shapes() -> None:
    m, n, k = gemm_grid(4096)
    model = fit_gemm(m, n, k, gemm_seconds(m, n, k), 2, "here")
    assert model.report
    assert model.report.median_error < 0.005
    unseen = np.array([6.0, 40.0, 700.0]), np.array([10240.0, 28672.0, 5120.0]), np.array([5120.0, 8192.0, 14336.0])
    assert model.seconds(*unseen) == pytest.approx(gemm_seconds(*unseen), rel=0.05)


def test_a_quirk_of_a_kernel_is_learnt_by_the_correction() -> None:
    m, n, k = gemm_grid()
    quirk = np.where(n < 2048, 1 + 0.3 * np.log(2048 / n), 1.0)
    model = fit_gemm(m, n, k, gemm_seconds(m, n, k) * quirk * noise(len(m), 0.01), 2, "here")
    assert model.report
    assert model.report.p95_error < 0.08
    assert model.report.coefficients <= 64


@pytest.mark.long
def test_segments_meet_without_jumps() -> None:
    m, n, k = (np.tile(axis, 4) for axis in gemm_grid(4096))
    slower = np.where(m > 64, 1.15, 1.0)  # another family of kernels
    model = fit_gemm(m, n, k, gemm_seconds(m, n, k) * slower * noise(len(m), 0.01), 2, "here")
    assert len(model.segments) > 1
    seconds = model.seconds(np.arange(1, 4097), 8192, 8192)
    steps = np.diff(np.log(seconds))
    assert steps.max() < 0.04
    assert (seconds / np.maximum.accumulate(seconds)).min() > 0.95


@pytest.mark.parametrize("log_sd", [0.05, 0.2])
def test_the_report_of_noise_is_the_noise(log_sd: float) -> None:
    """Nothing can be learnt from noise: held-out errors must be as large as it, not as small as the fit."""
    m, n, k = (np.tile(axis, 3) for axis in gemm_grid())
    model = fit_gemm(m, n, k, gemm_seconds(m, n, k) * noise(len(m), log_sd), 2, "here")
    assert model.report
    assert model.report.log_sd == pytest.approx(log_sd, rel=0.2)
    assert model.report.median_error == pytest.approx(0.674 * log_sd, rel=0.2)
    assert model.report.rows_held_out == round(0.3 * len(m))
    assert model.report.rows_fitted == len(m) - model.report.rows_held_out


def test_held_out_rows_never_reach_the_judged_fit() -> None:
    """Wild times in the held-out rows ruin the report and leave the structure as it was."""
    m, n, k = gemm_grid()
    clean = gemm_seconds(m, n, k) * noise(len(m), 0.01)
    wild = np.where(hold_out(len(m), 0), 3 * clean, clean)
    before, after = fit_gemm(m, n, k, clean, 2, "here"), fit_gemm(m, n, k, wild, 2, "here")
    assert after.segments[0].roofline == before.segments[0].roofline
    assert list(after.segments[0].correction.terms) == list(before.segments[0].correction.terms)
    assert after.report
    assert after.report.median_error == pytest.approx(2 / 3, abs=0.02)


def test_fits_are_deterministic() -> None:
    m, n, k = gemm_grid()
    seconds = gemm_seconds(m, n, k) * noise(len(m), 0.05)
    assert fit_gemm(m, n, k, seconds, 2, "here") == fit_gemm(m, n, k, seconds, 2, "here")


def attention_grid() -> list[Array]:
    axes = np.meshgrid([1, 4, 16, 64], [1], [128, 512, 2048, 8192, 32768], [8, 32, 64], [1, 8], [128])
    return [axis.ravel().astype(float) for axis in axes]


def test_attention_prices_many_queries_as_more_heads() -> None:
    timed = dict(zip(ATTENTION_SHAPE, attention_grid(), strict=True))
    of_queries = 4 * timed["batch"] * timed["heads"] * timed["head_dim"]
    moved = 4 * timed["batch"] * timed["kv_heads"] * timed["context"] * timed["head_dim"] + of_queries
    seconds = MACHINE.seconds(moved, of_queries * timed["context"])
    model = fit_attention({**timed, "seconds": seconds}, 2, "here")
    assert model.report
    assert model.report.median_error < 0.02
    eight_tokens = model.seconds(4, 8, 2048, 8, 8, 128, 2)
    assert eight_tokens == pytest.approx(model.seconds(4, 1, 2048, 64, 8, 128, 2))
    assert model.timed((4, 8, 2048, 8, 8, 128), 2)[1] is None
    assert model.timed((4, 1, 200_000, 8, 8, 128), 2)[1] is not None


def test_a_collective_with_a_protocol_switch() -> None:
    sizes = 2.0 ** np.arange(8, 30)
    seconds = np.where(sizes < 2**18, 5e-6 + sizes / 40e9, 20e-6 + sizes / 200e9)
    model = fit_collective(sizes, seconds, "here")
    assert len(model.regimes) == 2
    assert model.regimes[0].latency_s == pytest.approx(5e-6, rel=0.01)
    assert model.regimes[1].bandwidth == pytest.approx(200e9, rel=0.01)
    assert model.seconds(sizes) == pytest.approx(seconds, rel=0.01)
    every = model.seconds(np.geomspace(1, 1e10, 2000))
    assert (np.diff(every) >= 0).all()


def test_links_and_elementwise_kernels_are_lines() -> None:
    sizes = np.geomspace(1e3, 1e8, 200)
    seconds = (8e-6 + sizes / 350e9) * noise(200, 0.03)
    link = fit_link(sizes, seconds, "here")
    assert link.latency_s == pytest.approx(8e-6, rel=0.03)
    assert link.bandwidth == pytest.approx(350e9, rel=0.03)
    kernel = fit_elementwise(sizes, seconds, "here")
    assert (kernel.launch_s, kernel.bandwidth) == (link.latency_s, link.bandwidth)
    assert link.beyond({"message_bytes": 1}) is None
    assert link.beyond({"message_bytes": 1e9}) == "message_bytes above the largest timed, 1e+08"


def test_degenerate_timings_are_refused() -> None:
    sizes, seconds = np.arange(1.0, 11.0), np.full(10, 1e-6)
    with refused("link", "3", "8"):
        fit_link(sizes[:3], seconds[:3], "here")
    with refused("collective"):
        fit_collective([], [], "here")
    with refused("seconds"):
        fit_link(sizes, np.zeros(10), "here")
    with refused("m"):
        fit_gemm(np.full(10, np.nan), sizes, sizes, seconds, 2, "here")
    with pytest.raises(InputError, match="different lengths"):
        fit_link(sizes, seconds[:9], "here")
    with pytest.raises(InputError, match="every row has the same shape"):
        fit_gemm(np.ones(10), np.ones(10), np.ones(10), seconds, 2, "here")


def test_products_that_differ_by_how_tokens_fill_tiles_are_told_apart() -> None:
    """A token more than a full tile costs a whole one: what is smooth in the tokens misses it by a fifth."""
    n, k = (np.repeat(axis, 12) for axis in np.array([(a, b) for a in SIDES for b in SIDES], float).T)
    m = np.tile([1.0, 2, 4, 8, 15, 16, 17, 32, 33, 48, 64, 65], len(SIDES) ** 2)
    m, n, k = np.tile(m, 3), np.tile(n, 3), np.tile(k, 3)
    seconds = gemm_seconds(m, n, k) * 1.2 ** (np.ceil(m / 16) - 1.0) * noise(len(m), 0.01)
    model = fit_gemm(m, n, k, seconds, 2, "here")
    assert model.report
    assert model.report.median_error < 0.02
    full, beyond = (float(model.seconds(tokens, 4096, 4096)) for tokens in (32, 33))
    assert beyond / full > 1.15


SIDES = (1024, 1536, 2048, 4096, 6144, 8192)
