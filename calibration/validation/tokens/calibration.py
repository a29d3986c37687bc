"""Calibration with the models themselves: steps of a round, timed on prompts that no run is about.

Outcomes are prescribed: 0 to K tokens are accepted in turn, every second one is foreseen. Steps that follow each other
in a round do so here, and those that run side by side do: a rank that slept finds its caches cold, and two share the
machine's memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, cycle
from typing import Any

import numpy as np

from calibration.pairs.measure.loop import DraftSide
from calibration.pairs.measure.roles import LanguageModel, Speculator, Verifier
from calibration.pairs.measure.verification import Rules, Speculation, Verified, certain
from calibration.validation.tokens.actor import TokenMail
from ssdsim.base.record import Record

Costs = dict[str, list[float]]
"""Seconds of each visit, by the step's name."""


class Size(Record):
    """Sizes: how to speculate, tokens an answer, and visits of a step that are timed at once."""

    k: int
    fan_out: int
    new_tokens: int
    visits: int


def clocked(step: Callable[[], object], into: list[float]) -> None:
    start = time.perf_counter()
    step()
    into.append(time.perf_counter() - start)


def time_decoding(model: LanguageModel, rules: Rules, prompts: Sequence[Sequence[int]], size: Size) -> Costs:
    """AR's steps."""
    costs: Costs = {"decode": [], "sample": []}
    for _, verifier in zip(range(size.visits), _verifiers(model, rules, prompts, size), strict=False):
        clocked(verifier.decode, costs["decode"])
        clocked(partial(verifier.sample, None), costs["sample"])
    return costs


def time_verifying(
    model: LanguageModel,
    rules: Rules,
    answered: Mapping[tuple[int, ...], Sequence[int]],
    size: Size,
    courier: Courier,
) -> Costs:
    """SD's and SSD's steps of a target, over its own greedy answers by prompts."""
    costs: Costs = {"verify": [], "sample": []}
    for visit, verifier in zip(range(size.visits), _verifiers(model, rules, list(answered), size), strict=False):
        speculation = _foretold(verifier, answered, visit % (size.k + 1), size.k)
        clocked(partial(verifier.verify, speculation), costs["verify"])
        clocked(partial(verifier.sample, speculation), costs["sample"])
        courier.send("outcome", Verified(visit % (size.k + 1), visit % model.vocabulary))
        courier.receive("speculation")
    return costs


def _foretold(verifier: Verifier, answered: Mapping[tuple[int, ...], Sequence[int]], right: int, k: int) -> Speculation:
    """K tokens of which so many are those that the target will write."""
    whole = next([*prompt, *answer] for prompt, answer in answered.items() if verifier.text[: len(prompt)] == [*prompt])
    ahead = whole[len(verifier.text) : len(verifier.text) + k]
    tokens = [*ahead[:right], *((token + 1) % verifier.model.vocabulary for token in ahead[right:])]
    return Speculation(tuple(tokens), certain(tokens, verifier.model.vocabulary))


def _verifiers(model: LanguageModel, rules: Rules, prompts: Sequence[Sequence[int]], size: Size) -> Iterator[Verifier]:
    """One for each visit: the same until its answer has no room for another round, then one of the next prompt."""
    for prompt in cycle(prompts):
        verifier = Verifier(model, rules, prompt)
        verifier.decode()
        verifier.sample(None)
        while len(verifier.text) + size.k < len(prompt) + size.new_tokens:
            yield verifier


def time_drafting(
    model: LanguageModel, rules: Rules, prompts: Sequence[Sequence[int]], size: Size, courier: Courier
) -> Costs:
    """SD's draft."""
    costs: Costs = {"draft": []}
    for _, speculator in zip(range(size.visits), _speculators(model, rules, prompts, size), strict=False):
        side = DraftSide(speculator)
        side.take(courier.receive("outcome"))
        clocked(partial(side.do, "draft"), costs["draft"])
        courier.send("speculation", side.content())
    return costs


def time_prespeculating(
    model: LanguageModel, rules: Rules, prompts: Sequence[Sequence[int]], size: Size, courier: Courier
) -> Costs:
    """SSD's draft; an outcome that was not foreseen is answered just in time."""
    costs: Costs = {"pre-speculate": [], "look up": [], "fallback": []}
    for visit, speculator in zip(range(size.visits), _speculators(model, rules, prompts, size), strict=False):
        side = DraftSide(speculator)
        clocked(partial(side.do, "pre-speculate"), costs["pre-speculate"])
        accepted = courier.receive("outcome").accepted
        foreseen = next(bonus for k, bonus in speculator.cache if k == accepted)
        other = next(i for i in count() if (accepted, i) not in speculator.cache)
        verdict = Verified(accepted, other if visit % 2 else foreseen)
        side.take(verdict)
        clocked(partial(side.misses, verdict), costs["look up"])
        if not side.hits[-1]:
            clocked(partial(side.do, "fallback"), costs["fallback"])
        courier.send("speculation", side.content())
    return costs


def _speculators(
    model: LanguageModel, rules: Rules, prompts: Sequence[Sequence[int]], size: Size
) -> Iterator[Speculator]:
    """One for each visit, after the prompt's pass and a speculation."""
    for prompt in cycle(prompts):
        speculator = Speculator(model, rules, prompt, size.k, size.fan_out, None)
        speculator.current = speculator.draft()
        while len(speculator.text) + size.k < len(prompt) + size.new_tokens:
            yield speculator


class Courier:
    """Messages of a rank with the moments of the clock, which ranks share, at which they left and came."""

    def __init__(self, mail: TokenMail) -> None:
        self._mail = mail
        self.left_s: list[float] = []
        self.waited_s: list[tuple[float, float]] = []

    def send(self, name: str, content: Speculation | Verified) -> None:
        self.left_s.append(time.perf_counter())
        self._mail.send(name, content)

    def receive(self, name: str) -> Any:
        start = time.perf_counter()
        content = self._mail.receive(name)
        self.waited_s.append((start, time.perf_counter()))
        return content


class TimedSteps(Record):
    """A rank's mean seconds of its steps, and when its messages left and others' came (waited for from, until)."""

    seconds: Mapping[str, float]
    left_s: Sequence[float] = ()
    waited_s: Sequence[tuple[float, float]] = ()

    @classmethod
    def of(cls, costs: Costs, courier: Courier | None = None) -> TimedSteps:
        seconds = {step: float(np.mean(visits)) for step, visits in costs.items()}
        return cls(seconds) if courier is None else cls(seconds, courier.left_s, courier.waited_s)


def under_way_s(sender: TimedSteps, receiver: TimedSteps) -> float:
    """Mean seconds of a message, from where it had left and was waited for until it was there."""
    return float(np.mean([until - max(left, since) for left, (since, until) in _passages(sender, receiver)]))


def taking_in_s(sender: TimedSteps, receiver: TimedSteps) -> float:
    """Seconds to take in messages that lay there already, which cost the receiver its own time; 0 for the others."""
    return float(
        np.mean([until - since if since > left else 0.0 for left, (since, until) in _passages(sender, receiver)])
    )


def _passages(sender: TimedSteps, receiver: TimedSteps) -> Iterator[tuple[float, tuple[float, float]]]:
    return zip(sender.left_s, receiver.waited_s, strict=True)
