"""A runtime card from rows: few numbers, drawn towards a card that exists, checked on series that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from calibration.bootstrap import significant
from calibration.runtimes.features import FIELDS, Features, features, values_of
from calibration.runtimes.left_out import without_each
from calibration.runtimes.unseen import beside_log_sd
from ssdsim.checks import Array
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.catalog import find_hardware
from ssdsim.measured.price import work_of
from ssdsim.measured.row import Row
from ssdsim.runtimes.card import NUMBERS, Evidence, Kernels, Runtime
from ssdsim.transformer.operations import QUANTISED_BYTES

DECODING = ("overlap", "attention", "communication", "per_layer_s", "per_step_s", "per_sequence_s")
SPECULATING = ("per_draft_step_s", "per_round_s")
BOTH = ("overlap", "attention", "per_step_s", "per_sequence_s", *SPECULATING)
EXPERTS = (
    "experts",
    "experts_4_bit",
    "experts_nvfp4",
    "prompt_experts_4_bit",
    "per_expert_layer_s",
    "per_expert_prompt_s",
)
"""Of mixtures of experts, on a card that was fitted to dense models."""

MOST_FIELDS = 6
MOST_OVERLAP = 0.9
LEAST_FACTOR = 0.25
"""No engine's kernels are four times as fast as those of another library: the rows then speak of something else."""

PRIOR_SD: Mapping[str, float] = {name: number.prior_sd for name, number in NUMBERS.items() if number.prior_sd}
"""How far an engine may well be from a card of its kind, in each number: what few rows are drawn by."""

_FIRST_NOISE = 0.05
_LEAST_NOISE = 1e-3
_ROUNDS = 4
_TOLD = 0.5  # of the prior's width: a number that the rows know better than that
_HARDLY = 1e-4  # weight of a prior that only keeps a matrix invertible
_OWN_ERROR = ("overlap", *(name for name, number in NUMBERS.items() if number.has_own_error))
"""Numbers without a direction: a log-sd tells how far they may be off, or (overlap) others do."""

_FACTORS = frozenset(Kernels.model_fields) - {"overlap"}
_SAME = 0.9  # correlation from which on two numbers are not told apart


@dataclass(frozen=True)
class Fit:
    """A card with what the rows say of each number: its interval at 95 %, and those that they cannot tell apart.

    ``misfit`` tells fits to the same measurements apart: what is left over of them and of the prior, less is likelier.
    """

    card: Runtime
    rows: Sequence[Row]
    fields: tuple[str, ...]
    low: Array
    high: Array
    told: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]
    errors: Array
    left_out: Array
    series: NDArray[np.str_]
    misfit: float

    @property
    def error(self) -> float:
        """Mean absolute relative error of the rows fitted."""
        return float(np.abs(self.errors).mean())

    @property
    def left_out_error(self) -> float | None:
        """That of rows whose series was left out; None with one series."""
        return float(np.abs(self.left_out).mean()) if self.left_out.size else None


def fit_runtime(
    rows: Sequence[Row],
    base: Runtime,
    name: str,
    engine: str = "",
    fields: Sequence[str] | None = None,
    source: str = "",
) -> Fit:
    """The card called ``name`` that predicts ``rows`` best, drawn towards ``base`` where they say little.

    Least squares of relative errors with every number at least 0 (a factor at least :data:`LEAST_FACTOR`), over
    ``fields`` (:func:`default_fields` by default); the others stay as in ``base``. Series are left out one at a time
    for the error that the card carries; rows of speculation alone say nothing of a target pass by itself, whose error
    then stays that of ``base``.

    Where rows do not say their cache's dtype beside quantised weights, the card keeps the one by which series left out
    are missed by less, of one series the likelier: that is a choice between two, not a number that is fitted.

    Raises
    ------
    InputError : an unknown field, more than :data:`MOST_FIELDS`, or fewer rows than fields.
    """
    base = _at_home(rows, base)
    chosen = tuple(dict.fromkeys(fields if fields is not None else default_fields(rows)))
    check_fields(chosen, len(rows))
    heads = [row for row in rows if row.has_head]
    if "per_draft_step_s" in chosen and heads:  # they speak of their heads' steps, as the card's one number for these
        base = base.drafting_with(work_of(heads[0], base).site.draft.head)
    named = name, engine or base.engine, source or "rows of the user's own"
    fits = [_fit(rows, each, chosen, *named) for each in _caches(rows, base)]
    return min(fits, key=lambda fit: (fit.left_out_error or 0.0, fit.misfit))


