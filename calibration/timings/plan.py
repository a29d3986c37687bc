"""The plan of a calibration: the passes that strategies run, and the points to time so that a fit can price them.

Nothing has a price yet, and nothing is timed here: a plan needs no torch.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Settings
from ssdsim.hardware.device import Device
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.site import Silent, Site
from ssdsim.pricing.step import Pass
from ssdsim.question.question import effective
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Attention, Collective, Elementwise, ExpertMlp, Gemm
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel

_TOKENS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_FEW_TOKENS = 8  # kernels for few tokens are odd: time every matrix with them
_MOST_BETWEEN = 8

OPERATIONS = ("gemm", "attention", "experts", "elementwise")
"""Benchmarks of single operations, which the first rank times alone."""

Matrix = tuple[int, int]
"""n and k of a GEMM's weights."""
Shape = tuple[int, int, bool]
"""Sequences of a pass, tokens of each, and whether they are branches under a mask."""
VISITS = {"cpu": 16, "cuda": 3}  # short timings of every point: a shared machine's moods last from 0.1 s to minutes
FEWER = {"interference": 6, "layer": 6}  # visits of what takes long
_NO_DEVICE = Device(
    name="any", kind="cpu", memory_bytes=1, memory_bandwidth=1, peak_flops={"any": 1}, count=1, topology="any"
)
_NOT_TIMED = HardwareProfile(schema_=1, name="not timed yet", device=_NO_DEVICE, sources={})


class TimingPoint(Record):
    """One thing to time. ``fitted``: the fit may see it; whole layers and passes only check the fit."""

    benchmark: str
    parameters: tuple[tuple[str, Any], ...]
    fitted: bool = True

    @classmethod
    def of(cls, benchmark: str, *, fitted: bool = True, **parameters: Any) -> TimingPoint:
        return cls(benchmark, tuple(sorted(parameters.items())), fitted)

    @property
    def key(self) -> str:
        return f"{self.benchmark} {json.dumps(dict(self.parameters), sort_keys=True)}"

    def request(self) -> dict[str, Any]:
        return {"benchmark": self.benchmark, **dict(self.parameters)}


class CalibrationWorkload(Record):
    """The pair and the rounds that a calibration is for."""

    target: Transformer
    draft: Transformer
    batch: int
    lookahead: int
    branches: int
    context: int
    tp: int
    dtype: str
    strategies: tuple[str, ...] = strategies.DEFAULT
    """Whose rounds; their passes are timed."""

    @cached_property
    def passes(self) -> list[Pass]:
        """The planned passes of the target, then of the draft."""
        sizes = picked(self, "batch", "lookahead", "branches", "context", "tp", "dtype")
        return planned_passes(self.target, self.draft, **sizes, names=self.strategies)

    def target_passes(self) -> list[tuple[str, ForwardPass]]:
        """The target's passes by name."""
        return [(one.name, one.forward) for one in self.passes if one.model == "target"]

    def draft_passes(self) -> list[tuple[str, ForwardPass]]:
        """The draft's passes on a device of its own."""
        return [(one.name, one.forward) for one in self.passes if one.model == "draft" and one.tp == 1]


def plan(workload: CalibrationWorkload, ranks: int) -> list[TimingPoint]:
    """Every point: the shapes that passes have, and some around them for a domain and for held-out rows."""
    passes = [one.forward for one in workload.passes]
    ops = [op for forward in passes for op, _ in forward.counted]
    points = [
        *_checks(workload),
        *(_interference(workload) if ranks > 1 else ()),
        *_gemms(passes, workload),
        *_attentions([op for op in ops if isinstance(op, Attention)], workload),
        *_experts(workload),
        *_elementwise([op for op in ops if isinstance(op, Elementwise)]),
        *_collectives([op for op in ops if isinstance(op, Collective)], workload),
        *(_links(workload.tp) if ranks > 1 else ()),
    ]
    return list(dict.fromkeys(points))


