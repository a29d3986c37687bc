"""Prices where the inputs of tokens are others: of strategies whose passes have as many rows as these make them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ssdsim.base.record import Record
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.unit_free import UnitFree
from ssdsim.question.token_errors import Change, Changes, each_of, settings_under
from ssdsim.rounds.round import Seconds
from ssdsim.strategies.protocols.strategy import Strategy


class PricedAgain(Record):
    """A strategy's steps at a site (None: without hardware) under other options; ``reads`` are those that move them."""

    strategy: Strategy
    site: Site | None
    drafter: Drafter
    settings: Settings
    reads: frozenset[str]

    @cached_property
    def _known(self) -> dict[Any, Mapping[str, float]]:
        """Seconds of each step by the changes asked so far."""
        return {}

    def moved_by(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a change, or of many in columns, that the prices read."""
        return {name: value for name, value in change.items() if name in self.reads}

    def seconds(self, change: Change) -> Mapping[str, float]:
        """Seconds of each step under a change."""
        key = tuple(self.moved_by(change).items())
        if key not in self._known:
            changed = settings_under(self.settings, change)
            site = UnitFree.of(changed) if self.site is None else self.site.with_options(changed)
            self.strategy.settle(changed, site, self.drafter)
            steps = self.strategy.steps(site, self.drafter)
            self._known[key] = {name: step.seconds for name, step in steps.items()}
        return self._known[key]

    def over(self, changes: Changes) -> Mapping[str, Seconds]:
        """Columns of seconds with a number a case."""
        made = [self.seconds(change) for change in each_of(changes)]
        return {name: np.array([each[name] for each in made]) for name in made[0]}
