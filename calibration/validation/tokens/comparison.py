"""A strategy's real tokens, measured, and predicted in closed form from a pair's file and the steps' times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import asdict

from calibration.pairs.measure.checks import GreedyCheck
from calibration.pairs.measure.loop import PlayedRound, with_hits
from calibration.validation.tokens.calibration import Size
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import Estimate

Seconds = Mapping[str, float]
"""The seconds of a strategy's steps."""

_WHOLE_ROUNDS = 4096  # tokens of an answer: the last round counts whole, here and as it is measured


def scenarios_of(pair: Path, strategies: Sequence[str], size: Size) -> Mapping[str, Scenario]:
    """Greedy, one request at a time, as many guesses after each number of accepted tokens; rates by the pair."""
    drafting: dict[str, Any] = (
        {"f": size.fan_out, "fan_out_policy": "uniform", "backup": "jit"} if "ssd" in strategies else {}
    )
    configuration = configure(
        strategies=tuple(strategies),
        pair=str(pair),
        temperature=0.0,
        k=size.k,
        b=1,
        output_tokens=_WHOLE_ROUNDS,
        t_sd=1.0,  # its durations are not read
        extrapolate=True,  # a run of real models may be asked for more guesses than the pair was measured at
        **drafting,
    )
    return configuration.scenarios


def predicted(scenario: Scenario, seconds: Seconds) -> Estimate:
    """The mean round with these steps."""
    return scenario.strategy.closed_form(replace(scenario.round, seconds=seconds))


def mean_of(around: Sequence[Seconds]) -> Seconds:
    """Steps timed before and after a run."""
    return {step: sum(each[step] for each in around) / len(around) for step in around[0]}


class Spoken(Record):
    """A rank's part of an answer; seconds are those of its rounds, of the target's rank."""

    tokens: list[int]
    rounds: list[PlayedRound]
    hits: list[bool]
    seconds: float


class TokenRun(Record):
    """All requests once: tokens and seconds of their rounds, the last one of each whole, and what they wrote."""

    rounds: tuple[PlayedRound, ...]
    seconds: float
    answers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, target: Sequence[Spoken], draft: Sequence[Spoken] | None) -> TokenRun:
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
        runs: Sequence[TokenRun],
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
