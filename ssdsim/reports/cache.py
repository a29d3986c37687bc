"""Queries of figures to strategies that look outcomes up in a cache."""

from __future__ import annotations

import numpy as np

from ssdsim.question.scenario import Scenario
from ssdsim.rounds.kernel import Kernel, Tokens


def mean_kernel(tokens: Tokens) -> Kernel:
    """A request's kernel, averaged over the kinds of requests where they differ."""
    if isinstance(tokens, Kernel):
        return tokens
    return Kernel(tokens.states, np.tensordot(tokens.weights / tokens.weights.sum(), tokens.p, 1))


def primary_hit_rate(scenario: Scenario) -> float:
    """P(the outcome is cached | the speculation was the primary's), in which state a sequence starts."""
    kernel = mean_kernel(scenario.tokens)
    misses = kernel.states.index(str(scenario.strategy.miss))
    return 1.0 - float(kernel.transitions[0, misses])
