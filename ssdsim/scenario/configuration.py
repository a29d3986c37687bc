"""From options to a scenario a strategy: defaults, checks, and where every effective value came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ssdsim import drafters, strategies
from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.provenance import summary
from ssdsim.option import Group
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import check_memory
from ssdsim.pricing.room import (
    Devices,
    NoRoom,
    check_context,
    check_devices,
    check_dtypes,
    check_place,
    check_sequences,
)
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.strategy import Strategy
from ssdsim.runtimes.card import Runtime
from ssdsim.runtimes.catalog import find_runtime, runtime_of
from ssdsim.scenario.drafting import ahead_warnings, draft_of, published_warnings, settle_draft
from ssdsim.scenario.measured_pair import pair_of, routed, settle_pair, token_warnings
from ssdsim.scenario.options import DEFAULTS, checked, members, of_others
from ssdsim.scenario.scenario import Scenario
from ssdsim.settings import DEFAULT, GIVEN, Settings
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import DATA_PARALLEL


@dataclass(frozen=True)
class Configuration:
    """A scenario for each strategy that has room, with every effective value and its origin.

    ``subject`` is the strategy that answers are about. ``no_room`` says why a strategy does not fit, by its name.
    ``site`` is None where durations are unit-free. ``of_tokens`` are warnings about acceptance and hits.
    """

    settings: Settings
    subject: str
    scenarios: Mapping[str, Scenario]
    no_room: Mapping[str, str]
    site: Site | None = None
    of_tokens: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        """The batch and how it speculates, in words."""
        v = self.settings
        accepted = f"alpha {v['alpha']}" if "alpha" in v else f"acceptance {v.get('acceptance')}"
        if "pair" in v and v.source("alpha") != GIVEN:
            accepted = f"acceptance {v['pair']}"
        fallback = "" if v.get("backup", "auto") == "auto" else f", {v['backup']} fallback"
        return f"batch {v['b']}, K {v['k']}, {accepted}{fallback}"

    @property
    def unit(self) -> str:
        """``s``, or ``T_v`` where durations are unit-free."""
        return "T_v" if self.site is None else "s"

    @cached_property
    def warnings(self) -> list[str]:
        """Extrapolations and mismatches behind the timings, and placeholders and mismatches behind the tokens."""
        timings = (scenario.warnings for scenario in self.scenarios.values()) if self.site is not None else ()
        return sorted(frozenset(self.of_tokens).union(*timings))

    @property
    def provenance(self) -> list[dict[str, str]]:
        """Where the timings came from, a record a profile; empty when unit-free."""
        site = self.site
        if site is None:
            return []
        dtypes = {*site.precision_of("target").formats, *site.precision_of("draft").formats}
        profiles = {p.name: p for p in (site.profile, site.draft_profile)}
        read = (site.has_experts, site.has_windows, site.spread)
        said = {name: summary(p, dtypes, site.tp, *read) for name, p in profiles.items()}
        return [{"profile": name, "summary": text} for name, text in said.items()]

    @property
    def pair(self) -> str | None:
        """What was measured of the models as a pair, and on what; None where nothing was."""
        return pair_of(self.settings)

    @property
    def runtime(self) -> str | None:
        """The engine's runtime and what it rests on, in short; None where durations are unit-free."""
        return None if self.site is None else self.site.runtime.summary

    def errors(self, draws: int, seed: int) -> TimingErrors | None:
        """Draws of the timings' errors; None where there is no profile."""
        return None if self.site is None else TimingErrors(draws, seed)


def configure(**given: Any) -> Configuration:
    """Build the scenarios that options describe.

    Parameters
    ----------
    given : options by name; the rest are :data:`ssdsim.scenario.options.DEFAULTS`. ``alpha`` is a rate or a list of
        K rates by position. With ``t_sd`` the times are unit-free (in units of T_v) and no hardware is read; otherwise
        they are priced on a hardware profile. ``strategies`` names those to build.

    Returns
    -------
    A scenario a strategy, and why others have no room.

    Raises
    ------
    InputError : an unknown option, a value out of range, an option without effect in this call, or no strategy has
        room.
    """
    settings = effective(given)
    subject = subject_among(settings["strategies"], settings["subject"])
    chosen = [strategies.ALL.named(name) for name in settings["strategies"]]
    drafter = drafters.ALL.named(settings["drafter"])
    site = site_of(settings)
    settle_spread(settings, site)
    scenarios: dict[str, Scenario] = {}
    no_room: dict[str, str] = {}
    for strategy in chosen:
        try:
            scenario, settings = _faster(strategy, settings, site, drafter)
        except NoRoom as error:
            no_room[strategy.name] = str(error)
            continue
        scenarios[strategy.name] = scenario
    if not scenarios:
        raise NoRoom(no_room[subject])
    shown = settings.copy()
    shown.drop(_unused(chosen, settings, site))
    return Configuration(
        shown,
        subject,
        scenarios,
        no_room,
        site,
        (*token_warnings(settings), *published_warnings(settings), *ahead_warnings(scenarios, drafter)),
    )


