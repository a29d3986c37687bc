"""Fit a runtime card: to rows, with few numbers drawn towards an existing card, or to decoding speeds alone.

A fit to rows is checked on series that were left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from calibration.runtimes.next_row import Posterior
from calibration.runtimes.solution import FIELDS, Features, Solution, features, solve
from calibration.runtimes.unseen import Unseen, covered_by, factor_on_errors, scaled, with_law
from calibration.runtimes.versions import fitted, of_version, version_of
from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.extrapolation import TrainingDomain
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, OF_ENGINE, Evidence, Runtime
from ssdsim.hardware.runtime_numbers import CardErrors, Host
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import QUANTISED_BYTES

DECODING = ("overlap", "attention", "communication", "per_layer_s", "per_step_s", "per_sequence_s")
SPECULATING = ("per_draft_step_s", "per_round_s", "per_round_sequence_s")
_AS_GOOD = 1.1
"""Times the least left-out error: of caches by which series are missed hardly by more the likelier is taken."""

MASKS = ("per_mask_s",)
"""The numbers of branches: rows of SSD pay them where its draft is late."""
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


class RuntimeFit(Record):
    """A fitted card: the interval of each number at 95 %, the ``identified`` numbers, and pairs not told apart.

    ``at_bound`` are those that ended where they can go no farther, ``paid_by`` how many rows pay each, by strategy.
    ``unpaid`` are usual numbers that no row pays; ``posterior`` is what the rows leave open of all numbers together.
    """

    card: Runtime
    fields: tuple[str, ...]
    low: Array
    high: Array
    identified: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]
    at_bound: tuple[str, ...]
    paid_by: Mapping[str, Mapping[str, int]]
    errors: Array
    left_out: Array
    series: NDArray[np.str_]
    unpaid: tuple[str, ...]
    posterior: Posterior

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
    several_versions: bool | None = None,
) -> RuntimeFit:
    """The card called ``name`` that predicts ``rows`` best, drawn towards ``base`` where they say little.

    Least squares of relative errors with every number at least 0 (a factor at least ``solution.LEAST_FACTOR``), over
    ``fields`` (:func:`default_fields` by default); the others stay as in ``base``. Series are left out one at a time
    for the error that the card carries; rows of speculation alone say nothing of a target pass by itself, whose error
    then stays that of ``base``.

    Where rows do not say their cache's dtype beside quantised weights, the card keeps the one by which series left out
    are missed by less, of two as good the likelier: that is a choice between two, not a number that is fitted.

    Its errors are those of ``base`` times what series show that were left out (``own_errors``), or those of ``base``.

    Where the card is of ``several_versions`` (None: where its rows are), it also has what each adds, and how far others
    may be. Rows of one version otherwise settle it.
    """
    if several_versions is None:
        several_versions = len({version_of(row) for row in rows}) > 1
    solved = _fit_numbers(rows, base, name, engine, fields, several_versions)
    made, card = solved.data, solved.card
    errors = made.predicted(solved.solution.values, solved.solution.adds) / made.seconds - 1.0
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
    masks = MASKS if any(row.strategy for row in rows) else ()
    usual = [name for name in (*DECODING, *EXPERTS, *SPECULATING, *masks) if name not in solution.fields]
    return RuntimeFit(
        card=card,
        fields=solution.fields,
        low=low,
        high=high,
        identified=solution.identified(),
        alike=solution.alike(len(rows)),
        at_bound=solution.at_bound(solved.base),
        paid_by={name: _payers(made, name) for name in (*solution.fields, *masks)},
        errors=errors,
        left_out=left_out,
        series=made.series,
        unpaid=tuple(name for name in usual if not made.per_unit[:, FIELDS.index(name)].any()),
        posterior=Posterior.after(made, solved.base, solution.values, solution.noise),
    )


def _payers(made: Features, name: str) -> dict[str, int]:
    paid = made.per_unit[:, FIELDS.index(name)] != 0.0
    return dict(Counter(row.run for row, pays in zip(made.rows, paid, strict=True) if pays))


class _Numbers(Record):
    """A card with fitted numbers and the errors of its base."""

    card: Runtime
    base: Runtime
    data: Features
    solution: Solution

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Each row's relative error as the rows of the other series predict it, and the log-sd of their numbers.

        Empty with one series.
        """
        made, fields = self.data, self.solution.fields
        errors, told = np.full((2, len(made.rows)), np.nan)
        for own in without_each(list(made.series)):
            solution = solve(made.of(~own), self.base, fields)
            errors[own] = made.of(own).predicted(solution.values, solution.adds) / made.seconds[own] - 1.0
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
    rows: Sequence[Row],
    base: Runtime,
    name: str,
    engine: str = "",
    fields: Sequence[str] | None = None,
    several_versions: bool = False,
) -> _Numbers:
    devices = [find_hardware(name).device for name in {row.hardware for row in rows}]
    if devices:  # of those with 4-bit products and those without, the latter
        base = base.on(min(devices, key=lambda device: device.multiplies_4_bits))
    if not several_versions and rows:
        base = of_version(base, rows[0].stated_version)
    if fields is not None:
        check_fields(fields)
    drafts = "per_draft_step_s" in (SPECULATING if fields is None else fields)
    heads = [row for row in rows if row.has_head]
    if drafts and heads:  # they speak of their heads' steps, as the card's one number for these
        base = base.drafting_with(work_of(heads[0], base).site.draft.head)
    of = (fields, name, engine or base.engine, several_versions)
    fits = [_numbers(rows, each, *of) for each in _caches(rows, base)]
    most = _AS_GOOD * min(each.left_out_error or 0.0 for each in fits)
    return min((each for each in fits if (each.left_out_error or 0.0) <= most), key=lambda each: each.solution.misfit)


