"""Options that a strategy reads, and errors for given options that no compared strategy reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.engines import strategies_by_options
from ssdsim.question.options import ALL, check_names, owners, with_ranges
from ssdsim.question.question import Question

_BY_OPTIONS = {"strategies": strategies_by_options, "drafter": drafter_by_options}
_MOST_LOOKED_AT = 250  # points of a grid: a second or two, where the first of them does not read all that is given


def options_read(name: str, options: Mapping[str, Any]) -> frozenset[str]:
    """The options that a strategy reads at ``options``, in any of its alternatives: no other can change it there.

    Options of its site (hardware, models, context) are left out: every strategy has one.

    >>> sorted(options_read("sd", {"t_sd": 0.2}) & {"b", "k", "alpha", "f", "backup"})
    ['alpha', 'b', 'k']
    """
    return frozenset().union(*(scenario.reads for scenario in Question.of(options).scenarios(name)))


def check_owners(given: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` for an option of a strategy or a drafter that is not asked for."""
    check_names(given)
    said = {name: value for name, value in given.items() if value is not None}
    for name in said:
        if (owned := owners(name)) is None:
            continue
        chooser, theirs = owned
        asked = said.get(chooser) or _BY_OPTIONS[chooser](said)
        of_grid = isinstance(asked, list | tuple) and any(isinstance(each, list | tuple) for each in asked)
        chosen = [ALL[chooser].checked(each) for each in (asked if of_grid else [asked])]
        if not any(owner == each or owner in each for owner in theirs for each in chosen):
            raise InputError(f"{spelled(name)} has no effect without {spelled(chooser)} {' or '.join(theirs)}")


def check_read(
    given: Mapping[str, Any], points: Iterable[Mapping[str, Any]], known: Configuration | None = None
) -> None:
    """Raise :class:`InputError` for an option that is ``given`` (not None) but read at none of ``points``.

    Grids of more than some hundred points, and those with an impossible point, are not checked. ``known`` is the
    configuration of the only point.

    >>> check_read({"f": 5}, [{"t_sd": 0.2, "f": 5, "strategies": "ar"}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ssdsim.base.errors.InputError: --f has no effect with --strategies ar: only SSD, Tree SSD, ... read it here
    """
    unread, asked = [name for name, value in with_ranges(given).items() if value is not None], dict[str, None]()
    looked_at = list(islice(points, _MOST_LOOKED_AT + 1))
    if len(looked_at) > _MOST_LOOKED_AT:
        return
    for point in looked_at:
        try:
            configuration = known or configure(**point)
        except InputError:
            return
        if configuration.refused:  # which may have read it
            return
        asked |= dict.fromkeys(configuration.scenarios)
        unread = [name for name in unread if name in with_ranges(point) and name not in configuration.reads]
        if not unread:
            return
    titles = []
    for strategy in strategies.ALL:
        with suppress(InputError):  # this strategy is not possible here
            alone = {**looked_at[0], "strategies": strategy.name}
            if unread[0] in Question.of(alone).reads | options_read(strategy.name, alone):
                titles.append(strategy.title)
    readers = ", ".join(titles)
    only = f"only {readers} read{'' if ',' in readers else 's'} it here" if readers else "no strategy reads it here"
    of_engine = given.get("strategies") is None and isinstance(given.get("engine"), str) and bool(readers)
    why = f" (what {given['engine']} runs; name others to price them on it all the same)" if of_engine else ""
    raise InputError(f"{spelled(unread[0])} has no effect with --strategies {','.join(asked)}{why}: {only}")
