"""The best choice of every batch and context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim import strategies
from ssdsim.advise.schedule.candidates import Candidates, candidates, fixed_options
from ssdsim.base.plain import plain
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.question.standing import TokenInput, of_all
from ssdsim.serving.k_table import KTable
from ssdsim.serving.schedule_file import Cell, Schedule

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Axes

DRAWS = 1000
TAKEN = ("given", "default", "same as hardware")  # sources of assumptions; the rest follows from them


def schedule(
    *, seed: int = 0, k_table: KTable | str | Sequence[Sequence[int]] | None = None, **options: Unpack[Axes]
) -> Schedule:
    """The best strategy by tokens/s, with its settings, for every batch and context.

    Parameters
    ----------
    seed : of the draws of what is not known, behind the intervals.
    k_table : a table of K or a policy of ``serve``, in place of the search: what SD runs by it in each cell. Its K 0 is
        SD with a draft that only keeps its cache ready.
    options : those of :func:`ssdsim.advise.schedule.candidates.candidates`.

    Returns
    -------
    Schedule : a :class:`Cell` for each context and batch, in that order.

    Raises
    ------
    InputError : an option that has no part here or means nothing in this combination.

    >>> from ssdsim import schedule
    >>> [(c.b, c.strategy, c.settings["k"], c.settings.get("backup")) for c in schedule(b=[1, 64], k=[2, 6], f=3).cells]
    [(1, 'ssd', 6, 'jit'), (64, 'ssd', 2, 'fast')]
    """
    if k_table is not None:
        from ssdsim.advise.schedule.by_policy import policy_of_k  # here, since it stands on serving, and few ask

        return policy_of_k(k_table, **options).schedule(seed)
    return of_candidates(candidates(**options), seed)


def of_candidates(candidates: Candidates, seed: int = 0, names: Sequence[str] | None = None) -> Schedule:
    """:func:`schedule` of choices that are already evaluated; of the strategies ``names`` alone."""
    from ssdsim.answers.grid import evaluate

    best = candidates.best(names).to_dict("records")
    bounds = evaluate([candidates.points[row["point"]] for row in best], draws=DRAWS, seed=seed).to_dict("records")
    cells = {
        (row["b"], row["context"]): _cell(row, b, candidates.points[row["point"]])
        for row, b in zip(best, bounds, strict=True)
    }
    for (b, context), reason in candidates.impossible.items():
        cells[b, context] = Cell(b=b, context=context, strategy=None, reason=reason)
    ordered = sorted(cells.items(), key=lambda item: (item[0][1], item[0][0]))
    assumptions, origins = _origins(candidates)
    inputs = tuple(plain(each) for each in inputs_behind(candidates))
    cells_in_order = tuple(cell for _, cell in ordered)
    return Schedule(schema=2, assumptions=assumptions, provenance=origins, inputs=inputs, cells=cells_in_order)


def _cell(row: Mapping[Any, Any], bounds: Mapping[Any, Any], point: Mapping[str, Any]) -> Cell:
    name = row["strategy"]
    settings = configure(**point).settings
    deployed = {each: settings.get(each) for each in strategies.ALL.named(name).deployed}
    return Cell(
        **{field: row[field] for field in ("b", "context", "strategy", "gpus", "tokens_per_second")},
        settings={each: value for each, value in deployed.items() if value is not None},
        low=bounds[f"{name}_low"],
        high=bounds[f"{name}_high"],
    )


def _origins(candidates: Candidates) -> tuple[dict[str, Any], tuple[dict[str, str], ...]]:
    """The options that shaped the candidates, and where their timings came from."""
    assumed: dict[str, Any] = {}
    origins: tuple[dict[str, str], ...] = ()
    for row in candidates.table.drop_duplicates("strategy").to_dict("records"):
        configuration = configure(**candidates.points[row["point"]])
        settings, origins = configuration.settings, tuple(configuration.provenance)
        assumed |= {name: value for name, value in settings.items() if settings.source(name) in TAKEN}
    fixed = {name: assumed[name] for name in fixed_options() if name in assumed}
    return {"strategies": list(candidates.strategies), **fixed, **candidates.options}, origins


def inputs_behind(candidates: Candidates) -> tuple[TokenInput, ...]:
    """Inputs of each strategy's first choice: what is accepted is the same in all."""
    first = {point["strategies"][0]: point for point in reversed(candidates.points)}
    fitting = {row["strategy"] for row in candidates.table.to_dict("records")}
    scenarios = (scenario_of(point) for name, point in first.items() if name in fitting)
    return of_all({scenario.strategy.name: scenario.known.inputs for scenario in scenarios})


def scenario_of(point: Mapping[str, Any]) -> Scenario:
    """Scenario of the one strategy that a point names."""
    (name,) = point["strategies"]
    return configure(**point).scenarios[name]