def _at_home(rows: Sequence[Row], base: Runtime) -> Runtime:
    """The card to start from as it is on the rows' devices; on those without 4-bit products where there are both."""
    devices = [find_hardware(name).device for name in {row.hardware for row in rows}]
    return base.on(min(devices, key=lambda device: device.multiplies_4_bits)) if devices else base


def _caches(rows: Sequence[Row], base: Runtime) -> Iterator[Runtime]:
    """The card to start from with every cache that the rows leave open: of 16 bits, as the models', or of 8."""
    if not any(row.kv_dtype is None and row.dtype in QUANTISED_BYTES for row in rows):
        yield base
        return
    yield from (base.model_copy(update={"cache_dtype": kept}) for kept in (None, "float8"))


def _fit(rows: Sequence[Row], base: Runtime, chosen: tuple[str, ...], name: str, engine: str, source: str) -> Fit:
    made = features(rows, base)
    solution = _solve(made, base, chosen)
    errors = made.predicted(solution.values) / made.seconds - 1.0
    left_out, _ = _left_out(made, base, chosen)
    low, high = solution.interval()
    card = _card(solution.values, base, name, engine)
    card = card.model_copy(update={"wander": (*_kept(base, chosen), *solution.wander())})
    evidence = Evidence(
        source=source,
        rows=len(rows),
        series=len(set(made.series)),
        error=significant(float(np.abs(errors).mean())),
        left_out_error=significant(float(np.abs(left_out).mean())) if left_out.size else None,
        note="" if left_out.size else "too few series to leave one out: the error is that of the rows fitted",
    )
    of_passes = {"host_log_sd": 0.0}
    if not all(row.k for row in rows):
        of_passes |= {"pass_log_sd": 0.0, "beside_log_sd": _beside(made, base, solution, card)}
    card = card.model_copy(update={"evidence": evidence, "errors": base.errors.model_copy(update=of_passes)})
    told, alike = solution.told(), solution.alike()
    return Fit(card, rows, chosen, low, high, told, alike, errors, left_out, made.series, solution.misfit)


def default_fields(rows: Sequence[Row]) -> tuple[str, ...]:
    """Those of decoding; of speculation where every row speculates (its target passes are not told apart); or both."""
    speculate = [row.k is not None for row in rows]
    if all(speculate):
        return SPECULATING
    return BOTH if any(speculate) else DECODING


def check_fields(fields: Sequence[str], rows: int) -> None:
    """Raise :class:`InputError` at fields that no fit can have."""
    for each in fields:
        if each not in FIELDS:
            raise InputError(f"unknown field '{each}'{nearest(each, FIELDS)} Allowed: {', '.join(FIELDS)}")
    if not 0 < len(set(fields)) <= MOST_FIELDS:
        raise InputError(f"a card has between 1 and {MOST_FIELDS} fitted fields, got {len(set(fields))}")
    if rows <= len(set(fields)):
        raise InputError(f"{len(set(fields))} fields need more than {len(set(fields))} rows, got {rows}")


