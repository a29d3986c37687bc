"""A policy: which strategy with which settings runs, by the number of sequences and their length; what each needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record, replace
from ssdsim.pricing.occupancy import Devices, Occupancy, usable_bytes
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.drawn import SharedChances, SharedLevels
from ssdsim.rounds.kernel import Mix, Tokens
from ssdsim.rounds.round import Estimate
from ssdsim.serving.batching import Batching
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.round_table import RoundTable

_CONTEXTS = (4096, 8192)  # a sequence's bytes are linear there; a window makes a short one's look a little larger
_ANY_CONTEXT = 2**31  # tokens of a block that holds a whole sequence


class Ledger(Record):
    """The caches on each device of a kind: ``blocks`` in all, of ``block`` tokens; of all ``devices`` that split the
    sequences, where these do.

    A sequence reserves ``reserve`` tokens beside its context: those that are verified, and on a draft's device those
    of every cached outcome (with their logits, where these are kept).
    """

    what: str
    blocks: int
    block: int
    reserve: int
    devices: int = 1

    @cached_property
    def tokens(self) -> int:
        """Places in all."""
        return self.blocks * self.block

    @cached_property
    def waste(self) -> int:
        """Places that a sequence takes beside its context, at most: what it reserves, and a part of a block."""
        return self.reserve + self.block

    @cached_property
    def most_tokens(self) -> int:
        """Tokens of the longest sequence that fits, alone."""
        return self.tokens // self.devices - self.reserve

    def blocks_of(self, tokens: int) -> int:
        """Blocks of a sequence with so many cached tokens."""
        return -(-(tokens + self.reserve) // self.block)

    def most_sequences(self, tokens: int) -> int:
        """Sequences of so many cached tokens that fit together."""
        return self.blocks // self.blocks_of(tokens)


def ledgers(scenario: Scenario, batching: Batching) -> tuple[Ledger, ...]:
    """One for each kind of device that a strategy occupies, from what it says lies there."""
    site = scenario.site
    assert site is not None
    site = replace(site, runtime=site.runtime.holding(batching.token_budget, batching.max_batch))
    short, long = (
        tuple(
            scenario.strategy.occupancies(
                replace(site, context=c, batch=1, options=scenario.settings), scenario.drafter
            )
        )
        for c in _CONTEXTS
    )
    return tuple(_ledger(a, b, batching) for a, b in zip(short, long, strict=True))


def _ledger(short: Occupancy, long: Occupancy, batching: Batching) -> Ledger:
    at_short, at_long = _sequence_bytes(short), _sequence_bytes(long)
    room = max(0, usable_bytes(short.profile, batching.kv_fraction) - sum(d.weights_bytes for d in short.demands))
    token_bytes, devices = (at_long - at_short) / (_CONTEXTS[1] - _CONTEXTS[0]), short.demands[0].devices
    if not token_bytes:  # no layer looks farther back than a window, or a state is all that is kept
        return Ledger(short.what, devices * (room // at_short), _ANY_CONTEXT, 0, devices)
    reserve = round(at_short / token_bytes - _CONTEXTS[0])
    blocks = int(room // (token_bytes * batching.block))
    return Ledger(short.what, devices * blocks, batching.block, reserve, devices)


def _sequence_bytes(occupancy: Occupancy) -> int:
    return sum(demand.sequence_bytes for demand in occupancy.demands)


BELOW_ONE = 1.0 - 1e-9


class OutcomeRows:
    """The rows of a strategy's kernel as one table: row ``kind * states + state``.

    ``cdf`` is each row's distribution over outcomes, plus the row's number, so that one search finds the outcomes of
    sequences in different rows: ``searchsorted(cdf, uniform + row)``. An outcome's tokens and next state follow from
    ``tokens`` and ``state``.
    """

    def __init__(self, tokens: Tokens) -> None:
        mix = Mix.of(tokens)
        self.states = tokens.states
        self.kinds_cdf = np.cumsum(mix.weights / mix.weights.sum())
        kinds, states, width, _ = mix.p.shape
        self.shared = tokens.shared
        self._kernel = mix.kernel
        one = np.arange(1, width)
        each, to = np.repeat(one, states), np.tile(np.arange(states), width - 1)
        rows = mix.p[:, :, 1:, :].reshape(kinds * states, -1)
        if self.shared is not None:  # those that lead to the first state come first, which the chances need
            order = np.argsort(to, kind="stable")
            each, to, rows = each[order], to[order], rows[:, order]
        cdf = np.cumsum(rows, axis=1)
        cdf /= cdf[:, -1:]
        self.cdf = (cdf + np.arange(kinds * states)[:, None]).ravel()
        self.tokens = np.tile(each, kinds * states).astype(float)
        self.state = np.tile(to, kinds * states).astype(np.uint8)
        self.most_tokens = width - 1
        self.is_certain = tokens.is_certain
        self.kinds = kinds
        self.several = kinds * states > 1
        self._rows = rows

    @property
    def shares_chances(self) -> bool:
        """Whether all of a batch share the chances of a round."""
        return self._levels is not None

    def kind_of(self, uniform: Array) -> NDArray[np.int64]:
        """The kinds of requests, drawn by their weights."""
        return np.asarray(np.minimum(np.searchsorted(self.kinds_cdf, uniform, side="right"), self.kinds - 1))

    def chances(self, seed: list[int]) -> SharedChances | None:
        """Chances of ending a round in the first state, where all of a batch share them."""
        return None if self._levels is None else SharedChances(self._levels, np.random.SeedSequence(seed))

    @cached_property
    def _levels(self) -> SharedLevels | None:
        """What those chances may be: the same for every replica and every run."""
        return None if self.shared is None or self.is_certain else SharedLevels(self._kernel, self.shared)

    @cached_property
    def tokens_of_certain(self) -> int:
        """Tokens that every round yields where :attr:`is_certain`."""
        return int(self.tokens[int(np.argmax(self._rows[0]))])


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
        self.title = scenario.title
        self.label = label or scenario.title
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
        self.follows_batch = strategy.follows_batch(scenario.settings)
        self.questions = [
            (1 << bit, ends, self.rows.states.index(state)) for bit, (ends, state) in enumerate(self.table.questions)
        ]
        self.asks_before = not all(ends for _, ends, _ in self.questions)


class Policy(Record):
    """``cells[context][batch]`` are numbers of ``variants``: the cell of the largest batch that is not larger (the
    first below it), at the nearest context. One that is no schedule has the faster of a strategy's alternatives.
    One that ``counts_scheduled`` goes by the requests of the pass before, those with a part of a prompt, and
    those that waited for it, among them.
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
        """The chosen variants by batch and context node, cached."""
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
    title = variants[0].title
    if len(variants) == 1:
        return Policy(strategy.name, title, variants, (1,), (at,), {(1, at): 0})
    tried = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}
    followed = {each.scenario.batch for each in variants if each.follows_batch}
    batches = sorted(b for b in tried | followed if b <= batching.max_batch)

    def fastest(b: int) -> int:
        return max(numbers_at(b, variants), key=lambda n: float(variants[n].table.mean(b, context).tokens_per_second))

    cells = {(b, at): fastest(b) for b in batches}
    return Policy(strategy.name, title, variants, batches, (at,), cells)


def numbers_at(batch: int, variants: Sequence[Variant]) -> Sequence[int]:
    """Variants that may run so many sequences, by number: where settings follow the batch, the ones of that batch
    or of the largest below it.
    """
    alike = [(each.name, each.scenario.settings["k"]) for each in variants]
    latest: dict[tuple[str, int], int] = {}
    for of, each in zip(alike, variants, strict=True):
        if each.scenario.batch <= batch:
            latest[of] = max(each.scenario.batch, latest.get(of, 0))
    return [
        n for n, each in enumerate(variants) if not each.follows_batch or each.scenario.batch == latest.get(alike[n])
    ]
