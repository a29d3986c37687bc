"""The numbers of a runtime card that rows make likeliest, drawn towards those of a card that exists.

A row's seconds are linear in the card's numbers: each number has a factor in a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from calibration.runtimes.versions import VERSION_SD, as_said, spreads, version_of
from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.record import Record, replace
from ssdsim.hardware.engine_versions import ByVersion
from ssdsim.hardware.extrapolation import ExtrapolationError
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_numbers import NUMBERS, CardErrors, Kernels
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.mixed import MixedPass
from ssdsim.pricing.passes import (
    Counted,
    Units,
    beside_prompts,
    cost_of_operations,
    of_prompts,
    parts_of_mixed,
    units_of_kernels,
)
from ssdsim.pricing.step import Pass
from ssdsim.readers.priced_row import each_row, seconds_of, work_of
from ssdsim.readers.row import Row

FIELDS = tuple(name for name, number in NUMBERS.items() if number.prior_sd is not None)
PRIOR_SD: Mapping[str, float] = {name: number.prior_sd for name, number in NUMBERS.items() if number.prior_sd}
"""Prior standard deviation of each number: how far an engine may be from a card of its kind."""

_HALF = 0.5  # of what a kernel takes beyond the roofs: so much hidden, none is at its shortest
MOST_OVERLAP = 0.9
LEAST_FACTOR = 0.25
"""No engine's kernels are four times as fast as those of another library: the rows then speak of something else."""

_FIRST_NOISE = 0.05
_USUAL_NOISE = 0.04
_USUAL_ROWS = 4
"""What a row is off by of a card that fits, and for how many rows that counts beside those there are."""

_ROUNDS = 4
_IDENTIFIED = 0.5  # of the prior's width: a number whose sd is below
_HARDLY = 1e-4  # weight of a prior that only keeps a matrix invertible
_OWN_ERROR = ("overlap", *(name for name, number in NUMBERS.items() if number.has_own_error))
"""Numbers without an error direction: they have a log-sd, or (overlap) others vary for it."""

_OF_ALL, _OF_STEP, _OF_SEQUENCE, _OF_EXPERTS = "per_layer_s", "per_step_s", "per_sequence_s", "per_expert_layer_s"
_UNPACKED, _OVER_PROMPTS = "experts_4_bit", "prompt_experts_4_bit"

_FACTORS = frozenset(Kernels.__struct_fields__) - {"overlap", "attention_sharing"}
_SAME = 0.9  # correlation from which on two numbers are not told apart


class Features(Record):
    """Features of rows: ``seconds`` measured, ``offset`` of what no field moves, a column of ``per_unit`` for each
    field.

    The card with the fields ``values`` predicts ``offset + per_unit @ values``; shapes ``(rows,)``, ``(rows, fields)``.
    ``versions`` are those that differ, each with the number in which it does: a column of ``of_versions`` each, which
    has the number's units in the rows of that version.
    """

    rows: Sequence[Row]
    seconds: Array
    offset: Array
    per_unit: Array
    series: NDArray[np.str_]
    versions: tuple[tuple[str, str], ...] = ()
    of_versions: Array | None = None

    def predicted(self, values: Array, adds: Array | None = None) -> Array:
        """Seconds by the numbers, and by what versions add."""
        plain = self.offset + self.per_unit @ values
        return np.asarray(plain if adds is None or not self.versions else plain + self.units_of_versions @ adds)

    @property
    def units_of_versions(self) -> Array:
        """The columns of versions; none where they do not differ."""
        return np.zeros((len(self.rows), 0)) if self.of_versions is None else self.of_versions

    def of(self, chosen: NDArray[np.bool_]) -> Features:
        """Some of the rows."""
        rows = [row for row, keep in zip(self.rows, chosen, strict=True) if keep]
        columns = {name: getattr(self, name)[chosen] for name in ("seconds", "offset", "per_unit", "series")}
        return replace(self, rows=rows, **columns, of_versions=self.units_of_versions[chosen])

    def by_version(self, fields: Sequence[str], before: ByVersion | None) -> Features:
        """The rows with what their versions may add; rows of which nobody says it are as the card is.

        To the fields, and to a step, unless rows of other models ``before`` have told that of a version. A fit of
        rounds alone has none.
        """
        own = {name for name in VERSION_SD if name in fields} | ({_OF_ALL} if _OF_STEP in fields else set())
        numbers = [name for name in VERSION_SD if own and name in {*own, _OF_SEQUENCE}]
        mixed = _OF_EXPERTS in own
        names = [version_of(row) for row in self.rows]
        told = {(each.version, name) for each in (before.known if before else ()) for name in each.adds}
        told = {(version, name) for version, name in told if name not in fields}
        columns = {}
        for number in numbers:
            paid = self.per_unit[:, FIELDS.index(number)]
            for name in dict.fromkeys(filter(None, names)):
                units = paid * np.array([each == name for each in names])
                if units.any() and (name, number) not in told and (not mixed or self._tells(name, names)):
                    columns[name, number] = units
        if not columns:
            return self
        return replace(self, versions=tuple(columns), of_versions=np.array(list(columns.values())).T)

    def _tells(self, version: str, names: Sequence[str]) -> bool:
        """Say whether a model that ran on a version also ran on another, or on one that nobody said."""
        there, elsewhere = (
            {row.model for row, name in zip(self.rows, names, strict=True) if (name == version) is own}
            for own in (True, False)
        )
        return not there.isdisjoint(elsewhere)