@dataclass(frozen=True)
class _Solution:
    values: Array
    fields: tuple[str, ...]
    covariance: Array
    by_rows: Array
    rows: float
    misfit: float

    @property
    def _sd(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    def interval(self) -> tuple[Array, Array]:
        at = self.values[_columns(self.fields)]
        wide = student.ppf(0.975, max(1, self.rows - len(self.fields))) * self._sd
        most = [MOST_OVERLAP if name == "overlap" else np.inf for name in self.fields]
        return np.maximum(at - wide, 0.0), np.minimum(at + wide, most)

    def log_sd(self, made: Features) -> Array:
        """Of what is predicted of rows, by what is left open of the numbers."""
        per_unit = made.per_unit[:, _columns(self.fields)] / made.predicted(self.values)[:, None]
        return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", per_unit, self.covariance, per_unit)))

    def wander(self) -> tuple[dict[str, float], ...]:
        """What is left open of the numbers as independent directions: columns of a root of their covariance.

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

    def alike(self) -> tuple[tuple[str, str], ...]:
        """Pairs that may be traded for each other as far as the rows are concerned."""
        sd = np.sqrt(np.diag(self.by_rows))
        correlation = self.by_rows / np.outer(sd, sd)
        return tuple(
            (self.fields[i], self.fields[j])
            for i in range(len(self.fields))
            for j in range(i)
            if abs(correlation[i, j]) > _SAME
        )


def _kept(base: Runtime, fitted: Sequence[str]) -> tuple[dict[str, float], ...]:
    """What the card to start from leaves open of the numbers that are not fitted anew."""
    ways = ({name: sd for name, sd in way.items() if name not in fitted} for way in base.wander)
    return tuple(way for way in ways if way)


def _columns(fields: Sequence[str]) -> list[int]:
    return [FIELDS.index(name) for name in fields]


def _solve(made: Features, base: Runtime, fields: tuple[str, ...]) -> _Solution:
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
        found = lsq_linear(scaled, towards, bounds=(lower / prior_sd, upper / prior_sd), method="bvls").x * prior_sd
        found = np.maximum(found, lower)  # its bounds are kept but for the last bit
        residual = relative @ found - wanted
        noise = max(_LEAST_NOISE, float(np.sqrt((residual**2).sum() / max(1, len(wanted) - len(at)))))
    strayed = (found - values[at]) / prior_sd
    misfit = float(2 * len(wanted) * np.log(noise) + (strayed**2).sum())
    alike = _design_effect(residual, made.series)
    told = relative.T @ relative / (alike * noise**2)
    covariance, by_rows = (
        np.asarray(np.linalg.inv(told + np.diag(weight * prior_sd**-2.0)), dtype=float) for weight in (1.0, _HARDLY)
    )
    solved = values.copy()
    solved[at] = found
    return _Solution(solved, fields, covariance, by_rows, len(wanted) / alike, misfit)


def _least(field: str, base: Runtime) -> float:
    """Attention at the bandwidth is no faster than that."""
    if field == "attention" and base.kernels.streaming_attention:
        return 1.0
    return LEAST_FACTOR if field in _FACTORS else 0.0


def _design_effect(residual: Array, series: NDArray[np.str_]) -> float:
    """By what rows of one series, which share an error, count less than independent ones (Kish, 1965); at least 1."""
    _, at, counts = np.unique(series, return_inverse=True, return_counts=True)
    pairs = float((counts * (counts - 1)).sum())
    squares = float((residual**2).sum())
    if pairs == 0.0 or squares == 0.0:
        return 1.0
    together = float((np.bincount(at, residual) ** 2).sum()) - squares
    correlation = max(0.0, together / pairs / (squares / len(residual)))
    return 1.0 + correlation * (float((counts**2).sum()) / len(residual) - 1.0)


def _left_out(made: Features, base: Runtime, fields: tuple[str, ...]) -> tuple[Array, Array]:
    """Of each row, predicted by the rows of the other series: its relative error, and the log-sd of their numbers.

    Empty with one series, or where the others are too few.
    """
    errors, told = np.full((2, len(made.rows)), np.nan)
    for own in without_each(list(made.series)):
        if (~own).sum() <= len(fields):
            break
        solution = _solve(made.of(~own), base, fields)
        errors[own] = made.of(own).predicted(solution.values) / made.seconds[own] - 1.0
        told[own] = solution.log_sd(made.of(own))
    return (np.zeros(0), np.zeros(0)) if np.isnan(errors).any() else (errors, told)


def _beside(made: Features, base: Runtime, solution: _Solution, card: Runtime) -> float:
    """The log-sd of seconds beside matrices that left-out series show; with one series, what its rows do."""
    errors, told = _left_out(made, base, solution.fields)
    if not errors.size:
        errors, told = made.predicted(solution.values) / made.seconds - 1.0, np.zeros(len(made.rows))
    return significant(beside_log_sd(errors, told, made.rows, card))


def _card(values: Array, base: Runtime, name: str, engine: str) -> Runtime:
    held = {field: significant(float(value)) for field, value in zip(FIELDS, values, strict=True)}
    return base.with_numbers(held).model_copy(update={"name": name, "engine": engine, "versions": "", "about": ""})


def by_series(fit: Fit) -> Iterator[tuple[str, int, float, float]]:
    """Each series: its rows, mean absolute error in fit and left out (nan where there is none)."""
    for name in sorted(set(fit.series)):
        own = fit.series == name
        left = float(np.abs(fit.left_out[own]).mean()) if fit.left_out.size else float("nan")
        yield name, int(own.sum()), float(np.abs(fit.errors[own]).mean()), left
