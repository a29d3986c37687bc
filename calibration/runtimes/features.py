"""Factors of a runtime card's numbers in a measured row, whose seconds are linear in the card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.hardware.runtime_card import KERNELS, NUMBERS, CardErrors, Kernels, Runtime
from ssdsim.hardware.training_domain import ExtrapolationError
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import Units, cost_of_operations, units_of_kernels
from ssdsim.pricing.step import Pass
from ssdsim.readers.price import each_row, seconds_of, work_of
from ssdsim.readers.row import Row

FIELDS = tuple(name for name, number in NUMBERS.items() if number.prior_sd is not None)
_HALF = 0.5  # of what a kernel takes beyond the roofs: so much hidden, none is at its shortest


class Features(Record):
    """Features of rows: ``seconds`` measured, ``offset`` of what no field moves, a column of ``per_unit`` for each
    field.

    The card with the fields ``values`` predicts ``offset + per_unit @ values``; shapes ``(rows,)``, ``(rows, fields)``.
    """

    rows: Sequence[Row]
    seconds: Array
    offset: Array
    per_unit: Array
    series: NDArray[np.str_]

    def predicted(self, values: Array) -> Array:
        return np.asarray(self.offset + self.per_unit @ values)

    def of(self, chosen: NDArray[np.bool_]) -> Features:
        """Some of the rows."""
        rows = [row for row, keep in zip(self.rows, chosen, strict=True) if keep]
        return Features(rows, self.seconds[chosen], self.offset[chosen], self.per_unit[chosen], self.series[chosen])


def features(rows: Iterable[Row], like: Runtime) -> Features:
    """Features of rows in an engine with kernels, cache and draft of its own where ``like`` has them."""
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
    """Seconds that no field moves, and those a unit of each: the price is linear in them, and ``like`` makes one."""
    work, units = work_of(row, like), dict.fromkeys(FIELDS, 0.0)
    for piece, times in work.pieces:
        for name, count in {**piece.units, **_of_kernels(piece.work, like)}.items():
            units[name] += times * count
    if row.waits_for_prompts:
        waited_s = sum(times * prompt.cost.seconds for prompt, times in work.prompts)
        units["prompts"] = waited_s / like.kernels.prompts
    per_unit = np.array(list(units.values()))
    return work.cost.seconds - float(per_unit @ values_of(like)), per_unit


def _of_kernels(work: object, like: Runtime) -> Units:
    """The units of decoding's kernels; those of prompts have one factor."""
    if not isinstance(work, Pass):
        return {}

    def kernels(overlap: float) -> Cost:
        own = {name: number for name, number in asdict(like.kernels).items() if name not in FIELDS}
        alone = like.changed(kernels=Kernels(overlap=overlap, **own))
        return cost_of_operations(work.forward.counted(), work.profile, alone)

    whole = kernels(0.0)
    units = units_of_kernels(work.forward, whole.by_kind(), Kernels())
    if work.forward.over_prompts:
        return {"prompt_experts_4_bit": units.get("experts_4_bit", 0.0)}
    hidden_s = (whole.seconds - kernels(_HALF).seconds) / _HALF
    return {**units, "overlap": -hidden_s}
