"""The best choice of every batch and context, or what a policy of K runs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim import strategies
from ssdsim.advise.candidates import CELLS, Candidates, Chosen, candidates, fixed_options
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.base.checks import listed
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.intervals import Interval
from ssdsim.base.option import spelled
from ssdsim.base.plain import plain
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.many import RateDraws
from ssdsim.question.options import ALL, refuse_others
from ssdsim.question.scenario import Scenario
from ssdsim.question.spellings import any_spelling
from ssdsim.question.token_inputs import TokenInput, merged_inputs
from ssdsim.serving.batching import KTable, OfKTable
from ssdsim.serving.schedule_file import Cell, Schedule

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Axes


DRAWS = 1000
_ASSUMED = ("given", "default", "same as hardware")  # sources of assumptions; the rest follows from them


@any_spelling
def schedule(
    *, seed: int = 0, k_table: KTable | str | Sequence[Sequence[int]] | None = None, **options: Unpack[Axes]
) -> Schedule:
    """The best strategy, with its settings, for every batch and context: the highest mean log speed over the draws.

    Parameters
    ----------
    seed : of the draws of what is not known.
    k_table : a table of K or a policy of ``serve`` in place of the search: each cell has SD with its K. K 0 is SD with
        a draft that only keeps its cache ready.
    options : those of :func:`ssdsim.advise.candidates.candidates`.

    Returns
    -------
    Schedule : a :class:`Cell` for each context and batch, in that order.

    Raises
    ------
    InputError : an option that has no effect here or in this combination.

    >>> from ssdsim import schedule
    >>> [(c.b, c.strategy, c.settings["k"], c.settings.get("backup")) for c in schedule(b=[1, 16], k=[2, 6], f=3).cells]
    [(1, 'ssd', 6, 'jit'), (16, 'ssd', 6, 'fast')]
    """
    if k_table is not None:
        return policy_of_k(k_table, **options).schedule(seed)
    return of_candidates(candidates(seed=seed, **options))


def of_candidates(candidates: Candidates, names: Sequence[str] | None = None) -> Schedule:
    """:func:`schedule` of evaluated candidates; of the strategies ``names`` alone."""
    cells = {(each.b, each.context): _cell(each) for each in candidates.best(names)}
    for (b, context), reason in candidates.impossible.items():
        cells[b, context] = Cell(b=b, context=context, strategy=None, reason=reason)
    ordered = sorted(cells.items(), key=lambda item: (item[0][1], item[0][0]))
    assumptions, origins = _origins(candidates)
    inputs = tuple(plain(each) for each in inputs_behind(candidates))
    cells_in_order = tuple(cell for _, cell in ordered)
    return Schedule(schema_=2, assumptions=assumptions, provenance=origins, inputs=inputs, cells=cells_in_order)


def _cell(chosen: Chosen) -> Cell:
    settings = chosen.deployment.scenario.settings
    deployed = {each: settings.get(each) for each in strategies.ALL.named(chosen.strategy).deployed}
    return Cell(
        b=chosen.b,
        context=chosen.context,
        strategy=chosen.strategy,
        gpus=chosen.deployment.gpus,
        tokens_per_second=chosen.rate.median,
        settings={each: value for each, value in deployed.items() if value is not None},
        low=chosen.rate.interval.low,
        high=chosen.rate.interval.high,
    )


def _first_of_each(candidates: Candidates) -> dict[str, tuple[tuple[int, int], Deployment]]:
    """The first choice that fits of each strategy, with its cell."""
    found: dict[str, tuple[tuple[int, int], Deployment]] = {}
    for cell, deployments in candidates.cells.items():
        for each in deployments:
            found.setdefault(each.shape.strategy, (cell, each))
    return found


def _origins(candidates: Candidates) -> tuple[dict[str, Any], tuple[dict[str, str], ...]]:
    """The options that shaped the candidates, and where their timings came from."""
    assumed: dict[str, Any] = {}
    origins: tuple[dict[str, str], ...] = ()
    for cell, each in _first_of_each(candidates).values():
        configuration = configure(**candidates.point(cell, each.shape))
        settings, origins = configuration.settings, tuple(configuration.provenance)
        assumed |= {name: value for name, value in settings.items() if settings.source(name) in _ASSUMED}
    fixed = {name: assumed[name] for name in fixed_options() if name in assumed}
    return {"strategies": list(candidates.strategies), **fixed, **candidates.options}, origins


def inputs_behind(candidates: Candidates) -> tuple[TokenInput, ...]:
    """Token inputs of each strategy's first choice; they are the same in all choices."""
    first = _first_of_each(candidates)
    return merged_inputs({name: each.scenario.known.inputs for name, (_, each) in first.items()})


