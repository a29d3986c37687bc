"""What the figures share: the run folder, the prediction at its base point, and rates at points near it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ssdsim.answers.predict import Prediction, estimate_all, predict
from ssdsim.answers.sweep.plan import as_configured
from ssdsim.intervals import Draws, bounds_95, centred_on
from ssdsim.reports.figure import number
from ssdsim.runs.named_files import located
from ssdsim.runs.report_folder import RunFolder
from ssdsim.scenario.configuration import Configuration, configure
from ssdsim.scenario.options import ALL, BACKUP_QUALITY, DEFAULTS

DRAWS = 400  # of the timings' errors at each point: bands then wander by a few percent of their width
RATIOS = (("ssd", "sd"), ("ssd", "ar"), ("sd", "ar"))


@dataclass(frozen=True)
class Rates:
    """Tokens/s of each strategy at one point, and under draws of the timings' errors (None where there are none)."""

    configuration: Configuration
    tokens_per_second: Mapping[str, float]
    gpus: Mapping[str, int]
    draws: Mapping[str, Draws] | None

    def ratio(self, above: str, below: str) -> tuple[float, float, float]:
        """``above / below`` with its 95 % interval; errors that both share cancel. nan bounds without draws."""
        value = self.tokens_per_second[above] / self.tokens_per_second[below]
        if self.draws is None:
            return value, float("nan"), float("nan")
        low, high = bounds_95(self.draws[above] / self.draws[below])
        return value, float(low), float(high)

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval of a strategy's tokens/s; nan without draws."""
        if self.draws is None:
            return float("nan"), float("nan")
        low, high = bounds_95(self.draws[name])
        return float(low), float(high)


@dataclass(frozen=True)
class Study:
    """A run folder, and the prediction at its base point."""

    folder: RunFolder
    seed: int = 0

    @cached_property
    def base(self) -> dict[str, Any]:
        return self.folder.base

    @cached_property
    def prediction(self) -> Prediction:
        return predict(seed=self.seed, **self.configurable(self.base))

    @property
    def configuration(self) -> Configuration:
        return self.prediction.configuration

    @property
    def unit_free(self) -> bool:
        return self.configuration.costs is None

    @property
    def rate_unit(self) -> str:
        return "tokens/T_v" if self.unit_free else "tokens/s"

    def rates(self, options: Mapping[str, Any], draws: int = DRAWS) -> Rates:
        """The closed forms at ``options``, which are those of a sweep: beside a hit rate, F is the draft's work only.

        Raises
        ------
        InputError : the options are not possible together, or do not fit in memory.
        """
        configuration = configure(**self.configurable(options))
        estimates = estimate_all(configuration.scenario)
        rates = {name: float(e.tokens_per_second) for name, e in estimates.items()}
        sampled = configuration.sampled(draws, self.seed) if draws else None
        drawn = estimate_all(sampled) if sampled else {}
        return Rates(
            configuration,
            rates,
            {name: int(e.gpus) for name, e in estimates.items()},
            {name: centred_on(rates[name], e.tokens_per_second) for name, e in drawn.items()} or None,
        )

    def configurable(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the folder as :func:`ssdsim.configure` takes them, from wherever the report is made."""
        return as_configured(located(self.folder.path, options))

    def with_backup(self, backup: str, **others: Any) -> dict[str, Any]:
        """The base options with one fallback; what only describes a fast backup goes where there is none."""
        useless = BACKUP_QUALITY if backup == "jit" else ()
        kept = {name: value for name, value in self.base.items() if name not in useless}
        return {**kept, "backup": backup, **others}

    @cached_property
    def timings(self) -> str:
        """The profiles and the kinds of their timings, in short."""
        placement = self.configuration.placement
        if placement is None:
            return "none, durations are in units of T_v"
        profiles = {p.name: p for p in (placement.profile, placement.draft_profile)}
        kinds = {name: sorted({source.kind for source in p.sources.values()}) for name, p in profiles.items()}
        return " and ".join(f"{name} ({', '.join(found)})" for name, found in kinds.items())

    @property
    def provenance(self) -> str:
        """How the numbers were computed and where the timings came from."""
        varies = ", at constant durations" if self.configuration.scenario.spread else ""
        return f"Closed form (exact{varies}). Timings: {self.timings}."

    @property
    def interval(self) -> str:
        if self.unit_free:
            return "No interval: the durations are given."
        return "Bands: 95 % from the timings' held-out errors; what two strategies share cancels."

    def setting(self, *without: str) -> str:
        """The base point in short, such as ``b 1, K 6, alpha 0.8``; for what a figure does not vary."""
        values = {**self.configuration.values, **self.base, "backup": self.configuration.values["backup"]}
        shown = ("b", "k", "alpha", "f", "p_hit", "backup")
        given = [name for name in shown if values.get(name) is not None and name not in without]
        if "p_hit" not in self.base:
            given = [name for name in given if name != "p_hit"]  # it follows from F
        auto = self.base.get("backup", DEFAULTS["backup"]) == "auto"
        parts = [f"{ALL[name].short} {_short(values[name])}" for name in given if name != "backup" or not auto]
        if auto and "backup" not in without:
            parts.append(f"the better fallback ({values['backup']} at the base values)")
        return ", ".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(number(item) for item in value)
    return number(round(value, 3) if isinstance(value, float) else value)
