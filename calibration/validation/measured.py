"""Measured rows of whole engines against what a runtime predicts; rows put aside before a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.base.checks import listed, whole
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import bounds_95
from ssdsim.base.plain import document, picked
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_of, runtime_of_version
from ssdsim.pricing.cost import TimingErrors
from ssdsim.readers.priced_row import each_row, name_of, seconds_of, value_of, work_of
from ssdsim.readers.result_files import rows_of_files
from ssdsim.readers.row import Repeated, Row, noise_of, repeated
from ssdsim.transformer.operations import QUANTISED_BYTES

DRAWS = 400  # of the timings' errors: the ends then wander by a few percent of their distance
_MUCH_BETTER = 0.6  # of the error: below it the cache's dtype explains more than chance does

OF_ENGINE = ("each", "engine")
"""The word for the card that is called as the engine of a row."""

Chosen = Callable[[Row], Runtime]
"""Which card a row is predicted with."""


class Checked(Record):
    """A row, its prediction in the row's own metric, and the 95 % interval that the timings' errors give it.

    ``error`` is of seconds, whatever the metric: above 0 the prediction is too slow. ``weights`` are the formats taken
    for the layers, ``cache`` that of the keys and values, ``assumed`` what the row does not say of its strategy.
    """

    row: Row
    card: Runtime
    weights: tuple[str, ...]
    cache: str
    predicted: float
    low: float
    high: float
    error: float
    assumed: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Say whether the interval holds the measured value."""
        return self.low <= self.row.value <= self.high

    def shown(self) -> dict[str, Any]:
        """The JSON form: the row's fields that are not empty, and the prediction."""
        row = {name: value for name, value in self.row.as_dict().items() if value not in (None, "", ())}
        row |= {"strategy": self.row.run, **dict(row.pop("options", ()))}
        own = picked(self, "predicted", "low", "high", "error", "holds")
        own |= picked(self, "assumed") if self.assumed else {}
        return {**row, "series": self.row.series_name, "runtime": self.card.name, **own}


AXES: Mapping[str, Callable[[Checked], str | int]] = {
    "runtime": lambda one: one.card.name,
    "model": lambda one: one.row.model,
    "hardware": lambda one: one.row.hardware,
    "tp": lambda one: one.row.tp,
    "batch": lambda one: one.row.batch,
    "strategy": lambda one: one.row.run,
}
"""What the summaries are by."""


class Skipped(Record):
    """A row that cannot be predicted: its number among all rows, from 1, and why not."""

    number: int
    row: Row
    reason: str

    def __str__(self) -> str:
        return f"{name_of(self.number, self.row)}: {self.reason}"

    def shown(self) -> dict[str, Any]:
        """The JSON form."""
        return {**picked(self, "number", "reason"), **picked(self.row, "model", "hardware", "tp", "batch")}


class RowsSummary(Record):
    """Rows of one ``value`` on an axis (both empty: all): mean absolute error, bias, share of intervals that hold."""

    axis: str
    value: str
    rows: int
    error: float
    bias: float
    coverage: float


def check_rows(rows: Sequence[Row], runtime: Runtime | None = None, seed: int = 0) -> list[Checked]:
    """Predict each row.

    Parameters
    ----------
    rows : measured; all of them share the draws of a timing's error.
    runtime : that of the rows; None for what belongs to each row's hardware, as ``predict`` takes it.
    seed : of the draws of the timings' errors.
    """
    errors, card_of = TimingErrors(DRAWS, seed), always(runtime) if runtime is not None else of_hardware
    return each_row(rows, lambda row: _checked(row, card_of(row), errors))


def check_what_can_be(
    rows: Sequence[Row], chosen: Sequence[Chosen], seed: int = 0
) -> tuple[list[Checked], list[Skipped]]:
    """Predict each row with each of the ``chosen`` runtimes, as :func:`check_rows`; and the rows that no one can.

    A row that one of them cannot predict is left out of all, so that their errors are over the same rows.
    """
    errors = TimingErrors(DRAWS, seed)
    checked: list[list[Checked]] = [[] for _ in chosen]
    skipped = []
    for number, row in enumerate(rows, 1):
        try:
            checked_rows = [_checked(row, card_of(row), errors) for card_of in chosen]
        except InputError as error:
            skipped.append(Skipped(number, row, str(error)))
            continue
        for of_one, one in zip(checked, checked_rows, strict=True):
            of_one.append(one)
    if len(skipped) == len(rows):
        raise InputError(f"no row can be predicted: {skipped[0]}")
    return [one for of_one in checked for one in of_one], skipped


def always(card: Runtime) -> Chosen:
    """Choose the same card for every row."""
    return lambda row: card


def of_hardware(row: Row) -> Runtime:
    """The card that belongs to a row's hardware, as ``predict`` takes it."""
    return runtime_of(find_hardware(row.hardware), row.hardware)[0]