def features(rows: Iterable[Row], like: Runtime) -> Features:
    """Features of rows in an engine with the kernels, cache and draft of ``like``."""
    rows = list(rows)
    plain = _without_numbers(like)
    each_of_row = each_row(rows, lambda row: _of_row(row, like if row.k else plain))
    return Features(
        rows=rows,
        seconds=np.array([seconds_of(row) for row in rows]),
        offset=np.array([offset for offset, _ in each_of_row]),
        per_unit=np.array([per_unit for _, per_unit in each_of_row]),
        series=np.array([row.series_name for row in rows]),
    )


def values_of(card: Runtime) -> Array:
    """A card's fields in the order of :data:`FIELDS`."""
    return np.array([card.numbers[name] for name in FIELDS], dtype=float)


def _without_numbers(like: Runtime) -> Runtime:
    """Copy a card with no numbers: one for all cards of these kernels, cache and degrees.

    Without speculation a feature reads one number alone: the share of prompts waited for, which multiplies the others.
    """
    numbers = {name: KERNELS.numbers[name] for name in FIELDS} | {"prompts": like.numbers["prompts"]}
    same = {
        "wander": (),
        "covered": (),
        "away": ExtrapolationError(),
        "errors": CardErrors(),
        "evidence": KERNELS.evidence,
    }
    return like.with_numbers(numbers).changed(**same)


@lru_cache(maxsize=16384)
def _of_row(row: Row, like: Runtime) -> tuple[float, Array]:
    """Seconds that no field moves, and seconds for a unit of each: the price is linear in the fields."""
    work, units = work_of(row, like), dict.fromkeys(FIELDS, 0.0)
    for piece, times in work.pieces:
        for name, count in {**piece.units, **_of_kernels(piece.work, like)}.items():
            units[name] += times * count
    if row.waits_for_prompts and not like.mixes_prompts:
        waited_s = sum(times * prompt.cost.seconds for prompt, times in work.prompts)
        units["prompts"] = waited_s / like.kernels.prompts
    per_unit = np.array(list(units.values()))
    return work.cost.seconds - float(per_unit @ values_of(like)), per_unit


def _of_kernels(work: object, like: Runtime) -> Units:
    """The units of decoding's kernels; those of prompts have one factor, and a mixed pass has shares of both."""
    if isinstance(work, MixedPass):
        units: dict[str, float] = {}
        for counted, as_run, share in parts_of_mixed(work.forward, work.decoded, like):
            paid = _of_operations(work, counted, like, as_run is of_prompts(like))
            if as_run is beside_prompts(like):
                paid = {**paid, _OVER_PROMPTS: paid.get(_UNPACKED, 0.0), _UNPACKED: 0.0}
            for name, seconds in paid.items():
                units[name] = units.get(name, 0.0) + share * seconds
        return units
    return _of_operations(work, work.forward.counted, like, work.forward.over_prompts) if isinstance(work, Pass) else {}


def _of_operations(work: Pass, counted: Counted, like: Runtime, over_prompts: bool) -> Units:
    """The units of the factors on some operations of a pass."""

    def kernels(overlap: float) -> Cost:
        own = {} if over_prompts else {name: n for name, n in asdict(like.kernels).items() if name not in FIELDS}
        return cost_of_operations(counted, work.profile, like.changed(kernels=Kernels(overlap=overlap, **own)))

    whole = kernels(0.0)
    units = units_of_kernels(work.forward, whole.by_kind(), Kernels())
    if over_prompts:
        return {_OVER_PROMPTS: units.get(_UNPACKED, 0.0)}
    hidden_s = (whole.seconds - kernels(_HALF).seconds) / _HALF
    return {**units, "overlap": -hidden_s}


