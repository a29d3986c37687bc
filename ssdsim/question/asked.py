"""The question of one call: :mod:`ssdsim.question.points` of a single point, whose mistakes are raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ssdsim.base.record import Record
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.question.given import checked
from ssdsim.question.options import defaults
from ssdsim.question.points import Points, Steps, completed, warnings_of
from ssdsim.question.scenario import Scenario


class Asked(Record):
    """A call's strategies and site, with every option's value.

    ``subject`` is the strategy that answers are about; ``site`` is None where durations are unit-free. ``reads`` are
    the options that this rests on.
    """

    settings: Settings
    names: tuple[str, ...]
    subject: str
    drafter: Drafter
    site: Site | None
    reads: frozenset[str]
    points: Points

    @classmethod
    def of(cls, given: Mapping[str, Any], steps: Steps | None = None) -> Asked:
        """The question that options ask; ``steps`` may know of others' scenarios."""
        points = Points([given], steps)
        if points.errors[0] is not None:
            raise points.errors[0]
        sides = points.sides.at(0).result
        site = points.sites.at(0).result
        return cls(points.columns.settings(0), *sides, site, points.reads(0), points)

    def scenarios(self, name: str) -> Iterator[Scenario]:
        """A strategy's scenario with each of its alternatives, where a word such as ``auto`` leaves a choice.

        Raises
        ------
        DoesNotFit : it does not fit there.
        """
        found = self.points.of_strategy(name, np.zeros(1, dtype=np.intp))
        for problem in (*found.errors.values(), *found.no_room.values()):
            raise problem
        return map(found.__getitem__, range(len(found)))

    def warnings(self, names: Iterable[str], settings: Settings) -> tuple[str, ...]:
        """Warnings about acceptance and hits of these strategies."""
        return warnings_of(tuple(names), settings, self.points.sides.at(0).result, self.site)


def effective(given: Mapping[str, Any]) -> Settings:
    """Every option's value, those given (None is not given) checked, with where it came from.

    What a measured pair knows takes the place of defaults.
    """
    values = checked(given)
    settings = Settings(values, dict.fromkeys(values, GIVEN), defaults())
    completed(settings)
    return settings
