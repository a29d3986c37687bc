"""Errors of runtime cards on held-out rows, and the factor that they put on the errors that a card states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from calibration.timings.fit import significant
from ssdsim.base.card import MOST_LOG_SD
from ssdsim.base.checks import Array
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.extrapolation import OF_WHOLE, STEPS, ExtrapolationError, OperatingPoint, TrainingDomain, steps
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.runtime_numbers import CardErrors
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import beside_matrices
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row

_SHARED = 0.5
"""The share of the squares of a series' errors that all its rows have in common, over the same series (0.49)."""

_OTHERS = 16
"""The number of independent errors that the bundled cards' count as beside those of one card.

The five cards' own mean squares differ no more than chance lets them, so that ever more would be ever likelier; fewer
than 8 are less likely by more than a test at 95 % bears.
"""


_FAR = 1e3  # steps: no nearest setting

OF_LAW = ("beside_log_sd", "experts_log_sd")
"""A card's errors that one law gives to all cards (docs/fidelity_widths.py), like ``away``."""

_LAW_OF = "vllm-0.9"


def covered_by(rows: Sequence[Row]) -> tuple[TrainingDomain, ...]:
    """The settings that rows have, each with the batches and the versions seen there."""
    by_setting: dict[tuple[str, int, int, bool], list[tuple[OperatingPoint, str]]] = {}
    for row in rows:
        case = case_of(row)
        setting = (case.device, case.tp, case.active_parameters, case.experts)
        by_setting.setdefault(setting, []).append((case, row.stated_version))
    return tuple(_covered(seen) for _, seen in sorted(by_setting.items()))


def _covered(seen: Sequence[tuple[OperatingPoint, str]]) -> TrainingDomain:
    (case, _), batches = seen[0], [each.batch for each, _ in seen]
    return TrainingDomain(
        **picked(case, "device", "peak_flops", "memory_bandwidth", "tp", "active_parameters", "experts"),
        batches=(min(batches), max(batches)),
        versions=tuple(sorted({version for _, version in seen if version})),
    )


def case_of(row: Row) -> OperatingPoint:
    """The case of a row: its device, model, degree, batch and version."""
    profile = find_hardware(row.hardware)
    return OperatingPoint.of(
        find_transformer(row.model), profile.device, profile.name, row.tp, row.batch, row.stated_version
    )


class Unseen(Record):
    """Rows that a card predicted without having seen them.

    ``logs`` are of predicted over measured. ``known`` is a row's log-sd by kernel timings and the card's numbers,
    ``non_matrix`` the share of its seconds that multiplies no matrices. ``experts`` is 1 for a mixture. ``steps`` is
    the distance from each setting behind the card, shape ``(rows, settings, ways)``; absent settings are far away.
    """

    logs: Array
    known: Array
    non_matrix: Array
    experts: Array
    steps: Array
    series: NDArray[np.str_]

    @staticmethod
    def of(rows: Sequence[Row], card: Runtime, errors: Array, number_sd: Array | float = 0.0) -> Unseen:
        """Rows that ``card`` missed by relative ``errors``.

        ``number_sd`` are log-sds by uncertain numbers that the card does not state itself.
        """
        kernels, non_matrix = np.array([_shares(row, card) for row in rows]).T
        cases = [case_of(row) for row in rows]
        return Unseen(
            logs=np.log1p(np.maximum(errors, -0.99)),
            known=np.hypot(kernels, number_sd),
            non_matrix=non_matrix,
            experts=np.array([float(case.experts) for case in cases]),
            steps=np.array([[steps(case, each) for each in card.covered] for case in cases], dtype=float).reshape(
                len(rows), len(card.covered), len(STEPS)
            ),
            series=np.array([row.series_name for row in rows]),
        )

    @staticmethod
    def together(parts: Sequence[Unseen]) -> Unseen:
        most = max(part.steps.shape[1] for part in parts)
        wide = [
            np.pad(part.steps, ((0, 0), (0, most - part.steps.shape[1]), (0, 0)), constant_values=_FAR)
            for part in parts
        ]
        names = ("logs", "known", "non_matrix", "experts", "series")
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return Unseen(steps=np.concatenate(wide), **columns)

    def squares_of(self, beside: float, experts: float, away: Sequence[float]) -> Array:
        """The variance that log-sds of these sizes add to each row."""
        if not self.steps.shape[1]:
            return np.asarray((beside * self.non_matrix) ** 2 + (experts * self.experts) ** 2)
        known, at = self._squares
        squares, whole = known * np.square(np.asarray(away)), np.isin(STEPS, OF_WHOLE)
        of_beside, of_pass = (squares[..., ways].sum(axis=2).min(axis=1)[at] for ways in (~whole, whole))
        return np.asarray((beside**2 + of_beside) * self.non_matrix**2 + (experts * self.experts) ** 2 + of_pass)

    @cached_property
    def _squares(self) -> tuple[Array, NDArray[np.int_]]:
        """The distinct squared steps, and the index of each row's."""
        rows, settings, ways = self.steps.shape
        distinct, at = np.unique(self.steps.reshape(rows, settings * ways), axis=0, return_inverse=True)
        return np.square(distinct.reshape(-1, settings, ways)), at.reshape(-1)

    def squares_by(self, card: Runtime) -> Array:
        """The variance that a card's own errors add to each row."""
        away = [getattr(card.away, way) for way in STEPS]
        return self.squares_of(card.errors.beside_log_sd, card.errors.experts_log_sd, away)


