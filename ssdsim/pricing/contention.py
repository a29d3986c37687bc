"""Contention: two passes that run at the same time on devices of one kind, or on one device, slow each other down."""

from __future__ import annotations

import numpy as np

from ssdsim.hardware.laws import NO_INTERFERENCE
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step

# Verification of llama-3.1-8b at K 5 beside five drafts of llama-3.2-1b on two streams of one GPU, which priorities of
# streams do not change; 0.27 and 0.21 where the drafts had branches (docs/validation.md).
OVERLAP = ((1, 0.29), (16, 0.24), (64, 0.14))
"""Share of the shorter of two passes that one device hides of them, by the sequences of a pass: of an H100."""
_OF_DEVICE = "NVIDIA H100 80GB HBM3"
_OVERLAP_SD, _ELSEWHERE_SD = 0.1, 0.25  # of the share: with other models and K, and where nobody measured it


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


def on_one_device(site: Site, verify: Step, draft: Step, overlap: float | None = None) -> tuple[Step, Step]:
    """Stretch a verification and drafting that start together on the same device: there they end together, too.

    They take ``long + (1 - overlap) short`` of their times alone. Where the ``overlap`` is not given it is what was
    measured, with its error. Nothing is hidden behind the host's work after a pass: nobody measured that.
    """
    short_s, long_s = sorted(each.seconds for each in (verify, draft))
    if short_s == 0.0:
        return verify, draft
    share = overlap_of(site.batch) if overlap is None else overlap
    both_s = long_s + (1.0 - share) * short_s
    verify, draft = (each.stretched(both_s / each.seconds) for each in (verify, draft))
    if overlap is not None:
        return verify, draft
    share_sd, told = _known_of_overlap(site)
    moved = "overlap on one device", share_sd * short_s / both_s
    return verify.off_by(*moved).warning(told), draft.off_by(*moved)


def overlap_of(batch: int) -> float:
    """Measured share at a batch: linear in its logarithm, falling on beyond the last batch."""
    batches, shares = np.log([b for b, _ in OVERLAP]), [share for _, share in OVERLAP]
    slope = (shares[-1] - shares[-2]) / (batches[-1] - batches[-2])
    beyond = max(0.0, float(np.log(batch) - batches[-1]))
    return max(0.0, float(np.interp(np.log(batch), batches, shares)) + float(slope) * beyond)


def _known_of_overlap(site: Site) -> tuple[float, str]:
    """The share's standard deviation at a site, and what it rests on."""
    batches, shares = (", ".join(f"{each:g}" for each in column) for column in zip(*OVERLAP, strict=True))
    told = f"--draft-devices shared: one H100 hid {shares} of the shorter pass at batch {batches} (8B, 1B, K 5)"
    beyond = [f"batch {site.batch}"] if site.batch > OVERLAP[-1][0] else []
    if not site.unit_free:
        beyond += [site.profile.name] if site.profile.device.name != _OF_DEVICE else []
        beyond += [f"tp {site.tp}"] if site.tp > 1 else []
    if not (beyond or site.unit_free):
        return _OVERLAP_SD, told
    where = " and ".join(beyond) or "an unknown device"
    return _ELSEWHERE_SD, f"{told}; extrapolated to {where}"


def always_beside(site: Site, verify: Step, draft: Step) -> tuple[Step, Step]:
    """Stretch a verification and a drafting step of sides that never pause: contention never ends."""
    if not draft.passes:
        return verify, draft
    slower = slow_downs(site, verify, draft)
    return verify.stretched(slower[0]), draft.stretched(slower[1])
