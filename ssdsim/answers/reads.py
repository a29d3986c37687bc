"""Which options a strategy rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.answers.remembered import Watched
from ssdsim.scenario.configuration import effective, scenario_of, settle_spread, site_of


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
