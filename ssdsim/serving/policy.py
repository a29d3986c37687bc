"""A policy: the strategy and settings that run, by the number of sequences and their length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import Devices
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import Estimate
from ssdsim.serving.batching import Batching
from ssdsim.serving.ledger import Ledger, ledgers
from ssdsim.serving.outcome_rows import OutcomeRows
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.round_table import RoundTable


class Steering(Protocol):
    """Steering of a policy of Ks by what was accepted; each replica has one of its own."""

    def k(self, batch: int) -> int:
        """K of the next round of so many sequences."""

    def heard(self, accepted: Array, k: int) -> bool:
        """Drafted tokens of each sequence that were accepted in a round of K; whether K may be another now."""


class Variant:
    """One strategy with its settings: prices, outcomes, caches. ``label`` tells it from others of the same strategy."""

    def __init__(
        self, scenario: Scenario, batching: Batching, tables: PromptTables, context: float, label: str = ""
    ) -> None:
        strategy = scenario.strategy
        self.scenario = scenario
        self.name = strategy.name
        self.title = strategy.title
        self.label = label or strategy.title
        self.gpus = scenario.gpus
        self.table = RoundTable(scenario, tables, max(1, round(context)))
        self.rows = OutcomeRows(scenario.tokens)
        self.ledgers: tuple[Ledger, ...] = ledgers(scenario, batching)
        self.queries = self.table.queries
        self.joins_in = 0 if strategy.miss_state is None else self.rows.states.index(strategy.miss_state)
        self.caches = strategy.miss_state is not None
        averages = scenario.tokens.averages
        self.p_hit = 0.0 if strategy.miss_state is None else 1.0 - float(averages.to[strategy.miss_state])
        self.k = strategy.lookahead(scenario.settings)
        self.asked = [
            (1 << bit, ends, self.rows.states.index(state)) for bit, (ends, state) in enumerate(self.table.asked)
        ]
        self.asks_before = not all(ends for _, ends, _ in self.asked)


class Policy(Record):
    """``cells[context][batch]`` are numbers of ``variants``: the cell of the largest batch that is not larger (the
    first below it), at the nearest context. One that is no schedule has the faster of a strategy's alternatives.
    One that ``counts_scheduled`` goes by the requests of the pass before, those with a part of a prompt among them.
    One that is ``steered`` goes by what rounds accepted, too: its cells are what runs most, for who knows no rounds.
    """

    name: str
    title: str
    variants: Sequence[Variant]
    batches: Sequence[int]
    contexts: Sequence[int]
    cells: Mapping[tuple[int, int], int]
    is_schedule: bool = False
    counts_scheduled: bool = False
    steered: Callable[[], Steering] | None = None

    @cached_property
    def _found(self) -> dict[tuple[int, int], int]:
        """Numbers of variants by batch and place of the context, as far as somebody has asked."""
        return {}

    @property
    def gpus(self) -> float:
        """Devices that must be there whichever variant runs, with a replica's part of a draft's that it shares."""
        return max(variant.gpus for variant in self.variants)

    @property
    def devices(self) -> Devices:
        """Devices of the variant whose draft serves the most replicas."""
        return max((variant.scenario.devices for variant in self.variants), key=lambda devices: devices.targets)

    def number(self, batch: int, context: float) -> int:
        """Number of the variant that runs."""
        at = self._context_at(context)
        event = self._found.get((batch, at))
        if event is None:
            low = self.batches[max(0, bisect_right(self.batches, batch) - 1)]
            event = self._found[batch, at] = self.cells[low, self.contexts[at]]
        return event

    @property
    def ks(self) -> tuple[int, ...]:
        """Drafted tokens of each variant."""
        return tuple(self._of_k)

    def number_of_k(self, k: int) -> int:
        """Number of the variant that drafts so many tokens."""
        return self._of_k[k]

    @cached_property
    def _of_k(self) -> Mapping[int, int]:
        return {variant.k: number for number, variant in enumerate(self.variants)}

    def _context_at(self, context: float) -> int:
        if len(self.contexts) == 1:
            return 0
        return min(range(len(self.contexts)), key=lambda i: abs(self.contexts[i] - context))

    def at(self, batch: int, context: float) -> Variant:
        return self.variants[self.number(batch, context)]

    def mean(self, batch: int, context: float) -> Estimate:
        """The closed form's mean round of the variant that runs."""
        return self.at(batch, context).table.mean(batch, context)


def of_alternatives(variants: Sequence[Variant], batching: Batching, context: float) -> Policy:
    """The faster of a strategy's alternatives at each batch, as ``predict --b`` chooses: among those whose settings are
    of that batch, where these follow it.
    """
    strategy, at = variants[0].scenario.strategy, round(context)
    if len(variants) == 1:
        return Policy(strategy.name, strategy.title, variants, (1,), (at,), {(1, at): 0})
    tried = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}
    followed = {each.scenario.batch for each in variants} if strategy.follows_batch else set()
    batches = sorted(b for b in tried | followed if b <= batching.max_batch)

    def fastest(b: int) -> int:
        return max(numbers_at(b, variants), key=lambda n: float(variants[n].table.mean(b, context).tokens_per_second))

    cells = {(b, at): fastest(b) for b in batches}
    return Policy(strategy.name, strategy.title, variants, batches, (at,), cells)


def numbers_at(batch: int, variants: Sequence[Variant]) -> Sequence[int]:
    """Variants that may run so many sequences, by number: where settings follow the batch, the ones of that batch
    or of the largest below it.
    """
    alike = [(each.scenario.strategy.name, each.k) for each in variants]
    latest: dict[tuple[str, int], int] = {}
    for of, each in zip(alike, variants, strict=True):
        if each.scenario.batch <= batch:
            latest[of] = max(each.scenario.batch, latest.get(of, 0))
    follows = [each.scenario.strategy.follows_batch for each in variants]
    return [n for n, each in enumerate(variants) if not follows[n] or each.scenario.batch == latest.get(alike[n])]
