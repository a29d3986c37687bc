"""The columns of tables of predictions: their names, from the strategies that are asked for, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.answers.verdict import rivals
from ssdsim.rounds.estimate import Estimate


def ratios(names: Sequence[str]) -> list[tuple[str, str]]:
    """Which strategy is held over which: each over those before it, the last strategy first."""
    return [
        (name, rival)
        for at in range(len(names) - 1, 0, -1)
        for name in [names[at]]
        for rival in rivals(name, names[:at])
    ]


def own(names: Sequence[str], name: str, column: str) -> str:
    """The column of a result that not every strategy has; with the strategy's name where several of ``names`` do."""
    several = sum(column in own_columns(other) for other in names) > 1
    return f"{name}_{column}" if several else column


def own_columns(name: str) -> tuple[str, ...]:
    """Results that not every strategy has: hit rates where it caches, settings that it tells."""
    strategy = strategies.ALL.named(name)
    return (*(("p_hit", "p_all_hit") if strategy.miss is not None else ()), *strategy.told)


def results(names: Sequence[str]) -> list[str]:
    """Names of the columns of a prediction, in order."""
    drafting = [name for name in names if strategies.ALL.named(name).drafts]
    return [
        *(f"{name}_tokens_per_second" for name in names),
        *(f"{name}_over_{rival}" for name, rival in ratios(names)),
        *(f"{name}_gpus" for name in names),
        *(f"tokens_per_round_{name}" for name in drafting),
        *(f"{name}_round_s" for name in names),
        *(own(names, name, column) for name in names for column in own_columns(name)),
    ]


def intervals(names: Sequence[str]) -> list[str]:
    """Names of the columns that rest on draws of the timings' errors."""
    bounds = [f"{name}_{end}" for name in names for end in ("low", "high")]
    return [*bounds, *(probability(name, rival) for name, rival in contests(names))]


def contests(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each strategy with the rival that it is held against first, where both are among ``names``."""
    pairs = [(name, strategies.ALL.named(name).rival) for name in names]
    return [(name, rival) for name, rival in pairs if rival in names and rival is not None]


def probability(name: str, rival: str) -> str:
    return f"probability_{name}_beats_{rival}"


def texts(names: Sequence[str]) -> set[str]:
    """Columns that hold words."""
    words = {own(names, name, column) for name in names for column in strategies.ALL.named(name).told}
    return {column for column in words if column.endswith("backup")} | {"error"}


def of_estimate(names: Sequence[str], estimate: Estimate) -> dict[str, Any]:
    """The columns of one strategy; those over others come with :func:`over`."""
    name = estimate.strategy
    columns = {
        f"{name}_tokens_per_second": estimate.tokens_per_second,
        f"{name}_gpus": estimate.gpus,
        f"{name}_round_s": estimate.round_s,
    }
    if strategies.ALL.named(name).drafts:
        columns[f"tokens_per_round_{name}"] = estimate.tokens_per_round
    if estimate.p_hit is not None:
        columns[own(names, name, "p_hit")] = estimate.p_hit
        columns[own(names, name, "p_all_hit")] = estimate.p_all_hit
    return columns


def over(pairs: Iterable[tuple[str, str]], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of tokens/s of the pairs, such as :func:`ratios`, that ``columns`` hold both of."""
    return {
        f"{name}_over_{rival}": columns[f"{name}_tokens_per_second"] / columns[f"{rival}_tokens_per_second"]
        for name, rival in pairs
        if f"{name}_tokens_per_second" in columns and f"{rival}_tokens_per_second" in columns
    }
