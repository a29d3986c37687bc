"""How far a card may be off in a series that nobody has seen, from the errors of series that were left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from ssdsim.checks import Array
from ssdsim.measured.price import work_of
from ssdsim.measured.row import Row
from ssdsim.pricing.between_kernels import beside_matrices
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.runtimes.card import Errors, Runtime

BESIDE_LOG_SD = 0.133
"""Of all bundled cards' left-out series together, each weighing alike (docs/fidelity.md), by maximum likelihood.

Of what of a pass and its step multiplies no matrices, beside the errors of the kernels' timings and of the card's
numbers: rows that are three quarters matrices are missed by 6 %, those that are one quarter by 11 %. Beside this an
error of the whole pass comes out as 0; alone it is less likely, also where each card's rows are judged by the others'.
"""

_DRAWS = 100

_SHARED = 0.5
"""Of the squares of a series' errors, the share that all its rows have in common, over the same series (0.49)."""

_OTHERS = 16
"""For how many independent errors the bundled cards' count beside those of one card.

The five cards' own mean squares differ no more than chance lets them, so that ever more would be ever likelier; fewer
than 8 are less likely by more than a test at 95 % bears.
"""


def beside_log_sd(errors: Array, told: Array, rows: Sequence[Row], card: Runtime) -> float:
    """What ``card`` misses by in seconds beside matrices, from relative ``errors`` of ``rows``.

    ``told`` are log-sds that the rows had already: what the numbers of their cards left open. Each series weighs alike.
    """
    kernels, beside = (np.array(each) for each in zip(*(_shares(row, card) for row in rows), strict=True))
    squares = np.log1p(np.maximum(errors, -0.99)) ** 2 - kernels**2 - told**2
    expected = (BESIDE_LOG_SD * beside) ** 2
    return BESIDE_LOG_SD * times_others(squares / expected, [row.series_name for row in rows])


def log_sd_besides(errors: Array, rows: Sequence[Row], card: Runtime) -> float:
    """Of whole passes: what ``card`` misses ``rows`` by, each series weighing alike, beyond all that it says itself."""
    draws = TimingErrors(_DRAWS, 0)
    said = np.array([np.log(work_of(row, card).cost.sample(draws)).var() for row in rows])
    squares = np.log1p(np.maximum(errors, -0.99)) ** 2 - said
    _, at, counts = np.unique([row.series_name for row in rows], return_inverse=True, return_counts=True)
    return float(np.sqrt(max(0.0, np.average(squares, weights=1.0 / counts[at]))))


def times_others(squares: Array, series: Sequence[str]) -> float:
    """The factor on the bundled cards' log-sds that errors with such squares, in units of those, give.

    Few errors tell a spread badly: it is drawn towards that of the bundled cards, and widened as Student's is.
    """
    _, at, counts = np.unique(series, return_inverse=True, return_counts=True)
    own = max(0.0, float(np.average(squares, weights=1.0 / counts[at])))
    counted = independent(counts)
    together = counted + _OTHERS
    drawn = (counted * own + _OTHERS) / together
    return float(np.sqrt(drawn) * student.ppf(0.975, together) / norm.ppf(0.975))


def independent(counts: NDArray[np.int_]) -> float:
    """For how many independent errors the mean square of series with so many errors each, all weighing alike, counts.

    Of ``n`` errors that have a share ``s`` of their squares in common, the mean square varies by ``(s + (1 - s) / n)^2
    + (n - 1) (1 - s)^2 / n^2`` of what that of one does; the mean over series has the degrees of freedom of
    Satterthwaite (1946).

    >>> [round(independent(np.array(each)), 1) for each in ([1, 1], [20], [20, 20, 20])]
    [2.0, 3.5, 10.4]
    """
    own = (1.0 - _SHARED) / counts
    varies = (_SHARED + own) ** 2 + (counts - 1) * own**2
    return float(len(counts) ** 2 / varies.sum())


def _shares(row: Row, card: Runtime) -> tuple[float, float]:
    """The log-sd that a row's kernels make by their own errors, and the share of it that multiplies no matrices."""
    alone = {"name": f"{card.name}, kernels", "errors": Errors(beside_log_sd=1.0), "wander": ()}
    kernels = card.model_copy(update=alone)
    cost, beside = work_of(row, kernels).cost, beside_matrices(kernels)
    timings = Cost(cost.terms, shared={name: moved for name, moved in cost.shared.items() if name != beside})
    return float(np.log(timings.sample(TimingErrors(_DRAWS, 0))).std()), cost.shared.get(beside, 0.0) / cost.seconds