class Solution(Record):
    """The likeliest numbers, the covariance of the fitted ``fields``, and their covariance by rows alone.

    ``misfit`` compares fits to the same rows: the residuals of rows and prior, less is likelier. ``adds`` is what each
    of the rows' versions adds, and ``by_version`` the same as a card says it; the covariance is that beside it.
    """

    values: Array
    fields: tuple[str, ...]
    covariance: Array
    by_rows: Array
    rows: float
    misfit: float
    noise: float
    adds: Array
    by_version: ByVersion | None

    @property
    def _sd(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    def interval(self) -> tuple[Array, Array]:
        """The ends of the fields' intervals at 95 %."""
        at = self.values[_columns(self.fields)]
        wide = student.ppf(0.975, _USUAL_ROWS + max(0.0, self.rows - len(self.identified()))) * self._sd
        most = [MOST_OVERLAP if name == "overlap" else np.inf for name in self.fields]
        return np.maximum(at - wide, 0.0), np.minimum(at + wide, most)

    def log_sd(self, made: Features) -> Array:
        """The log-sd of predicted rows, by the uncertainty of the numbers."""
        per_unit = made.per_unit[:, _columns(self.fields)] / made.predicted(self.values)[:, None]
        return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", per_unit, self.covariance, per_unit)))

    def wander(self) -> tuple[dict[str, float], ...]:
        """Independent error directions of the numbers: columns of a root of their covariance.

        Numbers with an error of their own have no direction; the others' covariance is the one given those.
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

    def identified(self) -> tuple[str, ...]:
        """The fields that the rows determine better than the prior."""
        return tuple(f for f, sd in zip(self.fields, self._sd, strict=True) if sd < _IDENTIFIED * PRIOR_SD[f])

    def at_bound(self, base: Runtime) -> tuple[str, ...]:
        """The fields that ended where they can go no farther."""
        at = zip(self.fields, self.values[_columns(self.fields)], strict=True)
        return tuple(f for f, v in at if v <= _least(f, base) or (f == "overlap" and v >= MOST_OVERLAP))

    def alike(self, rows: int) -> tuple[tuple[str, str], ...]:
        """Pairs of fields that the rows do not tell apart; none is listed for fewer rows than fields."""
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
    """Maximum a posteriori with the noise that the rows themselves show, and the spread that their versions do."""
    values, at, known = values_of(base), _columns(fields), len(fields)
    spread = dict(VERSION_SD) | dict(base.by_version.spread if base.by_version else {})
    unsaid = base.by_version.open if base.by_version and not made.versions else {}
    own_sd = [math.hypot(PRIOR_SD[name], unsaid.get(name, 0.0)) for name in fields]
    others = np.delete(np.arange(len(FIELDS)), at)
    fixed = made.offset + made.per_unit[:, others] @ values[others]
    relative = np.hstack([made.per_unit[:, at], made.units_of_versions]) / made.seconds[:, None]
    wanted = 1.0 - fixed / made.seconds
    free = [np.inf] * len(made.versions)
    upper = np.array([MOST_OVERLAP if name == "overlap" else np.inf for name in fields] + free)
    lower = np.array([_least(name, base) for name in fields] + [-each for each in free])
    start = np.concatenate([values[at], np.zeros(len(free))])
    noise = _FIRST_NOISE
    for _ in range(_ROUNDS):
        prior_sd = np.array([*own_sd, *(spread[name] for _, name in made.versions)])
        scaled = np.vstack([relative * prior_sd / noise, np.eye(len(start))])
        towards = np.concatenate([wanted / noise, start / prior_sd])
        solution = lsq_linear(scaled, towards, bounds=(lower / prior_sd, upper / prior_sd), method="bvls").x
        solution = np.maximum(solution * prior_sd, lower)  # its bounds are kept but for the last bit
        residual = relative @ solution - wanted
        noise = _noise_of(residual, known)
        if made.versions:
            left = np.linalg.inv(relative.T @ relative / noise**2 + np.diag(prior_sd**-2.0))
            spread |= spreads(made.versions, solution[known:], np.diag(left)[known:])
    strayed = (solution - start) / prior_sd
    misfit = float(2 * len(wanted) * np.log(noise) + (strayed**2).sum())
    alike = _design_effect(residual, made.series)
    told = relative.T @ relative / (alike * noise**2)
    whole = np.asarray(np.linalg.inv(told + np.diag(prior_sd**-2.0)), dtype=float)
    beside, by_rows = (
        np.asarray(np.linalg.inv((told + np.diag(weight * prior_sd**-2.0))[:known, :known]), dtype=float)
        for weight in (1.0, _HARDLY)
    )
    solved = values.copy()
    solved[at] = solution[:known]
    adds, count = solution[known:], len(wanted) / alike
    versions = as_said(made.versions, fields, adds, whole, beside, spread) if made.versions else None
    return Solution(solved, fields, beside, by_rows, count, misfit, noise, adds, versions)


def _noise_of(residuals: Array, fitted: int) -> float:
    """The noise of a row, from the residuals after fitting ``fitted`` numbers; for few rows nearly the usual one."""
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
