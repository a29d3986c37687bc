"""Acceptance and hit rates: each one's value, how well it is known, and its range.

One record for each input travels with its value: to the draws behind intervals, to tables, JSON, reports and exports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ssdsim.base.option import Group
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import DEFAULT, GIVEN, Settings
from ssdsim.question.measured_pair import chosen_in
from ssdsim.question.options import ALL, members
from ssdsim.question.supposed import PRIOR, PUBLISHED
from ssdsim.tokens.acceptance import one_rate
from ssdsim.tokens.accepted import is_forced
from ssdsim.tokens.priors import logit, moved

Standing = Literal["measured", "published", "given", "placeholder"]
Range = tuple[float, float]
ACCEPTANCE, HITS = "acceptance", "hits"
_RATES = ("p_hit", "p_hit_backup")  # which follow from a curve and a fan-out where nobody gives them
_TRACES = (".csv", ".jsonl")


class TokenInput(Record):
    """An option's value with its standing.

    ``measured``: of a pair or a trace; ``published``: of a card, somebody's text; ``given``: a user's word;
    ``placeholder``: nobody's, a default or the prior of its kind. ``rests_on`` names the pair with its set, temperature
    and positions, the text, or what the prior was fitted to. ``within`` is where it may lie, half of its draws on each
    side of the value: None is exactly there, or, of what was measured, where the measurement's own interval says.
    ``read_by`` are the strategies whose speed rests on it.
    """

    name: str
    value: Any
    standing: Standing
    rests_on: str
    within: Range | None = None
    read_by: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The thing to measure in order to know it: acceptance, or hits."""
        return HITS if Group.HITS in ALL[self.name].groups else ACCEPTANCE

    @property
    def middle(self) -> float:
        """The value, as one rate where it is one a position: that which a range is of."""
        return one_rate(self.value)

    def at(self, rate: float) -> Any:
        """The value where it is ``rate``: rates by position move together, in logits."""
        return rate if isinstance(self.value, int | float) else moved(self.value, logit(rate) - logit(self.middle))

    @property
    def is_open(self) -> bool:
        """Say whether it may lie anywhere in a range."""
        return self.within is not None and self.within[0] < self.within[1]


def token_inputs(settings: Settings, read: Iterable[str]) -> tuple[TokenInput, ...]:
    """The token inputs among the options that were ``read``."""
    wanted = frozenset(read)
    names = [name for name in members(Group.ACCEPTANCE) if name in wanted and settings[name] is not None]
    if not names:
        return ()
    ranges = {name: (low, high) for name, low, high in settings["ranges"] or ()}
    inputs = (_input(name, settings, ranges) for name in names)
    return tuple(each for each in inputs if each is not None)


def _input(name: str, settings: Settings, ranges: Mapping[str, Range]) -> TokenInput | None:
    value, source = settings[name], settings.source(name)
    if source == DEFAULT:
        plausible = ALL[name].plausible  # without one it is no guess: random tokens are never accepted
        return None if plausible is None else TokenInput(name, value, "placeholder", "a default", plausible)
    if name == "acceptance" and not is_forced(value):
        trace = Path(value).suffix in _TRACES
        return TokenInput(name, value, "measured" if trace else "published", f"the trace {value}" if trace else value)
    if source == GIVEN:
        return TokenInput(name, value, "given", "given", ranges.get(name))
    if source.startswith(PUBLISHED):
        return TokenInput(name, value, "published", source.removeprefix(PUBLISHED), ranges.get(name))
    if source.startswith(PRIOR):
        return TokenInput(name, value, "placeholder", source, ranges.get(name))
    if name in _RATES:
        return None
    return TokenInput(name, value, "measured", _measured(name, settings))


def _measured(name: str, settings: Settings) -> str:
    """The pair's own words, and up to which position it knows acceptance."""
    pair = chosen_in(settings)
    positions = len(pair.findings.rates) if pair is not None and name == "alpha" else 0
    return settings.source(name) + (f", to K {positions}" if positions else "")


def by_standing(inputs: Iterable[TokenInput]) -> dict[Standing, list[str]]:
    """Names of inputs, from what is known best to what nobody knows; only the standings that there are."""
    names_by_standing: dict[Standing, list[str]] = {standing: [] for standing in get_args(Standing)}
    for each in inputs:
        names_by_standing[each.standing].append(each.name)
    return {standing: names for standing, names in names_by_standing.items() if names}


def merged_inputs(inputs: Mapping[str, Sequence[TokenInput]]) -> tuple[TokenInput, ...]:
    """The inputs of several strategies, by their names, each once with who reads it; in the order of the options."""
    token_inputs: dict[str, TokenInput] = {}
    for strategy, each in inputs.items():
        for one in each:
            known = token_inputs.get(one.name, replace(one, read_by=()))
            token_inputs[one.name] = replace(known, read_by=(*known.read_by, strategy))
    return tuple(token_inputs[name] for name in ALL if name in token_inputs)
