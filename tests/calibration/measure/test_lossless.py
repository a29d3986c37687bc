"""Real loops of the strategies' programs keep the target's tokens; broken ones are found out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.pairs.measure.checks import SIGNIFICANT, SamplingCheck, compare_greedy, sampled
from calibration.pairs.measure.loop import SEPARATE_ROLES, Loop, Way
from calibration.pairs.measure.verification import EVERYTHING, Cut, Probabilities, Rules, Speculation, Verified, softmax
from ssdsim import strategies
from ssdsim.strategies import drafters
from tests.calibration.measure.chains import MarkovChain, chain_pair
from tests.refusals import refused

PAIR = chain_pair()
WAYS = [Way("ar"), Way("sd", 5), *(Way("ssd", 4, 3, backup) for backup in ("jit", "random", "ngram:2", "suffix"))]


NO_CUTS = EVERYTHING, EVERYTHING


def checked(
    way: Way, rules: type[Rules], tokens: int = 2_000, c: float = 1.0, cuts: tuple[Cut, Cut] = NO_CUTS
) -> SamplingCheck:
    """Sampled tokens of one long text."""
    rng = np.random.default_rng(3)
    play = Loop(*PAIR, way, rules(1.0, rng, c, way.fan_out, cuts)).play([3], tokens)
    return sampled(PAIR[0], [([3], play.tokens)], Rules(1.0, rng, cuts=cuts), PAIR[1], 0)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)
def test_greedy_tokens_are_the_targets_own(way: Way) -> None:
    own = [Loop(*PAIR, Way("ar"), Rules(0.0, np.random.default_rng(0))).play([i], 40).tokens for i in range(10)]
    loop = [Loop(*PAIR, way, Rules(0.0, np.random.default_rng(0))).play([i], 40).tokens for i in range(10)]
    check = compare_greedy(PAIR[0], [[i] for i in range(10)], own, loop, 1e-6)
    assert (check.identical, check.near_ties, check.bugs, check.first) == (10, 0, 0, None)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)
def test_sampled_tokens_have_the_targets_distribution(way: Way) -> None:
    assert checked(way, Rules).passed


@pytest.mark.long
def test_a_rescaled_draft_that_is_tested_as_it_was_drawn_keeps_the_distribution() -> None:
    assert checked(Way("ssd", 4, 3, c=0.3), Rules, c=0.3).passed


@pytest.mark.long
@pytest.mark.parametrize("draft", [Cut(0.7), EVERYTHING], ids=["same", "raw"])
def test_what_a_sampler_leaves_out_stays_out(draft: Cut) -> None:
    """The tokens have the distribution that is left, whatever the draft's sampler leaves."""
    way, cuts = Way("ssd", 4, 3, "ngram:2"), (Cut(0.7), draft)
    assert checked(way, Rules, cuts=cuts).passed
    assert not checked(way, Uncut, cuts=cuts).passed


class Uncut(Rules):
    """The target's sampler leaves everything."""

    def target(self, logits: NDArray[Any]) -> Probabilities:
        return softmax(logits, self.temperature)


class BonusFromTheTarget(Rules):
    """The token after a rejection comes from p in place of the residual."""

    def after_rejection(self, p: Probabilities, q: Probabilities) -> Probabilities:
        return p


class PlainDraftTested(Rules):
    """Saguaro's draft is drawn from, but its tokens are tested against the plain one."""

    def drafted(self, logits: NDArray[Any]) -> tuple[list[int], Probabilities]:
        return self.draw(self.draft(logits)), softmax(logits, self.temperature)


class ArgmaxOnAMiss(Rules):
    """What an engine does where a fast backup answers a miss: accept the likeliest token, else draw from p."""

    def verify(self, speculation: Speculation, target: Probabilities) -> Verified:
        if not speculation.backup:
            return super().verify(speculation, target)
        for i, token in enumerate(speculation.tokens):
            if token != int(target[i].argmax()):
                return Verified(i, self.draw(target[i][None])[0])
        return Verified(len(speculation.tokens), self.draw(target[-1:])[0])


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        partial(checked, Way("sd", 5), BonusFromTheTarget),
        partial(checked, Way("ssd", 4, 3), PlainDraftTested, c=0.3),
        partial(checked, Way("ssd", 4, 1, "ngram:2"), ArgmaxOnAMiss),
    ],
    ids=["bonus from p", "plain q", "argmax on a miss"],
)
def test_broken_samplers_are_found_out(broken: Callable[[], SamplingCheck]) -> None:
    assert broken().p < SIGNIFICANT


class _Shaky(MarkovChain):
    """Logits that differ a little with the size of the pass."""

    def __init__(self, logits: NDArray[np.float32], by: float) -> None:
        super().__init__(logits)
        self.by = by

    def after(self, text: Any, last: int) -> NDArray[Any]:
        after = np.array(super().after(text, last))
        if last > 1:
            after[:, 1] += self.by
        return after


def test_a_near_tie_is_told_from_a_bug() -> None:
    logits = np.zeros((3, 3), dtype=np.float32)
    logits[:, 0], logits[:, 1] = 1.0, 1.0 - 1e-5
    target, draft = _Shaky(logits, 1e-4), MarkovChain(np.eye(3, dtype=np.float32))
    loop = Loop(target, draft, Way("sd", 2), Rules(0.0, np.random.default_rng(0))).play([2], 6)
    own = Loop(target, draft, Way("ar"), Rules(0.0, np.random.default_rng(0))).play([2], 6)
    assert loop.tokens != own.tokens
    near = compare_greedy(target, [[2]], [own.tokens], [loop.tokens], 1e-3)
    assert (near.identical, near.near_ties, near.bugs) == (0, 1, 0)
    assert near.first is not None
    bug = compare_greedy(target, [[2]], [own.tokens], [loop.tokens], 1e-6)
    assert (bug.near_ties, bug.bugs) == (0, 1)
    assert bug.largest_gap == pytest.approx(1e-5, rel=0.1)


def test_a_strategy_without_a_loop_is_refused() -> None:
    with refused("pearl"):
        Way("pearl")


@pytest.mark.parametrize("strategy", ["ar", "sd", "ssd"])
def test_real_loops_have_every_option_that_programs_read(strategy: str) -> None:
    """A later option, --pp, was none of theirs: KeyError."""
    roles = strategies.ALL.named(strategy).programs(SEPARATE_ROLES, drafters.ALL.named("model"))
    assert roles.keys() == ({"target"} if strategy == "ar" else {"target", "draft"})
