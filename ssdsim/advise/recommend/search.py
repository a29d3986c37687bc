"""The search of all shapes that fit: a coarse grid first, then the neighbourhoods of the good ones.

Batches of a target do not depend on each other, so copies of this process take batches of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment, Shape
from ssdsim.advise.recommend.request import SearchRequest, axes_of
from ssdsim.answers.grid import Evaluator, PointResult, Repriced
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array
from ssdsim.base.errors import DoesNotFit, Shortage
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.hardware.catalog import find_transformer
from ssdsim.pricing.occupancy import check_memory, target_alone
from ssdsim.pricing.site import Site
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.options import DEFAULTS
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.axes import PLACED, SearchAxis, Values
from ssdsim.transformer.context_parallel import legal_context_parallel
from ssdsim.transformer.parallel_degrees import legal_expert_parallel

T = TypeVar("T")
Case = tuple[Shape, int]  # a shape and the sequences of one target
ValuesBeside = Callable[[SearchAxis, Values, Mapping[str, Any]], Iterable[Any]]

# Tokens/s is smooth in K, and in the logarithm of the budget, up to the kink where the draft becomes late: steps that
# shrink around the best find its top, which an exhaustive finer grid confirms to 1 % (test_recommend.py).
STEPS = (1.7, 1.3, 1.1)
_WORTH_REFINING = 0.95  # of the same strategy's best that needs no more devices


class _Learnt(Record):
    """Results of some batches, small enough to send: cases as asked and as settled, with tokens/s."""

    rates: Sequence[tuple[Case, Case, float]]
    errors: Mapping[Case, str]
    refused: Mapping[Case, str]
    warnings: frozenset[str]


class Search(MutableRecord):
    """Prices each case once. ``refused`` are cases whose target alone has no room; they are not priced."""

    request: SearchRequest
    evaluator: Evaluator = field(default_factory=Evaluator)
    priced: dict[Case, PointResult] = field(default_factory=dict)
    errors: dict[Case, str] = field(default_factory=dict)
    refused: dict[Case, str] = field(default_factory=dict)
    warnings: set[str] = field(default_factory=set)
    _as_settled: dict[Case, Case] = field(default_factory=dict)
    _bare: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    _serving: dict[int, tuple[int, list[Deployment]]] = field(default_factory=dict)

    def run(self, workers: Workers | None = None) -> None:
        """Price the coarse grid at every batch, then refine the best cases."""
        workers = workers or Workers()
        placed = (shape for name in self.request.strategies for shape in placements(self.request, name))
        cases = self._cases(shape for like in placed for shape in coarse_grid(self.request, like))
        idle = workers.idle()
        parts = _dealt(self._fitting(list(cases)), idle + 1)
        for learnt in workers.as_they_come(_refined, [(self, part) for part in parts], idle):
            self._learn(learnt)
        self.priced, self.errors, self.refused = _by_batch(self.priced), _by_batch(self.errors), _by_batch(self.refused)

    def refine(self, cases: Sequence[Case]) -> None:
        """Price some cases, and the neighbours of the best of their batches."""
        self.price(cases)
        batches = {batch for _, batch in cases}
        for step in STEPS:
            tops = self._tops(batches)
            self.price((shape, batch) for top, batch in tops for shape in neighbours(self.request, top, step))

    def price(self, cases: Iterable[Case]) -> None:
        """Evaluate the new cases, all in one call."""
        new = [case for case in dict.fromkeys(cases) if np.isnan(self._rate(case))]
        if fitting := self._fitting(new):
            self._price(fitting)

    def learnt(self) -> _Learnt:
        """All results, to send."""
        rates = [(asked, case, self.priced[case].tokens_per_second) for asked, case in self._as_settled.items()]
        return _Learnt(rates, self.errors, self.refused, frozenset(self.warnings))

    def _learn(self, learnt: _Learnt) -> None:
        """Take over the results of a copy of this process."""
        for asked, case, rate in learnt.rates:
            if asked not in self._as_settled:
                shape, batch = asked
                self._as_settled[asked] = case
                again = Repriced(self.evaluator, shape.point(self.request.options, batch))
                self.priced[case] = PointResult(again, 0, rate, case[0].settings)
        self.errors |= learnt.errors
        self.refused |= learnt.refused
        self.warnings |= learnt.warnings

    @property
    def evaluated(self) -> int:
        """Number of cases that were priced."""
        return len(self.priced) + len(self.errors)

    def _fitting(self, cases: Sequence[Case]) -> list[Case]:
        """Keep the cases whose target fits alone; with a draft it needs more."""
        bare = {
            case: (case[0].tp, case[0].ep, case[1]) for case in cases if strategies.ALL.named(case[0].strategy).drafts
        }
        new = {place: case for case, place in bare.items() if place not in self._bare}
        self._bare |= zip(new, self._refusals(list(new.values())), strict=True)
        refused = {case: refusal for case, place in bare.items() if (refusal := self._bare[place]) is not None}
        self.refused |= refused
        return [case for case in cases if case not in refused]

    def _refusals(self, cases: Sequence[Case]) -> list[str | None]:
        """Why the target alone has no room, a case each; None if it has."""
        placed = [
            {axis.option: shape.settings[axis.option] for axis in PLACED if axis.option in shape.settings}
            for shape, _ in cases
        ]
        given = [{**self.request.options, **at, "b": b} for at, (_, b) in zip(placed, cases, strict=True)]
        return [_shortage(site) for site in self.evaluator.sites(given)]

    def _price(self, cases: Sequence[Case]) -> None:
        """Evaluate cases. A case with a word such as ``auto`` and the case that it settles to share one result."""
        fastest = self.evaluator.fastest([shape.point(self.request.options, b) for shape, b in cases])
        self.warnings.update(fastest.warnings)
        for (shape, batch), one in zip(cases, fastest.results, strict=True):
            if isinstance(one, str):
                self.errors[shape, batch] = one
            else:
                case = self._as_settled[shape, batch] = with_settings(shape, {**shape.settings, **one.settings}), batch
                self.priced[case] = one

    def tokens_per_second(self, points: Sequence[Mapping[str, Any]]) -> Array:
        """Tokens/s of points that name one strategy each; 0 if not possible."""
        return self.evaluator.fastest(points).tokens_per_second

    def rates(self, cases: Sequence[Case]) -> Array:
        """Tokens/s of cases, priced if they are new; 0 if not possible."""
        rates = np.array([self._rate(case) for case in cases], dtype=float)
        if (new := np.flatnonzero(np.isnan(rates))).size:
            asked = [cases[number] for number in new.tolist()]
            rates[new] = self.tokens_per_second([shape.point(self.request.options, batch) for shape, batch in asked])
        return rates

    def _rate(self, case: Case) -> float:
        """Tokens/s of a priced case, 0 if it is not possible; NaN of a new case."""
        if case in self.errors or case in self.refused:
            return 0.0
        one = self.priced.get(self._as_settled.get(case, case))
        return np.nan if one is None else one.tokens_per_second

    def _cases(self, shapes: Iterable[Shape]) -> Iterator[Case]:
        """Each shape at every batch of its fullest target."""
        for shape in shapes:
            for size in sorted({size for b in self.request.batches for _, size in splits(self.request, shape, b)}):
                yield shape, size

    def _tops(self, batches: Collection[int]) -> Iterator[Case]:
        """The best shape of each strategy, placement and batch, if it is near the strategy's best."""
        best: dict[tuple[Any, ...], Case] = {}
        rates = {case: one.tokens_per_second for case, one in self.priced.items() if case[1] in batches}
        for (shape, batch), rate in rates.items():
            key = (shape.strategy, batch, shape.placement)
            if key not in best or rate > rates[best[key]]:
                best[key] = shape, batch
        for (strategy, batch, _), top in best.items():
            others = [other for key, other in best.items() if key[:2] == (strategy, batch)]
            no_wider = [rates[other] for other in others if other[0].gpus <= top[0].gpus]
            if rates[top] >= _WORTH_REFINING * max(no_wider):
                yield top

    def deployments(self, batch: int) -> list[Deployment]:
        """All priced deployments of ``batch`` sequences that the engine runs."""
        return [d for d in self._priced(batch) if self.lacks(d) is None]

    def unsupported(self, batch: int) -> list[Deployment]:
        """All priced deployments of ``batch`` sequences that the engine cannot run."""
        return [d for d in self._priced(batch) if self.lacks(d) is not None]

    def lacks(self, deployment: Deployment) -> str | None:
        """What the engine lacks for it; None if the engine runs it."""
        engine, shape = self.request.engine, deployment.shape
        return engine.lacks(shape.strategy) or engine.lacks_devices(shape.devices.draft, shape.targets)

    def _priced(self, batch: int) -> list[Deployment]:
        """Deployments of a batch, made again only after new cases were priced."""
        cases, deployments = self._serving.get(batch, (0, []))
        if cases != len(self.priced):
            deployments = self._deployments(batch)
            self._serving[batch] = len(self.priced), deployments
        return deployments

    def _deployments(self, batch: int) -> list[Deployment]:
        paid = self.request.gpus if self.request.use == "all" else None
        return [
            Deployment(shape, copies, batch, one, paid)
            for (shape, copy_batch), one in self.priced.items()
            for copies, size in splits(self.request, shape, batch)
            if size == copy_batch
        ]

    def why_not(self, batch: int) -> dict[str, str]:
        """Why the widest shape of each strategy that the engine runs does not fit at ``batch``."""
        reasons: dict[str, str] = {}
        fits = {d.shape.strategy for d in self.deployments(batch)}
        all_errors = {**self.refused, **self.errors}
        for (shape, copy_batch), error in sorted(all_errors.items(), key=lambda item: _width(item[0][0])):
            if self.request.engine.lacks(shape.strategy) is not None:
                continue
            if shape.strategy not in fits and copy_batch in {size for _, size in splits(self.request, shape, batch)}:
                reasons[shape.strategy] = self.request.within(error, shape.devices)
        for name in self.request.strategies:
            if name not in fits and self.request.engine.lacks(name) is None:
                title = strategies.ALL.named(name).title
                reasons.setdefault(name, Shortage(f"{title} finds no room on {self.request.gpus} GPUs"))
        return reasons


