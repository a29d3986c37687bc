"""Acceptance rules: how an engine tests drafted tokens, and how much more than the token rule each accepts.

The token rule tests one token after the other, by rejection sampling. Another rule multiplies the odds that a token is
accepted, given that all before it were, by one factor of at least 1. So a round never yields more than K + 1 tokens,
nor fewer than with the token rule.
"""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card
from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.documents import as_record, read_toml

TOKEN = "token"
_MOST = 1e3
"""The largest factor: a rule that accepts all has none."""

Times = Annotated[float, Meta(ge=1.0)]
"""How many times the tokens of a round with the token rule."""
Setting = tuple[Annotated[int, Meta(ge=1)], Annotated[float, Meta(gt=0.0, lt=1.0)], Times, Times]
"""A lookahead, an acceptance rate with the token rule, and the least and the most of what was published there."""


class AcceptanceRule(Card):
    """A rule with what was published of it.

    ``exact``: the target's distribution is kept. ``same`` is the token of a draft that is accepted as often as by the
    token rule: the ``first`` by an exact one, since draft and target cannot agree on it more often; the ``last`` where
    the tokens behind decide. ``of_sampling``: it gains nothing where target or draft do not sample, and was published
    at temperature 1.
    """

    name: str
    title: str
    exact: bool
    same: Literal["first", "last", "none"]
    source: str
    settings: Annotated[tuple[Setting, ...], Meta(min_length=1)]
    of_sampling: bool = False

    @cached_property
    def odds(self) -> tuple[float, float, float]:
        """The factor on the odds: the lowest, the median and the highest of the settings."""
        lows = [self.factor(k, rate, low) for k, rate, low, _ in self.settings]
        middles = [self.factor(k, rate, (low * high) ** 0.5) for k, rate, low, high in self.settings]
        highs = [self.factor(k, rate, high) for k, rate, _, high in self.settings]
        return min(lows), float(np.median(middles)), max(highs)

    def factor(self, k: int, rate: float, times: float) -> float:
        """The factor with which rounds of that acceptance rate yield ``times`` the tokens, by bisection."""
        rates = np.full(k, rate)
        wanted, low, high = times * _tokens(rates), 1.0, _MOST
        while low < (middle := (low * high) ** 0.5) < high:
            low, high = (middle, high) if _tokens(self.rates(rates, middle)) < wanted else (low, middle)
        return low if times == 1.0 else high

    def rates(self, rates: Array, odds: FloatOrArray) -> Array:
        """Acceptance rates by position (last axis) where the token rule's are ``rates``; ``odds`` broadcast."""
        more = np.asarray(odds * rates / (1.0 - rates + odds * rates))
        kept = {"first": slice(0, 1), "last": slice(-1, None), "none": slice(0, 0)}[self.same]
        more[..., kept] = rates[..., kept]
        return more


def _tokens(rates: Array) -> float:
    return 1.0 + float(np.cumprod(rates).sum())


@cache  # with its odds, which a grid asks for at every point
def _load(path: Path) -> AcceptanceRule:
    return as_record(AcceptanceRule, read_toml(path, "acceptance rule"), path, "acceptance rule")


RULES = Shelf("acceptance rule", "rules", ".toml", _load)
"""The rules beside the token rule."""
