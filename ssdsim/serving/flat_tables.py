"""What a policy's variants know, as tables of numbers that grow with what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.serving.batching import LEAST_CHUNK, Batching
from ssdsim.serving.policy import Policy, Variant
from ssdsim.serving.round_table import RoundEvents
from ssdsim.serving.rounds import (
    ADD,
    CONSTANT,
    CURVES,
    MAXIMUM,
    MULTIPLY,
    SUBTRACT,
    Tables,
    VariantNumbers,
)
from ssdsim.serving.workload import Workload

K = TypeVar("K")
V = TypeVar("V")
Row = tuple[int, int, int, float]
"""An operation, the registers that it reads, and a constant's value."""


class FlatTables:
    """Tables of a policy for requests of up to ``longest`` tokens, which are of these ``kinds`` by variant: lists for
    Python, arrays for what is ``compiled``.
    """

    def __init__(
        self,
        policy: Policy,
        batching: Batching,
        longest: int,
        kinds: Sequence[NDArray[np.int64]],
        compiled: bool = False,
    ) -> None:
        variants, batches = policy.variants, batching.max_batch + 1
        self._variants, self._compiled, count = variants, compiled, len(variants)
        prompts = [variant.table.prompts for variant in variants]
        self._places = list(dict.fromkeys(place for each in prompts for place in (each.target, each.draft) if place))
        most_prompts = batching.token_budget * max(each.target.stages for each in prompts)
        most_decoded = batching.max_batch * max(variant.queries for variant in variants)
        self._tokens = 1 + max(longest, most_decoded + most_prompts + LEAST_CHUNK + batches)
        most_steps = max(len(variant.table.step_names) for variant in variants)
        sheets = [_sheets(variant) for variant in variants]
        nodes, bits = (max(map(len, each)) for each in ([v.table.contexts for v in variants], sheets))
        rows = [variant.rows for variant in variants]
        contexts = [float(context) for context in policy.contexts]
        self.registers = most_steps + max(len(sheet) for of in sheets for sheet in of)
        self.tables = Tables(
            of=self._numbers(),
            lines=_unknown(count, nodes, batches, bits, 2),
            steps=_unknown(count, nodes, batches, most_steps, 2),
            host=_unknown(count, batches),
            nodes=self._table([[float(node) for node in v.table.contexts] for v in variants], float, np.inf),
            queries=self._table([[v.table.prompts.queries.get(n, 0) for n in v.table.step_names] for v in variants]),
            drafting=self._table([[int(n in v.table.prompts.drafting) for n in v.table.step_names] for v in variants]),
            arithmetic=self._table([self._rows(of, 4, float) for of in sheets], float),
            rows=self._table([[len(sheet) for sheet in of] for of in sheets]),
            curves=self._curves(),
            cdf=self._table([each.cdf for each in rows], float, np.inf),
            tokens=self._table([each.tokens for each in rows], float),
            state=self._table([each.state.astype(np.int64) for each in rows]),
            kinds=self._table(list(kinds) if any(each.kinds > 1 for each in rows) else [np.zeros(1, int)] * count),
            questions=self._rows([[(bit, int(ends), state) for bit, ends, state in v.questions] for v in variants], 3),
            ledgers=self._ledgers(),
            contexts=np.array(contexts) if compiled else contexts,
            wanted=self._table(
                [[policy.number(max(1, batch), context) for batch in range(batches)] for context in policy.contexts]
            ),
        )
        self._known: dict[tuple[int, str], int] = {}

    @staticmethod
    def of(policy: Policy, batching: Batching, workload: Workload, compiled: bool = False) -> FlatTables:
        """Tables of a policy that serves a workload."""
        kinds = [variant.rows.kind_of(workload.kind) for variant in policy.variants]
        longest = int((workload.input_tokens + workload.output_tokens).max())
        return FlatTables(policy, batching, longest, kinds, compiled)

    def refresh(self) -> None:
        """Take over all that was worked out meanwhile."""
        t = self.tables
        batches = t.host.shape[1]  # other runs may have had larger ones
        for number, variant in enumerate(self._variants):
            table, names = variant.table, variant.table.step_names
            for (batch, at), lines in self._new(number, "lines", table.lines):
                if batch < batches:
                    t.lines[number, at, batch, : len(lines)] = lines
            for (batch, at), steps in self._new(number, "steps", table.steps_of):
                if batch < batches and tuple(name for name, _, _ in steps) == names:
                    t.steps[number, at, batch, : len(steps)] = [(start, slope) for _, start, slope in steps]
            for batch, seconds in self._new(number, "host", table.host):
                if batch < batches:
                    t.host[number, batch] = seconds
        if not self._compiled:
            return  # Python asks the curves themselves
        for number, place in enumerate(self._places):
            for of, (name, curve) in enumerate(zip(CURVES, place.curves, strict=True)):
                for at, seconds in self._new(number, name, curve):
                    if at < self._tokens:  # else no pass of these requests is as large
                        t.curves[number, of, at] = seconds

    def _new(self, number: int, name: str, known: dict[K, V]) -> list[tuple[K, V]]:
        """What became known since the last time: a dictionary's newest entries."""
        before, self._known[number, name] = self._known.get((number, name), 0), len(known)
        return list(islice(reversed(known.items()), len(known) - before))

    def _table(self, rows: Sequence[Any], dtype: type = np.int64, beyond: float = 0) -> Any:
        """Rows as they are; for what is compiled as one array, with ``beyond`` where one is shorter than others."""
        return _padded(rows, dtype, beyond) if self._compiled else rows

    def _rows(self, tables: Sequence[Sequence[Sequence[Any]]], width: int, dtype: type = np.int64) -> Any:
        """Tables of rows of so many numbers, likewise."""
        return self._table([np.reshape(rows, (-1, width)) for rows in tables] if self._compiled else tables, dtype)

    def _ledgers(self) -> Any:
        """The ledgers of each variant; for what is compiled some of them twice, as many as any variant has."""
        each = [[(o.waste, o.tokens, o.reserve, o.block, o.blocks) for o in v.ledgers] for v in self._variants]
        most = max(map(len, each))
        return np.array([list(islice(cycle(of), most)) for of in each]) if self._compiled else each

    def _curves(self) -> Any:
        if self._compiled:
            return _unknown(len(self._places), len(CURVES), self._tokens)
        return [place.curves for place in self._places]

    def _numbers(self) -> VariantNumbers:
        columns = zip(*map(self._numbers_of, self._variants), strict=True)
        return VariantNumbers(*(np.array(column) if self._compiled else list(column) for column in columns))

    def _numbers_of(self, variant: Variant) -> VariantNumbers:
        rows, prompts = variant.rows, variant.table.prompts
        return VariantNumbers(
            steps=len(variant.table.step_names),
            states=len(rows.states),
            kinds=rows.kinds,
            tokens_of_certain=rows.tokens_of_certain if rows.is_certain else 0,
            most_tokens=rows.most_tokens,
            question_count=len(variant.questions),
            asks_before=int(variant.asks_before),
            queries=variant.queries,
            joins_in=variant.joins_in,
            caches=int(variant.caches),
            p_hit=variant.p_hit,
            shares_chances=int(rows.shares_chances),
            miss_bit=variant.table.miss_bit,
            name=[each.name for each in self._variants].index(variant.name),
            target=self._places.index(prompts.target),
            draft=-1 if prompts.draft is None else self._places.index(prompts.draft),
            has_own_device=int(prompts.has_own_device),
            hidden=int(prompts.hidden),
            copies=prompts.copies,
        )


