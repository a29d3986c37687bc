"""The list of passes that a calibration times: those that strategies run, before anything has a price."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any

from ssdsim import strategies
from ssdsim.base.record import replace
from ssdsim.base.settings import Settings
from ssdsim.hardware.profile import Device, HardwareProfile
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.site import Silent, Site
from ssdsim.pricing.step import Pass
from ssdsim.question.asked import effective
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.sharing import legal_tensor_parallel

_NO_DEVICE = Device(
    name="any", kind="cpu", memory_bytes=1, memory_bandwidth=1, peak_flops={"any": 1}, count=1, topology="any"
)
_NOT_TIMED = HardwareProfile(schema=1, name="not timed yet", device=_NO_DEVICE, sources={})


class _PlanningSite(Silent):
    """A site where nothing has a price. Every pass is planned at one context, and SD's draft on ``beside_tp`` ranks."""

    beside_tp: int = 1

    def draft_beside_target(self, name: str, queries: int = 1, masked: bool = False, **of: Any) -> Pass:
        forward = self._forward(self.draft, queries, self.beside_tp, masked=masked, **of)
        return Pass(name, "draft", forward, self.beside_tp, self.profile)

    def _forward(
        self, card: Transformer, queries: int, tp: int, extra_context: int = 0, masked: bool = False, **of: Any
    ) -> ForwardPass:
        forward: ForwardPass = super()._forward(card, queries, tp, 0, masked, **of)
        return forward

    def cost(self, work: Pass) -> Cost:
        return Cost()

    def streaming_share(self, work: Pass, seconds: float) -> float:
        return 0.0


def planned_passes(
    target: Transformer,
    draft: Transformer,
    *,
    batch: int,
    lookahead: int,
    branches: int,
    context: int,
    tp: int,
    dtype: str,
    names: Collection[str],
) -> list[Pass]:
    """Every pass of the strategies called ``names`` for the whole batch; for one sequence those of what caches nothing.

    The latter are called ``... one``; what a speculation cache adds has many tokens a sequence: for a single one they
    lie among those that are timed.
    Passes of the target come first. One that several strategies run has its first name; two of one name and different
    shapes are told apart by their strategies.
    """
    settings = effective({"k": lookahead, "budget": branches})
    site = _PlanningSite(target, draft, _NOT_TIMED, _NOT_TIMED, tp, batch, context, False, dtype, settings)
    degrees = sorted({1, tp} & {1, *legal_tensor_parallel(draft)})
    planned = [strategy for strategy in strategies.ALL if strategy.name in names]
    by_pass: dict[ForwardPass, Pass] = {}
    for sequences, strategy in itertools.product(sorted({1, batch}), planned):
        if sequences < batch and strategy.miss is not None:
            continue
        for beside_tp in degrees if sequences == batch else (1,):
            for work in _passes(strategy, settings, replace(site, batch=sequences, beside_tp=beside_tp)):
                name = work.name if sequences == batch else f"{work.name} one"
                name = f"{name} on {work.tp} ranks" if work.model == "draft" and work.tp > 1 else name
                if any(name == other.name for other in by_pass.values()):
                    name = f"{name} of {strategy.title}"
                by_pass.setdefault(work.forward, replace(work, name=name))
    return sorted(by_pass.values(), key=lambda one: one.model != "target")


def _passes(strategy: Strategy, settings: Settings, site: Site) -> Iterator[Pass]:
    drafter = drafters.ALL.named(settings["drafter"])
    for choice in strategy.alternatives(settings):
        own = choice.copy()
        there = replace(site, options=own)
        strategy.settle(own, there, drafter)
        for step in strategy.steps(there, drafter).values():
            yield from step.passes
            if step.by_rows is not None and step.by_rows.work is not None:
                yield from (step.by_rows.work(int(rows)) for rows in step.by_rows.rows)
