"""Two passes that run at the same time on devices of one kind slow each other down."""

from __future__ import annotations

from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass


def slow_downs(site: Site, one: tuple[Pass, float], other: tuple[Pass, float]) -> tuple[float, float]:
    """Factors by which each of two passes, given with its seconds, is slowed while both run.

    Two profiles do not know of each other: devices of different kinds share nothing.
    """
    interference = one[0].profile.interference
    if one[0].profile.name != other[0].profile.name or interference.is_none:
        return 1.0, 1.0
    return interference.factors(site.streaming_share(*one), site.streaming_share(*other))


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