def _sheets(variant: Variant) -> list[list[Row]]:
    """What a variant makes of its steps' seconds, by what happened in a round; nothing where that cannot be written."""
    table = variant.table
    return [written(table.step_names, partial(_round_s, variant, each)) or [] for each in table.events]


def _round_s(variant: Variant, events: RoundEvents, seconds: Mapping[str, Any]) -> Any:
    return sum(variant.table.strategy.parts(seconds, events).values())


def _unknown(*shape: int) -> Array:
    return np.full(shape, np.nan)


def _padded(each: Sequence[Any], dtype: type = np.int64, beyond: float = 0) -> NDArray[Any]:
    """Arrays of one number of axes as one, with ``beyond`` where one is shorter than others."""
    arrays: list[NDArray[Any]] = [np.asarray(one, dtype=dtype) for one in each]
    shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    whole = np.full((len(arrays), *shape), beyond, dtype=dtype)
    for number, array in enumerate(arrays):
        place: tuple[Any, ...] = (number, *map(slice, array.shape))
        whole[place] = array
    return whole


# what a strategy does with seconds


def written(names: Sequence[str], sums: Callable[[Mapping[str, Any]], Any]) -> list[Row] | None:
    """Rows of what ``sums`` does with seconds by name, whose registers come first; a row's result is the next one.

    None where it does something else than to add, to subtract, to multiply and to take the larger one.
    """
    sheet: list[Row] = []
    try:
        result = sums({name: _Term(sheet, at, len(names)) for at, name in enumerate(names)})
    except TypeError:
        return None
    return sheet if isinstance(result, _Term) else None


class _Term(NDArrayOperatorsMixin):
    """A register. What is done with it becomes a row of the sheet: of an operator numpy makes one of its functions."""

    def __init__(self, sheet: list[Row], at: int, steps: int) -> None:
        self._sheet, self.at, self._steps = sheet, at, steps

    def _next(self, row: Row) -> _Term:
        self._sheet.append(row)
        return _Term(self._sheet, self._steps + len(self._sheet) - 1, self._steps)

    def _term(self, other: Any) -> _Term:
        return other if isinstance(other, _Term) else self._next((CONSTANT, 0, 0, float(other)))

    def _row(self, operation: int, left: Any, right: Any) -> _Term:
        left, right = self._term(left), self._term(right)
        return self._next((operation, left.at, right.at, 0.0))

    def __array_ufunc__(self, ufunc: Any, method: str, *terms: Any, **how: Any) -> _Term:
        if ufunc not in _OF_NUMPY or method != "__call__" or how:
            raise TypeError(f"{ufunc} is not written down")
        return self._row(_OF_NUMPY[ufunc], *terms)

    def __array__(self, *how: Any, **more: Any) -> Any:
        raise TypeError("a register has no value yet")

    __bool__ = __float__ = __array__


_OF_NUMPY = {np.add: ADD, np.subtract: SUBTRACT, np.multiply: MULTIPLY, np.maximum: MAXIMUM}
