"""Conditions on measurable inputs under which the runner-up is the faster, such as acceptance above 0.76."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from ssdsim.answers.decision import Candidate, Decision, Key, if_known
from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import LOOKS, in_draws
from ssdsim.question.token_inputs import ACCEPTANCE, HITS

_TOLD = 0.9  # of the draws that a rule has to get right
_HALVED = 0.5  # a condition makes at most half the errors of always naming the same winner
_SIMPLER = 0.03  # of the draws by which two conditions must be better than one


class Bound(Record):
    """A condition on an input: ``above`` or below a value."""

    what: str
    above: bool
    value: float

    def __str__(self) -> str:
        verb = "are" if self.what == HITS else "is"
        return f"{self.what} {verb} {'above' if self.above else 'below'} {self.value:.2g}"


def conditions(bounds: Iterable[Bound]) -> str:
    """``acceptance is above 0.76 and hits are above 0.92``."""
    return " and ".join(map(str, bounds))


def measurable(scenarios: Iterable[Scenario], errors: TimingErrors) -> dict[str, Array]:
    """Acceptance and the rate of hits in each draw, where they lie in a range: as who measures them sees them."""
    found: dict[str, Array] = {}
    for each in scenarios:
        for one in each.known.open:
            if one.name == "alpha":
                found[ACCEPTANCE] = in_draws(one, errors)
        if each.strategy.miss_state is not None and any(one.what == HITS for one in each.known.open):
            drawn = replace(each.round, averages=each.known.over_ranges(errors))
            found[HITS] = np.broadcast_to(np.asarray(each.strategy.closed_form(drawn).p_hit), errors.draws)
    return found


def turning(
    decision: Decision[Key],
    candidates: Iterable[Candidate[Key]],
    speeds: Mapping[Key, Draws],
    inputs: Mapping[str, Array],
) -> tuple[Bound, ...]:
    """The conditions on inputs under which the next strategy is the faster in most draws; none where all is clear.

    Settings follow the inputs: each strategy has those that would be best if they were known.
    """
    if decision.runner_up is None or decision.word == "clear" or not inputs:
        return ()
    strategy_of = {each.key: each.strategy for each in candidates}
    values, sides = np.stack([*inputs.values()], axis=-1), []
    for key in (decision.chosen, decision.runner_up):
        logs = np.stack([np.log(of) for each, of in speeds.items() if strategy_of[each] == strategy_of[key]])
        sides.append(np.take_along_axis(logs, if_known(logs, values).argmax(axis=0)[None], axis=0)[0])
    lead = sides[1] - sides[0]
    level = if_known(lead[None], values)[0]
    wins = (level + np.median(lead - level))[:LOOKS] > 0.0
    return bounds_of(wins.astype(float), {name: of[:LOOKS] for name, of in inputs.items()})


def bounds_of(wins: Array, inputs: Mapping[str, Array]) -> tuple[Bound, ...]:
    """One or two conditions on inputs that tell where one side wins; none where no two do.

    ``wins`` are the shares of draws that it wins at each place of the inputs.
    """
    always = max(float(wins.mean()), 1.0 - float(wins.mean()))
    of_each = [_conditions(name, values) for name, values in inputs.items() if np.ptp(values) > 0.0]
    found: list[tuple[float, tuple[Bound, ...]]] = [(0.0, ())]
    for bounds, holds in of_each:
        right = _right(holds, wins)
        at = int(right.argmax())
        found.append((float(right[at]), (bounds[at],)))
    right_of_one, one = max(found, key=lambda each: each[0])
    for (some, holds), (others, its) in combinations(of_each, 2):
        right = _right((holds[:, None] * its[None]).reshape(-1, len(wins)), wins)
        at = int(right.argmax())
        if right[at] > right_of_one + _SIMPLER:
            right_of_one, one = float(right[at]), (some[at // len(others)], others[at % len(others)])
    return one if right_of_one >= max(_TOLD, 1.0 - _HALVED * (1.0 - always)) else ()


def _right(holds: Array, wins: Array) -> Array:
    """The share of draws in which each condition (a row) says who wins."""
    return np.asarray(1.0 - wins.mean() + (holds @ (2.0 * wins - 1.0)) / len(wins))


def _conditions(name: str, values: Array) -> tuple[list[Bound], Array]:
    """Conditions, and where they hold: a row each."""
    ordered = np.unique(values)
    thresholds = (ordered[1:] + ordered[:-1]) / 2.0
    above = (values > thresholds[:, None]).astype(float)
    bounds = [Bound(name, higher, value) for higher in (True, False) for value in thresholds.tolist()]
    return bounds, np.concatenate([above, 1.0 - above])
