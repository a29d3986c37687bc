"""The estimate that every engine gives: the stationary round of a strategy."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.record import Record
from ssdsim.rounds.round import Seconds

PARTS = ("verify", "draft", "communicate", "fallback", "host")
_TITLES = {"fallback": "backup"}


def part_title(part: str) -> str:
    """The title of a part of a round for a person: a miss costs the time of the backup."""
    return _TITLES.get(part, part)


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
        """Tokens/s by the strategy's paper, which may know no overheads; None where it has no formula but ours."""
        if self.paper_round_s is None:
            return None
        rate: Seconds = self.batch * self.tokens_per_round / self.paper_round_s
        return rate