def _refined(search: Search, cases: Sequence[Case]) -> _Learnt:
    search.refine(cases)
    return search.learnt()


def _dealt(cases: Iterable[Case], parts: int) -> list[list[Case]]:
    """Cases in at most ``parts`` parts of similar size; a batch is in one part, the largest batch in the last."""
    by_batch = defaultdict[int, list[Case]](list)
    for case in cases:
        by_batch[case[1]].append(case)
    dealt: list[list[Case]] = [[] for _ in range(parts)]
    largest = max(by_batch, default=0)
    for batch in sorted(by_batch, key=lambda batch: (batch != largest, -len(by_batch[batch]))):
        min(reversed(dealt), key=len).extend(by_batch[batch])
    return [part for part in dealt if part]


def _by_batch(results: Mapping[Case, T]) -> dict[Case, T]:
    """Results in the order of batches, whichever part came first."""
    return dict(sorted(results.items(), key=lambda result: result[0][1]))


def _width(shape: Shape) -> tuple[Any, ...]:
    """A key that sorts the widest target and the least speculation last."""
    return shape.tp, tuple(-number for number in shape.work[::-1])


def _shortage(site: Site | None) -> str | None:
    """Why a site has no room for its target alone; None if it has."""
    assert site is not None  # nobody can be advised to deploy unit-free times
    try:
        check_memory(site.batch, [target_alone(site, 0)])
    except DoesNotFit as error:
        return error.reason
    return None


