"""Links: the timing model of a message between two devices, and the rings that a collective runs over."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ssdsim.base.card import Seconds
from ssdsim.hardware.laws import LatencyBandwidthModel, Scaling, TimingModel

# Cards with fields cannot be two bases of one class.
if TYPE_CHECKING:
    _OfModel = TimingModel
else:
    _OfModel = object


class OfMessages(_OfModel):
    """What models of messages share: another one may speak for messages ``below`` the smallest timed.

    A test of bandwidth says nothing of the latency of small messages. Its domain begins at its smallest size, and below
    that the timings of another machine like it are kept.
    """

    dimensions: ClassVar[tuple[str, ...]] = ("message_bytes",)

    @property
    def smallest(self) -> float:
        """The smallest message timed; 0 where it took the latency, as all smaller ones do."""
        return self.domain.get("message_bytes", (0.0, 0.0))[0]

    def over(self, base: Self | None) -> Self:
        """The model with the one of ``base`` for messages smaller than its own."""
        return self.changed(below=base) if self.smallest else self

    def below_scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        """The model of smaller messages on another device."""
        below: Self | None = self.below  # type: ignore[attr-defined]
        return below and below.scaled(scaling, *keys)

    def of_message(self, message_bytes: float) -> tuple[Self, float]:
        """The model that speaks for a message, and its seconds: at most those of the smallest message of this one."""
        below: Self | None = self.below  # type: ignore[attr-defined]
        if below is None or message_bytes >= self.smallest:
            return self, float(self.seconds(message_bytes))  # type: ignore[attr-defined]
        model, seconds = below.of_message(message_bytes)
        return model, min(seconds, float(self.seconds(self.smallest)))  # type: ignore[attr-defined]


class LinkModel(OfMessages, LatencyBandwidthModel):
    """A message from one device to another: ``latency_s + bytes / bandwidth`` (Hockney)."""

    latency_s: Seconds
    below: "LinkModel | None" = None

    fixed: ClassVar[str] = "latency_s"

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        """The link as it is: a device has the one that it is said to have."""
        return self.unfitted(below=self.below_scaled(scaling, *keys))


RING_SHARE = 0.9
"""Of the rate of copies over the same links, what rings reach: eight V100s 129-135 of 6 x 24.2 GB/s (nccl-tests)."""

_MOST_SEARCHED = 8  # devices; of more, the first rings found count

Links = tuple[tuple[int, ...], ...]
Edge = frozenset[int]


@lru_cache(maxsize=1024)
def rings(nvlinks: Links, ranks: int) -> int:
    """The number of rings over devices 0 to ``ranks`` - 1 have every NVLink to themselves; 0 where a pair has none.

    A link carries one ring each way, so a closed way through more than two devices makes two rings, back and forth.
    """
    if ranks == 2:
        return nvlinks[0][1]
    free = Counter({frozenset((a, b)): nvlinks[a][b] for a in range(ranks) for b in range(a)})
    most = min(sum(free[frozenset((a, b))] for b in range(ranks) if b != a) for a in range(ranks)) // 2
    return 2 * _ways(free, ranks, most)


def ring_rate(nvlinks: Links, links: Mapping[int, LinkModel], ranks: int) -> float | None:
    """Bytes/s that each of devices 0 to ``ranks`` - 1 sends on to the next; None where the links do not say.

    Without a ring of NVLinks it is the rate of the slowest pair, through PCIe or the host.
    """
    if not 1 < ranks <= len(nvlinks):
        return None
    count = rings(nvlinks, ranks)
    slowest = links.get(1 if count else 0)
    return None if slowest is None else RING_SHARE * max(1, count) * slowest.bandwidth


def links_of_ring(nvlinks: Links, links: Mapping[int, LinkModel], link: LinkModel, ranks: int) -> float:
    """Bytes that go on from each device over those that ``link`` carries; 1 where the links do not say."""
    rate = ring_rate(nvlinks, links, ranks)
    return 1.0 if rate is None else rate / RING_SHARE / link.bandwidth


def _ways(free: Counter[Edge], ranks: int, most: int) -> int:
    """The most closed ways through all devices that share no link, ``most`` at most."""
    best = 0
    for way in _closed_ways(free, [0], ranks) if most else ():
        number = 1 + _ways(free - Counter(way), ranks, most - 1)
        best = max(best, number)
        if best == most or ranks > _MOST_SEARCHED:
            break
    return best


def _closed_ways(free: Counter[Edge], visited: Sequence[int], ranks: int) -> Iterator[list[Edge]]:
    """The links of each way that goes on from the devices visited, through the rest, and back to the first."""
    last = visited[-1]
    if len(visited) == ranks:
        if free[frozenset((last, 0))] > 0:
            yield [frozenset((last, 0))]
        return
    for other in range(1, ranks):
        if other not in visited and free[frozenset((last, other))] > 0:
            for rest in _closed_ways(free, [*visited, other], ranks):
                yield [frozenset((last, other)), *rest]