def of_engine(row: Row) -> Runtime:
    """The card of the engine and the version that ran a row."""
    if not row.engine:
        raise InputError("names no engine, and --engine each takes its card")
    return runtime_of_version(row.engine, row.stated_version)


def _checked(row: Row, runtime: Runtime, errors: TimingErrors) -> Checked:
    work = work_of(row, runtime)
    cost = work.cost
    ends = sorted(value_of(row, float(end)) for end in bounds_95(work.sample(errors)))
    kept = work.site.precision_of("target")
    return Checked(
        row=row,
        card=runtime,
        weights=kept.formats_of_blocks,
        cache=kept.kv,
        predicted=value_of(row, cost.seconds),
        low=ends[0],
        high=ends[1],
        error=cost.seconds / seconds_of(row) - 1.0,
        assumed=work.assumed,
    )


def summarise(checked: Sequence[Checked]) -> list[RowsSummary]:
    """All rows first, then those of each value along each of :data:`AXES`."""
    summaries = [_summary("", "", checked)]
    for axis, value_on in AXES.items():
        for value in sorted({value_on(one) for one in checked}, key=lambda v: (isinstance(v, str), v)):
            summaries.append(_summary(axis, str(value), [one for one in checked if value_on(one) == value]))
    return summaries


def _summary(axis: str, value: str, checked: Sequence[Checked]) -> RowsSummary:
    errors = np.array([one.error for one in checked])
    held = float(np.mean([one.holds for one in checked]))
    return RowsSummary(axis, value, len(checked), float(np.abs(errors).mean()), float(errors.mean()), held)


class Likelier(Record):
    """A series that ``runtime`` predicts much better with another ``value`` of a column than was taken for its rows.

    ``column`` is ``kv_dtype`` where its rows do not say that, or the ``dtype`` that they say in a word for two formats.
    """

    series: str
    runtime: str
    rows: int
    column: str
    value: str
    error: float
    error_as_taken: float

    def shown(self) -> dict[str, Any]:
        """The JSON form: the column's value under its name."""
        before = picked(self, "series", "runtime", "rows")
        return {**before, self.column: self.value, **picked(self, "error", "error_as_taken")}


_ALIKE = {"float8": "float8-block", "float8-block": "float8"}
"""Formats that one word means: checkpoints called fp8 have a scale for a matrix, or one for each block of it."""


def likelier_caches(checked: Sequence[Checked]) -> list[Likelier]:
    """Series with quantised weights that seem to keep another cache than was taken for them.

    Engines keep one of 8 bits beside such weights or one of 16, which their benchmarks seldom say; at long contexts it
    halves a step. The predictions stay as they are: who knows the dtype says it in the rows.
    """
    unsaid = [one for one in checked if one.row.kv_dtype is None and one.row.dtype in QUANTISED_BYTES]
    return _likelier(unsaid, "kv_dtype", lambda one: "bfloat16" if one.cache == "float8" else "float8")


def likelier_formats(checked: Sequence[Checked]) -> list[Likelier]:
    """Series called by one format of weights that seem to be of the other that the word may mean."""
    meant = [one for one in checked if one.row.dtype in _ALIKE]
    return _likelier(meant, "dtype", lambda one: _ALIKE[one.row.dtype or ""])


def _likelier(checked: Sequence[Checked], column: str, other: Callable[[Checked], str]) -> list[Likelier]:
    series: dict[tuple[str, str], list[Checked]] = {}
    for one in checked:
        series.setdefault((one.row.series_name, one.card.name), []).append(one)
    found = []
    for (name, card), own in series.items():
        value = other(own[0])
        error = float(np.mean([_error_with(one, {column: value}) for one in own]))
        as_taken = float(np.mean([abs(one.error) for one in own]))
        if error < _MUCH_BETTER * as_taken:
            found.append(Likelier(name, card, len(own), column, value, error, as_taken))
    return found


def _error_with(one: Checked, said: Mapping[str, str]) -> float:
    """The error of a row that says something else; infinite where it cannot be."""
    try:
        return abs(work_of(one.row.changed(**said), one.card).cost.seconds / seconds_of(one.row) - 1.0)
    except InputError:
        return math.inf


class ValidatedRows(Record):
    """Rows that were predicted with one runtime or with ``several``, and those that could not be."""

    checked: Sequence[Checked]
    skipped: Sequence[Skipped] = ()
    several: bool = False

    @cached_property
    def summaries(self) -> Sequence[RowsSummary]:
        return summarise(self.checked)

    @cached_property
    def caches(self) -> Sequence[Likelier]:
        return likelier_caches(self.checked)

    @cached_property
    def formats(self) -> Sequence[Likelier]:
        return likelier_formats(self.checked)

    @property
    def overall(self) -> Sequence[RowsSummary]:
        """Summary of all rows, or of each of several runtimes."""
        return [each for each in self.summaries if each.axis == "runtime"] if self.several else self.summaries[:1]

    def as_json(self) -> dict[str, Any]:
        """Record that is printed and kept in a run folder."""
        parts = {"schema": 1, "rows": self.checked, "skipped": self.skipped}
        parts |= {"summaries": self.summaries, "likelier_caches": self.caches, "likelier_formats": self.formats}
        return document(parts, {Checked: Checked.shown, Skipped: Skipped.shown, Likelier: Likelier.shown})


