"""What lies in the memory of which devices, and whether it fits there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ssdsim.errors import InputError
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.memory import Demand, check_fits, draft_demand, smallest_tp, target_demand, usable_bytes
from ssdsim.pricing.room import NoRoom
from ssdsim.pricing.site import Site


@dataclass(frozen=True)
class Occupancy:
    """What lies on each device of a kind, called ``what`` in a refusal, which ends with ``advice``."""

    what: str
    demands: Sequence[Demand]
    profile: HardwareProfile
    advice: str = ""


def target_on(site: Site, lookahead: int) -> Demand:
    """The target's share on each of its devices."""
    return target_demand(site.target, site.tp, site.context, lookahead, site.precision_of("target"), site.spread)


def draft_on(site: Site, tp: int, lookahead: int, branches: int, beside: bool) -> Demand:
    """The draft's share on each of ``tp`` devices of its own, or of those ``beside`` the target."""
    logits = site.sampling and branches > 0
    kept, spread = site.precision_of("draft"), beside and site.spread
    return draft_demand(site.draft, tp, site.context, lookahead, branches, kept, logits, spread)


def target_alone(site: Site, lookahead: int) -> Occupancy:
    """The target with nothing beside it; a refusal says from which tensor-parallel degree on it fits."""
    what, demand, advice = f"{site.target.name} at tp {site.tp}", target_on(site, lookahead), ""
    if demand.total_bytes(site.batch) > usable_bytes(site.profile):
        enough = smallest_tp(
            site.target, site.profile, site.context, lookahead, site.precision_of("target"), site.spread
        )
        advice = f"; the smallest tp that fits one sequence is {enough}" if enough and enough > site.tp else ""
    return Occupancy(what, [demand], site.profile, advice)


def check_memory(batch: int, occupancies: Iterable[Occupancy]) -> None:
    """Raise :class:`NoRoom` at the first devices that cannot hold what lies on them."""
    for occupancy in occupancies:
        try:
            check_fits(occupancy.what, list(occupancy.demands), batch, occupancy.profile, occupancy.advice)
        except InputError as error:
            raise NoRoom(str(error)) from None
