"""The one rule by which every verb chooses: the highest mean log speed over the draws of all that is not known.

What is told of a choice is its *loss*: by how much it is slower, on average over the draws, than the best that could
be known. The order of two does not depend on a third, and the unit of speed does not matter. Whoever is within 1 % of
the best shares its place; of those the simplest is chosen. Each strategy is chosen from at its own best, which is
found by the same rule: so who else is compared does not change a strategy's settings.

A choice has a **word**, the first of these that holds:

* ``clear``: with its own settings it is faster than every other strategy in 95 of 100 draws, or it loses up to 2 %.
* ``measure first``: to know one input before deciding would gain more than 5 %.
* ``lean``: it loses up to 5 % and is so in half of the draws, or all others lose over 3 points more.
* ``toss-up``: else: the best of another strategy loses at most 3 points more, so it hardly matters.

The bars of ``clear`` were held against published speed-ups: ``benchmarks/first_answer.py``, docs/how-to/acceptance.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np

from ssdsim import strategies
from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws, median, quantiles
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import RateDraws
from ssdsim.question.token_errors import KnownTokens, in_draws

Key = TypeVar("Key", bound=Hashable)
Rule = Literal["mean-log", "point", "expected", "fastest"]
Word = Literal["clear", "lean", "toss-up", "measure first"]
RULES: tuple[Rule, ...] = get_args(Rule)

TIED = 0.01  # of log speed: as good as the best
SURE_SHARE, SURE_LOSS = 0.95, 0.02
LEAN_SHARE, LEAN_LOSS = 0.5, 0.05
TOSS_UP = 0.03  # points of loss between the two best
WORTH_KNOWING = 0.05
_DEGREES = {1: 3, 2: 2}  # of the polynomial in an input of so many numbers; 1 in more
_DEPENDENT = 1e-9


class Candidate(Record, Generic[Key]):
    """What may be chosen; of ties the least ``simplicity`` is."""

    key: Key
    strategy: str
    gpus: float
    simplicity: tuple[Any, ...]

    @classmethod
    def of(cls, key: Key, strategy: str, gpus: float, *settings: float) -> Candidate[Key]:
        """One that ties order by fewer GPUs, then AR, SD, SSD, the rest, then smaller ``settings``, such as K.

        What switches between strategies comes with the last of them.
        """
        names = strategies.ALL.names
        order = names.index(strategy) if strategy in names else len(names) - 1
        return cls(key, strategy, gpus, (gpus, order, *settings))


class Loss(Record):
    """By which share a choice is slower than the best that could be known: on average, and in 1 of 20 draws."""

    mean: float
    worst_1_in_20: float


class Decision(Record, Generic[Key]):
    """What is chosen, and how sure that is.

    ``best_of`` is the best of each strategy. ``ahead_in`` is the share of draws in which the chosen one, with the
    settings that it has, is faster than all candidates of other strategies; ``best_in`` is the share in which one of a
    strategy's candidates is the best of all. ``losses`` are the mean losses of all candidates, ``by_rule`` what other
    rules choose, and ``gain_of_knowing`` is the expected log speed that is gained by deciding after an input is known.
    ``runner_up`` is the best candidate of another strategy.
    """

    chosen: Key
    best_of: Mapping[str, Key]
    loss: Loss
    ahead_in: float
    best_in: Mapping[str, float]
    losses: Mapping[Key, float]
    by_rule: Mapping[Rule, Key]
    gain_of_knowing: Mapping[str, float]
    word: Word
    runner_up: Key | None
    rule: Rule = "mean-log"

    @property
    def worth_knowing(self) -> str | None:
        """The input whose knowledge gains most; None where nothing gains."""
        gain, name = max(((gain, name) for name, gain in self.gain_of_knowing.items()), default=(0.0, None))
        return name if gain > 0.0 else None


def decide(
    candidates: Iterable[Candidate[Key]],
    draws: Mapping[Key, Draws],
    known: Mapping[str, Array] = MappingProxyType({}),
    rule: Rule = "mean-log",
    points: Mapping[Key, float] | None = None,
) -> Decision[Key]:
    """Choose among ``candidates``.

    Parameters
    ----------
    draws : of each candidate's speed (or of what it is ranked by), the same draws for all; any number of them.
    known : by input, its value in each draw; two axes ``(draws, numbers)`` where an input is several numbers.
    rule : ``mean-log``, the rule; or the highest ``point``, the highest ``expected`` speed, or the ``fastest`` in the
        most draws.
    points : the speeds at the values that are shown; by default the medians of the draws.
    """
    every, of = [*candidates], dict[str, list[int]]()
    for i, each in enumerate(every):
        of.setdefault(each.strategy, []).append(i)
    speeds = np.stack([np.atleast_1d(draws[each.key]) for each in every])
    logs, best = np.log(speeds), speeds.max(axis=0)
    wins = speeds == best
    shares = (wins / wins.sum(axis=0)).mean(axis=1)
    losses = 1.0 - speeds / best
    scores = {
        "mean-log": logs.mean(axis=1),
        "point": median(speeds) if points is None else np.array([points[each.key] for each in every]),
        "expected": speeds.mean(axis=1),
        "fastest": shares,
    }

    def pick(by: Rule, among: Iterable[int]) -> int:
        numbers = [*among]
        return simplest(every, scores[by], numbers) if by == "mean-log" else max(numbers, key=scores[by].__getitem__)

    own = {by: {name: pick(by, numbers) for name, numbers in of.items()} for by in RULES}
    by_rule = {by: pick(by, own[by].values()) for by in RULES}
    at = by_rule[rule]
    others = [i for name, i in own[rule].items() if name != every[at].strategy]
    second = pick(rule, others) if others else None
    best_in = {name: float(shares[numbers].sum()) for name, numbers in of.items()}
    gains = {name: _gain(logs, values) for name, values in known.items()}
    mean = losses.mean(axis=1)
    (worst,) = quantiles(losses[at], 0.95)
    behind = None if second is None else float(mean[second] - mean[at])
    rivals = [i for i, each in enumerate(every) if each.strategy != every[at].strategy]
    ahead_in = share_fastest(speeds[at], [*speeds[rivals]]) if rivals else 1.0
    return Decision(
        every[at].key,
        {name: every[i].key for name, i in own[rule].items()},
        Loss(float(mean[at]), float(worst)),
        float(ahead_in),
        best_in,
        {each.key: float(loss) for each, loss in zip(every, mean, strict=True)},
        {by: every[i].key for by, i in by_rule.items()},
        gains,
        _word(float(mean[at]), float(ahead_in), behind, max(gains.values(), default=0.0)),
        None if second is None else every[second].key,
        rule,
    )


def knowable(known: Iterable[KnownTokens], errors: TimingErrors) -> dict[str, Array]:
    """By what to measure (acceptance, hits), the values of its inputs in each draw: a column an input."""
    columns: dict[str, dict[str, Array]] = {}
    for each in known:
        for one in each.open:
            columns.setdefault(one.what, {})[one.name] = in_draws(one, errors)
        for way in each.directions:
            columns.setdefault(way.of, {})[way.name] = errors.standard_normal(way.name)
    return {what: np.stack([*of.values()], axis=-1) for what, of in columns.items()}


def knowable_timings(draws: Iterable[RateDraws]) -> dict[str, Array]:
    """How fast each strategy's passes are in each draw, which timing them would tell; empty without draws."""
    columns = [np.log(each.timings) for each in draws]
    return {"timings": np.stack(columns, axis=-1)} if columns else {}


