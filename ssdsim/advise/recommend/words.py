"""Words of a decision on deployments."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.answers.decision import SURE_SHARE, Decision


def how_sure(decision: Decision[Deployment]) -> str:
    """``clear``, ``clear (loses 1 %)``, ``lean: 81 of 100``, ``toss-up with SD``, ``measure first: acceptance``."""
    share = decision.ahead_in
    match decision.word:
        case "clear" if share < SURE_SHARE:
            return f"clear (loses {percents([decision.loss.mean])})"
        case "lean":
            return f"lean: {share:.0%}".replace("%", " of 100")
        case "toss-up" if decision.runner_up is not None:
            return f"toss-up with {decision.runner_up.title}"
        case "measure first" if decision.worth_knowing is not None:
            return f"measure {decision.worth_knowing}"
    return decision.word


def losses(decisions: Sequence[Decision[Deployment]]) -> str:
    """``4-6 %``: what the choices lose on average."""
    return percents([each.loss.mean for each in decisions])


def percents(shares: Sequence[float]) -> str:
    """``4 %``, or ``4-6 %``."""
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return f"{low} %" if low == high else f"{low}-{high} %"


def span(numbers: Sequence[int]) -> str:
    """``16``, or ``1-16``."""
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
