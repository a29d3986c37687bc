"""Which options a strategy rests on, and those given that none of the asked strategies does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.answers.remembered import Watched
from ssdsim.errors import InputError
from ssdsim.option import spelled
from ssdsim.scenario.configuration import effective, scenario_of, settle_spread, site_of
from ssdsim.scenario.options import BACKUP_QUALITY

_MOST_LOOKED_AT = 250  # points of a grid: a second or two, where the first of them does not read all that is given


def options_read(name: str, options: Mapping[str, Any]) -> frozenset[str]:
    """The options that a strategy asks for at ``options``, in any of its alternatives: no other can change it there.

    Those of the site that it stands on (hardware, models, context) are left out: every strategy stands on one.

    Raises
    ------
    InputError : as :func:`ssdsim.configure` does; the strategy has no room there.

    >>> sorted(options_read("sd", {"t_sd": 0.2}) & {"b", "k", "alpha", "f", "backup"})
    ['alpha', 'b', 'k']
    """
    settings = effective(options)
    strategy, drafter = strategies.ALL.named(name), drafters.ALL.named(settings["drafter"])
    site = site_of(settings)
    settle_spread(settings, site)
    choosing = Watched(settings)
    read: set[str] = set()
    for alternative in strategy.alternatives(choosing):
        own = Watched(alternative)
        strategy.closed_form(scenario_of(strategy, own, site, drafter).round)  # which reads the batch
        read.update(own.reads)
    return frozenset(read.union(choosing.reads))


def check_read(given: Mapping[str, Any], points: Iterable[Mapping[str, Any]]) -> None:
    """Raise :class:`InputError` at an option that is ``given`` (None is not given) but shapes none of ``points``.

    Nothing is said of more than some hundred points, or where one of them is not possible.

    >>> check_read({"f": 5}, [{"t_sd": 0.2, "f": 5, "strategies": "ar"}])
    Traceback (most recent call last):
        ...
    ssdsim.errors.InputError: --f has no effect with --strategies ar: only SSD, Tree SSD read it
    """
    unread, asked = [name for name, value in given.items() if value is not None], dict[str, None]()
    looked_at = list(islice(points, _MOST_LOOKED_AT + 1))
    if len(looked_at) > _MOST_LOOKED_AT:
        return
    for point in looked_at:
        try:
            names, read = _asked(point)
        except InputError:
            return
        asked |= dict.fromkeys(names)
        unread = [name for name in unread if name in point and name not in read]
        if not unread:
            return
    readers = ", ".join(_readers(unread[0], looked_at[0]))
    only = f"only {readers} read{'' if ',' in readers else 's'} it" if readers else "no strategy reads it here"
    raise InputError(f"{spelled(unread[0])} has no effect with --strategies {','.join(asked)}: {only}")


def _asked(options: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The strategies asked for, and what they and the steps before them read."""
    settings = Watched(effective(options))
    names = settings["strategies"]
    settle_spread(settings, site_of(settings))
    first = {*settings.reads, "subject", "drafter", "spread"}  # read by those who ask strategies, and who simulate
    read = frozenset(first).union(*(options_read(name, options) for name in names))
    return names, read | (_of_the_pair(read) if options.get("pair") is not None else frozenset())


def _of_the_pair(read: frozenset[str]) -> frozenset[str]:
    """A measured pair is read by who reads what it says."""
    backups = {"pair_backup"} if read & set(BACKUP_QUALITY) else set()
    return frozenset({"pair", "pair_set", "temperature", *backups}) if "alpha" in read else frozenset()


def _readers(option: str, options: Mapping[str, Any]) -> Iterator[str]:
    """The titles of the strategies that read an option at ``options``, as far as they are possible there."""
    for strategy in strategies.ALL:
        try:
            if option in options_read(strategy.name, options):
                yield strategy.title
        except InputError:
            continue
