"""A lookahead of a strategy's own, which is that of all strategies where nobody gives it."""

from __future__ import annotations

from ssdsim.base.kinds import Whole
from ssdsim.base.option import Group, Option
from ssdsim.base.settings import Settings


def own_lookahead(name: str, about: str, axis: str, symbol: str, most: int = 1_000) -> Option:
    """The option's record."""
    return Option(
        name=name,
        kind=Whole(most=most),
        about=about,
        axis=axis,
        otherwise="the same as --k",
        symbol=symbol,
        varied_by=("recommend", "schedule"),
        groups=(Group.CHOICE,),
    )


def settle_lookahead(settings: Settings, name: str) -> None:
    """Derive the option ``name`` from ``k`` where it was not given."""
    if settings[name] is None:
        settings.derive(name, settings["k"], "same as k")
