"""The price of a strategy's round at a site where it fits, and its repricing where token inputs change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ssdsim.base.errors import CannotRun
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import (
    Devices,
    Occupancy,
    check_context,
    check_devices,
    check_dtypes,
    check_memory,
    check_place,
    is_host_of,
)
from ssdsim.pricing.site import Site
from ssdsim.pricing.stages import in_stages
from ssdsim.pricing.step import Step
from ssdsim.pricing.unit_free import UnitFree
from ssdsim.question.token_errors import Change, Changes, each_of, settings_under
from ssdsim.rounds.round import Seconds
from ssdsim.strategies.protocols.cached import DRAFT_PLACE
from ssdsim.strategies.protocols.strategy import Strategy


class Repricer(Record):
    """Reprices a strategy's steps at a site (None: without hardware); ``reads`` are the options that move them."""

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
            steps = round_steps(self.strategy, site, self.drafter)
            self._known[key] = {name: step.seconds for name, step in steps.items()}
        return self._known[key]

    def over(self, changes: Changes) -> Mapping[str, Seconds]:
        """Seconds of each step, one number a case."""
        made = [self.seconds(change) for change in each_of(changes)]
        return {name: np.array([each[name] for each in made]) for name in made[0]}


class Priced(Record):
    """A round's steps, and the devices that it occupies.

    ``round_error`` is the error of what the round's description leaves out, a direction and its log-sd, which no other
    strategy shares; ``expected`` are the steps without it, for those who read no errors, and those that are ``plain``
    never have it. ``again`` prices the steps where inputs of tokens are others; None where these move no price.
    """

    expected: Mapping[str, Step]
    devices: Devices
    round_error: tuple[str, float] | None = None
    again: Repricer | None = None
    plain: tuple[str, ...] = ()

    @cached_property
    def seconds(self) -> Mapping[str, float]:
        """Each step's duration; in units of T_v where it is unit-free."""
        return {name: step.seconds for name, step in self.expected.items()}

    def over(self, changes: Changes) -> Mapping[str, Seconds]:
        """Each step's duration where inputs of tokens are others, in columns; :attr:`seconds` where none moves it."""
        return self.again.over(changes) if self.again and self.again.moved_by(changes) else self.seconds

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """The steps with all their errors."""
        if self.round_error is None:
            return self.expected
        error = self.round_error
        return {name: step if name in self.plain else step.off_by(*error) for name, step in self.expected.items()}


def price(settings: Settings, strategy: Strategy, site: Site | None, drafter: Drafter, together: bool = True) -> Priced:
    """The strategy's steps and devices at a site with room for it; writes what it derives into ``settings``.

    ``together``: target and draft run at the same time, so that devices of one profile must be enough for both.

    Raises
    ------
    DoesNotFit : too few devices, too little memory, too long a context.
    CannotRun : it is not described as it was asked for.
    """
    batch, most = settings["b"], strategy.most_sequences  # every price rests on the batch
    if most is not None and batch > most:
        raise CannotRun(f"{strategy.title} decodes {most} sequence at a time, got --b {batch}")
    site = UnitFree.of(settings) if site is None else site.with_options(settings)
    if not site.unit_free:
        apart = drafter.needs_target and strategy.devices(settings, site.tp, drafter).draft > 0
        check_place(strategy.title, drafter.title, apart)  # before anything asks it to draft there
        if drafter.needs_verified and strategy.drafts_ahead:
            early = f"{strategy.title} drafts on before tokens are verified"
            raise CannotRun(f"{early}, {drafter.title} from keys and values of verified ones")
    strategy.settle(settings, site, drafter)
    if site.unit_free:
        steps = strategy.steps(site, drafter)
        devices = strategy.devices(settings, 1, drafter)
        return Priced(steps, devices, again=_again(settings, strategy, None, drafter))
    if site.pp > 1:
        _check_stages(strategy, drafter)
    devices = strategy.devices(settings, site.tp * site.pp, drafter)
    devices = replace(devices, microbatches=site.microbatches)
    if devices.draft and is_host_of(site.draft_profile, site.profile):
        devices = replace(devices, on_host=True)
    check_dtypes(site, strategy.drafts and drafter.needs_device, beside=devices.draft == 0)
    check_context(site, strategy.lookahead(settings))
    elsewhere = site.network is not None or devices.targets > 1  # another machine may have the draft
    may_share = DRAFT_PLACE in strategy.searched and devices.draft == 1 and settings.source("engine") != GIVEN
    advice = "; --draft-devices shared drafts on the target's" if may_share else ""
    check_devices(strategy.title, site, devices, together and not elsewhere, advice)
    check_memory(site.batch, strategy.occupancies(site, drafter))
    steps = round_steps(strategy, site, drafter)
    if site.network is None and devices.targets > 1 and devices.total > site.profile.device.count:
        sends = next(name for name, step in steps.items() if step.message is not None)
        steps = {**steps, sends: steps[sends].warning(_apart(strategy, site, devices))}
    again = _again(settings, strategy, site, drafter)
    return Priced(steps, devices, round_error(strategy, site), again, strategy.plain_steps)


def round_steps(strategy: Strategy, site: Site, drafter: Drafter) -> Mapping[str, Step]:
    """The steps of a strategy's round, over pipeline stages with what it waits for other microbatches."""
    beside = strategy.devices(site.options, site.tp, drafter).draft == 0
    return in_stages(strategy.steps(site, drafter), site.microbatches, beside, alone=strategy.plain_steps)


def _check_stages(strategy: Strategy, drafter: Drafter) -> None:
    """Raise :class:`CannotRun` for a round or a drafter that nobody has described over pipeline stages."""
    if not strategy.staged:
        raise CannotRun(f"{strategy.title}'s round is not described over pipeline stages (--pp)")
    if strategy.drafts and not drafter.on_one_stage:
        raise CannotRun(f"{drafter.title} drafts with all layers of its target: not described over stages (--pp)")


def _again(settings: Settings, strategy: Strategy, site: Site | None, drafter: Drafter) -> Repricer | None:
    """The repricer of a strategy with ragged rows; None for others, whose prices read no token input."""
    if not strategy.is_ragged(settings):
        return None
    return Repricer(strategy, site, drafter, settings.plain, frozenset(settings.reads or settings))


def _apart(strategy: Strategy, site: Site, devices: Devices) -> str:
    return (
        f"{strategy.title}: {devices.targets} targets and their draft are {devices.total} devices, a node of "
        f"{site.profile.name} has {site.profile.device.count}: messages are priced as inside of it, "
        "--draft-link-us and --draft-link-gbs give a network"
    )


def round_error(strategy: Strategy, site: Site) -> tuple[str, float] | None:
    """The error of a round's description, as a direction and its log-sd; None if it has none.

    Strategies whose round is taken to be the same share it.
    """
    log_sd = site.runtime.errors.round_log_sd
    if not strategy.drafts or log_sd == 0.0:
        return None
    return f"round of {strategy.described_as or strategy.name}@{site.runtime.name}", log_sd


def occupied(settings: Settings, strategy: Strategy, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
    """The memory in use on each device, whether it fits or not; writes what the strategy derives into ``settings``."""
    site = site.with_options(settings)
    strategy.settle(settings, site, drafter)
    return strategy.occupancies(site, drafter)
