"""What figures share: a run folder, the prediction at its base point, rates near it, and the ratios that they draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import nan
from typing import Any

from ssdsim import strategies
from ssdsim.answers.best_at_points import best_scenarios
from ssdsim.answers.grid import Fastest, PointResult
from ssdsim.answers.predict import DRAWS as MOST_DRAWS
from ssdsim.answers.predict import Prediction, predicted
from ssdsim.answers.verdict import rivals
from ssdsim.base.errors import InputError, why_refused
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.option import Group, number
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question import many
from ssdsim.question.configuration import Configuration
from ssdsim.question.option_usage import check_owners, options_read
from ssdsim.question.options import ALL, DEFAULTS, members
from ssdsim.question.points import Points, Steps
from ssdsim.question.scenario import Scenario
from ssdsim.reports.style import colour_of, symbol_of, title_of
from ssdsim.runs.named_files import located
from ssdsim.runs.report_folder import RunFolder

DRAWS = 400  # of what is not known at each point: bands then wander by a few percent of their width
_DASHES = ("solid", "dashdot", "longdash", "longdashdot")


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
        return predicted(options, self.seed)  # another point of the run may read what it does not

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
        return tuple(scenarios[name] for name in ordered if scenarios[name].strategy.miss_state is not None)

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

    def rates(self, several: Iterable[Mapping[str, Any]], draws: bool = True) -> list[PointRates | InputError]:
        """The closed forms at several points, or why one is not possible; with draws of the errors."""
        points = Points([self.configurable(options) for options in several], self._steps)
        return _rates_at(points, self._chosen_by, self._drawn if draws else None)

    @cached_property
    def _steps(self) -> Steps:
        """Memory of steps that points share, for all figures."""
        return Steps()

    @cached_property
    def _drawn(self) -> many.DrawnRates:
        """Rates under draws of the errors, the same for all figures."""
        return many.DrawnRates(TimingErrors(DRAWS, self.seed))

    @cached_property
    def _chosen_by(self) -> many.DrawnRates:
        """Rates under draws by which each strategy's settings are chosen, those of a prediction."""
        return many.DrawnRates(TimingErrors(MOST_DRAWS, self.seed))

    def configurable(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the folder as :func:`ssdsim.configure` takes them, from wherever the report is made."""
        return located(self.folder.path, options)

    def alone(self, name: str, **others: Any) -> dict[str, Any]:
        """The base options with one strategy."""
        kept = {option: value for option, value in self.base.items() if option != "subject"}
        return {**kept, "strategies": (name,), **others}

    def with_backup(self, backup: str, **others: Any) -> dict[str, Any]:
        """The base options with one fallback; with jit, without what describes a fast backup."""
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
        """A sentence on how the numbers were computed and where the timings came from."""
        varies = ", at constant durations" if self.configuration.settings["spread"] else ""
        return f"Closed form (exact{varies}). Timings: {self.timings}."

    @property
    def interval(self) -> str:
        return self.bounds("Bands")

    def bounds(self, shown_as: str) -> str:
        """A sentence on the sources of the intervals, which a figure shows as bands or bars."""
        timings, tokens = "the timings' held-out errors", "what is not known of acceptance and hits"
        sure = all(scenario.known.is_sure for scenario in self.configuration.scenarios.values())
        if self.unit_free:
            return "No interval: durations and tokens are given." if sure else f"{shown_as}: 95 % from {tokens}."
        rest = timings if sure else f"{timings} and {tokens}"
        return f"{shown_as}: 95 % from {rest}; what two strategies share cancels."

    def setting(self, *without: str) -> str:
        """The base point in short, such as ``b 1, K 6, alpha 0.8``, ``without`` what a figure varies."""
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


class PointRates(Record):
    """Rates at one point, and why strategies are ``refused`` there.

    ``draws`` are of all ``sides`` or of none; ``errs`` says whether timings or tokens are uncertain.
    """

    subject: str
    sides: Mapping[str, PointResult]
    draws: Mapping[str, Draws]
    refused: Mapping[str, str]
    errs: bool

    def ratio(self, above: str, below: str) -> tuple[float, float, float]:
        """``above / below`` with its 95 % interval; errors that both share cancel.

        nan if one of the two has no room; nan bounds without draws, or if nothing is uncertain.
        """
        if not {above, below} <= self.sides.keys():
            return nan, nan, nan
        own, other = self.sides[above], self.sides[below]
        draws = self.draws[above] / self.draws[below] if self.draws else None
        return own.tokens_per_second / other.tokens_per_second, *self._bounds(draws)

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval of a strategy's tokens/s; nan without draws, or if nothing is uncertain."""
        return self._bounds(self.draws[name] if self.draws else None)

    def _bounds(self, draws: Draws | None) -> tuple[float, float]:
        if draws is None or not self.errs:
            return nan, nan
        low, high = bounds_95(draws)
        return float(low), float(high)

    @property
    def reason(self) -> str | None:
        """Why one of the strategies cannot run here."""
        return why_refused(self.subject, self.refused) if self.refused else None


def _rates_at(
    points: Points, chosen_by: many.DrawnRates, drawn: many.DrawnRates | None
) -> list[PointRates | InputError]:
    """Closed forms at each point, or why it is not possible; a point at which no strategy fits is not."""
    sides: list[dict[str, PointResult]] = [{} for _ in points.errors]
    draws: list[dict[str, Draws]] = [{} for _ in points.errors]
    refused: list[dict[str, str]] = [{} for _ in points.errors]
    errors, errs = [*points.errors], [False for _ in points.errors]
    for name in points.names:
        scenarios = best_scenarios(points, name, chosen_by)
        for row, problem in scenarios.errors.items():
            errors[row] = errors[row] or problem
        for row, why in scenarios.refused.items():
            refused[row][name] = why
        if not len(scenarios):
            continue
        fastest = Fastest.of(scenarios)
        rows = fastest.scenarios.side_by_side
        under, is_unsure = None if drawn is None else drawn(rows), fastest.scenarios.is_unsure
        for row, one in fastest.of_points():
            sides[row][name] = one
            if under is not None:
                draws[row][name] = under[one.number]
            errs[row] |= bool(is_unsure[one.number])
    found: list[PointRates | InputError] = []
    for row, error in enumerate(errors):
        if error is not None:
            found.append(error)
            continue
        subject = points.subject(row)
        made = PointRates(subject, sides[row], draws[row], refused[row], errs[row])
        found.append(made if sides[row] else InputError(refused[row][subject]))
    return found


class Ratio(Record):
    """A line of the speedup charts; the ratios over the baseline share a panel."""

    above: str
    below: str
    dash: str
    over_baseline: bool
    marked: str
    """The side that its markers are of: the one in which the lines of its panel differ."""

    @property
    def key(self) -> str:
        """The column of the ratio."""
        return f"{self.above}/{self.below}"

    @property
    def title(self) -> str:
        return f"{title_of(self.above)} / {title_of(self.below)}"

    @property
    def colour(self) -> str:
        return colour_of(self.above)

    @property
    def symbol(self) -> str:
        return symbol_of(self.marked)


def baseline(study: Study) -> str:
    """The reference of the other ratios: the first strategy of the run that is not its subject."""
    return next(name for name in study.names if name != study.subject)


def ratios(study: Study) -> tuple[Ratio, ...]:
    """The subject over each rival, the first rival first; then the others over the baseline."""
    if not study.rivals:
        return ()
    base = baseline(study)
    others = [name for name in study.rivals if name != base]
    dashes = {base: "dash"} | {name: _DASHES[number % len(_DASHES)] for number, name in enumerate(others)}
    return (
        *(Ratio(study.subject, name, dashes[name], name == base, name) for name in study.rivals),
        *(Ratio(name, base, "dot", True, name) for name in others),
    )
