"""Schedule of a policy of K at every batch and context: the policies of ``serve``, priced as a schedule is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssdsim.advise.schedule.candidates import CELLS, fixed_options
from ssdsim.advise.schedule.schedule import DRAWS, TAKEN
from ssdsim.base.checks import listed
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Interval
from ssdsim.base.option import spelled
from ssdsim.base.plain import plain
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.room import NoRoom
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.many import Drawn
from ssdsim.question.options import ALL, refuse_others
from ssdsim.question.scenario import Scenario
from ssdsim.question.standing import TokenInput, of_all
from ssdsim.serving.batching import Batching
from ssdsim.serving.by_k import by_k, paused
from ssdsim.serving.k_table import KTable, OfKTable
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.schedule_file import Cell, Schedule


class OfPolicy(Record):
    """A batch and a context, with the K of the policy there; ``reason`` says why nothing fits."""

    b: int
    context: int
    k: int
    configuration: Configuration | None
    reason: str | None = None

    @property
    def scenario(self) -> Scenario:
        """SD with that K; with 0 a draft that keeps its cache ready and drafts nothing."""
        assert self.configuration is not None
        scenario = self.configuration.scenarios["sd"]
        return scenario if self.k else paused(scenario)

    def cell(self, errors: TimingErrors) -> Cell:
        if self.configuration is None:
            return Cell(b=self.b, context=self.context, strategy=None, reason=self.reason)
        scenario = self.scenario
        within = Interval.of(Drawn.of(scenario, errors).joint)
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
    """Policy of K in each cell; ``options`` are those that were given."""

    options: Mapping[str, Any]
    cells: tuple[OfPolicy, ...]

    @property
    def configurations(self) -> list[Configuration]:
        return [each.configuration for each in self.cells if each.configuration is not None]

    @property
    def inputs(self) -> tuple[TokenInput, ...]:
        """Inputs of acceptance, which are the same in all cells."""
        scenarios = [each.scenarios["sd"] for each in self.configurations[:1]]
        return of_all({each.strategy.name: each.known.inputs for each in scenarios})

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(said for each in self.configurations for said in each.warnings))

    def schedule(self, seed: int = 0) -> Schedule:
        """Schedule with intervals from draws of what is not known."""
        errors, first = TimingErrors(DRAWS, seed), next(iter(self.configurations), None)
        taken = [] if first is None else first.settings.items()
        assumed = {name: value for name, value in taken if first and first.settings.source(name) in TAKEN}
        fixed = {name: assumed[name] for name in fixed_options() if name in assumed}
        return Schedule(
            schema=2,
            assumptions={"strategies": ["sd"], **fixed, **self.options},
            provenance=tuple(first.provenance) if first else (),
            inputs=tuple(plain(each) for each in self.inputs),
            cells=tuple(each.cell(errors) for each in self.cells),
        )


def policy_of_k(k_table: KTable | str | Sequence[Sequence[int]], **options: Any) -> PolicyOfK:
    """Plan SD at every batch and context by ``k_table``: a table or the word of a policy, as ``serve`` takes it.

    One that follows what was accepted has the K of most of its rounds, as in the closed form of ``serve``.
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
    batching = Batching(max_batch=max(batches))
    for context in contexts:
        policy = by_k(asked, "auto", {**given, "context": context}, batching, PromptTables()).policy
        for b in batches:
            k = policy.at(b, context).k
            try:
                point = {**given, "b": b, "context": context, "sd_k": max(1, k), "strategies": ("sd",)}
                yield OfPolicy(b, context, k, configure(**point))
            except NoRoom as error:
                yield OfPolicy(b, context, k, None, str(error))
