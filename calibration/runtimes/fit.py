"""A runtime card from rows: few numbers, drawn towards a card that exists, checked on series that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibration.runtimes.features import FIELDS, Features, features
from calibration.runtimes.next_row import Open
from calibration.runtimes.solution import Solution, solve
from calibration.runtimes.unseen import Unseen, covered_by, factor_on_errors, scaled, with_law
from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import KERNELS, OF_ENGINE, Evidence, Runtime
from ssdsim.hardware.training_domain import TrainingDomain
from ssdsim.readers.price import work_of
from ssdsim.readers.row import Row
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


class Fit(Record):
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

    Least squares of relative errors with every number at least 0 (a factor at least ``solution.LEAST_FACTOR``), over
    ``fields`` (:func:`default_fields` by default); the others stay as in ``base``. Series are left out one at a time
    for the error that the card carries; rows of speculation alone say nothing of a target pass by itself, whose error
    then stays that of ``base``.

    Where rows do not say their cache's dtype beside quantised weights, the card keeps the one by which series left out
    are missed by less, of one series the likelier: that is a choice between two, not a number that is fitted.

    Its errors are those of ``base`` times what series show that were left out (``own_errors``), or those of ``base``.
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
    card = (_with_errors(solved) if own_errors else card).changed(evidence=evidence)
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


class _Numbers(Record):
    """A card with its numbers fitted, what they leave open and the settings behind it; its errors are its base's."""

    card: Runtime
    base: Runtime
    made: Features
    solution: Solution

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Each row's relative error as the rows of the other series predict it, and the log-sd of their numbers.

        Empty with one series.
        """
        made, fields = self.made, self.solution.fields
        errors, told = np.full((2, len(made.rows)), np.nan)
        for own in without_each(list(made.series)):
            solution = solve(made.of(~own), self.base, fields)
            errors[own] = made.of(own).predicted(solution.values) / made.seconds[own] - 1.0
            told[own] = solution.log_sd(made.of(own))
        return (np.zeros(0), np.zeros(0)) if np.isnan(errors).any() else (errors, told)

    @property
    def left_out_error(self) -> float | None:
        """Mean absolute error of series that were left out; None with one series."""
        return float(np.abs(self.left_out[0]).mean()) if self.left_out[0].size else None


def without_each(groups: Sequence[str]) -> Iterator[NDArray[np.bool_]]:
    """The rows of each group, one group after the other; none where all rows are of one."""
    names = np.asarray(groups)
    series_names = np.unique(names)
    if len(series_names) > 1:
        yield from (names == name for name in series_names)


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
    solution = solve(made, base, chosen)
    card = _card(solution.values, base, name, engine)
    wander = (*_kept(base, chosen), *solution.wander())
    card = card.changed(wander=wander, covered=_covered(card, base, rows))
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
    yield from (base.changed(cache_dtype=kept) for kept in (None, "float8"))


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


def _kept(base: Runtime, fitted: Sequence[str]) -> tuple[dict[str, float], ...]:
    """Directions that the card to start from leaves open of the numbers that are not fitted anew."""
    ways = ({name: sd for name, sd in way.items() if name not in fitted} for way in base.wander)
    return tuple(way for way in ways if way)


def _with_errors(solved: _Numbers) -> Runtime:
    """The card with the errors of its base, times what series show that were left out; with one series, its own rows.

    Rows of speculation alone say nothing of a target pass by itself.
    """
    card, errors = solved.card, {"host_log_sd": 0.0}
    if all(row.k for row in solved.made.rows):
        return card.changed(errors=card.errors.changed(**errors))
    errors["pass_log_sd"] = 0.0
    card = with_law(card.changed(errors=card.errors.changed(**errors)))
    return scaled(card, factor_on_errors(_unseen(card, solved), card))


def _unseen(card: Runtime, solved: _Numbers) -> Unseen:
    """Each series by what the others say; with one series, its rows by the card itself."""
    made, bare = solved.made, card.changed(wander=())
    errors, told = solved.left_out
    if not errors.size:
        errors = made.predicted(solved.solution.values) / made.seconds - 1.0
        return Unseen.of(made.rows, bare, errors, solved.solution.log_sd(made))
    parts = []
    for own in without_each(list(made.series)):
        others = bare.changed(covered=_covered(card, solved.base, made.of(~own).rows))
        parts.append(Unseen.of(made.of(own).rows, others, errors[own], told[own]))
    return Unseen.together(parts)


def _covered(card: Runtime, base: Runtime, rows: Sequence[Row]) -> tuple[TrainingDomain, ...]:
    """The settings behind a card: those of its rows, and of the card to start from where that is of the same engine."""
    before = base.covered if card.engine.lower() == base.engine.lower() else ()
    return tuple(dict.fromkeys((*before, *covered_by(rows))))


def _card(values: Array, base: Runtime, name: str, engine: str) -> Runtime:
    held = {field: significant(float(value)) for field, value in zip(FIELDS, values, strict=True)}
    told = {"name": name, "engine": engine, "versions": "", "since": "", "about": ""}
    of_engine = {} if engine == base.engine else {field: getattr(KERNELS, field) for field in OF_ENGINE}
    return base.with_numbers(held).changed(**told, **of_engine)


def by_series(fit: Fit) -> Iterator[tuple[str, int, float, float]]:
    """Each series: its rows, mean absolute error in fit and left out (nan where there is none)."""
    for name in sorted(set(fit.series)):
        own = fit.series == name
        left = float(np.abs(fit.left_out[own]).mean()) if fit.left_out.size else float("nan")
        yield name, int(own.sum()), float(np.abs(fit.errors[own]).mean()), left