def effective(given: Mapping[str, Any]) -> Settings:
    """Every option's value, those given (None is not given) checked, with where it came from.

    What a measured pair knows takes the place of defaults.

    Raises
    ------
    InputError : an unknown option, a value out of its range, or a pair that does not have what is asked of it.
    """
    given = {name: value for name, value in given.items() if value is not None}
    values = checked(given)
    settings = Settings(values, dict.fromkeys(DEFAULTS, DEFAULT) | dict.fromkeys(given, GIVEN))
    settle_pair(settings)
    settle_draft(settings)
    return settings


def subject_among(names: Sequence[str], asked: str | None) -> str:
    """The strategy that an answer is about: the one asked for, else the default one if among ``names``, else the last.

    Raises
    ------
    InputError : the one asked for is not among them.
    """
    if asked is not None:
        strategies.ALL.named(asked)
        if asked not in names:
            raise InputError(f"--subject {asked} is not among --strategies {','.join(names)}")
        return asked
    return strategies.SUBJECT if strategies.SUBJECT in names else names[-1]


def _faster(strategy: Strategy, settings: Settings, site: Site | None, drafter: Drafter) -> tuple[Scenario, Settings]:
    """The scenario with the most tokens/s among the strategy's alternatives (the first of equals), and its settings."""
    found: list[tuple[Scenario, Settings]] = []
    for choice in strategy.alternatives(settings):
        own = choice.copy()
        found.append((scenario_of(strategy, own, site, drafter), own))
    if len(found) == 1:
        return found[0]
    return max(found, key=lambda pair: float(pair[0].estimate.tokens_per_second))


def scenario_of(strategy: Strategy, settings: Settings, site: Site | None, drafter: Drafter) -> Scenario:
    """One strategy at a site; writes what it derives into ``settings``.

    Raises
    ------
    NoRoom : it does not fit there.
    """
    priced = price(strategy, settings, site, drafter)
    tokens = strategy.kernel(settings, drafter)
    here = None if site is None else site.with_options(settings)
    return Scenario(strategy, drafter, settings, here, tokens, priced.steps, priced.devices)


def rescaled(configuration: Configuration, name: str, drift: Mapping[str, float]) -> Scenario:
    """A strategy's scenario on a machine that is slower now than its profile says, by the names of its passes.

    Raises
    ------
    InputError : its times are unit-free.
    """
    if configuration.site is None:
        raise InputError("without hardware there are no passes to be slower")
    scenario = configuration.scenarios[name]
    site = replace(configuration.site, options=scenario.settings, drift=drift)
    return replace(scenario, steps=scenario.strategy.steps(site, scenario.drafter))


# The steps of configuring.


def site_of(settings: Settings) -> Site | None:
    """Where the models run, None where times are unit-free."""
    if settings["t_sd"] is not None:
        return None
    if settings["draft_hardware"] is None:
        settings.derive("draft_hardware", settings["hardware"], "same as hardware")
    spread = settings["attention"] == DATA_PARALLEL
    target = routed(find_transformer(settings["target"]), settings, "target")
    if spread:
        settings.derive("ep", settings["tp"], "tp, beside data-parallel attention")
        _check_spread(target)
    site = Site(
        target=target,
        draft=routed(draft_of(settings).card, settings, "draft"),
        profile=_placed(settings["hardware"], settings),
        draft_profile=_placed(settings["draft_hardware"], settings),
        tp=settings["tp"],
        ep=settings["ep"],
        spread=spread,
        batch=settings["b"],
        context=settings["context"],
        sampling=settings["temperature"] > 0,
        dtype=settings["dtype"],
        options=settings,
        runtime=_settled_runtime(settings),
        draft_dtype=settings["draft_dtype"],
        kv_dtype=settings["kv_dtype"],
    )
    if settings["dtype"] is None:
        settings.derive("dtype", site.target.precision().weights, "the target card's")
    formats = site.precision_of("target")
    if settings["kv_dtype"] is None and formats.kv != formats.activations:
        settings.derive("kv_dtype", formats.kv, "the target card's")
    elif settings["kv_dtype"] is None and (kept := site.runtime.cache_beside(formats)):
        settings.derive("kv_dtype", kept, "the runtime's, for quantised weights")
        return replace(site, kv_dtype=kept)
    return site


