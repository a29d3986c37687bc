"""A strategy's real tokens measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from statistics import median
from typing import Any

from msgspec.structs import asdict

from calibration.pairs.measure.checks import GreedyCheck
from calibration.pairs.measure.loop import PlayedRound, with_hits
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.rounds.estimate import Estimate


class Spoken(Record):
    """A rank's part of an answer; seconds are those of its rounds, of the target's rank."""

    tokens: list[int]
    rounds: list[PlayedRound]
    hits: list[bool]
    seconds: float


class Run(Record):
    """All requests once: tokens and seconds of their rounds, the last one of each whole, and what they wrote."""

    rounds: tuple[PlayedRound, ...]
    seconds: float
    answers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, target: Sequence[Spoken], draft: Sequence[Spoken] | None) -> Run:
        """The run of which the two ranks tell."""
        hits = [[] for _ in target] if draft is None else [each.hits for each in draft]
        rounds = (with_hits(each.rounds, found) for each, found in zip(target, hits, strict=True))
        return cls(
            tuple(chain.from_iterable(rounds)),
            sum(each.seconds for each in target),
            tuple(tuple(each.tokens) for each in target),
        )

    @property
    def tokens_per_second(self) -> float:
        return sum(each.accepted + 1 for each in self.rounds) / self.seconds

    @property
    def tokens_per_round(self) -> float:
        return sum(each.accepted + 1 for each in self.rounds) / len(self.rounds)

    @property
    def acceptance(self) -> float | None:
        """The accepted share of the drafted tokens that were reached; None where nothing was drafted."""
        reached = sum(min(each.accepted + 1, each.drafted) for each in self.rounds)
        return sum(each.accepted for each in self.rounds) / reached if reached else None

    @property
    def p_hit(self) -> float | None:
        """The hit share of the rounds whose outcome was looked up; None where none was."""
        hits = [each.hit for each in self.rounds if each.hit is not None]
        return sum(hits) / len(hits) if hits else None


class TokenComparison(Record):
    """A strategy's repeats beside two predictions: from the steps' times before all runs, and those before each run.

    ``errors`` are predicted over measured, less 1, of each repeat with the steps' times beside it: a machine that
    others use is slower or faster for both.
    """

    strategy: str
    measured: tuple[float, ...]
    predicted: float
    beside: tuple[float, ...]
    tokens_per_round: tuple[float, float]
    acceptance: tuple[float | None, float | None]
    p_hit: tuple[float | None, float | None]
    greedy: GreedyCheck

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        before: Estimate,
        beside: Sequence[Estimate],
        alpha: float | None,
        greedy: GreedyCheck,
    ) -> TokenComparison:
        first = runs[0]
        p_hit = None if before.p_hit is None else float(before.p_hit)
        return cls(
            strategy=before.strategy,
            measured=tuple(run.tokens_per_second for run in runs),
            predicted=float(before.tokens_per_second),
            beside=tuple(float(each.tokens_per_second) for each in beside),
            tokens_per_round=(first.tokens_per_round, float(before.tokens_per_round)),
            acceptance=(first.acceptance, None if first.acceptance is None else alpha),
            p_hit=(first.p_hit, p_hit),
            greedy=greedy,
        )

    @property
    def errors(self) -> tuple[float, ...]:
        return tuple(beside / measured - 1.0 for beside, measured in zip(self.beside, self.measured, strict=True))

    @property
    def median_error(self) -> float:
        """The median of the absolute errors."""
        return median(map(abs, self.errors))

    @property
    def worst_error(self) -> float:
        return max(map(abs, self.errors))

    def shown(self) -> dict[str, Any]:
        """The JSON form: pairs are measured and predicted."""
        pairs = picked(self, "tokens_per_round", "acceptance", "p_hit")
        named = {name: dict(zip(("measured", "predicted"), pair, strict=True)) for name, pair in pairs.items()}
        return {**asdict(self), **named, **picked(self, "errors", "median_error", "worst_error")}
