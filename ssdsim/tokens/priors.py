"""What is supposed of acceptance where nobody measured it, by kind of drafter and of text: fitted to published sets.

``benchmarks/acceptance_priors.py`` makes the card, ``models/priors/acceptance.toml``. Spreads and moves are in logits.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from msgspec import Meta

from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card
from ssdsim.base.documents import as_record, read_toml
from ssdsim.tokens.drafter_card import Rate, Text

TEXTS: tuple[Text, ...] = get_args(Text)
MIXED: Text = "mixed"
BELOW, ABOVE = 3.0, 2.0
"""Spreads from a value to the ends of its range: what is published are drafters that worked."""
Triple = Annotated[tuple[Rate, Rate, Rate], Meta(description="low, median, high")]
_SURE = 1e-6


class KindPrior(Card):
    """Acceptance of a kind of drafter by kind of text: low, median and high of the one rate that yields as much.

    It rests on so many ``cards`` and ``sets`` of them; those are of the kind ``like`` where it has none of its own.
    ``texts`` is the spread of one drafter's acceptance between kinds of text, where the medians do not tell it.
    """

    drafter: str
    cards: int
    sets: int
    like: str = ""
    texts: float = 0.0
    mixed: Triple
    chat: Triple
    code: Triple
    maths: Triple

    def on(self, text: Text) -> tuple[float, float, float]:
        """Low, median and high on a kind of text."""
        found: tuple[float, float, float] = getattr(self, text)
        return found

    def move(self, text: Text, other: Text) -> float:
        """The difference of the medians on two kinds of text, in logits."""
        return logit(self.on(other)[1]) - logit(self.on(text)[1])


class ContextLaw(Card):
    """The most that logits of these ``kinds`` fall every 1,024 tokens beyond the context that they are trained at.

    Beyond the ``longest`` context of which acceptance is published they fall no more.
    """

    kinds: tuple[str, ...]
    trained: int
    longest: int
    per_1024: float
    source: str


class AcceptancePriors(Card):
    """The priors of all kinds; ``heads`` is the spread of drafters of one kind, ``sets`` that of one drafter's sets.

    ``per_temperature`` is the move with each degree of temperature. ``least`` is the low end used when the draft is
    doubtful (``least_source``).
    """

    name: str
    source: str
    heads: float
    sets: float
    per_temperature: float
    least: Rate
    least_source: str
    context: ContextLaw
    kinds: tuple[KindPrior, ...]


def _load(path: Path) -> AcceptancePriors:
    return as_record(AcceptancePriors, read_toml(path, "priors"), path, "priors")


@cache
def priors() -> AcceptancePriors:
    """The bundled priors."""
    return Shelf("priors", "priors", ".toml", _load).find("acceptance")


@cache
def prior_of(drafter: str) -> KindPrior | None:
    """The prior of a kind of drafter; None of one that somebody added and nobody fitted."""
    return next((each for each in priors().kinds if each.drafter == drafter), None)


_FARTHEST = 500.0
"""The logarithm of odds of which every share is 0 or 1."""


def logit(share: float) -> float:
    """The logarithm of the odds, of a share that is neither 0 nor 1 by more than rounding."""
    share = min(1.0 - _SURE, max(_SURE, share))
    return math.log(share / (1.0 - share))


def share_of(logarithm: float) -> float:
    """Inverse of :func:`logit`."""
    return 1.0 / (1.0 + math.exp(-max(-_FARTHEST, logarithm)))


def moved(rates: Any, by: float) -> Any:
    """Rates moved in logits, all by as much; those that are sure stay."""
    if isinstance(rates, np.ndarray):
        odds = rates * math.exp(max(-_FARTHEST, min(_FARTHEST, by)))
        return odds / (1.0 - rates + odds)
    if isinstance(rates, int | float):
        return rates if by == 0.0 or rates in (0.0, 1.0) else share_of(logit(rates) + by)
    return tuple(moved(rate, by) for rate in rates)