def _gemms(passes: Sequence[ForwardPass], workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    """The passes' matrices at their and other numbers of tokens, and matrices of other shapes around them.

    Each is timed after the matrix that comes before it in a pass: after its like it would take some percent less.
    """
    real = _predecessors(passes)
    tokens = sorted({op.m for forward in passes for op, _ in forward.counted if isinstance(op, Gemm)})
    fewer = [m for m in _TOKENS if m <= tokens[-1]]
    for (n, k), after in real.items():
        for m in dict.fromkeys((*tokens, *fewer)):
            yield TimingPoint.of("gemm", m=m, n=n, k=k, after=after, dtype=workload.dtype)
    few = [m for m in fewer if m <= _FEW_TOKENS]
    for n, k in _between(list(real)):
        for m in dict.fromkeys((*few, *tokens)):
            yield TimingPoint.of("gemm", m=m, n=n, k=k, after=(k, n), dtype=workload.dtype)


def _predecessors(passes: Sequence[ForwardPass]) -> dict[Matrix, Matrix]:
    """Every matrix of the passes with the one that comes before it, the last of a layer before its first."""
    matrices: dict[Matrix, Matrix] = {}
    for forward in passes:
        layer, after = ([(op.n, op.k) for op in ops if isinstance(op, Gemm)] for ops in (forward.layer, forward.after))
        for before, matrix in pairwise([layer[-1], *layer, *after]):
            matrices.setdefault(matrix, before)
    return matrices


def _between(matrices: Sequence[Matrix]) -> list[Matrix]:
    """Matrices of the same sizes otherwise combined, within the range of the real ones, largest first."""
    sizes = sorted({size for matrix in matrices for size in matrix})
    elements = [n * k for n, k in matrices]
    matrices_between = [
        (n, k) for n in sizes for k in sizes if (n, k) not in matrices and min(elements) <= n * k <= max(elements)
    ]
    return sorted(matrices_between, key=lambda matrix: -matrix[0] * matrix[1])[:_MOST_BETWEEN]


def _attentions(ops: Sequence[Attention], workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    for op in ops:
        alike = picked(op, "heads", "kv_heads", "head_dim", "masked")
        for context in (op.context // 4, op.context // 2, op.context, 2 * op.context):
            for queries in dict.fromkeys((1, max(1, op.queries // 2), op.queries)):
                for batch in dict.fromkeys((1, max(1, op.batch // 2), op.batch)):
                    sizes = {"batch": batch, "queries": queries, "context": max(context, 1)}
                    yield TimingPoint.of("attention", **alike | sizes, dtype=workload.dtype)


def _experts(workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    """The experts of either model on the real choices of its passes, and on those of fewer sequences and tokens."""
    for role, passes in (("target", workload.target_passes()), ("draft", workload.draft_passes())):
        for forward in (forward for _, forward in passes):
            mlp = next((op for op in forward.layer if isinstance(op, ExpertMlp)), None)
            if mlp is None:
                continue
            batch, queries, _ = shape_of(forward)
            for sequences in _halved(batch):
                for tokens in _halved(queries):
                    yield TimingPoint.of(
                        "experts",
                        role=role,
                        batch=sequences,
                        queries=tokens,
                        width=mlp.width,
                        after=(mlp.count, mlp.hidden),
                        dtype=workload.dtype,
                    )


def _halved(size: int) -> list[int]:
    """A size, its half, and so on to 1."""
    sizes = [size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def _elementwise(ops: Sequence[Elementwise]) -> Iterator[TimingPoint]:
    if not ops:
        return
    sizes = [op.moved_bytes for op in ops]
    for size in np.geomspace(min(sizes) / 2, max(sizes) * 2, 12):
        yield TimingPoint.of("elementwise", moved_bytes=int(size) // 16 * 16 + 16)


def _collectives(ops: Sequence[Collective], workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    for kind in dict.fromkeys(op.kind for op in ops):
        sizes = [op.message_bytes for op in ops if op.kind == kind]
        for size in np.geomspace(min(min(sizes), 1 << 10), max(max(sizes), 1 << 20), 16):
            message_bytes = int(size) // 64 * 64 + 64
            yield TimingPoint.of(kind, message_bytes=message_bytes, ranks=workload.tp)
            yield TimingPoint.of(f"{kind} with messages", fitted=False, message_bytes=message_bytes, ranks=workload.tp)


def _links(tp: int) -> Iterator[TimingPoint]:
    """The first rank's messages, which are fitted, and a few sizes of the other target ranks', which check them."""
    sizes = [int(size) // 16 * 16 for size in np.geomspace(64, 1 << 24, 16)]
    for size in sizes:
        yield TimingPoint.of("link", message_bytes=size)
    for rank in range(1, tp):
        for size in sizes[::5]:
            yield TimingPoint.of("rank link", rank=rank, message_bytes=size, fitted=False)
    yield TimingPoint.of("round trip", outcome_bytes=256, response_bytes=1024, fitted=False)


def _interference(workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    """Points of passes that stream beside passes that compute: each side's of fewest and most tokens."""
    sides = (
        sorted(side, key=lambda named: named[1].tokens) for side in (workload.target_passes(), workload.draft_passes())
    )
    # a strategy that drafts nothing leaves one side empty
    for (target, on_target), (draft, on_draft) in itertools.product(*(side[:1] + side[-1:] for side in sides)):
        yield TimingPoint.of(
            "interference",
            target=target,
            draft=draft,
            target_shape=shape_of(on_target),
            draft_shape=shape_of(on_draft),
        )


def _checks(workload: CalibrationWorkload) -> Iterator[TimingPoint]:
    """Whole passes, which the fit never sees, and the host's gaps."""
    yield TimingPoint.of("host gap", role="target")
    for name, forward in workload.target_passes():
        yield TimingPoint.of("pass", role="target", name=name, shape=shape_of(forward), fitted=False)
        yield TimingPoint.of("layer", role="target", name=name, shape=shape_of(forward), fitted=False)
    for name, forward in workload.draft_passes():
        yield TimingPoint.of("pass", role="draft", name=name, shape=shape_of(forward), fitted=False)


def shape_of(forward: ForwardPass) -> Shape:
    """Sizes of a pass that a rank needs to know."""
    attention = forward.attention
    return attention.batch, attention.queries, attention.masked


def wanted(point: TimingPoint, device: str) -> int:
    """Number of times that a point is timed on a device such as ``cpu:0``."""
    visits = VISITS[device.split(":")[0]]
    return min(visits, FEWER.get(point.benchmark, visits))


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
    """Every pass of the strategies called ``names`` for the whole batch, and for one sequence of those without a cache.

    Passes of one sequence end in 'one'; strategies with a cache need none, their token counts already lie among those
    timed.
    Passes of the target come first. One that several strategies run has its first name; two of one name and different
    shapes are told apart by their strategies.
    """
    settings = effective({"k": lookahead, "budget": branches})
    site = _PlanningSite(target, draft, _NOT_TIMED, _NOT_TIMED, tp, batch, context, False, dtype, settings)
    degrees = sorted({1, tp} & {1, *legal_tensor_parallel(draft)})
    planned = [strategy for strategy in strategies.ALL if strategy.name in names]
    by_pass: dict[ForwardPass, Pass] = {}
    for sequences, strategy in itertools.product(sorted({1, batch}), planned):
        if sequences < batch and strategy.miss_state is not None:
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
