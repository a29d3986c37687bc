"""Errors of acceptance and hit rates, propagated to a round; the cached outcomes are held.

Inputs that nobody measured are evaluated over their plausible range. Measured rates have 95 % intervals: all rates of
an interval move together, in logits for acceptance and by a factor on the misses for each hit curve, and averages of
rounds move with them linearly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.drafter import Drafter
from ssdsim.question.measured_pair import CURVES, chosen_in, curve_of, is_given
from ssdsim.question.token_inputs import ACCEPTANCE, HITS, TokenInput, token_inputs
from ssdsim.rounds.kernel import OFF, Averages, Mix, select, stack, tile
from ssdsim.strategies.protocols.hits import RATES
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.tokens.hit_rates import forget_derived_hits
from ssdsim.tokens.pair_choice import ChosenFindings
from ssdsim.tokens.priors import logit, moved

LOOKS = 64
"""Looks over the ranges, a stratum each: a Latin hypercube. Each meets as many draws of the timings' errors."""
ENDS = 128
"""Looks at ends, chosen by chance, alike for every seed: of four ranges they hold all corners but by bad luck."""


def look_values(each: TokenInput, errors: TimingErrors) -> Array:
    """Values of an input, in each of :data:`LOOKS` strata of its range."""
    return between(each, errors.strata(f"range of {each.name}", LOOKS))


def end_values(each: TokenInput) -> Array:
    """Values of an input in :data:`ENDS` looks, in each at one end of its range."""
    return between(each, np.random.default_rng([*each.name.encode()]).integers(0, 2, ENDS).astype(float))


def between(each: TokenInput, places: Array) -> Array:
    """Values at ``places`` (0 to 1) of a range, whose middle is the input's value: it is the median of what is drawn.

    Half of the draws lie below it, half above, however far each end is; they are denser about it than at a far end.
    """
    low, high = each.within or (each.middle, each.middle)
    middle = min(max(each.middle, low), high)
    below, above = middle - low, high - middle
    slope = 4.0 * below * above / (below + above) if high > low else 0.0  # where both halves meet: none kinks there
    way = places - 0.5
    far = np.where(way < 0.0, below, above)
    return np.asarray(middle + slope * way + np.sign(way) * 4.0 * way**2 * (far - slope / 2.0))


def look_of(draws: int) -> NDArray[np.intp]:
    """The number of the look that each draw takes: draws take turns at the strata."""
    return np.arange(draws) % LOOKS


def in_draws(each: TokenInput, errors: TimingErrors) -> Array:
    """An input's value in each draw."""
    return look_values(each, errors)[look_of(errors.draws)]


if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import HitLaw, Mean

_BOUNDS_SDS = 2.0 * 1.96  # standard deviations between the bounds of a 95 % interval
_SURE = 1e-6
_HITS = {"": "hits after a rejection", "_all": "hits after all were accepted", "_backup": "hits after a backup"}

Change = Mapping[str, Any]
"""Options that have other values, by their names."""

Changes = Mapping[str, Sequence[Any]]
"""Options that have other values in each of several cases, in columns."""

Shares = Mapping[str, FloatOrArray]
"""Of rounds, by the state in which they begin or end."""

Moves = Mapping[str, Averages]
"""Additions to the averages by one standard deviation, by direction."""


def each_of(changes: Changes) -> list[Change]:
    """The cases one by one."""
    return [dict(zip(changes, values, strict=True)) for values in zip(*changes.values(), strict=True)]


class Cases(Record):
    """Averages of rounds in several cases of changed options, in columns."""

    changes: Changes
    averages: Averages


