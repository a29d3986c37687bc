"""Shared by figures: the run folder, the prediction at its base point, and rates at points near it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from ssdsim import strategies
from ssdsim.answers.option_usage import check_owners, options_read
from ssdsim.answers.predict import Prediction, predict_configured
from ssdsim.answers.sweep.plan import as_configured
from ssdsim.answers.verdict import rivals
from ssdsim.base.errors import InputError
from ssdsim.base.option import Group, number
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question import many
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.options import ALL, DEFAULTS, members
from ssdsim.question.points import Points, Steps
from ssdsim.question.scenario import Scenario
from ssdsim.reports.rates import Rates, rates_at
from ssdsim.runs.named_files import located
from ssdsim.runs.report_folder import RunFolder

DRAWS = 400  # of what is not known at each point: bands then wander by a few percent of their width


class Study(Record):
    """A run folder, and the prediction at its base point."""

    folder: RunFolder
    seed: int = 0

    @cached_property
    def base(self) -> dict[str, Any]:
        return self.folder.base

    @cached_property
    def prediction(self) -> Prediction:
        options = self.configurable(self.base)
        check_owners(options)
        return predict_configured(configure(**options), self.seed)  # another point of the run may read what it does not

    @property
    def configuration(self) -> Configuration:
        return self.prediction.configuration

    # who is compared

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The run's strategies, those without room at the base point too."""
        asked = self.configuration.settings["strategies"]
        return tuple(name for name in strategies.ALL.names if name in asked)

    @property
    def subject(self) -> str:
        return self.configuration.subject

    @property
    def rivals(self) -> tuple[str, ...]:
        return rivals(self.subject, self.names)

    @cached_property
    def caching(self) -> tuple[Scenario, ...]:
        """The strategies that look outcomes up in a cache, the subject first."""
        scenarios = self.configuration.scenarios
        ordered = sorted(scenarios, key=lambda name: name != self.subject)
        return tuple(scenarios[name] for name in ordered if scenarios[name].strategy.miss is not None)

    @cached_property
    def read(self) -> frozenset[str]:
        """The options that shape some strategy at the base point."""
        options = self.configurable(self.base)
        return frozenset().union(*(options_read(name, options) for name in self.configuration.scenarios))

    # numbers

    @property
    def unit_free(self) -> bool:
        return self.configuration.site is None

    @property
    def rate_unit(self) -> str:
        return "tokens/T_v" if self.unit_free else "tokens/s"

    def rates(self, several: Iterable[Mapping[str, Any]], draws: bool = True) -> list[Rates | InputError]:
        """The closed forms at some options each, or why these are not possible; with draws of what is not known.

        Options are those of a sweep: beside a hit rate, F is the draft's work only.
        """
        points = Points([self.configurable(options) for options in several], self._steps)
        return rates_at(points, self._drawn if draws else None)

    @cached_property
    def _steps(self) -> Steps:
        """Steps of points near each other: what one figure's point made is there for the next."""
        return Steps()

    @cached_property
    def _drawn(self) -> many.Rates:
        """Rates under draws of what is not known, the same for all figures."""
        return many.Rates(TimingErrors(DRAWS, self.seed))

    def configurable(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the folder as :func:`ssdsim.configure` takes them, from wherever the report is made."""
        return as_configured(located(self.folder.path, options))

    def alone(self, name: str, **others: Any) -> dict[str, Any]:
        """The base options for one strategy."""
        kept = {option: value for option, value in self.base.items() if option != "subject"}
        return {**kept, "strategies": (name,), **others}

    def with_backup(self, backup: str, **others: Any) -> dict[str, Any]:
        """The base options with one fallback; what only describes a fast backup goes where there is none."""
        useless = members(Group.BACKUP_QUALITY) if backup == "jit" else ()
        kept = {name: value for name, value in self.base.items() if name not in useless}
        return {**kept, "backup": backup, **others}

    # words

    @cached_property
    def timings(self) -> str:
        """The profiles and the kinds of their timings, in short."""
        site = self.configuration.site
        if site is None:
            return "none, durations are in units of T_v"
        profiles = {p.name: p for p in (site.profile, site.draft_profile)}
        kinds = {name: sorted({source.kind for source in p.sources.values()}) for name, p in profiles.items()}
        kernels = " and ".join(f"{name} ({', '.join(each)})" for name, each in kinds.items())
        return f"{kernels}, on the runtime {site.runtime.name}"

    @property
    def provenance(self) -> str:
        """The sentence on how the numbers were computed and where the timings came from."""
        varies = ", at constant durations" if self.configuration.settings["spread"] else ""
        return f"Closed form (exact{varies}). Timings: {self.timings}."

    @property
    def interval(self) -> str:
        return self.bounds("Bands")

    def bounds(self, shown_as: str) -> str:
        """The sentence on what intervals rest on, which a figure shows as bands or bars."""
        sure = all(scenario.known.is_sure for scenario in self.configuration.scenarios.values())
        if self.unit_free:
            return "No interval: durations and tokens are given." if sure else f"{shown_as}: 95 % from {self._tokens}."
        errors = "the timings' held-out errors"
        rest = errors if sure else f"{errors} and {self._tokens}"
        return f"{shown_as}: 95 % from {rest}; what two strategies share cancels."

    @property
    def _tokens(self) -> str:
        return "what is not known of acceptance and hits"

    def setting(self, *without: str) -> str:
        """The base point in short, such as ``b 1, K 6, alpha 0.8``; for what a figure does not vary."""
        values = {**self.configuration.settings, **self.base}
        auto = self.base.get("backup", DEFAULTS["backup"]) == "auto"
        # a hit rate that is not given follows from F
        follows = {name for name, is_so in (("p_hit", "p_hit" not in self.base), ("backup", auto)) if is_so}
        shown = [name for name in ("b", "k", "alpha", "f", "p_hit", "backup") if name in self.read.difference(without)]
        parts = [
            f"{ALL[name].short} {_short(values[name])}"
            for name in shown
            if name not in follows and values.get(name) is not None
        ]
        if auto and "backup" in shown:
            parts.append(f"the better backup ({self.configuration.settings['backup']} at the base values)")
        return ", ".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(number(item) for item in value)
    return number(round(value, 3) if isinstance(value, float) else value)
