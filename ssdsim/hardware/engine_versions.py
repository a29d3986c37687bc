"""Versions of an engine: what each can run, and by how much its host differs from the card's."""

import math
import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, field

from ssdsim.base.card import Card, Coefficient, NotNegative
from ssdsim.hardware.runtime_numbers import check_numbers


class Newer(Card):
    """What of a strategy is newer than its card's first version: whom it takes as drafters from ``version`` on."""

    version: Annotated[str, Meta(pattern=r"^\d{1,9}\.\d{1,9}$")]
    strategy: str
    drafters: Annotated[tuple[str, ...], Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]


class Runs(Card):
    """The strategies that the engine can run; no number of a prediction follows from it.

    ``called`` is the engine's name in sentences. ``strategies`` has a strategy's name for each that it runs, with the
    drafters that may draft for it there (none for one that drafts nothing). ``k_by_batch``: its K may follow the batch
    size by a table. ``over_stages`` are the drafters that may draft for a target on pipeline stages (None: it keeps no
    batches in flight on stages at all). ``saguaro`` are the strategies whose draft samples by Saguaro's C there.
    ``draft_gpus`` is how many devices of its own a draft may have (None: any number). ``dcp`` are the strategies that
    it runs with devices that share each sequence's cache. ``tests`` are the rules of acceptance beside the token rule,
    and the other options of how drafts are tested, that it can be told. ``since`` says from which version on it has a
    strategy, a drafter, one over stages, the table or ``dcp``, where that is not as old as the card, and how far.
    ``newer`` is what a stated version may be too old for, and ``too_new`` what it is.
    """

    called: Annotated[str, Meta(min_length=1)]
    strategies: Annotated[dict[str, tuple[str, ...]], Meta(min_length=1)]
    k_by_batch: bool = False
    over_stages: tuple[str, ...] | None = None
    saguaro: tuple[str, ...] = ()
    draft_gpus: Annotated[int, Meta(ge=0)] | None = None
    dcp: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    since: dict[str, str] = field(default_factory=dict)
    newer: tuple[Newer, ...] = ()
    too_new: tuple[Newer, ...] = ()
    source: Annotated[str, Meta(min_length=1)]

    def of_version(self, version: str) -> "Runs":
        """The engine's abilities in a version; all of them where it begins with no number."""
        too_new = tuple(each for each in self.newer if version_numbers(version) < version_numbers(each.version))
        if not too_new:
            return self
        without = [(each.strategy, drafter) for each in too_new for drafter in each.drafters]
        left = {
            name: tuple(drafter for drafter in drafters if (name, drafter) not in without)
            for name, drafters in self.strategies.items()
        }
        kept = {name: drafters for name, drafters in left.items() if drafters or not self.strategies[name]}
        return self.changed(strategies=kept, newer=(), too_new=too_new)

    def comes_with(self, strategy: str, drafter: str) -> str | None:
        """The version that has what the stated one is too old for."""
        return next((n.version for n in self.too_new if n.strategy == strategy and drafter in n.drafters), None)

    def has(self, strategy: str, drafter: str) -> bool:
        """Tell whether it runs a strategy, drafted for by that drafter where the strategy has one."""
        return strategy in self.strategies and drafter in (self.strategies[strategy] or (drafter,))

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters of all strategies, each once."""
        return tuple(dict.fromkeys(name for each in self.strategies.values() for name in each))


def version_numbers(version: str) -> tuple[float, ...]:
    """The numbers of a version such as 0.24 or v0.9.1rc2, to compare by; beyond all of one that begins with none."""
    matched = re.match(r"v?(\d{1,9})\.(\d{1,9})(?!\d)", version)
    return (math.inf,) if matched is None else (int(matched[1]), int(matched[2]))


class Deviation(Card):
    """What one ``version`` adds to its engine's numbers (seconds, below 0 where it is faster), and what is ``open``."""

    version: Annotated[str, Meta(min_length=1)]
    adds: dict[str, Coefficient]
    open: dict[str, NotNegative] = field(default_factory=dict)


class ByVersion(Card):
    """How an engine's versions differ: seconds of the host that a version adds to the card's numbers.

    ``spread`` is the standard deviation over versions of each number that differs: ``per_layer_s`` and
    ``per_sequence_s`` (all models), ``per_expert_layer_s`` (mixtures besides), ``per_recurrent_layer_s`` (hybrids). It
    is open where nobody says a version, or one that is not ``known``. ``stated`` is the one that somebody said.
    """

    spread: dict[str, NotNegative]
    known: tuple[Deviation, ...] = ()
    stated: Deviation | None = None

    def __post_init__(self) -> None:
        check_numbers("spread", self.spread)
        for number, each in enumerate(self.known):
            check_numbers(f"known.{number}", each.adds)

    @property
    def adds(self) -> Mapping[str, float]:
        """What the stated version adds to each number."""
        return {} if self.stated is None else self.stated.adds

    @property
    def open(self) -> Mapping[str, float]:
        """The standard deviation of what is added to each number."""
        return self.spread if self.stated is None else {**self.spread, **self.stated.open}

    def of(self, version: str) -> Deviation | None:
        """The known version that a version is: the same release, or the only one that it begins (``0.17``)."""
        asked = parts_of(version)
        same = [each for each in self.known if parts_of(each.version) == asked]
        begun = [each for each in self.known if asked and parts_of(each.version)[: len(asked)] == asked]
        return next(iter(same), begun[0] if len(begun) == 1 else None)

    def saying(self, version: str) -> "ByVersion":
        """What is known where somebody says a version."""
        found = self.of(version)
        return self if found is None else self.changed(known=(), stated=found)


def parts_of(version: str) -> tuple[str, ...]:
    """The parts of a release that say how it differs: ``1.2.0rc6.post2`` is 1, 2, 0, rc, 6. Of no number: itself."""
    if re.match(r"v?\d", version) is None:
        return (version,) if version else ()
    return tuple(re.findall(r"\d+|[a-z]+", version.lower().removeprefix("v").partition(".post")[0]))
