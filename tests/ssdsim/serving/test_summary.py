"""Percentiles of values with weights against those of the values written down as often as they weigh."""

import numpy as np
import pytest

from ssdsim.serving.metrics import weighted_percentiles


@pytest.mark.parametrize("count", [1, 7, 1000, 60_000])
def test_weighted_percentiles_are_those_of_as_many_values(count: int) -> None:
    rng = np.random.default_rng(count)
    smooth = rng.lognormal(0.0, 1.0, count)
    for values in (smooth, np.round(smooth, 1), np.append(smooth, 1e7), np.full(count, 3.0)):
        weights = rng.integers(1, 9, values.size)
        written = np.repeat(values, weights)
        expected = [float(np.percentile(written, percent, method="inverted_cdf")) for percent in (1, 50, 90, 99)]
        assert list(weighted_percentiles(values, weights.astype(float), (1, 50, 90, 99)).values()) == expected


@pytest.mark.parametrize("floats", [1, 500, 3000])
def test_values_may_lie_fewer_floats_apart_than_they_are_counted_in_bins(floats: int) -> None:
    low = 0.0123
    values = low + np.arange(30_000) % (floats + 1) * np.spacing(low)
    weights = np.ones(values.size)
    expected = [float(np.percentile(values, percent, method="inverted_cdf")) for percent in (1, 50, 90)]
    assert list(weighted_percentiles(values, weights, (1, 50, 90)).values()) == expected


def test_the_highest_value_is_found_where_sums_of_weights_round() -> None:
    values = np.arange(30_000.0)
    weights = np.random.default_rng(0).random(values.size)
    for last in range(20_000, 30_000, 500):
        assert weighted_percentiles(values[:last], weights[:last], (100,)) == {100: last - 1.0}
