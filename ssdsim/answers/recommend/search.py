"""Every shape that fits, priced: a coarse grid of all of them, then the good ones' neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ssdsim.answers.grid import evaluate
from ssdsim.answers.recommend.deployment import Deployment, Rate, Shape
from ssdsim.answers.recommend.request import Request

Case = tuple[Shape, int]  # a shape and the sequences of one copy

# Cached outcomes for each of the K + 1 accepted lengths, in the coarse grid
_COARSE_FAN_OUTS = (1, 3, 9, 27)
# Tokens/s is smooth in K, and in the logarithm of the budget, up to the kink where the draft becomes late: steps that
# shrink around the best find its top, which an exhaustive finer grid confirms to 1 % (tests/answers/test_recommend.py).
_BUDGET_STEPS = (1.7, 1.3, 1.1)
_FEW = 4  # lookaheads that are all tried
_WORTH_REFINING = 0.95  # of the same strategy's best that needs no more devices
INDIFFERENT = 1e-3  # relative tokens/s for which nobody spends a device or a cached outcome


@dataclass
class Search:
    """Prices what it is asked, each case once."""

    request: Request
    rates: dict[Case, Rate] = field(default_factory=dict)
    errors: dict[Case, str] = field(default_factory=dict)
    warnings: set[str] = field(default_factory=set)

    def price(self, cases: Iterable[Case]) -> None:
        """Evaluate the cases that are new."""
        new = [case for case in dict.fromkeys(cases) if case not in self.rates and case not in self.errors]
        if not new:
            return
        frame = evaluate(shape.point(self.request.options, batch) for shape, batch in new)
        self.warnings.update(frame.attrs["warnings"])
        for (shape, batch), row in zip(new, frame.to_dict("records"), strict=True):
            if row["error"] is not None:
                self.errors[shape, batch] = row["error"]
                continue
            speculates = shape.strategy == "ssd"
            found = Rate(
                tokens_per_second=row[f"{shape.strategy}_tokens_per_second"],
                tokens_per_round=1.0 if shape.strategy == "ar" else row[f"tokens_per_round_{shape.strategy}"],
                round_s=row[f"{shape.strategy}_round_s"],
                p_hit=row["p_hit"] if speculates else None,
                p_all_hit=row["p_all_hit"] if speculates else None,
            )
            self.rates[shape, batch] = found
            if speculates:  # the fallback and the budget that were settled name the same case
                named = replace(shape, backup=row["backup"], budget=int(row["budget"]))
                self.rates[named, batch] = found

    def run(self) -> None:
        """Price the coarse grid at every batch, then refine what may be chosen."""
        self.price(self._cases(_ar_shapes(self.request)))
        # where the target has no room for plain decoding it has none for speculating
        roomy = {(shape.tp, batch) for shape, batch in self.rates}
        speculating = [*_sd_shapes(self.request), *_ssd_shapes(self.request)]
        self.price(case for case in self._cases(speculating) if (case[0].tp, case[1]) in roomy)
        for step in _BUDGET_STEPS if self._climbs else ():
            self.price((shape, batch) for top, batch in self._tops() for shape in neighbours(self.request, top, step))

    def _cases(self, shapes: Iterable[Shape]) -> Iterator[Case]:
        """Each shape at every batch that one of its copies may have."""
        for shape in shapes:
            for size in sorted({size for b in self.request.batches for _, size in splits(self.request, shape, b)}):
                yield shape, size

    @property
    def _climbs(self) -> bool:
        return len(self.request.lookaheads) > 1 or self.request.searches_budgets

    def _tops(self) -> Iterator[Case]:
        """The best SD and SSD shape of each placement and batch, where it may matter."""
        best: dict[tuple[str, int, int, int], Case] = {}
        for (shape, batch), rate in self.rates.items():
            if shape.strategy != "ar" and shape.backup != "auto":
                key = (shape.strategy, batch, shape.tp, shape.draft_gpus)
                if key not in best or rate.tokens_per_second > self.rates[best[key]].tokens_per_second:
                    best[key] = shape, batch
        for (strategy, batch, *_), top in best.items():
            rivals = [other for key, other in best.items() if key[:2] == (strategy, batch)]
            no_wider = [self.rates[other] for other in rivals if other[0].gpus <= top[0].gpus]
            bar = _WORTH_REFINING * max(rate.tokens_per_second for rate in no_wider)
            if self.rates[top].tokens_per_second >= bar:
                yield top

    def deployments(self, batch: int) -> list[Deployment]:
        """Everything priced that serves ``batch`` sequences."""
        found = []
        for (shape, copy_batch), rate in self.rates.items():
            if shape.backup == "auto":
                continue
            for copies, size in splits(self.request, shape, batch):
                if size == copy_batch:
                    found.append(Deployment(shape, copies, batch, rate))
        return found

    def why_not(self, batch: int) -> dict[str, str]:
        """For each strategy of which nothing fits at ``batch``: what keeps its widest shape from fitting."""
        reasons: dict[str, str] = {}
        fits = {d.shape.strategy for d in self.deployments(batch)}
        for (shape, copy_batch), error in sorted(self.errors.items(), key=lambda item: (item[0][0].tp, -item[0][0].k)):
            sizes = {size for _, size in splits(self.request, shape, batch)}
            if shape.strategy not in fits and copy_batch in sizes:
                reasons[shape.strategy] = error
        for strategy in ("ar", "sd", "ssd"):
            if strategy not in fits:
                reasons.setdefault(strategy, f"{strategy.upper()} finds no room on {self.request.gpus} GPUs")
        return reasons


def splits(request: Request, shape: Shape, batch: int) -> Iterator[tuple[int, int]]:
    """Numbers of copies that the GPUs hold, and the sequences of the fullest copy (no copy is empty)."""
    for copies in range(1, min(request.gpus // shape.gpus, batch) + 1):
        size = -(-batch // copies)
        if -(-batch // size) == copies:
            yield copies, size


def _ar_shapes(request: Request) -> Iterator[Shape]:
    for tp in request.degrees:
        yield Shape("ar", tp)


def _sd_shapes(request: Request) -> Iterator[Shape]:
    """The draft beside the target, or on a device of its own."""
    for tp in request.degrees:
        for draft_gpus in (0, 1):
            if tp + draft_gpus <= request.gpus:
                yield from (Shape("sd", tp, draft_gpus, k) for k in coarse_lookaheads(request.lookaheads))


def _ssd_shapes(request: Request) -> Iterator[Shape]:
    """In coarse steps of the budget, K and the number of draft devices."""
    backup = request.backups[0] if len(request.backups) == 1 else "auto"
    for tp in request.degrees:
        for draft_gpus in _powers_of_two(request.draft_gpus):
            if tp + draft_gpus > request.gpus:
                continue
            for k in coarse_lookaheads(request.lookaheads):
                for budget in _coarse_budgets(request, k):
                    yield Shape("ssd", tp, draft_gpus, k, budget, backup)  # type: ignore[arg-type]  # checked


def _powers_of_two(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """1, 2, 4, ...; all numbers where only some were asked for."""
    coarse = tuple(n for n in numbers if n & (n - 1) == 0)
    return coarse if numbers == tuple(range(1, len(numbers) + 1)) else numbers


def coarse_lookaheads(lookaheads: tuple[int, ...]) -> tuple[int, ...]:
    """Ever further apart where there are many (the neighbours of good ones are tried); all of a few."""
    if len(lookaheads) <= _FEW:
        return lookaheads
    return tuple(lookaheads[n * (n + 3) // 2] for n in range(len(lookaheads)) if n * (n + 3) // 2 < len(lookaheads))


def _coarse_budgets(request: Request, k: int) -> tuple[int | None, ...]:
    if request.budgets is not None:
        return request.budgets
    return tuple(f * (k + 1) for f in _COARSE_FAN_OUTS) if request.searches_budgets else (3 * (k + 1),)


def neighbours(request: Request, shape: Shape, step: float) -> list[Shape]:
    """Shapes around ``shape``: K and draft devices one up and down, the budget by a factor of ``step``."""
    found = []
    at = request.lookaheads.index(shape.k)
    lookaheads = request.lookaheads[max(0, at - 1) : at + 2]
    if shape.strategy == "sd":
        return [replace(shape, k=k) for k in lookaheads]
    for k in lookaheads:
        for budget in _near_budgets(request, shape, k, step):
            found.append(replace(shape, k=k, budget=budget))
    for draft_gpus in {shape.draft_gpus - 1, shape.draft_gpus + 1} & set(request.draft_gpus):
        if shape.tp + draft_gpus <= request.gpus:
            found.append(replace(shape, draft_gpus=draft_gpus))
    return found


def _near_budgets(request: Request, shape: Shape, k: int, step: float) -> set[int | None]:
    if not request.searches_budgets or shape.budget is None:
        return set(_coarse_budgets(request, k))
    same = shape.budget * (k + 1) / (shape.k + 1)
    return {
        max(1, around(same * factor)) for factor, around in ((1 / step, math.floor), (1.0, round), (step, math.ceil))
    }
