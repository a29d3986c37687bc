"""Words of a decision on deployments."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.advise.recommend.choice import Turn
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.answers.decision import Decision
from ssdsim.answers.verdict import title_of
from ssdsim.question.standing import ACCEPTANCE


def how_sure(decision: Decision[Deployment]) -> str:
    """``clear``, ``lean: 81 of 100``, ``toss-up with SD``, ``measure first: acceptance``."""
    share = decision.best_in[decision.chosen.shape.strategy]
    match decision.word:
        case "lean":
            return f"lean: {share:.0%}".replace("%", " of 100")
        case "toss-up" if decision.runner_up is not None:
            return f"toss-up with {decision.runner_up.title}"
        case "measure first" if decision.worth_knowing is not None:
            return f"measure {decision.worth_knowing}"
    return decision.word


def turn_text(turn: Turn) -> str:
    """``SSD wins only if acceptance is above 0.76 and hits are above 0.92``."""
    bounds = " and ".join(
        f"{what} {'is' if what == ACCEPTANCE else 'are'} {_bound(low, high)}"
        for what, (low, high) in turn.bounds.items()
    )
    return f"{title_of(turn.strategy)} wins only if {bounds}"


def _bound(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {high:.2f}"
    return f"above {low:.2f}" if high is None else f"in {low:.2f}-{high:.2f}"


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