def with_settings(shape: Shape, settings: Mapping[str, Any]) -> Shape:
    """The shape with other settings, on the same devices."""
    axes = [axis for axis in axes_of(shape.strategy) if not axis.placing and axis.option in settings]
    speculation = tuple((axis.option, settings[axis.option]) for axis in axes)
    return Shape(shape.strategy, shape.placement, speculation, shape.devices)


def splits(request: SearchRequest, shape: Shape, batch: int) -> Iterator[tuple[int, int]]:
    """Possible numbers of copies, each with the sequences of the fullest target (no target is empty)."""
    for copies in range(1, min(request.copies(shape.devices), batch // shape.targets) + 1):
        targets = copies * shape.targets
        size = -(-batch // targets)
        if -(-batch // size) == targets:
            yield copies, size


def combinations(axes: Iterable[tuple[SearchAxis, Values]], values_beside: ValuesBeside) -> list[dict[str, Any]]:
    """Every combination of the axes' values; ``values_beside`` may depend on the settings of earlier axes."""
    combinations: list[dict[str, Any]] = [{}]
    for axis, values in axes:
        combinations = [
            {**before, axis.option: v} for before in combinations for v in values_beside(axis, values, before)
        ]
    return combinations


def placings(request: SearchRequest, strategy: str) -> list[tuple[SearchAxis, Values]]:
    return [(axis, values) for axis, values in request.axes[strategy].items() if axis.placing]


def setting_choices(request: SearchRequest, strategy: str) -> list[tuple[SearchAxis, Values]]:
    return [(axis, values) for axis, values in request.axes[strategy].items() if not axis.placing]


def placed(request: SearchRequest, strategy: str, placement: Mapping[str, Any]) -> Shape | None:
    """A shape without speculation settings; None if it has too many devices, or they cannot split the target."""
    options = {**DEFAULTS, **request.options, **placement}
    given = {name: options[name] for name in ("attention", "dcp", "pp") if name in request.options}
    placement, of_target = {**placement, **given}, options["tp"] * options["pp"]
    drafter = drafters.ALL.named(drafter_by_options(request.options))
    devices = request.occupied(strategies.ALL.named(strategy).devices(options, of_target, drafter))
    shape = Shape(strategy, tuple(placement.items()), (), devices)
    target = find_transformer(options["target"])
    even = shape.ep in legal_expert_parallel(target, shape.tp)
    even = even and shape.dcp in legal_context_parallel(target, shape.tp)
    return shape if even and request.copies(devices) else None


def placements(request: SearchRequest, strategy: str) -> Iterator[Shape]:
    """All placements of the coarse grid, without speculation settings."""
    for placement in combinations(placings(request, strategy), _first_look):
        shape = placed(request, strategy, placement)
        if shape is not None:
            yield shape


def coarse_grid(request: SearchRequest, shape: Shape) -> Iterator[Shape]:
    """Shapes on the same devices with the settings of the coarse grid."""
    for settings in combinations(setting_choices(request, shape.strategy), _first_look):
        yield with_settings(shape, settings)


def _first_look(axis: SearchAxis, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
    return axis.coarse(values, before)


def neighbours(request: SearchRequest, shape: Shape, step: float) -> list[Shape]:
    """Shapes around ``shape``: other settings on the same devices, and the same settings on other devices."""
    top = shape.settings
    shapes = settings_around(request, shape, step)
    for axis, values in placings(request, shape.strategy):
        for value in axis.near(values, top, top, step):
            other = placed(request, shape.strategy, {**dict(shape.placement), axis.option: value})
            if other is not None:
                shapes.append(with_settings(other, top))
    return shapes


def settings_around(request: SearchRequest, shape: Shape, step: float) -> list[Shape]:
    """Shapes on the same devices with neighbouring settings."""

    def near(axis: SearchAxis, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        return axis.near(values, before, shape.settings, step)

    return [with_settings(shape, settings) for settings in combinations(setting_choices(request, shape.strategy), near)]
