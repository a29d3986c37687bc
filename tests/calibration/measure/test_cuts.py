"""Top-k and top-p against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibration.pairs.measure.positions import draw
from calibration.pairs.measure.verification import EVERYTHING, Cut
from ssdsim.base.errors import InputError


@pytest.mark.long
@settings(deadline=None)  # a test must pass on a busy machine
@given(
    logits=arrays(np.float64, (3, 7), elements=st.floats(-8.0, 8.0).map(lambda x: round(x, 1))),
    top_p=st.floats(0.05, 1.0),
    top_k=st.none() | st.integers(1, 9),
)
def test_the_fewest_likeliest_tokens_with_the_mass_stay(logits: np.ndarray, top_p: float, top_k: int | None) -> None:
    left = Cut(top_p, top_k).of_array(logits)
    for row, found in zip(logits, left, strict=True):
        order = sorted(range(7), key=lambda token: (-row[token], token))[: top_k or 7]
        weights = np.exp(row[order] - row.max())
        before = np.cumsum(weights / weights.sum()) - weights / weights.sum()
        sure = np.abs(before - top_p) > 1e-9  # a mass that ends at top-p but for rounding may go either way
        stays = np.isfinite(found[order])
        np.testing.assert_array_equal(stays[sure], (before < top_p)[sure] | (top_p == 1.0))
        np.testing.assert_array_equal(found[np.isfinite(found)], row[np.isfinite(found)])
        assert np.isfinite(found).sum() == stays.sum()  # none beyond top-k
        assert stays[0]


def test_nothing_is_left_out_unless_it_is_asked_for() -> None:
    logits = np.zeros((2, 4))
    assert EVERYTHING.of_array(logits) is logits


def test_drawn_tokens_are_those_that_stay() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0]]).repeat(200, 1)
    coins = np.linspace(0.0, 1.0, 200, endpoint=False)
    assert set(draw(logits, 1.0, coins, Cut(top_k=2))) == {1, 2}
    assert set(draw(logits, 1.0, coins, Cut(top_p=0.5))) == {1}
    assert set(draw(logits, 1.0, coins)) == {0, 1, 2, 3}


@pytest.mark.parametrize("values", [(0.0, None), (1.5, None), (0.9, 0)])
def test_what_is_no_cut_is_told(values: tuple[float, int | None]) -> None:
    with pytest.raises(InputError, match="--top-"):
        Cut(*values)