def _word(loss: float, share: float, behind: float | None, gain: float) -> Word:
    """The first word that holds; ``behind`` is by how much more the best of another strategy loses."""
    if share >= SURE_SHARE or loss <= SURE_LOSS:
        return "clear"
    if gain > WORTH_KNOWING:
        return "measure first"
    apart = behind is None or behind > TOSS_UP
    return "lean" if apart or (loss <= LEAN_LOSS and share >= LEAN_SHARE) else "toss-up"


def simplest(every: Sequence[Candidate[Key]], mean_logs: Array | Sequence[float], numbers: Sequence[int]) -> int:
    """The number of the simplest of those that are tied with the best; of equals the better."""
    best = max(float(mean_logs[i]) for i in numbers)
    tied = [i for i in numbers if mean_logs[i] >= best - TIED]
    return min(tied, key=lambda i: (every[i].simplicity, -mean_logs[i]))


def _gain(logs: Array, values: Array) -> float:
    """The expected log speed gained by choosing after an input is known."""
    over_best = if_known(logs, values) - logs.mean(axis=1).max()
    return max(0.0, float(over_best.max(axis=0).mean()))


def if_known(logs: Array, values: Array) -> Array:
    """The expected log speed of each candidate, in each draw, if an input had the value that it has there.

    It is a polynomial in the input: what the rest does averages out. (Bins of draws would take the luck of few draws
    for knowledge.)
    """
    basis = _basis(values.reshape(len(values), -1))
    middle = logs.mean(axis=1, keepdims=True)
    return np.asarray(middle + ((logs - middle) @ basis) @ basis.T)


def _basis(columns: Array) -> Array:
    """Orthonormal columns that span all polynomials of an input's numbers without a constant."""
    spread = columns.std(axis=0)
    moving = ((columns - columns.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))[:, spread > _DEPENDENT]
    numbers = range(moving.shape[1])
    degrees = range(1, _DEGREES.get(len(numbers), 1) + 1)
    terms = [each for degree in degrees for each in combinations_with_replacement(numbers, degree)]
    powers = np.stack([moving[:, each].prod(axis=1) for each in terms], axis=-1) if terms else moving
    q, r = np.linalg.qr(powers - powers.mean(axis=0))
    return np.asarray(q[:, np.abs(np.diag(r)) > _DEPENDENT * len(columns)])


def share_fastest(subject: Draws, rivals: Sequence[Draws]) -> Any:
    """The share of draws (along the last axis) in which the subject is the fastest; ties are shared equally."""
    sides = np.stack([subject, *rivals])
    fastest = sides == sides.max(axis=0)
    return np.mean(fastest[0] / fastest.sum(axis=0), axis=-1)
