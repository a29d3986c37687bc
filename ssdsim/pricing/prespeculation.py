"""Drafting for the likely outcomes of a verification while it runs: what it takes, and how much of it fits."""

from __future__ import annotations

from ssdsim.pricing.contention import slow_downs, stretches
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step

MOST_OUTCOMES = 4096  # a sequence; the search for the budget ends there


def branches_per_device(budget: int, devices: int) -> int:
    """Several draft devices share the branches evenly, each with its own copy of the draft."""
    return -(-budget // devices)


def prespeculation(site: Site, drafter: Drafter, k: int, budget: int) -> Step:
    """The glue pass over ``b (K+1)`` tokens, and the K steps over the branch tokens of one draft device."""
    devices = site.options["draft_gpus"]
    return Step("draft", site.prespeculate(drafter, k, branches_per_device(budget, devices)), devices)


def beside_each_other(site: Site, verify: Step, draft: Step) -> tuple[Step, Step]:
    """A verification and drafting that start together, as slow as they are until the shorter one is done."""
    if not draft.passes:
        return verify, draft
    stretched = stretches(verify.seconds, draft.seconds, *slow_downs(site, verify, draft))
    return verify.stretched(stretched[0]), draft.stretched(stretched[1])


def always_beside(site: Site, verify: Step, draft: Step) -> tuple[Step, Step]:
    """A verification and a step of drafting, where both sides work without a pause."""
    if not draft.passes:
        return verify, draft
    slower = slow_downs(site, verify, draft)
    return verify.stretched(slower[0]), draft.stretched(slower[1])


def window_budget(site: Site, drafter: Drafter, k: int, drafting: Site | None = None, targets: int = 1) -> int:
    """The most outcomes a sequence that the draft can cache before the target's outcome arrives (at least K + 1).

    ``drafting`` has the draft's batch, where that is another. For several ``targets`` it works one after the other.

    By bisection, since the time of a branch step never falls with its tokens.
    """
    verify = site.verify_step("verify", k + 1)
    window_s = (verify.cost + site.sampling_step().cost + site.outcome_message(k + 1).cost).seconds

    def fits(budget: int) -> bool:
        return targets * prespeculation(drafting or site, drafter, k, budget).seconds <= window_s

    low, high = k + 1, MOST_OUTCOMES
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
