"""Every choice at every batch and context, priced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.advise.recommend.choice import WORTH_DRAWING, DeploymentDraws, RateRange
from ssdsim.advise.recommend.deployment import Deployment, Shape
from ssdsim.answers.decision import Candidate, Decision, decide, knowable
from ssdsim.answers.grid import Evaluator
from ssdsim.base.checks import few_enough, listed
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws
from ssdsim.base.option import Group, spelled
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.question.checked_options import without_unsaid
from ssdsim.question.drafting import draft_by_options, drafter_by_options
from ssdsim.question.options import ALL, DEFAULTS, members, refuse_others, varied_by
from ssdsim.question.place import with_calibrated
from ssdsim.question.question import Question, effective
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.axes import SearchAxis

MOST_CHOICES = 1_000_000  # over all cells: a tenth of a millisecond and a kilobyte each
CELLS: Mapping[str, Sequence[Any]] = {"b": (1, 2, 4, 8, 16, 32, 64), "context": (1024,)}
"""Axes of a schedule's cells, with their default values."""


def choices() -> dict[str, Sequence[Any]]:
    """Options that a schedule searches, of all strategies, with the values that it tries."""
    return {axis.table_option: axis.tabled for strategy in strategies.ALL for axis in _tabled(strategy.name)}


def fixed_options() -> tuple[str, ...]:
    """Options that a schedule does not search."""
    turned = {*CELLS, *choices(), *varied_by("schedule"), *members(Group.GIVEN_DURATIONS), "subject"}
    return tuple(name for name in DEFAULTS if name not in turned)


def _tabled(strategy: str) -> list[SearchAxis]:
    return [axis for axis in strategies.ALL.named(strategy).searched if axis.tabled]


Cell = tuple[int, int]
"""A batch, of one target, and a context."""


class Chosen(Record):
    """What a cell runs, with tokens/s of the batch under all that is not known.

    ``loss`` is the share of speed that it costs the cell to share a choice with others.
    """

    b: int
    context: int
    deployment: Deployment
    rate: RateRange
    loss: float
    decision: Decision[Shape]

    @property
    def strategy(self) -> str:
        """The strategy's name."""
        return self.deployment.shape.strategy

    @property
    def lookahead(self) -> int:
        """Tokens that are drafted a round; 0 where none are."""
        return self.deployment.lookahead


class Candidates(Record):
    """Every choice of ``strategies`` in every cell, as a deployment of one copy.

    ``impossible`` says of some cells why nothing fits there.
    """

    strategies: Sequence[str]
    options: Mapping[str, Any]
    cells: Mapping[Cell, Sequence[Deployment]]
    drawn: Mapping[int, DeploymentDraws]
    impossible: Mapping[Cell, str]
    warnings: Sequence[str]

    def point(self, cell: Cell, shape: Shape) -> dict[str, Any]:
        """The options of a choice in a cell."""
        batch, context = cell
        return shape.point({**self.options, "context": context}, batch)

    def best(self, names: Sequence[str] | None = None, by: Sequence[str] = ("b", "context")) -> list[Chosen]:
        """What each cell runs of the strategies ``names`` (by default all), in the order of contexts and batches.

        Cells that agree in ``by`` share one choice, of those possible in all: the highest mean log speed over them and
        over the draws of what is not known. Of ties the simplest is chosen.
        """
        names = self.strategies if names is None else names
        groups: dict[tuple[int, ...], list[Cell]] = {}
        for cell, deployments in self.cells.items():
            if any(d.shape.strategy in names for d in deployments):
                named = dict(zip(CELLS, cell, strict=True))
                groups.setdefault(tuple(named[name] for name in by), []).append(cell)
        chosen = [each for cells in groups.values() for each in self._shared(cells, names)]
        return sorted(chosen, key=lambda each: (each.context, each.b))

    def _shared(self, cells: Sequence[Cell], names: Sequence[str]) -> Iterator[Chosen]:
        """The one choice of some cells, for each of them."""
        every = [{d.shape: d for d in self.cells[cell] if d.shape.strategy in names} for cell in cells]
        common = [shape for shape in every[0] if all(shape in of_cell for of_cell in every)]
        points = {shape: _mean([np.array([of_cell[shape].per_user]) for of_cell in every])[0] for shape in common}
        bar = WORTH_DRAWING * max(points.values(), default=0.0)
        kept = {shape: n for n, shape in enumerate(common) if points[shape] >= bar}
        if not kept:
            return
        speeds = [self._speeds(cell, [of_cell[s] for s in kept]) for cell, of_cell in zip(cells, every, strict=True)]
        over = {shape: _mean([of_cell[shape] for of_cell in speeds]) for shape in kept}
        drawn, first = self.drawn[cells[0][1]], every[0]
        known = knowable((first[shape].scenario.known for shape in kept), drawn.errors)
        options = [Candidate.of(s, s.strategy, float(s.gpus), order) for s, order in kept.items()]
        decision = decide(options, over, known, points={shape: points[shape] for shape in kept})
        for cell, of_cell, own in zip(cells, every, speeds, strict=True):
            deployment = of_cell[decision.chosen]
            user = self.drawn[cell[1]].per_user(deployment)
            rate = RateRange.of(deployment.per_user, user).scaled(float(deployment.copy_batch))
            loss = 0.0 if len(cells) == 1 else self._lost(cell, names, own[decision.chosen])
            yield Chosen(*cell, deployment, rate, loss, decision)

    def _lost(self, cell: Cell, names: Sequence[str], speeds: Draws) -> float:
        """By how much a shared choice is slower than the cell's own, by the means of their logarithms."""
        (own,) = self._shared([cell], names)
        best = self._speeds(cell, [own.deployment])[own.deployment.shape]
        return max(0.0, float(-np.expm1(np.log(speeds).mean() - np.log(best).mean())))

    def _speeds(self, cell: Cell, deployments: Sequence[Deployment]) -> dict[Shape, Draws]:
        return {d.shape: draws for d, draws in self.drawn[cell[1]].joint(deployments).items()}