def _numbers(
    rows: Sequence[Row], base: Runtime, fields: Sequence[str] | None, name: str, engine: str, several_versions: bool
) -> _Numbers:
    made = features(rows, base)
    chosen = tuple(dict.fromkeys(default_fields(made, base) if fields is None else fields))
    made = made.by_version(chosen, base.by_version) if several_versions else made
    solution = solve(made, base, chosen)
    held = {field: significant(float(value)) for field, value in zip(FIELDS, solution.values, strict=True)}
    told = {"name": name, "engine": engine, "versions": "", "since": "", "about": ""}
    of_engine = {} if engine == base.engine else {field: getattr(KERNELS, field) for field in OF_ENGINE}
    card = base.with_numbers(held).changed(**told, **of_engine)
    ways = ({name: sd for name, sd in way.items() if name not in chosen} for way in base.wander)
    wander = (*(way for way in ways if way), *solution.wander())
    versions = fitted(base.by_version, solution.by_version, chosen)
    card = card.changed(wander=wander, covered=_covered(card, base, rows), by_version=versions)
    return _Numbers(card, base, made, solution)


def _caches(rows: Sequence[Row], base: Runtime) -> Iterator[Runtime]:
    """The base card with each cache dtype that the rows leave open: the models' 16 bits, or 8 bits."""
    if not any(row.kv_dtype is None and row.dtype in QUANTISED_BYTES for row in rows):
        yield base
        return
    yield from (base.changed(cache_dtype=kept) for kept in (None, "float8"))


def default_fields(made: Features, base: Runtime) -> tuple[str, ...]:
    """Fields that the rows pay: of decoding, of experts where mixtures are, of drafts where rows speculate.

    No factor on attention where that takes its bytes: what an engine adds to it is of each layer. Rows that all
    speculate do not tell a draft from the target pass behind it, whose numbers stay. A number that rows hardly
    determine stays near the start.
    """
    usual: tuple[str, ...] = SPECULATING if all(row.k for row in made.rows) else (*DECODING, *EXPERTS, *SPECULATING)
    usual += MASKS if any(row.strategy for row in made.rows) else ()
    left = {"attention"} if base.kernels.streaming_attention else set()
    return tuple(name for name in usual if name not in left and made.per_unit[:, FIELDS.index(name)].any())


def check_fields(fields: Sequence[str]) -> None:
    """Raise :class:`InputError` at unknown fields, or none."""
    for each in fields:
        if each not in FIELDS:
            raise InputError(f"unknown field '{each}'{nearest(each, FIELDS)} Allowed: {', '.join(FIELDS)}")
    if not fields:
        raise InputError("at least one field must be fitted, got none")


