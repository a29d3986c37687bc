"""From options to a scenario: defaults, checks, and where every effective value came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssdsim.errors import InputError
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.placement import Placement, RoundCosts, place, round_costs, window_budget
from ssdsim.rounds.scenario import Gpus, RoundTimes, Scenario
from ssdsim.scenario.options import BACKUP_QUALITY, CACHE_SHAPE, DEFAULTS, HARDWARE_ONLY, UNIT_FREE, checked
from ssdsim.speculation.speculator import Fallback
from ssdsim.speculation.speculators import speculators
from ssdsim.strategies import ssd


@dataclass(frozen=True)
class Configuration:
    """A scenario with its origins: every effective value, its source, the costs behind it and their warnings."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    scenario: Scenario
    placement: Placement | None = None
    costs: RoundCosts | None = None

    @property
    def shape(self) -> str:
        """The batch and how it speculates, in words."""
        v = self.values
        accepted = f"alpha {v['alpha']}" if "alpha" in v else f"acceptance {v['acceptance']}"
        return f"batch {v['b']}, K {v['k']}, {accepted}, {v['backup']} fallback"

    @property
    def warnings(self) -> list[str]:
        return sorted(self.costs.warnings) if self.costs else []

    def sampled(self, draws: int, seed: int) -> Scenario | None:
        """The scenario with its times drawn from the profile's held-out errors; None where there is no profile."""
        if self.costs is None:
            return None
        return self.scenario.with_times(self.costs.sample(TimingErrors(draws, seed)))


def configure(**given: Any) -> Configuration:
    """Build the scenario that ``given`` options describe.

    Parameters
    ----------
    given : options by name, each a record of :data:`ssdsim.scenario.options.ALL`; None is not given, and the rest have
        their defaults. ``alpha`` is a rate or a list of K rates by position. With ``t_sd`` the times are unit-free (in
        units of T_v) and no hardware is read; otherwise they are priced on a hardware profile.

    Returns
    -------
    Configuration : the ``scenario``, and by name the effective ``values`` and their ``sources``. With ``backup``
        ``auto`` it is that of the fallback with more tokens/s.

    Raises
    ------
    InputError : an unknown option, a value out of range, an option without effect in this call, or a placement that
        does not fit.
    """
    values = effective(given)
    sources = {name: "given" if given.get(name) is not None else "default" for name in DEFAULTS}
    if given.get("sd_k") is None:
        sources["sd_k"] = "same as k"
    if values["backup"] != "auto":
        return _configure(values, sources, values["backup"])
    sources["backup"] = "auto: more tokens/s than the other"
    jit, fast = (_configure(dict(values), dict(sources), kind) for kind in ("jit", "fast"))
    jit_rate, fast_rate = (ssd.closed_form(c.scenario).tokens_per_second for c in (jit, fast))
    return fast if fast_rate > jit_rate else jit


