"""The law of widths: found from rows that follow one, sharper than a constant, nothing where rows ask for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from fidelity_law import best_constant, fit_law, scores, scores_of

from calibration.runtimes.unseen import Unseen, case_of, covered_by, factor_on_errors, scaled
from ssdsim.hardware.extrapolation import STEPS, ExtrapolationError
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.priced_row import work_of
from tests.calibration.runtimes.test_runtime_fit import a_row

BESIDE, GPU = 0.08, 0.3


def unseen(rows: int, seed: int, gpu: float = GPU) -> Unseen:
    """Rows of series of four, half of them a doubling of the GPU away, off by what a law says."""
    random = np.random.default_rng(seed)
    beside, away = random.uniform(0.3, 0.8, rows), np.repeat(random.integers(0, 2, rows // 4), 4).astype(float)
    steps = np.zeros((rows, 1, len(STEPS)))
    steps[:, 0, STEPS.index("gpu")] = away
    known = np.full(rows, 0.03)
    log_sds = np.sqrt(known**2 + (BESIDE**2 + (gpu * away) ** 2) * beside**2)
    return Unseen(
        logs=log_sds * random.standard_normal(rows),
        known=known,
        non_matrix=beside,
        experts=np.zeros(rows),
        steps=steps,
        series=np.array([str(number // 4) for number in range(rows)]),
    )


def test_the_law_is_found_from_rows_that_follow_it() -> None:
    law = fit_law(unseen(1200, 1))
    assert law.beside == pytest.approx(BESIDE, rel=0.3)
    assert law.away.gpu == pytest.approx(GPU, rel=0.3)
    assert {getattr(law.away, way) for way in STEPS if way != "gpu"} == {0.0}


def test_a_law_that_knows_the_distance_is_sharper_than_any_constant() -> None:
    """On rows that it was not fitted to, with the constant chosen in hindsight; and it holds nineteen of twenty."""
    law, others = fit_law(unseen(1200, 1)), unseen(1200, 2)
    log_sds = law.log_sds(others)
    _, constant = best_constant(others.logs)
    assert scores_of(others.logs, log_sds).mean() < 0.9 * constant
    assert 0.92 < (np.abs(others.logs) < 1.96 * log_sds).mean() < 0.98


def test_what_no_row_asks_for_is_nothing() -> None:
    law = fit_law(unseen(1200, 1, gpu=0.0))
    assert law.away.gpu < 0.08


def test_a_score_is_the_width_and_what_lies_outside_forty_times() -> None:
    assert scores(np.array([0.9, 1.05, 0.5]), np.array([1.1, 1.2, 0.98])) == pytest.approx(
        [0.2, 0.15 + 2.0, 0.48 + 0.8]
    )


def test_rows_that_are_missed_by_more_than_their_card_says_scale_its_errors_up() -> None:
    rows = [a_row(batch, series=str(batch)) for batch in (1, 2, 4, 8, 16, 32)]
    card = find_runtime("sglang").changed(covered=covered_by(rows), away=ExtrapolationError(gpu=0.1), wander=())
    near = factor_on_errors(Unseen.of(rows, card, np.full(len(rows), 0.01)), card)
    far = factor_on_errors(Unseen.of(rows, card, np.full(len(rows), 0.5)), card)
    assert far > 1.5 > near
    wider = scaled(card, far)
    assert wider.errors.beside_log_sd == pytest.approx(far * card.errors.beside_log_sd, rel=1e-4)
    assert wider.away.gpu == pytest.approx(far * 0.1, rel=1e-4)


def test_what_is_known_of_a_row_is_what_its_cost_says_to_first_order() -> None:
    row = a_row(8)
    card = find_runtime("kernels").changed(covered=covered_by([row]))
    unseen = Unseen.of([row], card, np.zeros(1))
    assert unseen.known[0] == pytest.approx(work_of(row, card).cost.log_sd)
    assert 0.0 < unseen.non_matrix[0] < 1.0
    assert not unseen.steps.any()


def test_the_fit_and_the_card_are_one_law() -> None:
    """What a fit takes a row's error to be, over many rows at once, is what the fitted card says of that row."""
    behind = [a_row(1), a_row(8, tp=2), a_row(2).changed(model="qwen3-8b")]
    others = [{"tp": 8, "batch": 64}, {"hardware": "h200-sxm"}, {"model": "gpt-oss-120b"}]
    rows = [a_row(4).changed(**other) for other in others]
    away = ExtrapolationError(**{way: 0.1 * number for number, way in enumerate(STEPS, 1)})
    card = find_runtime("kernels").changed(covered=covered_by(behind), away=away)
    unseen = Unseen.of(rows, card, np.zeros(len(rows)))
    facing = [card.facing(case_of(row)).errors for row in rows]
    said = [(each.beside_log_sd * beside) ** 2 for each, beside in zip(facing, unseen.non_matrix, strict=True)]
    said = [square + each.pass_log_sd**2 for square, each in zip(said, facing, strict=True)]
    assert unseen.squares_by(card) == pytest.approx(said)
