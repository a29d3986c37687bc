"""A lookahead of a strategy's own, which is that of all strategies where nobody gives it."""

from __future__ import annotations

from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option, Section, searched_choice


def own_lookahead(
    name: str, about: str, axis: str, symbol: str = "", most: int = 1_000, section: Section | None = None
) -> Option:
    """The option's record, which :meth:`ssdsim.strategies.protocols.strategy.Strategy.settle` derives from ``k``."""
    return searched_choice(
        name=name,
        kind=Whole(most=most),
        about=about,
        axis=axis,
        default_note="the same as --k",
        symbol=symbol,
        section=section,
    )