def _mean(speeds: Sequence[Draws]) -> Draws:
    """The geometric mean of several."""
    return np.asarray(np.exp(np.mean(np.log(speeds), axis=0)))


def candidates(*, seed: int = 0, **options: Any) -> Candidates:
    """Evaluate every choice: each strategy over its tabled options, with the better of its alternatives.

    Parameters
    ----------
    seed : of the draws of what is not known.
    options : ``strategies``; ``b`` and ``context``, each a value or a list (by default :data:`CELLS`); so also the
        options of :func:`choices`, such as ``k`` and ``f``; and the scenario's :func:`fixed_options`. With ``p_hit``
        the hit rate is given, and the fan-out has nothing to choose.

    Returns
    -------
    Candidates : every choice in every cell, and the reason for cells in which nothing fits.
    """
    given = without_unsaid(options)
    refuse_others("a schedule", given, ("strategies", *CELLS, *choices(), *fixed_options()))
    names = ALL["strategies"].checked(given.pop("strategies", strategies.DEFAULT))
    fixed = {name: value for name, value in given.items() if name in fixed_options()}
    fixed = with_calibrated(fixed, fixed_options())
    chosen = list(_choices(names, given, fixed))
    axes = [_values(name, given, CELLS[name]) for name in CELLS]
    few_enough("choices", (*axes, chosen), MOST_CHOICES)
    cells: list[Cell] = [(b, context) for b, context in product(*axes)]
    _check(names, fixed, [dict(zip(CELLS, cell, strict=True)) for cell in cells], chosen)
    evaluator = Evaluator()
    shapes = [_shape(name, settings, fixed) for name, settings in chosen]
    # each strategy is held against the devices and the memory that it uses itself
    asked = [(cell, shape) for cell in cells for shape in shapes]
    found = evaluator.fastest(shape.point({**fixed, "context": context}, batch) for (batch, context), shape in asked)
    fitting: dict[Cell, list[Deployment]] = {}
    reasons: dict[Cell, str] = {}
    for (cell, shape), result in zip(asked, found.results, strict=True):
        if isinstance(result, str):
            reasons.setdefault(cell, result)
        else:
            fitting.setdefault(cell, []).append(Deployment(shape, 1, cell[0] * shape.targets, result))
    axes_stop = (axis.stops(fixed) for name in names for axis in _tabled(name) if axis.table_option not in given)
    warnings = dict.fromkeys([*filter(None, axes_stop), *sorted(found.warnings)])
    drawn = {context: DeploymentDraws({**fixed, "context": context}, seed, evaluator) for _, context in cells}
    impossible = {cell: reason for cell, reason in reasons.items() if cell not in fitting}
    return Candidates(names, fixed, fitting, drawn, impossible, tuple(warnings))


def _shape(name: str, settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> Shape:
    options = {**DEFAULTS, **fixed, **settings}
    drafter = drafters.ALL.named(drafter_by_options(fixed))
    devices = strategies.ALL.named(name).devices(options, options["tp"] * options["pp"], drafter)
    return Shape(name, (), tuple(settings.items()), devices)


def _choices(
    names: Sequence[str], given: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each strategy with each combination of its tabled options."""
    axes = {name: _tabled(name) for name in names}
    turned = {axis.table_option for each in axes.values() for axis in each}
    for option in given:
        if option in choices() and option not in turned:
            raise InputError(f"{spelled(option)} has no effect with --strategies {','.join(names)}")
    for name, each in axes.items():
        left = [axis for axis in each if axis.table_option in given or not axis.is_idle(fixed)]
        values = [_known(axis, _values(axis.table_option, given, axis.tabled), given, fixed) for axis in left]
        few_enough(f"choices of {name}", values, MOST_CHOICES)
        for combination in product(*values):
            settings = dict(zip((axis.table_option for axis in left), combination, strict=True))
            if all(axis.table_option in given or axis.tables({**fixed, **settings}) for axis in left):
                yield name, settings


def _known(axis: SearchAxis, values: list[Any], given: Mapping[str, Any], fixed: Mapping[str, Any]) -> list[Any]:
    """Keep the values that the models allow."""
    refused = {value: why for value in values if (why := axis.refuses(fixed, value)) is not None}
    if refused and axis.table_option in given:
        value, why = next(iter(refused.items()))
        raise InputError(f"{spelled(axis.table_option)} {value}: {why}")
    return [value for value in values if value not in refused]


def _values(name: str, given: Mapping[str, Any], default: Sequence[Any]) -> list[Any]:
    return listed(spelled(name), given.get(name, default))


def _check(
    names: Sequence[str],
    fixed: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]],
    chosen: Sequence[tuple[str, Mapping[str, Any]]],
) -> None:
    """Raise :class:`InputError` for a wrong name or value: it is wrong in every cell, unlike one that does not fit."""
    find_transformer(fixed.get("target", DEFAULTS["target"]))
    draft_by_options(fixed)
    for role in ("hardware", "draft_hardware"):
        find_hardware(fixed.get(role, DEFAULTS["hardware"]))
    Question.of({**fixed, **cells[0], **chosen[0][1], "strategies": names})
    for cell in cells:
        effective({**fixed, **cell, **chosen[0][1]})
    for _, settings in chosen:
        effective({**fixed, **cells[0], **settings})