class KnownTokens:
    """A strategy's tokens in a round, on which ``inputs`` these rest, and how they move with them.

    ``open`` are the inputs that may lie anywhere in a range, ``directions`` those in which a measured pair may err.
    """

    def __init__(self, settings: Settings, strategy: Strategy, drafter: Drafter) -> None:
        self.tokens = strategy.kernel(settings, drafter)
        own = frozenset(option.name for option in strategy.options)  # all that one without a drafter rests on
        self.inputs = token_inputs(settings, settings.reads if strategy.drafts else own)
        self.open = tuple(each for each in self.inputs if each.is_open)
        measured = strategy.drafts and settings["pair"] is not None
        self.directions = tuple(directions(settings, 1.0)) if measured else ()
        self.strategy, self.settings = strategy, settings.plain
        self._of = strategy, self.settings, drafter
        self._at_looks: dict[TimingErrors, Cases] = {}
        self._over: dict[tuple[Any, ...], Cases] = {}

    @property
    def is_sure(self) -> bool:
        """Say whether nothing about its tokens may be otherwise."""
        return not self.open and not self.directions

    @cached_property
    def moves(self) -> Moves:
        """The moves of its averages, by direction; none without a measured pair."""
        return moves(*self._of, self.directions)

    def over_ranges(self, errors: TimingErrors) -> Averages:
        """Columns with a number a draw, of looks over the ranges; as the averages are where none is open."""
        if not self.open:
            return self.tokens.averages
        return select(self.at_looks(errors).averages, look_of(errors.draws))

    def at_looks(self, errors: TimingErrors) -> Cases:
        """Looks over all ranges, of which each draw takes one."""
        if errors not in self._at_looks:
            changes = {each.name: [*map(each.at, look_values(each, errors).tolist())] for each in self.open}
            self._at_looks[errors] = self._computed(changes)
        return self._at_looks[errors]

    @cached_property
    def at_ends(self) -> Cases:
        """Looks at the ends of all ranges."""
        return self._computed({each.name: [*map(each.at, end_values(each).tolist())] for each in self.open})

    def over(self, changes: Changes) -> Cases:
        """Averages in any cases; remembered, since scenarios at other prices ask the same."""
        key = tuple((name, *values) for name, values in changes.items())
        if key not in self._over:
            self._over[key] = self._computed(changes)
        return self._over[key]

    def _computed(self, changes: Changes) -> Cases:
        """Cases from one kernel, or one by one where it does not take what changes in columns."""
        mixed = isinstance(self.tokens, Mix) and OFF in self.tokens.states  # each case starts in another state
        if mixed or not (self.strategy.in_columns and RATES.issuperset(changes)):
            return Cases(changes, self._one_by_one(changes))
        columns = {name: np.array(values).reshape(len(values), -1) for name, values in changes.items()}
        made = averages_under(*self._of, columns)
        made = made if self.strategy.free_running else replace(made, accepted=None)
        return Cases(changes, tile(made, len(next(iter(changes.values())))))

    def _one_by_one(self, changes: Changes) -> Averages:
        """Averages of all cases, each different one worked out once."""
        numbers: dict[tuple[tuple[str, Any], ...], int] = {}
        of = [numbers.setdefault(tuple(each.items()), len(numbers)) for each in each_of(changes)]
        made = [averages_under(*self._of, dict(change)) for change in numbers]
        return select(stack(made, self.strategy.free_running), np.array(of))


def moves(strategy: Strategy, settings: Settings, drafter: Drafter, uncertain: Iterable[Direction]) -> Moves:
    """The moves of a strategy's rounds with what is uncertain; ``settings`` are those that its kernel was made with."""
    averages: dict[str, Averages] = {}
    for each in uncertain:
        high, low = (averages_under(strategy, settings, drafter, change) for change in (each.up, each.down))
        averages[each.name] = Averages(
            (high.tokens_per_round - low.tokens_per_round) / 2.0,
            _half_between(low.inside, high.inside),
            _half_between(low.to, high.to),
            _lengths_between(low.accepted, high.accepted) if strategy.free_running else None,  # who alone reads them
        )
    return averages


def _half_between(low: Shares, high: Shares) -> Shares:
    """Half the difference of shares; either may have states that the other has not, such as trees of another size."""
    states = dict.fromkeys([*low, *high])
    return {state: (high.get(state, 0.0) - low.get(state, 0.0)) / 2.0 for state in states}


def _lengths_between(low: Array | None, high: Array | None) -> Array | None:
    return None if low is None or high is None else (high - low) / 2.0


def drawn(averages: Averages, by_direction: Moves, errors: TimingErrors) -> Averages:
    """The averages under each draw, columns that broadcast with them; as they are without directions."""
    if not by_direction:
        return averages
    tokens, inside, to = averages.tokens_per_round, dict(averages.inside), dict(averages.to)
    accepted = averages.accepted
    for name, move in by_direction.items():
        off = errors.standard_normal(name)
        tokens = tokens + move.tokens_per_round * off
        inside = {state: share + move.inside.get(state, 0.0) * off for state, share in inside.items()}
        to = {state: share + move.to.get(state, 0.0) * off for state, share in to.items()}
        if accepted is not None and move.accepted is not None:
            shift = np.nan_to_num(move.accepted)
            longer = [(0, 0)] * (shift.ndim - 1) + [(0, accepted.shape[-1] - shift.shape[-1])]
            accepted = accepted + np.pad(shift, longer) * off[..., None]
    return Averages(
        np.maximum(1.0, tokens),
        _shares(inside),
        _shares(to),
        None if accepted is None else _without_negatives(accepted),
        averages.shared,
    )