def with_law(card: Runtime) -> Runtime:
    """The card itself if it states errors away from its rows; else with those of the bundled cards."""
    if card.errors.beside_log_sd:
        return card
    law = find_runtime(_LAW_OF)
    errors = {name: getattr(law.errors, name) for name in OF_LAW}
    return card.changed(errors=card.errors.changed(**errors), away=law.away)


def scaled(card: Runtime, factor: float) -> Runtime:
    """The card with its errors multiplied by ``factor``."""
    errors, away = card.errors, card.away

    def larger(log_sd: float) -> float:
        return significant(min(factor * log_sd, MOST_LOG_SD))

    times = {name: larger(getattr(errors, name)) for name in OF_LAW}
    farther = ExtrapolationError(**{way: larger(getattr(away, way)) for way in STEPS})
    return card.changed(errors=errors.changed(**times), away=farther)


def factor_on_errors(unseen: Unseen, card: Runtime) -> float:
    """The factor on the errors that ``card`` states, from held-out rows that these errors move.

    They do not move rows of SSD whose draft is late: there verification is hidden.
    """
    squares, stated = unseen.logs**2 - unseen.known**2, unseen.squares_by(card)
    moved = stated > 0.0
    return times_others(squares[moved] / stated[moved], unseen.series[moved]) if moved.any() else 1.0


def times_others(squares: Array, series: Sequence[str] | NDArray[np.str_]) -> float:
    """The factor on the bundled cards' log-sds, from squared errors in units of these.

    It is shrunk towards 1 for few errors, and widened by Student's t.
    """
    _, at, counts = np.unique(series, return_inverse=True, return_counts=True)
    own = max(0.0, float(np.average(squares, weights=1.0 / counts[at])))
    counted = independent(counts)
    together = counted + _OTHERS
    drawn = (counted * own + _OTHERS) / together
    return float(np.sqrt(drawn) * student.ppf(0.975, together) / norm.ppf(0.975))


def independent(counts: NDArray[np.int_]) -> float:
    """The number of independent errors that the mean square of series of so many errors, weighing alike, counts as.

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
    """A row's log-sd by kernels and the card's numbers, and the share of its seconds that multiplies no matrices."""
    alone = {"name": f"{card.name}, kernels", "errors": CardErrors(beside_log_sd=1.0), "covered": ()}
    kernels = card.changed(**alone)
    cost, beside = work_of(row, kernels).cost, beside_matrices(kernels)
    timings, shared = cost.terms
    rest = Cost(timings, shared={name: moved for name, moved in shared.items() if name != beside})
    return rest.log_sd, shared.get(beside, 0.0) / cost.seconds
