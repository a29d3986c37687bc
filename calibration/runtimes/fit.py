"""A runtime card from rows: few numbers, drawn towards a card that exists, checked on series that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from calibration.bootstrap import significant
from calibration.runtimes.features import FIELDS, Features, features, values_of
from calibration.runtimes.left_out import without_each
from calibration.runtimes.next_row import PRIOR_SD, Open
from calibration.runtimes.unseen import Unseen, covered_by, factor_on_errors, scaled, with_law
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.hardware.catalog import find_hardware
from ssdsim.measured.price import work_of
from ssdsim.measured.row import Row
from ssdsim.runtimes.card import NUMBERS, OF_ENGINE, Evidence, Kernels, Runtime
from ssdsim.runtimes.covered import Covered
from ssdsim.transformer.operations import QUANTISED_BYTES

DECODING = ("overlap", "attention", "communication", "per_layer_s", "per_step_s", "per_sequence_s")
SPECULATING = ("per_draft_step_s", "per_round_s", "per_round_sequence_s")
EXPERTS = (
    "experts",
    "experts_4_bit",
    "experts_nvfp4",
    "experts_16_bit",
    "prompt_experts_4_bit",
    "per_expert_layer_s",
    "per_expert_prompt_s",
)
"""The numbers of mixtures of experts, on a card that was fitted to dense models."""

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

_FACTORS = frozenset(Kernels.model_fields) - {"overlap"}
_SAME = 0.9  # correlation from which on two numbers are not told apart


@dataclass(frozen=True)
class Fit:
    """A card with what the rows say of each number: its interval at 95 %, and those that they cannot tell apart.

    ``unpaid`` are usual numbers that no row pays; ``open`` is what is left open of all usual numbers together.
    """

    card: Runtime
    fields: tuple[str, ...]
    low: Array
    high: Array
    told: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]
    errors: Array
    left_out: Array
    series: NDArray[np.str_]
    unpaid: tuple[str, ...]
    open: Open

    @property
    def error(self) -> float:
        """Mean absolute relative error of the rows fitted."""
        return float(np.abs(self.errors).mean())

    @property
    def left_out_error(self) -> float | None:
        """Error at rows whose series was left out; None with one series."""
        return float(np.abs(self.left_out).mean()) if self.left_out.size else None


def fit_runtime(
    rows: Sequence[Row],
    base: Runtime,
    name: str,
    engine: str = "",
    fields: Sequence[str] | None = None,
    source: str = "",
    own_errors: bool = True,
) -> Fit:
    """The card called ``name`` that predicts ``rows`` best, drawn towards ``base`` where they say little.

    Least squares of relative errors with every number at least 0 (a factor at least :data:`LEAST_FACTOR`), over
    ``fields`` (:func:`default_fields` by default); the others stay as in ``base``. Series are left out one at a time
    for the error that the card carries; rows of speculation alone say nothing of a target pass by itself, whose error
    then stays that of ``base``.

    Where rows do not say their cache's dtype beside quantised weights, the card keeps the one by which series left out
    are missed by less, of one series the likelier: that is a choice between two, not a number that is fitted.

    Its errors are those of ``base`` times what series show that were left out (``own_errors``), or those of ``base``.

    Raises
    ------
    InputError : an unknown field, or none.
    """
    solved = _fit_numbers(rows, base, name, engine, fields)
    made, card = solved.made, solved.card
    errors = made.predicted(solved.solution.values) / made.seconds - 1.0
    left_out, _ = solved.left_out
    evidence = Evidence(
        source=source or "rows of the user's own",
        rows=len(rows),
        series=len(set(made.series)),
        error=significant(float(np.abs(errors).mean())),
        left_out_error=significant(float(np.abs(left_out).mean())) if left_out.size else None,
        note="" if left_out.size else "too few series to leave one out: the error is that of the rows fitted",
    )
    card = (_with_errors(solved) if own_errors else card).model_copy(update={"evidence": evidence})
    solution = solved.solution
    low, high = solution.interval()
    usual = [name for name in (*DECODING, *EXPERTS, *SPECULATING) if name not in solution.fields]
    return Fit(
        card=card,
        fields=solution.fields,
        low=low,
        high=high,
        told=solution.told(),
        alike=solution.alike(len(rows)),
        errors=errors,
        left_out=left_out,
        series=made.series,
        unpaid=tuple(name for name in usual if not made.per_unit[:, FIELDS.index(name)].any()),
        open=Open.after(made, solved.base, solution.values, solution.noise),
    )


@dataclass(frozen=True)
class _Numbers:
    """A card with its numbers fitted, what they leave open and the settings behind it; its errors are its base's."""

    card: Runtime
    base: Runtime
    made: Features
    solution: _Solution

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Each row's relative error as the rows of the other series predict it, and the log-sd of their numbers.

        Empty with one series.
        """
        made, fields = self.made, self.solution.fields
        errors, told = np.full((2, len(made.rows)), np.nan)
        for own in without_each(list(made.series)):
            solution = _solve(made.of(~own), self.base, fields)
            errors[own] = made.of(own).predicted(solution.values) / made.seconds[own] - 1.0
            told[own] = solution.log_sd(made.of(own))
        return (np.zeros(0), np.zeros(0)) if np.isnan(errors).any() else (errors, told)

    @property
    def left_out_error(self) -> float | None:
        """Mean absolute error of series that were left out; None with one series."""
        return float(np.abs(self.left_out[0]).mean()) if self.left_out[0].size else None


def _fit_numbers(
    rows: Sequence[Row], base: Runtime, name: str, engine: str = "", fields: Sequence[str] | None = None
) -> _Numbers:
    base = _at_home(rows, base)
    if fields is not None:
        check_fields(fields)
    drafts = "per_draft_step_s" in (SPECULATING if fields is None else fields)
    heads = [row for row in rows if row.has_head]
    if drafts and heads:  # they speak of their heads' steps, as the card's one number for these
        base = base.drafting_with(work_of(heads[0], base).site.draft.head)
    fits = [_numbers(rows, each, fields, name, engine or base.engine) for each in _caches(rows, base)]
    return min(fits, key=lambda each: (each.left_out_error or 0.0, each.solution.misfit))


def _numbers(rows: Sequence[Row], base: Runtime, fields: Sequence[str] | None, name: str, engine: str) -> _Numbers:
    made = features(rows, base)
    chosen = tuple(dict.fromkeys(default_fields(made) if fields is None else fields))
    solution = _solve(made, base, chosen)
    card = _card(solution.values, base, name, engine)
    wander = (*_kept(base, chosen), *solution.wander())
    card = card.model_copy(update={"wander": wander, "covered": _covered(card, base, rows)})
    return _Numbers(card, base, made, solution)


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


def default_fields(made: Features) -> tuple[str, ...]:
    """Fields that the rows pay: of decoding, of experts where mixtures are, of drafts where rows speculate.

    Rows that all speculate do not tell a draft from the target pass behind it, whose numbers stay. A number that rows
    tell little of stays near the start: that is not what many numbers cost.
    """
    usual = SPECULATING if all(row.k for row in made.rows) else (*DECODING, *EXPERTS, *SPECULATING)
    return tuple(name for name in usual if made.per_unit[:, FIELDS.index(name)].any())


def check_fields(fields: Sequence[str]) -> None:
    """Raise :class:`InputError` at fields that no fit can have."""
    for each in fields:
        if each not in FIELDS:
            raise InputError(f"unknown field '{each}'{nearest(each, FIELDS)} Allowed: {', '.join(FIELDS)}")
    if not fields:
        raise InputError("at least one field must be fitted, got none")


@dataclass(frozen=True)
class _Solution:
    """``misfit`` tells fits to the same rows apart: what is left over of them and of the prior, less is likelier."""

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


def _kept(base: Runtime, fitted: Sequence[str]) -> tuple[dict[str, float], ...]:
    """Directions that the card to start from leaves open of the numbers that are not fitted anew."""
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
    return _Solution(solved, fields, covariance, by_rows, len(wanted) / alike, misfit, noise)


def _noise_of(residuals: Array, fitted: int) -> float:
    """The noise of a row, from what so many numbers leave over of rows: of few rows nearly the usual one."""
    counted = _USUAL_ROWS + max(1, len(residuals) - fitted)
    return float(np.sqrt((_USUAL_ROWS * _USUAL_NOISE**2 + (residuals**2).sum()) / counted))


def _least(field: str, base: Runtime) -> float:
    """Attention at the bandwidth is no faster than that."""
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


def _with_errors(solved: _Numbers) -> Runtime:
    """The card with the errors of its base, times what series show that were left out; with one series, its own rows.

    Rows of speculation alone say nothing of a target pass by itself.
    """
    card, errors = solved.card, {"host_log_sd": 0.0}
    if all(row.k for row in solved.made.rows):
        return card.model_copy(update={"errors": card.errors.model_copy(update=errors)})
    errors["pass_log_sd"] = 0.0
    card = with_law(card.model_copy(update={"errors": card.errors.model_copy(update=errors)}))
    return scaled(card, factor_on_errors(_unseen(card, solved), card))


def _unseen(card: Runtime, solved: _Numbers) -> Unseen:
    """Each series by what the others say; with one series, its rows by the card itself."""
    made, bare = solved.made, card.model_copy(update={"wander": ()})
    errors, told = solved.left_out
    if not errors.size:
        errors = made.predicted(solved.solution.values) / made.seconds - 1.0
        return Unseen.of(made.rows, bare, errors, solved.solution.log_sd(made))
    parts = []
    for own in without_each(list(made.series)):
        others = bare.model_copy(update={"covered": _covered(card, solved.base, made.of(~own).rows)})
        parts.append(Unseen.of(made.of(own).rows, others, errors[own], told[own]))
    return Unseen.together(parts)


def _covered(card: Runtime, base: Runtime, rows: Sequence[Row]) -> tuple[Covered, ...]:
    """The settings behind a card: those of its rows, and of the card to start from where that is of the same engine."""
    before = base.covered if card.engine.lower() == base.engine.lower() else ()
    return tuple(dict.fromkeys((*before, *covered_by(rows))))


def _card(values: Array, base: Runtime, name: str, engine: str) -> Runtime:
    held = {field: significant(float(value)) for field, value in zip(FIELDS, values, strict=True)}
    told = {"name": name, "engine": engine, "versions": "", "since": "", "about": ""}
    of_engine = {} if engine == base.engine else {field: Runtime.model_fields[field].default for field in OF_ENGINE}
    return base.with_numbers(held).model_copy(update={**told, **of_engine})


def by_series(fit: Fit) -> Iterator[tuple[str, int, float, float]]:
    """Each series: its rows, mean absolute error in fit and left out (nan where there is none)."""
    for name in sorted(set(fit.series)):
        own = fit.series == name
        left = float(np.abs(fit.left_out[own]).mean()) if fit.left_out.size else float("nan")
        yield name, int(own.sum()), float(np.abs(fit.errors[own]).mean()), left
