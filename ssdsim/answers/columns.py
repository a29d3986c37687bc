"""Columns of a prediction: in a table, in JSON and, with a strategy's name, in a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from ssdsim import strategies
from ssdsim.answers.verdict import rivals
from ssdsim.base.display import Display
from ssdsim.base.intervals import Interval
from ssdsim.base.record import Record
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.configuration import Configuration
from ssdsim.rounds.round import Estimate


class EstimateColumn(Record):
    """A number of an :class:`Estimate`, by its name there.

    ``key`` is its name in JSON, ``title`` in tables (times in ms), ``swept`` in a sweep (``{}``: the strategy's
    name); empty if it is not shown there. ``of`` says which strategies have it in a sweep.
    """

    name: str
    key: str
    unit: Literal["rate", "devices", "time", "tokens", "share"]
    title: str = ""
    swept: str = ""
    of: Literal["all", "drafting", "caching"] = "all"

    def value(self, estimate: Estimate, seconds: bool = False) -> Any:
        """The estimate's number; a time is in ms if the estimate's times are in ``seconds``."""
        number = getattr(estimate, self.name)
        return 1e3 * number if seconds and self.unit == "time" else number

    def headed(self, configuration: Configuration) -> str:
        """The title with its unit (ms or per second, or T_v where times are unit-free), and what devices are called."""
        seconds = configuration.unit == "s"
        if self.unit == "time":
            return f"{self.title} {'ms' if seconds else 'T_v'}"
        title = self.title.replace("GPU", configuration.devices[:-1])
        return title if seconds else title.replace("/s", "/T_v")

    def is_of(self, name: str) -> bool:
        strategy = strategies.ALL.named(name)
        return {"all": True, "drafting": strategy.drafts, "caching": strategy.miss_state is not None}[self.of]


COLUMNS = (
    EstimateColumn("tokens_per_second", "tokens_per_second", "rate", "tokens/s", "{}_tokens_per_second"),
    EstimateColumn("per_user", "tokens_per_second_per_sequence", "rate", "per user"),
    EstimateColumn("per_gpu", "tokens_per_second_per_gpu", "rate", "per GPU"),
    EstimateColumn("gpus", "gpus", "devices", "GPUs", "{}_gpus"),
    EstimateColumn("tpot_s", "tpot_ms", "time", "TPOT"),
    EstimateColumn("tokens_per_round", "tokens_per_round", "tokens", "tokens", "tokens_per_round_{}", of="drafting"),
    EstimateColumn("round_s", "round_ms", "time", "round", "{}_round_s"),
    EstimateColumn("p_hit", "p_hit", "share", swept="p_hit", of="caching"),
    EstimateColumn("p_all_hit", "p_all_hit", "share", swept="p_all_hit", of="caching"),
    EstimateColumn("paper_tokens_per_second", "paper_tokens_per_second", "rate"),
)
TITLED = sorted((column for column in COLUMNS if column.title), key=lambda column: column.unit == "tokens")
"""The columns of a table, tokens last."""


def ratios(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of strategies with a ratio: each over those before it, the last strategy first."""
    return [
        (name, rival)
        for at in range(len(names) - 1, 0, -1)
        for name in [names[at]]
        for rival in rivals(name, names[:at])
    ]


def own(names: Sequence[str], name: str, column: str) -> str:
    """The column of a result that not every strategy has; with the strategy's name if several of ``names`` have it."""
    several = sum(column in own_columns(other) for other in names) > 1
    return f"{name}_{column}" if several else column


def own_columns(name: str) -> tuple[str, ...]:
    """Results that not every strategy has: hit rates if it caches, and the settings that it shows."""
    told = strategies.ALL.named(name).shown_settings
    return (*(column.swept for column in _swept(name) if column.of == "caching"), *told)


def _swept(name: str) -> list[EstimateColumn]:
    return [column for column in COLUMNS if column.swept and column.is_of(name)]


def results(names: Sequence[str]) -> list[str]:
    """Names of the columns of a prediction, in order."""
    named = {column: [column.swept.format(name) for name in names if column in _swept(name)] for column in COLUMNS}
    rates, *others = (each for column, each in named.items() if column.of != "caching")
    return [
        *rates,
        *(f"{name}_over_{rival}" for name, rival in ratios(names)),
        *chain.from_iterable(others),
        *(lookahead(name) for name in names if strategies.ALL.named(name).drafts),
        *(own(names, name, column) for name in names for column in own_columns(name)),
    ]


def lookahead(name: str) -> str:
    """The column of the K at which a strategy is: its own best where none is given."""
    return f"{name}_k"


def intervals(names: Sequence[str]) -> list[str]:
    """Names of the columns that rest on draws of the errors."""
    bounds = [f"{name}_{end}" for name in names for end in ("low", "high")]
    return [*bounds, *(probability(name, rival) for name, rival in contests(names))]


def contests(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each strategy with its main rival, if both are among ``names``."""
    pairs = [(name, strategies.ALL.named(name).rival) for name in names]
    return [(name, rival) for name, rival in pairs if rival in names and rival is not None]


def probability(name: str, rival: str) -> str:
    return f"probability_{name}_beats_{rival}"


def texts(names: Sequence[str]) -> set[str]:
    """Names of the columns that hold text."""
    words = {own(names, name, column) for name in names for column in strategies.ALL.named(name).shown_settings}
    return {column for column in words if column.endswith("backup")} | {"error"}


def of_estimate(names: Sequence[str], estimate: Estimate) -> dict[str, Any]:
    """The columns of one strategy; :func:`over` has its ratios to others."""
    name = estimate.strategy
    return {
        own(names, name, column.swept) if column.of == "caching" else column.swept.format(name): column.value(estimate)
        for column in _swept(name)
    }


def over(pairs: Iterable[tuple[str, str]], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of tokens/s of ``pairs``, such as :func:`ratios`, as far as ``columns`` has both."""
    return {
        f"{name}_over_{rival}": columns[f"{name}_tokens_per_second"] / columns[f"{rival}_tokens_per_second"]
        for name, rival in pairs
        if f"{name}_tokens_per_second" in columns and f"{rival}_tokens_per_second" in columns
    }


def prediction_table(
    configuration: Configuration,
    estimates: Mapping[str, Estimate],
    intervals: Mapping[str, Interval | None],
    subject: str,
    sentence: str,
) -> Display:
    """The table of a prediction, a row a strategy: its numbers, its interval, and its tokens/s over each rival's."""
    seconds = configuration.unit == "s"
    shown = {column.headed(configuration): column for column in TITLED}
    rate, *others = shown
    rivals = [name for name in estimates if name != subject]
    bounds = ["95 %"] if any(intervals.values()) else []
    rows = []
    for name, e in estimates.items():
        interval = intervals[name]
        first, *rest = (_cell(column, e, seconds) for column in shown.values())
        said = [f"{interval.low:.4g}-{interval.high:.4g}"] if interval else []
        over = (f"{e.tokens_per_second / estimates[rival].tokens_per_second:.2f}x" for rival in rivals)
        rows.append((strategies.ALL.named(name).title, first, *said, *rest, *over))
    header = ("", rate, *bounds, *others, *(f"vs {strategies.ALL.named(name).title}" for name in rivals))
    return Display(configuration.title, header, rows, sentence)


def _cell(column: EstimateColumn, estimate: Estimate, seconds: bool) -> str:
    value = column.value(estimate, seconds)
    if column.unit == "devices":
        return format_count(value)
    digits = 2 if column.unit != "rate" else 1 if seconds else 3
    return f"{value:.{digits}f}"
