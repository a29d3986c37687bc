"""The numbers of a runtime card that rows make likeliest, drawn towards those of a card that exists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from calibration.runtimes.features import FIELDS, Features, values_of
from calibration.runtimes.next_row import PRIOR_SD
from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.hardware.runtime_card import NUMBERS, Kernels, Runtime

MOST_OVERLAP = 0.9
LEAST_FACTOR = 0.25
"""No engine's kernels are four times as fast as those of another library: the rows then speak of something else."""

_FIRST_NOISE = 0.05
_USUAL_NOISE = 0.04
_USUAL_ROWS = 4
"""What a row is off by of a card that fits, and for how many rows that counts beside those there are."""

_ROUNDS = 4
_TOLD = 0.5  # of the prior's width: a number that the rows know better than that
_HARDLY = 1e-4  # weight of a prior that only keeps a matrix invertible
_OWN_ERROR = ("overlap", *(name for name, number in NUMBERS.items() if number.has_own_error))
"""Numbers without a direction: a log-sd tells how far they may be off, or (overlap) others do."""

_FACTORS = frozenset(Kernels.__struct_fields__) - {"overlap"}
_SAME = 0.9  # correlation from which on two numbers are not told apart


class Solution(Record):
    """Numbers that rows make likeliest, and how open they are: a covariance of ``fields``, and one by rows alone.

    ``misfit`` tells fits to the same rows apart: what is left over of them and of the prior, less is likelier.
    """

    values: Array
    fields: tuple[str, ...]
    covariance: Array
    by_rows: Array
    rows: float
    misfit: float
    noise: float

    @property
    def _sd(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    def interval(self) -> tuple[Array, Array]:
        """The ends of the fields' intervals at 95 %."""
        at = self.values[_columns(self.fields)]
        wide = student.ppf(0.975, _USUAL_ROWS + max(0.0, self.rows - len(self.told()))) * self._sd
        most = [MOST_OVERLAP if name == "overlap" else np.inf for name in self.fields]
        return np.maximum(at - wide, 0.0), np.minimum(at + wide, most)

    def log_sd(self, made: Features) -> Array:
        """The log-sd of what is predicted of rows, by what is left open of the numbers."""
        per_unit = made.per_unit[:, _columns(self.fields)] / made.predicted(self.values)[:, None]
        return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", per_unit, self.covariance, per_unit)))

    def wander(self) -> tuple[dict[str, float], ...]:
        """Independent directions in which the numbers are open: columns of a root of their covariance.

        Numbers that have none are taken for known, and what they could be traded for as known that much better.
        """
        kept = [at for at, field in enumerate(self.fields) if field not in _OWN_ERROR]
        if not kept:
            return ()
        precision = np.linalg.inv(self.covariance)[np.ix_(kept, kept)]
        root = np.linalg.cholesky(np.linalg.inv(precision))
        names = [self.fields[at] for at in kept]
        return tuple(
            {name: significant(float(moved)) for name, moved in zip(names, column, strict=True) if moved}
            for column in root.T
        )

    def told(self) -> tuple[str, ...]:
        """The fields that the rows know better than the prior does."""
        return tuple(f for f, sd in zip(self.fields, self._sd, strict=True) if sd < _TOLD * PRIOR_SD[f])

    def alike(self, rows: int) -> tuple[tuple[str, str], ...]:
        """Pairs that may be traded for each other as far as so many rows are concerned; of few rows all may."""
        if rows <= len(self.fields):
            return ()
        sd = np.sqrt(np.diag(self.by_rows))
        correlation = self.by_rows / np.outer(sd, sd)
        return tuple(
            (self.fields[i], self.fields[j])
            for i in range(len(self.fields))
            for j in range(i)
            if abs(correlation[i, j]) > _SAME
        )


def _columns(fields: Sequence[str]) -> list[int]:
    return [FIELDS.index(name) for name in fields]


def solve(made: Features, base: Runtime, fields: tuple[str, ...]) -> Solution:
    """Maximum a posteriori with the noise that the rows themselves show."""
    values, at = values_of(base), _columns(fields)
    prior_sd = np.array([PRIOR_SD[name] for name in fields])
    others = np.delete(np.arange(len(FIELDS)), at)
    fixed = made.offset + made.per_unit[:, others] @ values[others]
    relative = made.per_unit[:, at] / made.seconds[:, None]
    wanted = 1.0 - fixed / made.seconds
    upper = np.array([MOST_OVERLAP if name == "overlap" else np.inf for name in fields])
    lower = np.array([_least(name, base) for name in fields])
    noise = _FIRST_NOISE
    for _ in range(_ROUNDS):
        scaled = np.vstack([relative * prior_sd / noise, np.eye(len(at))])
        towards = np.concatenate([wanted / noise, values[at] / prior_sd])
        solution = lsq_linear(scaled, towards, bounds=(lower / prior_sd, upper / prior_sd), method="bvls").x
        solution = np.maximum(solution * prior_sd, lower)  # its bounds are kept but for the last bit
        residual = relative @ solution - wanted
        noise = _noise_of(residual, len(at))
    strayed = (solution - values[at]) / prior_sd
    misfit = float(2 * len(wanted) * np.log(noise) + (strayed**2).sum())
    alike = _design_effect(residual, made.series)
    told = relative.T @ relative / (alike * noise**2)
    covariance, by_rows = (
        np.asarray(np.linalg.inv(told + np.diag(weight * prior_sd**-2.0)), dtype=float) for weight in (1.0, _HARDLY)
    )
    solved = values.copy()
    solved[at] = solution
    return Solution(solved, fields, covariance, by_rows, len(wanted) / alike, misfit, noise)


def _noise_of(residuals: Array, fitted: int) -> float:
    """The noise of a row, from what so many numbers leave over of rows: of few rows nearly the usual one."""
    counted = _USUAL_ROWS + max(1, len(residuals) - fitted)
    return float(np.sqrt((_USUAL_ROWS * _USUAL_NOISE**2 + (residuals**2).sum()) / counted))


def _least(field: str, base: Runtime) -> float:
    """The least that a number may be: attention at the bandwidth is no faster than that."""
    if field == "attention" and base.kernels.streaming_attention:
        return 1.0
    return LEAST_FACTOR if field in _FACTORS else 0.0


def _design_effect(residual: Array, series: NDArray[np.str_]) -> float:
    """The factor by which rows of one series, which share an error, count less than independent ones (Kish, 1965)."""
    _, at, counts = np.unique(series, return_inverse=True, return_counts=True)
    pairs = float((counts * (counts - 1)).sum())
    squares = float((residual**2).sum())
    if pairs == 0.0 or squares == 0.0:
        return 1.0
    together = float((np.bincount(at, residual) ** 2).sum()) - squares
    correlation = max(0.0, together / pairs / (squares / len(residual)))
    return 1.0 + correlation * (float((counts**2).sum()) / len(residual) - 1.0)
