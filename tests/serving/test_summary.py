"""Percentiles of values with weights against those of the values written down as often as they weigh."""

import numpy as np
import pytest

from ssdsim.answers.serving.summary import weighted_percentiles


@pytest.mark.parametrize("count", [1, 7, 1000, 60_000])
def test_weighted_percentiles_are_those_of_as_many_values(count: int) -> None:
    rng = np.random.default_rng(count)
    smooth = rng.lognormal(0.0, 1.0, count)
    for values in (smooth, np.round(smooth, 1), np.append(smooth, 1e7), np.full(count, 3.0)):
        weights = rng.integers(1, 9, values.size)
        written = np.repeat(values, weights)
        expected = [float(np.percentile(written, percent, method="inverted_cdf")) for percent in (1, 50, 90, 99)]
        assert list(weighted_percentiles(values, weights.astype(float), (1, 50, 90, 99)).values()) == expected
