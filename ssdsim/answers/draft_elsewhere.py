"""Where a draft that was given a place would draft as well: beside its target, or on one more of the target's kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.decision import TIED
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import short_hardware_name
from ssdsim.strategies.protocols.alternate import SD_DRAFT
from ssdsim.strategies.protocols.cached import DRAFT_PLACE

if TYPE_CHECKING:
    from ssdsim.answers.predict import Prediction

_PLACE = {"draft_hardware", "draft_link_us", "draft_link_gbs"}
_SHARED = "shared"


class Elsewhere(Record):
    """The fastest strategy with its draft at another place, on so many GPUs; ``ratio`` is over the answer's best."""

    where: str
    strategy: str
    gpus: float
    ratio: float


def elsewhere(here: Prediction, at: Callable[[Mapping[str, Any]], Prediction]) -> tuple[Elsewhere, ...]:
    """The other places that are as good as the one that was given for the draft; none where nobody gave one.

    That beside the target is told unless the best drafts there; one more device if it is better than beside. ``at``
    predicts other options, with the same draws.
    """
    if not here.configuration.given_options.keys() & _PLACE:
        return ()
    best, found = here.verdict.best, list[Elsewhere]()
    least = _level(here, best) - TIED
    for options, apart in _places(here):
        try:
            there = at(options)
        except InputError:
            continue
        for_drafts = {name: each.devices.draft > 0 for name, each in there.configuration.scenarios.items()}
        levels = {name: _level(there, name) for name, own in for_drafts.items() if own is apart}
        fastest = max(levels, key=levels.__getitem__, default=None)
        if fastest is not None and levels[fastest] >= least:
            least = levels[fastest] + TIED
            ratio = there.rates.shown(fastest) / here.rates.shown(best)
            more = there.configuration.scenarios[fastest].devices.draft
            name = short_hardware_name(here.configuration.settings["hardware"])
            where = f"on {'one' if more == 1 else more} more {name}" if apart else "beside its target"
            found.append(Elsewhere(where, fastest, there.rates.gpus[fastest], ratio))
    return tuple(found)


def _places(here: Prediction) -> Iterator[tuple[dict[str, Any], bool]]:
    """Options that put the draft at other places, and whether it has a device of its own there."""
    given, settings = here.configuration.given_options, here.configuration.settings
    kept = {name: value for name, value in given.items() if name not in {*_PLACE, "subject"}}
    kept["strategies"] = [name for name in here.configuration.scenarios if strategies.ALL.named(name).drafts]
    best = here.configuration.scenarios[here.verdict.best]
    if best.devices.draft or not best.strategy.drafts:
        beside = {name: value for name, value in kept.items() if name != SD_DRAFT.name}
        shared = {} if DRAFT_PLACE.refuses(given, _SHARED) else {DRAFT_PLACE.option: _SHARED}
        yield beside | shared, False
    yield kept | {"draft_hardware": settings["hardware"]}, True


def _level(prediction: Prediction, name: str) -> float:
    """The mean log speed of a strategy."""
    assert prediction.draws is not None  # on hardware times are never sure
    return float(np.log(prediction.draws[name].joint).mean())