def _with_errors(solved: _Numbers) -> Runtime:
    """The card with the errors of its base, times a factor from series left out; with one series, from its own rows.

    Rows of speculation alone say nothing of a target pass by itself.
    """
    card, errors = solved.card, {"host_log_sd": 0.0}
    if all(row.k for row in solved.data.rows):
        return card.changed(errors=card.errors.changed(**errors))
    errors["pass_log_sd"] = 0.0
    card = with_law(card.changed(errors=card.errors.changed(**errors)))
    return scaled(card, factor_on_errors(_unseen(card, solved), card))


def _unseen(card: Runtime, solved: _Numbers) -> Unseen:
    """Each series as the others predict it; with one series, its rows as the card predicts them."""
    made, bare = solved.data, card.changed(wander=())
    errors, told = solved.left_out
    if not errors.size:
        errors = made.predicted(solved.solution.values, solved.solution.adds) / made.seconds - 1.0
        return Unseen.of(made.rows, bare, errors, solved.solution.log_sd(made))
    parts = []
    for own in without_each(list(made.series)):
        others = bare.changed(covered=_covered(card, solved.base, made.of(~own).rows))
        parts.append(Unseen.of(made.of(own).rows, others, errors[own], told[own]))
    return Unseen.together(parts)


def _covered(card: Runtime, base: Runtime, rows: Sequence[Row]) -> tuple[TrainingDomain, ...]:
    """The settings behind a card: those of its rows, and of a base card of the same engine."""
    before = base.covered if card.engine.lower() == base.engine.lower() else ()
    return tuple(dict.fromkeys((*before, *covered_by(rows))))


def by_series(fit: RuntimeFit) -> Iterator[tuple[str, int, float, float]]:
    """Each series: its rows, mean absolute error in fit and left out (nan where there is none)."""
    for name in sorted(set(fit.series)):
        own = fit.series == name
        left = float(np.abs(fit.left_out[own]).mean()) if fit.left_out.size else float("nan")
        yield name, int(own.sum()), float(np.abs(fit.errors[own]).mean()), left


class DecodingSpeed(Record):
    """Autoregressive decoding of one sequence as an engine was seen to do it."""

    transformer: str
    tp: int
    context: int
    tokens_per_second: float


def fit_decoding_speeds(profile: HardwareProfile, seen: Sequence[DecodingSpeed], source: str, name: str) -> Runtime:
    """Seconds a layer and seconds a target pass (scheduling, sampling) that explain what the kernels leave over.

    Least squares with both at least 0. Autoregressive decoding makes one pass a round, so it cannot tell a cost per
    pass from a cost per round: the second is taken as per round, that is once for every target pass and not for a
    draft's step, which runs in the same engine step. The error is the largest of leaving one speed out and predicting
    it from the others with a cost per layer alone.
    """
    if len(seen) < 2:
        raise InputError(f"fixed costs per layer and per round need at least 2 decoding speeds, got {len(seen)}")
    layers = np.array([float(find_transformer(one.transformer).layers) for one in seen])
    left = np.array([1.0 / one.tokens_per_second - _kernel_seconds(one, profile) for one in seen])
    if np.any(left < 0):
        slowest = seen[int(np.argmin(left))]
        raise InputError(f"{slowest.transformer} at {slowest.tokens_per_second:g} tokens/s outruns its kernels' sum")
    (per_layer, per_round), _ = nnls(np.column_stack([layers, np.ones_like(layers)]), left)
    speeds = "; ".join(f"{one.transformer} TP {one.tp} {one.tokens_per_second:g} tokens/s" for one in seen)
    return Runtime(
        name=name,
        engine=source or "not stated",
        host=Host(per_layer_s=significant(per_layer), per_step_s=significant(per_round)),
        errors=CardErrors(host_log_sd=significant(_left_out_error(layers, left))),
        evidence=Evidence(
            source=f"autoregressive speeds only ({speeds}; {source})",
            rows=len(seen),
            series=len(seen),
            note="what is not per layer is charged once a target pass, not to draft steps",
        ),
    )


def _kernel_seconds(one: DecodingSpeed, profile: HardwareProfile) -> float:
    card = find_transformer(one.transformer)
    return cost_of_pass(forward_pass(card, batch=1, context=one.context, tp=one.tp), profile).seconds


def _left_out_error(layers: Array, left: Array) -> float:
    errors = []
    for i in range(layers.size):
        others = np.arange(layers.size) != i
        per_layer = float(layers[others] @ left[others] / (layers[others] @ layers[others]))
        errors.append(abs(np.log(per_layer * layers[i] / left[i])))
    return float(max(errors))
