"""Occupancy of devices' memory, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssdsim.base.record import Record, replace
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.memory import Demand, draft_demand, smallest_tp, target_demand, usable_bytes
from ssdsim.pricing.room import NoRoom
from ssdsim.pricing.site import Site, once
from ssdsim.transformer.cache_memory import in_pages


class Occupancy(Record):
    """Memory in use on each device of a kind, called ``what`` in a refusal, which ends with ``advice``."""

    what: str
    demands: Sequence[Demand]
    profile: HardwareProfile
    advice: str = ""

    def needs_bytes(self, batch: int) -> int:
        """Bytes that each device needs."""
        return sum(demand.total_bytes(batch) for demand in self.demands)

    @property
    def largest_batch(self) -> int:
        """The most sequences that its devices hold; 0 if none. All of them split the sequences or none does."""
        room = usable_bytes(self.profile) - sum(demand.weights_bytes for demand in self.demands)
        each = sum(demand.sequence_bytes for demand in self.demands)
        return room // each * self.demands[0].devices if room > 0 else 0

    def shortage(self, batch: int) -> str:
        """Text of what the devices lack for a batch, and the nearest one that they hold."""
        largest = self.largest_batch
        fits = f"the largest batch that fits is {largest}" if largest else "not even one sequence fits"
        return (
            f"{self.what} needs {self.needs_bytes(batch) / 2**30:.1f} GiB on each device, {self.profile.name} has "
            f"{usable_bytes(self.profile) / 2**30:.1f} GiB usable; {fits}{self.advice}"
        )


@once
def target_on(site: Site, lookahead: int, beside: bool = False) -> Demand:
    """The target's share on each of its devices, with a head's cache ``beside`` it where that is in its pages."""
    kept, caching = site.precision_of("target"), site.runtime.caching
    if beside and _in_the_targets_pages(site):
        caching = replace(caching, head_layers=site.draft.layers)
    return target_demand(site.target, site.tp, site.context, lookahead, kept, site.data_parallel, caching)


def _in_the_targets_pages(site: Site) -> bool:
    """Say whether a head's keys and values are shaped as the target's, which lie in pages with states."""
    alike = all(getattr(site.draft, name) == getattr(site.target, name) for name in ("kv_heads", "head_dim", "latent"))
    return site.draft.head is not None and alike and in_pages(site.target, site.runtime.caching)


@once
def draft_on(site: Site, tp: int, lookahead: int, branches: int, beside: bool) -> Demand:
    """The draft's share on each of ``tp`` devices of its own, or of those ``beside`` the target."""
    logits = site.sampling and branches > 0
    kept, data_parallel = site.precision_of("draft"), beside and site.data_parallel
    caching = site.runtime.caching
    demand = draft_demand(site.draft, tp, site.context, lookahead, branches, kept, logits, data_parallel, caching)
    return replace(demand, sequence_bytes=0) if beside and _in_the_targets_pages(site) else demand


@once
def target_alone(site: Site, lookahead: int) -> Occupancy:
    """The target with nothing beside it; a refusal says from which tensor-parallel degree on it fits."""
    what, demand, advice = f"{site.target.name} at tp {site.tp}", target_on(site, lookahead), ""
    if demand.total_bytes(site.batch) > usable_bytes(site.profile):
        kept, caching = site.precision_of("target"), site.runtime.caching
        enough = smallest_tp(site.target, site.profile, site.context, lookahead, kept, site.data_parallel, caching)
        advice = f"; the smallest tp that fits one sequence is {enough}" if enough and enough > site.tp else ""
    return Occupancy(what, [demand], site.profile, advice)


def check_memory(batch: int, occupancies: Iterable[Occupancy]) -> None:
    """Raise :class:`NoRoom` at devices that cannot hold what lies on them: those that hold the fewest sequences."""
    short = [each for each in occupancies if each.needs_bytes(batch) > usable_bytes(each.profile)]
    if short:
        raise NoRoom(min(short, key=lambda each: each.largest_batch).shortage(batch))
