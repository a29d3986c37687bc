"""The search for another K that would turn a verdict whose K nobody chose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssdsim import strategies
from ssdsim.answers.verdict import Verdict
from ssdsim.base.settings import DEFAULT
from ssdsim.question.configuration import Configuration
from ssdsim.question.given import possible
from ssdsim.question.many import estimate
from ssdsim.question.points import Points
from ssdsim.rounds.estimate import Estimate

_LOOKED_AT = (1, 3)  # beside the default, where a long draft does not pay: each costs some milliseconds
_RIVALS = 2  # the fastest ones
_Rate = tuple[float, int]
"""A rate in tokens/s, and the K that it is of."""


def other_k(configuration: Configuration, verdict: Verdict, estimates: Mapping[str, Estimate]) -> str:
    """``K 6 is only the default``: who leads with each strategy at the best of some Ks, where that is another one.

    Empty where K was given, follows from something else, or costs no time that is known (without hardware).
    """
    settings = configuration.settings
    if configuration.site is None or "k" not in settings or settings.source("k") != DEFAULT or not verdict.over:
        return ""
    now = {name: (float(each.tokens_per_second), int(settings["k"])) for name, each in estimates.items()}
    subject, rivals = verdict.subject, sorted(verdict.over, key=now.__getitem__)[-_RIVALS:]
    best = _at_the_best_k(configuration, {name: now[name] for name in (subject, *rivals)})
    default = f"K {settings['k']} is only the default"
    before, after = (max(rivals, key=rates.__getitem__) for rates in (now, best))
    if (now[subject] > now[before]) == (best[subject] > best[after]):
        return f"{default}; ssdsim recommend searches it."
    ratio = best[subject][0] / best[after][0]
    turned = f"{_at(subject, best)} is {ratio:.2f}x {_at(after, best)}"
    return f"{default}, and turns this: {turned}; ssdsim recommend searches it."


def _at(name: str, rates: Mapping[str, _Rate]) -> str:
    strategy = strategies.ALL.named(name)
    return f"{strategy.title} at K {rates[name][1]}" if strategy.drafts else strategy.title


def _at_the_best_k(configuration: Configuration, now: Mapping[str, _Rate]) -> dict[str, _Rate]:
    """Each strategy's rate at the best of the Ks, the one that it has ``now`` among them."""
    points = Points([{**configuration.given, "k": k} for k in _LOOKED_AT])
    rows, best = possible(points.errors), dict(now)
    for name in now:
        if "k" in configuration.scenarios[name].reads and len(found := points.of_strategy(name, rows)):
            rates = np.atleast_1d(estimate(found.side_by_side).tokens_per_second)
            best[name] = max(now[name], *((float(rates[at]), _LOOKED_AT[row]) for at, row in enumerate(found.rows)))
    return best
