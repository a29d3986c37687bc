"""A round of a strategy: its states, the estimate of the mean one, blocks of drawn ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.rounds.kernel import Averages

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock


Seconds = float | Array


class Round(Record):
    """A round as the closed form reads it: batch, devices, seconds of each step by name, averages of its tokens.

    Batch, devices and rounds are those of one target; ``targets`` share its draft, which serves them in turn, or all
    that wait ``together``. The batch goes through its target in so many ``microbatches``.

    Numbers; or, where many settings are seen at once or a duration is drawn many times, columns that broadcast.
    Seconds are units of T_v where durations are unit-free.
    """

    batch: FloatOrArray
    gpus: FloatOrArray
    seconds: Mapping[str, Seconds]
    averages: Averages
    targets: FloatOrArray = 1
    together: FloatOrArray = False
    microbatches: FloatOrArray = 1

    @property
    def in_a_pass(self) -> FloatOrArray:
        """Sequences that go through a pass together."""
        return -(-self.batch // self.microbatches)


_SURE = 1e-9  # of a chance at 0 or 1, which nothing shared moves
_ALL_ALIKE = 1e-9  # a concentration at which all of a batch do the same, as at any smaller one


class States(Protocol):
    """State probabilities of a batch: probabilities in the mean round, 0 or 1 in drawn rounds."""

    def any_in(self, state: str) -> FloatOrArray:
        """P(some sequence of the batch begins the round in ``state``)."""

    def any_to(self, state: str) -> FloatOrArray:
        """P(some sequence of the batch ends the round in ``state``)."""


class Stationary:
    """The long run: sequences are independent chains (SSD paper, Corollary 16), or share their chances of a round.

    Then what they share is drawn about the mean over states, which is exact where a round depends on no state.
    """

    def __init__(self, batch: FloatOrArray, averages: Averages) -> None:
        self._batch = batch
        self._averages = averages

    def any_in(self, state: str) -> FloatOrArray:
        return 1.0 - all_of(self._batch, others(self._averages.inside, state), self._averages.shared)

    def any_to(self, state: str) -> FloatOrArray:
        return 1.0 - self.none_to(state)

    def none_to(self, state: str) -> FloatOrArray:
        """P(no sequence of the batch ends the round in ``state``)."""
        return all_of(self._batch, others(self._averages.to, state), self._averages.shared)


def all_of(batch: FloatOrArray, chance: FloatOrArray, concentration: FloatOrArray | None) -> FloatOrArray:
    """P(all of a batch do what each does with this chance): the b-th moment of a Beta of that mean, or p^b.

    ``concentration`` is the Beta's a + b; None, infinite or NaN where the sequences are independent.
    """
    independent = chance**batch
    if concentration is None:
        return independent
    from scipy.special import betaln  # here, because predict must start fast

    mean, size = np.clip(chance, _SURE, 1.0 - _SURE), np.where(np.isfinite(concentration), concentration, 1.0)
    size = np.maximum(size, _ALL_ALIKE)
    log_moment = betaln(mean * size + batch, (1.0 - mean) * size) - betaln(mean * size, (1.0 - mean) * size)
    inside = np.isfinite(concentration) & (chance > _SURE) & (chance < 1.0 - _SURE)
    where = np.where(inside, np.exp(log_moment), independent)
    return where if where.ndim else float(where)


def others(shares: Mapping[str, FloatOrArray], state: str) -> FloatOrArray:
    """The share of all states but one."""
    return sum(share for other, share in shares.items() if other != state)


class Always:
    """Rounds in which some sequence ends in ``state`` (``share`` 1), or none does (0)."""

    def __init__(self, state: str, share: float) -> None:
        self._state, self._share = state, share

    def any_in(self, state: str) -> float:
        return self.any_to(state)

    def any_to(self, state: str) -> float:
        return self._share if state == self._state else 1.0 - self._share


PARTS = ("verify", "draft", "communicate", "fallback", "host")

PART_TITLES = {part: part for part in PARTS} | {"fallback": "backup"}
"""What a person reads: a miss costs the time of the backup."""


class Estimate(Record):
    """The mean round of a strategy; every number an array where columns of rounds were given.

    ``breakdown_s`` splits the round by what the sequence waits for (:data:`PARTS`); it sums to ``round_s``.
    ``draft`` is the exposed part only: all of it in SD, the lateness of the pre-speculation in SSD. ``p_hit`` and
    ``p_all_hit`` are None where nothing is cached.
    """

    strategy: str
    batch: FloatOrArray
    gpus: FloatOrArray
    tokens_per_round: FloatOrArray
    breakdown_s: Mapping[str, Seconds]
    p_hit: FloatOrArray | None = None
    p_all_hit: FloatOrArray | None = None
    paper_round_s: Seconds | None = None

    @property
    def round_s(self) -> Seconds:
        return sum(self.breakdown_s.values())

    @property
    def tokens_per_second(self) -> Seconds:
        """Tokens a second over the whole batch (renewal-reward: b E[tokens] / E[round])."""
        rate: Seconds = self.batch * self.tokens_per_round / self.round_s
        return rate

    @property
    def per_user(self) -> Seconds:
        """Tokens a second of one sequence."""
        per_user: Seconds = self.tokens_per_second / self.batch
        return per_user

    @property
    def per_gpu(self) -> Seconds:
        """Tokens a second for each device."""
        per_gpu: Seconds = self.tokens_per_second / self.gpus
        return per_gpu

    @property
    def tpot_s(self) -> Seconds:
        """Time per output token of a sequence."""
        tpot_s: Seconds = self.round_s / self.tokens_per_round
        return tpot_s

    @property
    def paper_tokens_per_second(self) -> Seconds | None:
        """Tokens/s by the paper's formula, which may know no overheads; None where it is ours."""
        if self.paper_round_s is None:
            return None
        rate: Seconds = self.batch * self.tokens_per_round / self.paper_round_s
        return rate


class RoundBlock(Record):
    """Outcomes of drawn rounds, the parts of each round's time and their total.

    Parts are those of :data:`ssdsim.rounds.round.PARTS`, each of shape ``(rounds,)`` or one number for all rounds;
    ``round_s`` has shape ``(rounds,)``.
    """

    outcomes: OutcomeBlock
    parts_s: Mapping[str, FloatOrArray]
    round_s: Array


def total(parts_s: Mapping[str, FloatOrArray], rounds: int) -> Array:
    """The sum of a round's parts, shape ``(rounds,)``."""
    return np.asarray(sum(parts_s.values()) * np.ones(rounds), dtype=float)


def with_rest(part: str, block: RoundBlock) -> RoundBlock:
    """Copy rounds with ``part`` as the remainder of each round's time."""
    others = sum(seconds for name, seconds in block.parts_s.items() if name != part)
    return replace(block, parts_s={**block.parts_s, part: block.round_s - others})