def _check_spread(target: Transformer) -> None:
    if target.experts is None:
        raise InputError(
            f"--attention {DATA_PARALLEL}: {target.name} has no experts to bring tokens to; devices with sequences of "
            "their own are copies of it (recommend --gpus)"
        )


def _placed(hardware: str, settings: Settings) -> HardwareProfile:
    """The profile; of the target's node with its devices in the order that is asked for."""
    profile, order = find_hardware(hardware), settings["placement"]
    return profile.placed(order) if order and hardware == settings["hardware"] else profile


def _settled_runtime(settings: Settings) -> Runtime:
    if settings["runtime"] is not None:
        return find_runtime(settings["runtime"])
    runtime, why = runtime_of(find_hardware(settings["hardware"]), settings["hardware"])
    settings.derive("runtime", runtime.name, why)
    return runtime


def runtime_for(options: Mapping[str, Any]) -> Runtime:
    """The engine asked for, or the one that belongs to the target's profile."""
    return _settled_runtime(Settings({**DEFAULTS, **options}, {}))


def settle_spread(settings: Settings, site: Site | None) -> None:
    """Put the profile's measured spread in the place of ``profile``."""
    if site is None or settings["spread"] != "profile":
        return
    if site.profile.spread == 0.0:
        raise InputError(f"profile {site.profile.name} holds no measured spread: give --spread a number")
    settings.settle("spread", site.profile.spread, "measured, from the profile")


@dataclass(frozen=True)
class Priced:
    """A round's steps, and the devices that it occupies.

    ``round_error`` is the error of what the round's description leaves out, a direction and its log-sd, which no other
    strategy shares; ``expected`` are the steps without it, for those who read no errors.
    """

    expected: Mapping[str, Step]
    devices: Devices
    round_error: tuple[str, float] | None = None

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """The steps with all their errors."""
        if self.round_error is None:
            return self.expected
        return {name: step.off_by(*self.round_error) for name, step in self.expected.items()}


def price(strategy: Strategy, settings: Settings, site: Site | None, drafter: Drafter, together: bool = True) -> Priced:
    """The strategy's steps and devices at a site with room for it.

    ``together``: target and draft run at the same time, so that devices of one profile must be enough for both.

    Raises
    ------
    NoRoom : too few devices, too little memory, too long a context.
    """
    check_sequences(strategy.title, settings["b"], strategy.most_sequences)
    if site is None:
        strategy.settle(settings, None, drafter)
        return Priced(strategy.unit_free_steps(settings), strategy.devices(settings, 1, drafter))
    site = site.with_options(settings)
    strategy.settle(settings, site, drafter)
    check_dtypes(site, strategy.drafts and drafter.needs_device)
    check_context(site, strategy.lookahead(settings))
    devices = strategy.devices(settings, site.tp, drafter)
    check_place(strategy.title, drafter.title, drafter.needs_target and devices.draft > 0)
    check_devices(strategy.title, site, devices, together)
    check_memory(site.batch, strategy.occupancies(site, drafter))
    return Priced(strategy.steps(site, drafter), devices, _round_error(strategy, site))


def _round_error(strategy: Strategy, site: Site) -> tuple[str, float] | None:
    log_sd = site.runtime.errors.round_log_sd
    if not strategy.drafts or log_sd == 0.0:
        return None
    return f"round of {strategy.name}@{site.runtime.name}", log_sd


def _unused(chosen: Sequence[Strategy], settings: Settings, site: Site | None) -> set[str]:
    """What shaped none of the scenarios."""
    unused = {name for name, value in settings.items() if value is None} | of_others(settings)
    unused |= set(members(Group.HARDWARE if site is None else Group.UNIT_FREE))
    if site is None and settings["pair"] is None:
        unused |= {"temperature"}
    if site is not None and site.target.experts is None:
        unused |= {"attention"}
    for strategy in chosen:
        unused |= strategy.unused(settings)
    if settings["acceptance"] is not None:
        unused |= {"alpha"}
    if settings["acceptance"] is None and settings["alpha_concentration"] is None:  # requests are alike
        unused |= {"output_tokens"}
    return unused
