"""The ledger of cache blocks: how many sequences fit beside target and draft."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.record import Record, replace
from ssdsim.pricing.occupancy import Occupancy
from ssdsim.question.scenario import Scenario
from ssdsim.serving.batching import Batching

_CONTEXTS = (4096, 8192)  # a sequence's bytes are linear there; a window makes a short one's look a little larger


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

    def blocks_of_all(self, tokens: NDArray[np.int64]) -> int:
        """Blocks of sequences with so many cached tokens each."""
        return int(((tokens + (self.reserve + self.block - 1)) // self.block).sum())

    def most_sequences(self, tokens: int) -> int:
        """Sequences of so many cached tokens that fit together."""
        return self.blocks // self.blocks_of(tokens)


def ledgers(scenario: Scenario, batching: Batching) -> tuple[Ledger, ...]:
    """One for each kind of device that a strategy occupies, from what it says lies there."""
    site = scenario.site
    assert site is not None
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
    token_bytes = (at_long - at_short) / (_CONTEXTS[1] - _CONTEXTS[0])
    reserve = round(at_short / token_bytes - _CONTEXTS[0])
    room = short.profile.device.memory_bytes * batching.kv_fraction - sum(d.weights_bytes for d in short.demands)
    blocks, devices = int(max(0.0, room) // (token_bytes * batching.block)), short.demands[0].devices
    return Ledger(short.what, devices * blocks, batching.block, reserve, devices)


def _sequence_bytes(occupancy: Occupancy) -> int:
    return sum(demand.sequence_bytes for demand in occupancy.demands)
