"""The one row more that would tell most."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.runtimes.fit import RuntimeFit, fit_runtime
from calibration.runtimes.next_row import BATCHES, CONTEXTS, Posterior, candidates, next_row
from calibration.runtimes.solution import Features, features
from ssdsim.readers.row import Row
from tests.calibration.runtimes.test_runtime_fit import a_row, start


def fitted(*rows: Row) -> RuntimeFit:
    return fit_runtime(rows, start(), "x")


def open_of(fit: RuntimeFit, asked: list[Row]) -> float:
    """What the numbers of a fit leave open of rows, root mean square."""
    made = features(asked, fit.card)
    slopes = made.per_unit / made.predicted(fit.posterior.values)[:, None]
    return float(np.sqrt(np.einsum("ij,jk,ik->i", slopes, fit.posterior.covariance, slopes).mean()))


def test_the_row_that_tells_most_leaves_less_open_than_any_other() -> None:
    """Its own promise, held against fits with each of the candidates added."""
    rows = [a_row(batch) for batch in (1, 2, 4)]
    fit, asked = fitted(*rows), list(candidates(rows))
    following = next_row(rows, fit.card, fit.posterior)
    assert following is not None
    assert following.without == pytest.approx(open_of(fit, asked))
    assert following.with_it < following.without

    def after(row: Row) -> float:
        made = features([*rows, row], fit.card)
        exact = made.predicted(fit.posterior.values)
        slopes = made.per_unit / exact[:, None]
        as_predicted = Features(made.rows, exact, made.offset, made.per_unit, made.series)
        seen = Posterior.after(as_predicted, start(), fit.posterior.values, fit.posterior.noise)
        assert slopes.shape[0] == len(rows) + 1
        moved = features(asked, fit.card)
        ways = moved.per_unit / moved.predicted(fit.posterior.values)[:, None]
        return float(np.sqrt(np.einsum("ij,jk,ik->i", ways, seen.covariance, ways).mean()))

    left = {row: after(row) for row in asked[::5]}
    assert after(following.row) <= min(left.values()) + 1e-3


def test_rows_of_one_gpu_ask_for_one_of_several() -> None:
    """Nothing of them says what messages cost."""
    rows = [a_row(batch) for batch in (1, 8, 64)]
    fit = fitted(*rows)
    assert "communication" in fit.unpaid
    following = next_row(rows, fit.card, fit.posterior)
    assert following is not None
    assert following.row.tp > 1


def test_a_second_row_of_the_same_kind_is_not_asked_for_again() -> None:
    rows = [a_row(batch) for batch in (1, 8, 64)]
    fit = fitted(*rows)
    first = next_row(rows, fit.card, fit.posterior)
    assert first is not None
    more = [*rows, a_row(first.row.batch, tp=first.row.tp)]
    again = fitted(*more)
    second = next_row(more, again.card, again.posterior)
    assert second is not None
    assert second.row != first.row
    assert second.without < first.without


def test_candidates_have_room_and_the_rows_of_a_draft_ask_for_drafts() -> None:
    rows = [a_row(1), a_row(1, k=3)]
    asked = list(candidates(rows))
    assert {row.k for row in asked} == {None, 3}
    assert {row.batch for row in asked} <= set(BATCHES)
    assert len({row.input_tokens for row in asked}) == len(CONTEXTS)
    large = [row.changed(model="llama-3.1-70b", tp=4) for row in rows]
    assert 1 not in {row.tp for row in candidates(large)}  # its weights do not fit one GPU