class OfPolicy(Record):
    """A batch and a context with the policy's K; ``reason`` says why nothing fits."""

    b: int
    context: int
    k: int
    configuration: Configuration | None
    reason: str | None = None

    @property
    def scenario(self) -> Scenario:
        """SD with that K; at K 0 the draft only keeps its cache ready."""
        from ssdsim.serving.by_k import paused  # here, since few ask and it loads much of serving

        assert self.configuration is not None
        scenario = self.configuration.scenarios["sd"]
        return scenario if self.k else paused(scenario)

    def cell(self, errors: TimingErrors) -> Cell:
        if self.configuration is None:
            return Cell(b=self.b, context=self.context, strategy=None, reason=self.reason)
        scenario = self.scenario
        within = Interval.of(RateDraws.of(scenario, errors).joint)
        return Cell(
            b=self.b,
            context=self.context,
            strategy="sd",
            settings={"k": self.k},
            gpus=self.configuration.scenarios["sd"].estimate.gpus,
            tokens_per_second=float(scenario.estimate.tokens_per_second),
            low=within.low,
            high=within.high,
        )


class PolicyOfK(Record):
    """A policy of K in all cells; ``options`` are the given ones."""

    options: Mapping[str, Any]
    cells: tuple[OfPolicy, ...]

    @property
    def configurations(self) -> list[Configuration]:
        return [each.configuration for each in self.cells if each.configuration is not None]

    @property
    def inputs(self) -> tuple[TokenInput, ...]:
        """Inputs of acceptance, which are the same in all cells."""
        scenarios = [each.scenarios["sd"] for each in self.configurations[:1]]
        return merged_inputs({each.strategy.name: each.known.inputs for each in scenarios})

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(said for each in self.configurations for said in each.warnings))

    def schedule(self, seed: int = 0) -> Schedule:
        """The schedule, with intervals from draws of the errors."""
        errors, first = TimingErrors(DRAWS, seed), next(iter(self.configurations), None)
        taken = [] if first is None else first.settings.items()
        assumed = {name: value for name, value in taken if first and first.settings.source(name) in _ASSUMED}
        fixed = {name: assumed[name] for name in fixed_options() if name in assumed}
        return Schedule(
            schema_=2,
            assumptions={"strategies": ["sd"], **fixed, **self.options},
            provenance=tuple(first.provenance) if first else (),
            inputs=tuple(plain(each) for each in self.inputs),
            cells=tuple(each.cell(errors) for each in self.cells),
        )


def policy_of_k(k_table: KTable | str | Sequence[Sequence[int]], **options: Any) -> PolicyOfK:
    """SD at every batch and context by ``k_table``: a table or the name of a policy, as ``serve`` takes it.

    A policy that follows the accepted lengths has the K of most of its rounds, as in the closed form of ``serve``.
    """
    given = {name: value for name, value in options.items() if value is not None}
    refuse_others("a schedule by --k-table", given, ("strategies", "k", *CELLS, *fixed_options()))
    if ALL["strategies"].checked(given.pop("strategies", ("sd",))) != ("sd",):
        raise InputError("--k-table says K of SD alone: leave --strategies out")
    asked = OfKTable().checked("--k-table", k_table)
    batches, contexts = (listed(spelled(name), given.pop(name, values)) for name, values in CELLS.items())
    said = [list(each) for each in asked.ranges] if isinstance(asked, KTable) else asked
    told = {"k_table": said, **given}
    if "k" in given:
        given["k"] = max(listed("--k", given["k"]))
    return PolicyOfK(told, tuple(_cells(asked, given, batches, contexts)))


def _cells(
    asked: KTable | str, given: Mapping[str, Any], batches: list[int], contexts: list[int]
) -> Iterator[OfPolicy]:
    from ssdsim.serving.batching import Batching  # here, since few ask and they load much of serving
    from ssdsim.serving.by_k import by_k
    from ssdsim.serving.passes import PromptTables

    batching = Batching(max_batch=max(batches))
    for context in contexts:
        policy = by_k(asked, "auto", {**given, "context": context}, batching, PromptTables()).policy
        for b in batches:
            k = policy.at(b, context).k
            try:
                point = {**given, "b": b, "context": context, "sd_k": max(1, k), "strategies": ("sd",)}
                yield OfPolicy(b, context, k, configure(**point))
            except CannotRun as error:
                yield OfPolicy(b, context, k, None, str(error))