def effective(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option's value: those given (None is not given), checked, and the defaults."""
    values = checked({name: value for name, value in given.items() if value is not None})
    if values["sd_k"] is None:
        values["sd_k"] = values["k"]
    return values


def _configure(values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> Configuration:
    values["backup"] = fallback
    placement = locate(values, sources)
    made = speculators(values, sources, fallback)
    settle_spread(values, sources, placement)
    priced = price(values, sources, placement, fallback)
    scenario = Scenario(
        batch=values["b"],
        sd=made.sd,
        primary=made.primary,
        backup=made.backup,
        fallback=fallback,
        times=priced.times,
        gpus=priced.gpus,
        draft_devices=1 if placement is None else placement.draft_gpus,
        spread=values["spread"],
        requests=made.requests,
    )
    _drop_unused(values, sources, fallback)
    return Configuration(values, sources, scenario, placement, priced.costs)


# The steps of configuring. Each reads ``values`` and writes what it derived there, and its origin into ``sources``.


def locate(values: dict[str, Any], sources: dict[str, str], together: bool = True) -> Placement | None:
    """Where the models run, None where times are unit-free; settles the budget of cached outcomes."""
    if values["t_sd"] is None:
        return _place(values, sources, together)
    if values["f"] == "window":
        raise InputError("--f window needs hardware: without it nothing says what a branch token costs")
    if values["budget"] is None:
        values["budget"], sources["budget"] = values["f"] * (values["k"] + 1), "f (k + 1)"
    return None


def _place(values: dict[str, Any], sources: dict[str, str], together: bool) -> Placement:
    if values["fl"] is not None:
        lists = [values["fl"], values["flm"] or values["fl"]]
        values["budget"], sources["budget"] = max(map(sum, lists)), "the sum of the fan-out list"
        if values["budget"] == 0:
            raise InputError("--fl caches no outcome: at least one fan-out must be above 0")
    elif values["f"] == "window":
        values["budget"] = 1
        values["budget"] = window_budget(place(values, sources, together))
        sources["budget"] = "the largest that the draft finishes while the target verifies"
    elif values["budget"] is None:
        values["budget"], sources["budget"] = values["f"] * (values["k"] + 1), "f (k + 1)"
    return place(values, sources, together)


@dataclass(frozen=True)
class Priced:
    """A round's durations and devices; ``costs`` are the timings behind them, None where unit-free."""

    times: RoundTimes
    gpus: Gpus
    costs: RoundCosts | None


def price(values: dict[str, Any], sources: dict[str, str], placement: Placement | None, fallback: Fallback) -> Priced:
    """Every duration of a round."""
    if placement is None:
        return Priced(_unit_free_times(values, sources, fallback), Gpus(), None)
    costs = round_costs(placement, fallback)
    return Priced(costs.times(), placement.gpus, costs)


def settle_spread(values: dict[str, Any], sources: dict[str, str], placement: Placement | None) -> None:
    """Put the profile's measured spread in the place of ``profile``."""
    if placement is not None and values["spread"] == "profile":
        values["spread"], sources["spread"] = _measured_spread(placement), "measured, from the profile"


def _measured_spread(placement: Placement) -> float:
    if placement.profile.spread == 0.0:
        raise InputError(f"profile {placement.profile.name} holds no measured spread: give --spread a number")
    return placement.profile.spread


def _unit_free_times(values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> RoundTimes:
    """Durations in units of T_v = T_ar = 1, as the SSD paper counts them."""
    t_sd = values["t_sd"]
    if values["t_p"] is None:
        values["t_p"], sources["t_p"] = t_sd, "same as t_sd"
    if values["t_b"] is None:
        values["t_b"], sources["t_b"] = (t_sd, "same as t_sd") if fallback == "jit" else (0.0, "fast fallback")
    k = values["k"]
    return RoundTimes(
        ar_pass_s=1.0,
        sd_draft_s=t_sd * values["sd_k"] / k,
        sd_verify_s=1.0,
        verify_s=1.0,
        glue_s=values["t_p"] / (k + 1),
        branches_s=values["t_p"] * k / (k + 1),
        fallback_s=values["t_b"],
    )


def _drop_unused(values: dict[str, Any], sources: dict[str, str], fallback: Fallback) -> None:
    """Leave only what shaped this scenario."""
    dropped = {name for name, value in values.items() if value is None}
    dropped |= set(UNIT_FREE if values["t_sd"] is None else HARDWARE_ONLY)
    dropped |= set(BACKUP_QUALITY) if fallback == "jit" else set()
    if sources["p_hit"] in ("given", "default"):
        dropped |= set(CACHE_SHAPE)
    if values["acceptance"] is not None:
        dropped |= {"alpha"}
    if values["acceptance"] is None and values["alpha_concentration"] is None:
        dropped |= {"output_tokens"}
    for name in dropped:
        values.pop(name, None)
        sources.pop(name, None)
