"""What a policy's variants know, in arrays that grow with what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.serving.arithmetic import written
from ssdsim.serving.batching import LEAST_CHUNK, Batching
from ssdsim.serving.compiled import CURVES, Counts, Tables
from ssdsim.serving.ledger import Ledger
from ssdsim.serving.policy import Policy, Variant
from ssdsim.serving.round_table import Happened

K = TypeVar("K")
V = TypeVar("V")


def arithmetic_of(policy: Policy) -> Sequence[Sequence[Array]] | None:
    """What each variant makes of its steps' seconds, by what happened in a round; None where one cannot be written."""
    sheets = [
        [written(variant.table.step_names, partial(_round_s, variant, happened)) for happened in variant.table.happened]
        for variant in policy.variants
    ]
    if any(sheet is None for of in sheets for sheet in of):
        return None
    return [[sheet for sheet in of if sheet is not None] for of in sheets]


class FlatTables:
    """Tables of a policy whose ``arithmetic`` is written, for requests of up to ``longest`` tokens, which are of these
    ``kinds`` by variant.
    """

    def __init__(
        self,
        policy: Policy,
        arithmetic: Sequence[Sequence[Array]],
        batching: Batching,
        longest: int,
        kinds: Sequence[NDArray[np.int64]],
    ) -> None:
        variants, batches = policy.variants, batching.max_batch + 1
        self._variants, count = variants, len(variants)
        prompts = [variant.table.prompts for variant in variants]
        self._places = list(dict.fromkeys(place for each in prompts for place in (each.target, each.draft) if place))
        most_decoded = batching.max_batch * max(variant.queries for variant in variants)
        tokens = 1 + max(longest, most_decoded + batching.token_budget + LEAST_CHUNK + batches)
        nodes, bits = (max(len(of) for of in each) for each in ([v.table.contexts for v in variants], arithmetic))
        several = any(variant.rows.kinds > 1 for variant in variants)
        names = [variant.table.step_names for variant in variants]
        self.tables = Tables(
            of=self._counts(names),
            lines=_unknown(count, nodes, batches, bits, 2),
            steps=_unknown(count, nodes, batches, max(map(len, names)), 2),
            nodes=_padded([variant.table.contexts for variant in variants], float, np.inf),
            queries=_padded(
                [[p.queries.get(name, 0) for name in each] for p, each in zip(prompts, names, strict=True)]
            ),
            drafting=_padded([[name in p.drafting for name in each] for p, each in zip(prompts, names, strict=True)]),
            arithmetic=_padded([_padded(of, float) for of in arithmetic], float),
            rows=_padded([[len(rows) for rows in of] for of in arithmetic]),
            host=_unknown(count, batches),
            curves=_unknown(len(self._places), len(CURVES), tokens),
            cdf=_padded([variant.rows.by_row for variant in variants], float, np.inf),
            tokens=_padded([variant.rows.tokens[: variant.rows.by_row.shape[1]] for variant in variants]),
            state=_padded([variant.rows.state[: variant.rows.by_row.shape[1]] for variant in variants]),
            kinds=np.array(kinds if several else np.zeros((count, 1)), dtype=np.int64),
            asked=_padded([variant.asked or [(0, False, 0)] for variant in variants]),
            ledgers=_padded([[(of.waste, of.tokens) for of in _as_many(v.ledgers, variants)] for v in variants]),
            wanted=np.array([policy.number(max(1, batch), 0.0) for batch in range(batches if count > 1 else 1)]),
        )
        self._known: dict[tuple[int, str], int] = {}

    def refresh(self) -> Tables:
        """Tables with all that was worked out meanwhile."""
        t = self.tables
        for number, variant in enumerate(self._variants):
            table, names = variant.table, variant.table.step_names
            for (batch, at), lines in self._new(number, "lines", table.lines):
                t.lines[number, at, batch, : len(lines)] = lines
            for (batch, at), steps in self._new(number, "steps", table.steps_of):
                if tuple(name for name, _, _ in steps) == names:
                    t.steps[number, at, batch, : len(steps)] = [(start, slope) for _, start, slope in steps]
            for batch, seconds in self._new(number, "host", table.host):
                t.host[number, batch] = seconds
        for number, place in enumerate(self._places):
            curves = place.curves
            for of, name in enumerate(CURVES):
                for at, seconds in self._new(number, name, curves[name]):
                    if at < t.curves.shape[2]:  # else no pass of these requests is as large
                        t.curves[number, of, at] = seconds
        return t

    def _new(self, number: int, name: str, known: dict[K, V]) -> list[tuple[K, V]]:
        """What became known since the last time: a dictionary's newest entries."""
        before, self._known[number, name] = self._known.get((number, name), 0), len(known)
        return list(islice(reversed(known.items()), len(known) - before))

    def _counts(self, names: Sequence[Sequence[str]]) -> Counts:
        return Counts(*np.array(list(map(self._counted, self._variants, names)), dtype=np.int64).T.copy())

    def _counted(self, variant: Variant, names: Sequence[str]) -> Counts:
        rows, prompts = variant.rows, variant.table.prompts
        return Counts(
            steps=len(names),
            states=len(rows.states),
            tokens_of_certain=rows.tokens_of_certain if rows.is_certain else 0,
            questions=len(variant.asked),
            asks_before=variant.asks_before,
            queries=variant.queries,
            joins_in=variant.joins_in,
            caches=variant.caches,
            miss_bit=variant.table.miss_bit,
            name=[each.name for each in self._variants].index(variant.name),
            target=self._places.index(prompts.target),
            draft=-1 if prompts.draft is None else self._places.index(prompts.draft),
            apart=prompts.apart,
            hidden=prompts.hidden,
            copies=prompts.copies,
        )


def _round_s(variant: Variant, happened: Happened, t: Mapping[str, Any]) -> Any:
    return sum(variant.table.strategy.parts(t, happened).values())


def _as_many(ledgers: Sequence[Ledger], variants: Sequence[Variant]) -> list[Ledger]:
    """Ledgers, some of them twice, as many as any variant has."""
    return list(islice(cycle(ledgers), max(len(variant.ledgers) for variant in variants)))


def _unknown(*shape: int) -> Array:
    return np.full(shape, np.nan)


def _padded(each: Sequence[Any], dtype: type = np.int64, beyond: float = 0) -> NDArray[Any]:
    """Arrays of one number of axes as one, with ``beyond`` where one is shorter than others."""
    arrays: list[NDArray[Any]] = [np.asarray(one, dtype=dtype) for one in each]
    shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    made = np.full((len(arrays), *shape), beyond, dtype=dtype)
    for number, array in enumerate(arrays):
        place: tuple[Any, ...] = (number, *map(slice, array.shape))
        made[place] = array
    return made