def validate_rows(
    files: Iterable[str | Path], *, engine: str | Sequence[str] | None = None, seed: int = 0, **given: Any
) -> ValidatedRows:
    """Compare what engines measured with what is predicted of the same settings; nothing is run.

    Parameters
    ----------
    files : rows (CSV), or the result files of engines' benchmarks.
    engine : a card, or several; ``each`` is that of each row's engine; None is what ``predict`` takes.
    seed : of the draws of the timings' errors.
    given : what the files may not say: ``hardware``, ``model``, ``tp``, ``batch``, ``dtype``, ...

    Raises
    ------
    InputError : a file that cannot be read, lacks what is not given, or has no row that can be predicted.
    """
    whole("--seed", seed, 0)
    engine = given.pop("runtime", engine)  # as it was called before 0.4
    names = [] if engine is None else listed("engine", engine)
    chosen = [of_engine if name in OF_ENGINE else always(find_runtime(name)) for name in names] or [of_hardware]
    rows = rows_of_files(files, given)
    if not rows:
        raise InputError("files: no file of rows or results is given")
    return ValidatedRows(*check_what_can_be(rows, chosen, seed), several=len(names) > 1)


def runtimes_of(checked: Iterable[Checked]) -> Iterator[str]:
    """The runtimes that the rows were predicted with, each once."""
    yield from dict.fromkeys(one.card.name for one in checked)


_LEAST_FITTED = 2  # settings of a drafter, or of none, that a fit must see
_NEXT = 3  # settings that are named to be measured again


class HoldOut(Record):
    """``fitted`` rows and settings put ``aside``, each with all its repeats; ``settings`` are both."""

    fitted: tuple[Row, ...]
    aside: tuple[Repeated, ...]
    settings: tuple[Repeated, ...]

    @property
    def noise(self) -> float | None:
        """The noise of a repeat; None where nothing was repeated."""
        return noise_of(self.settings)


def put_aside(rows: Sequence[Row], share: float, seed: int = 0) -> HoldOut:
    """A ``share`` of the settings, drawn by chance among those of each drafter, and among those of none."""
    settings = repeated(rows)
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, each in enumerate(settings):
        row = each.rows[0]
        groups.setdefault((row.model, row.k is None, row.draft, row.drafter), []).append(place)
    random = np.random.default_rng(seed)
    aside: set[int] = set()
    for places in groups.values():
        most = max(0, len(places) - _LEAST_FITTED)
        aside |= set(random.permutation(places)[: min(most, round(share * len(places)))].tolist())
    if not aside:
        raise InputError(
            f"--hold {share:g} of {len(settings)} settings puts none aside that the fit could spare: measure more "
            "batches, lengths or K"
        )
    fitted = tuple(row for place, each in enumerate(settings) if place not in aside for row in each.rows)
    return HoldOut(fitted, tuple(settings[place] for place in sorted(aside)), tuple(settings))


def check_noise(held: HoldOut, within: float) -> None:
    """Raise :class:`InputError` where repeats lie further apart than what is asked of the fit, or were never made."""
    if held.noise is None:
        raise InputError(
            "no setting was repeated, so nobody knows what the engine's noise is: ssdsim bench --repeats 3"
        )
    if held.noise > within:
        noisy = sorted((each for each in held.settings if each.noise), key=lambda each: each.noise or 0.0)[::-1]
        again = ", ".join(f"{said(each)} ({each.noise:.0%})" for each in noisy[:_NEXT])
        raise InputError(
            f"repeats differ by {held.noise:.1%} (standard deviation), more than --within {within:.0%} asks: nothing "
            f"is fitted. Measure again on a quiet machine, first {again}"
        )


def said(setting: Repeated) -> str:
    """A setting in a few words."""
    row = setting.rows[0]
    drafts = f" K {row.k}" if row.k is not None else ""
    return f"batch {row.batch}{drafts}, {row.input_tokens:.0f} tokens in"


def predict_aside(held: HoldOut, card: Runtime, seed: int = 0) -> list[Checked]:
    """Predict the means of the settings that were put aside."""
    means = []
    for each in held.aside:
        row = each.rows[0]
        lengths = [own.acceptance_length for own in each.rows if own.acceptance_length is not None]
        more = {"acceptance_length": float(np.mean(lengths))} if lengths else {}
        means.append(row.changed(value=each.mean, **more))
    return check_rows(means, card, seed)