def _shares(made: Shares) -> Shares:
    """Shares of rounds that a linear move left, without negative ones: they are 1 together."""
    kept = {state: np.maximum(share, 0.0) for state, share in made.items()}
    whole = sum(kept.values())
    return {state: share / whole for state, share in kept.items()}


def _without_negatives(pmf: Array) -> Array:
    """The distribution that a linear move left, without its negative parts."""
    kept = np.maximum(pmf, 0.0)
    return np.asarray(kept / np.nansum(kept, axis=-1, keepdims=True))


def averages_under(strategy: Strategy, settings: Settings, drafter: Drafter, change: Change) -> Averages:
    """Averages of rounds where options are others, and the outcomes that are cached are held."""
    return strategy.kernel(settings_under(settings, change), drafter).averages


def settings_under(settings: Settings, change: Change) -> Settings:
    """A copy in which options are others, and the outcomes that are cached are held."""
    changed = settings.copy()
    for name, value in change.items():
        changed.settle(name, value, "moved")
    for outcomes, given in (("fan_outs", "fl"), ("fan_outs_after_miss", "flm")):
        if changed.get(outcomes) is not None:  # the cache was planned for what was measured
            changed.settle(given, changed[outcomes], "held")
    forget_derived_hits(changed, but=change)
    return changed


class Direction(Record):
    """Rates that move together: options with them so many standard deviations up and down. ``name`` is the file's."""

    what: str
    name: str
    up: Mapping[str, Any]
    down: Mapping[str, Any]

    @property
    def of(self) -> str:
        """The thing to measure in order to know them: acceptance, or hits."""
        return ACCEPTANCE if "alpha" in self.up else HITS


def directions(settings: Settings, sds: float) -> Iterator[Direction]:
    """Uncertain rates of a pair, ``sds`` standard deviations up and down; nothing without a pair."""
    chosen = chosen_in(settings)
    if chosen is None:
        return
    yield from _of_acceptance(settings, chosen, sds)
    if is_given(settings, "p_hit"):
        return
    for whose in CURVES:
        law = curve_of(chosen, whose, settings["pair_backup"])
        log_sd = 0.0 if law is None else _log_sd_of_misses(law)
        if log_sd > _SURE and settings.source(f"hit_c{whose}") == settings.source(f"hit_r{whose}"):
            up, down = (_missing(settings, whose, math.exp(sign * sds * log_sd)) for sign in (-1.0, 1.0))
            if up:
                yield Direction(_HITS[whose], f"hits{whose} of {chosen.name}", up, down)


def _of_acceptance(settings: Settings, chosen: ChosenFindings, sds: float) -> Iterator[Direction]:
    sd = _logit_sd(chosen.findings.alpha)
    if is_given(settings, "alpha") or sd <= _SURE:
        return
    up, down = (moved(settings["alpha"], sign * sds * sd) for sign in (1.0, -1.0))
    yield Direction("acceptance", f"acceptance of {chosen.name}", {"alpha": up}, {"alpha": down})


def _logit_sd(alpha: Mean) -> float:
    if alpha.low is None or alpha.high is None:
        return 0.0
    return (logit(alpha.high) - logit(alpha.low)) / _BOUNDS_SDS


def _log_sd_of_misses(law: HitLaw) -> float:
    """The log-sd of the miss rate: the median over the curve's points, or that of c."""
    sds = [
        (math.log(1.0 - low) - math.log(1.0 - high)) / _BOUNDS_SDS
        for _, _, low, high in law.curve or ()
        if low is not None and high is not None and 0.0 <= low < high < 1.0 - _SURE
    ]
    if sds:
        return float(np.median(sds))
    if law.c_interval is None or law.c_interval[0] <= 0.0:
        return 0.0
    return (math.log(law.c_interval[1]) - math.log(law.c_interval[0])) / _BOUNDS_SDS


def _missing(settings: Settings, whose: str, factor: float) -> dict[str, Any]:
    """The options of a curve with its misses times ``factor``; none where the curve is the default."""
    points, c = settings[f"hit_curve{whose}"], settings[f"hit_c{whose}"]
    if points is not None:
        return {f"hit_curve{whose}": tuple((f, max(0.0, 1.0 - (1.0 - h) * factor)) for f, h in points)}
    return {} if c is None else {f"hit_c{whose}": min(1.0, c * factor)}
