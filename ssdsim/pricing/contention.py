"""Contention: two passes that run at the same time on devices of one kind slow each other down."""

from __future__ import annotations

from ssdsim.hardware.laws import NO_INTERFERENCE
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step


def slow_downs(site: Site, verify: Step, draft: Step) -> tuple[float, float]:
    """Factors by which a verification and drafting are slowed while both run.

    Devices of different profiles share nothing: both factors are 1. The draft's last pass stands for all its passes.
    """
    verifying, drafting = verify.passes[0], draft.passes[-1]
    interference = verifying.profile.interference
    if verifying.profile.name != drafting.profile.name or interference == NO_INTERFERENCE:
        return 1.0, 1.0
    shares = ((verifying, verify.seconds), (drafting, site.cost(drafting).seconds))
    return interference.factors(*(site.streaming_share(*each) for each in shares))


def stretches(verify_s: float, draft_s: float, target: float, draft: float) -> tuple[float, float]:
    """Factors by which a verification and drafting are stretched when they start together.

    While both run each is slower by its factor (``target``, ``draft``); when the shorter one is done the other goes on
    undisturbed.
    """
    if verify_s == 0.0 or draft_s == 0.0:
        return 1.0, 1.0
    if draft_s * draft <= verify_s * target:
        return 1.0 + draft_s * draft * (1.0 - 1.0 / target) / verify_s, draft
    return target, 1.0 + verify_s * target * (1.0 - 1.0 / draft) / draft_s


def beside_each_other(site: Site, verify: Step, draft: Step) -> tuple[Step, Step]:
    """Stretch a verification and drafting that start together; contention ends when the shorter one is done."""
    if not draft.passes:
        return verify, draft
    stretched = stretches(verify.seconds, draft.seconds, *slow_downs(site, verify, draft))
    return verify.stretched(stretched[0]), draft.stretched(stretched[1])


def always_beside(site: Site, verify: Step, draft: Step) -> tuple[Step, Step]:
    """Stretch a verification and a drafting step of sides that never pause: contention never ends."""
    if not draft.passes:
        return verify, draft
    slower = slow_downs(site, verify, draft)
    return verify.stretched(slower[0]), draft.stretched(slower[1])
