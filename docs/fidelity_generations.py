"""A card for two generations of devices: those that multiply 4 bits themselves, and all before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calibration.runtimes.fit import RuntimeFit, fit_runtime
from calibration.runtimes.versions import version_of
from calibration.timings.fit import significant
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import Evidence, Fp4Overrides, Runtime
from ssdsim.readers.row import Row


class Generations(Record):
    """A fit for each generation that has rows, and the card of both."""

    card: Runtime
    before: RuntimeFit | None
    four_bits: RuntimeFit | None

    @property
    def fits(self) -> tuple[RuntimeFit, ...]:
        return tuple(fit for fit in (self.before, self.four_bits) if fit is not None)


def on_four_bits(row: Row) -> bool:
    """Say whether a row's devices multiply 4 bits themselves."""
    return find_hardware(row.hardware).device.multiplies_4_bits


GROUPINGS: Mapping[str, Callable[[Row], str]] = {
    "series": lambda row: row.series_name,
    "degree": lambda row: f"TP {row.tp}",
    "version": lambda row: row.engine_version or "not stated",
    "generation": lambda row: "4 bits" if on_four_bits(row) else "before",
}
"""The group of a row, by what rows are left out together."""


def fit_generations(
    rows: Sequence[Row], base: Runtime, name: str, engine: str, fields: Sequence[str], source: str = ""
) -> Generations:
    """The card that predicts rows of both generations, ``fields`` of each.

    Those of the later one are drawn towards those of the earlier. A generation with no more rows than fields has the
    numbers of the other. What ``base`` says of each generation besides stays, and of its errors: bundled cards have
    one law of these.
    """
    earlier, later = _by_generation(rows, len(fields))
    start = base.changed(four_bits=None)
    several = len({version_of(row) for row in rows}) > 1
    how: dict[str, Any] = {"source": source, "own_errors": False, "several_versions": several}
    before = fit_runtime(earlier, start, name, engine, fields, **how) if earlier else None
    there = start if base.four_bits is None else _there(start, base.four_bits)
    if before is not None:
        ways = [way for way in before.card.wander if set(way) & set(fields)]
        there = there.with_numbers({field: before.card.numbers[field] for field in fields})
        there = there.changed(wander=(*there.wander, *ways))
    after = fit_runtime(later, there, name, engine, fields, **how) if later else None
    home = before.card if before is not None else _with_fields_of(after, start, fields)
    other = after.card if after is not None else None if base.four_bits is None else there
    fits = tuple(fit for fit in (before, after) if fit is not None)
    covered = tuple(dict.fromkeys(each for fit in fits for each in fit.card.covered))
    four_bits = None if other is None else _apart(home, other)
    both = {"four_bits": four_bits, "evidence": _together(fits, home), "covered": covered}
    card = home.changed(**both)
    return Generations(card, before, after)


def _by_generation(rows: Sequence[Row], fields: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Part rows of older devices from those of devices that multiply 4 bits; too few rows are none."""
    parts = [[row for row in rows if on_four_bits(row) is there] for there in (False, True)]
    few = [part if len(part) > fields else [] for part in parts]
    earlier, later = few if any(few) else parts
    return earlier, later


def _there(start: Runtime, other: Fp4Overrides) -> Runtime:
    own = {"cache_dtype": other.cache_dtype, "wander": other.wander, "by_version": other.by_version}
    return start.with_numbers(other.numbers).changed(**own)


def _with_fields_of(fit: RuntimeFit | None, start: Runtime, fields: Sequence[str]) -> Runtime:
    assert fit is not None  # one generation has rows
    return fit.card.with_numbers({n: v for n, v in start.numbers.items() if n not in fields})


def _apart(home: Runtime, other: Runtime) -> Fp4Overrides | None:
    """Find what ``other`` has that ``home`` has not; None where they are one."""
    numbers = {name: value for name, value in other.numbers.items() if value != home.numbers[name]}
    besides = ("cache_dtype", "wander", "by_version")
    if not numbers and all(getattr(other, name) == getattr(home, name) for name in besides):
        return None
    return Fp4Overrides(numbers=numbers, **picked(other, *besides))


def _together(fits: Sequence[RuntimeFit], home: Runtime) -> Evidence:
    errors = np.concatenate([fit.errors for fit in fits])
    counted = {"rows": len(errors), "series": sum(fit.card.evidence.series for fit in fits)}
    sources = sorted({each for fit in fits for each in fit.card.evidence.source.split(", ")})
    known = {**counted, "error": significant(float(np.abs(errors).mean())), "source": ", ".join(sources)}
    return home.evidence.changed(**known)
