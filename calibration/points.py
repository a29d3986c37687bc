"""What calibration times: points, each a benchmark with its parameters, known by one key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ssdsim.transformer.card import ForwardPass, Transformer, forward_pass, legal_tensor_parallel
from ssdsim.transformer.operations import Attention, Collective, Elementwise, Gemm

_TOKENS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_FEW_TOKENS = 8  # kernels for few tokens are odd: time every matrix with them
_MOST_BETWEEN = 8

Matrix = tuple[int, int]
"""n and k of a GEMM's weights."""


@dataclass(frozen=True)
class Point:
    """One thing to time. ``fitted`` says whether the fit may see it (whole layers and passes only check it)."""

    benchmark: str
    parameters: tuple[tuple[str, Any], ...]
    fitted: bool = True

    @classmethod
    def of(cls, benchmark: str, *, fitted: bool = True, **parameters: Any) -> Point:
        return cls(benchmark, tuple(sorted(parameters.items())), fitted)

    @property
    def key(self) -> str:
        return f"{self.benchmark} {json.dumps(dict(self.parameters), sort_keys=True)}"

    def request(self) -> dict[str, Any]:
        return {"benchmark": self.benchmark, **dict(self.parameters)}


@dataclass(frozen=True)
class Workload:
    """The pair and the rounds that a calibration is for."""

    target: Transformer
    draft: Transformer
    batch: int
    lookahead: int
    branches: int
    context: int
    tp: int
    dtype: str

    def target_passes(self) -> list[tuple[str, ForwardPass]]:
        """The target's passes by name: AR, one sequence's verification, the batch's verification."""
        shapes = {"ar": (1, 1), "verify one": (1, self.lookahead + 1), "verify": (self.batch, self.lookahead + 1)}
        shapes["ar batch"] = (self.batch, 1)
        return [(name, self._pass(self.target, b, q, self.tp, False)) for name, (b, q) in shapes.items()]

    def draft_passes(self) -> list[tuple[str, ForwardPass]]:
        """The draft's passes: a step, the glue pass, a branch step."""
        return [
            ("draft step one", self._pass(self.draft, 1, 1, 1, False)),
            ("draft step", self._pass(self.draft, self.batch, 1, 1, False)),
            ("glue", self._pass(self.draft, self.batch, self.lookahead + 1, 1, False)),
            ("branch step", self._pass(self.draft, self.batch, self.branches, 1, True)),
        ]

    def shared_draft_steps(self) -> list[ForwardPass]:
        """A step of SD's draft on all of the target's ranks, where they can share it; whole it is ``draft step``."""
        shared = self.tp > 1 and self.tp in legal_tensor_parallel(self.draft)
        return [self._pass(self.draft, self.batch, 1, self.tp, False)] if shared else []

    def _pass(self, card: Transformer, batch: int, queries: int, tp: int, masked: bool) -> ForwardPass:
        return forward_pass(
            card, batch=batch, queries=queries, context=self.context, tp=tp, dtype=self.dtype, masked=masked
        )


def plan(workload: Workload, ranks: int) -> list[Point]:
    """Every point, what a pass needs first; a few around them, so that a fit has a domain and rows to hold out."""
    passes = [forward for _, forward in (*workload.target_passes(), *workload.draft_passes())]
    passes += workload.shared_draft_steps()
    ops = [op for forward in passes for op, _ in forward.counted()]
    points = [
        *_checks(workload),
        *(_interference() if ranks > 1 else ()),
        *_gemms(passes, workload),
        *_attentions([op for op in ops if isinstance(op, Attention)], workload),
        *_elementwise([op for op in ops if isinstance(op, Elementwise)]),
        *_collectives([op for op in ops if isinstance(op, Collective)], workload),
        *(_links(workload.tp) if ranks > 1 else ()),
    ]
    return list(dict.fromkeys(points))


def _gemms(passes: Sequence[ForwardPass], workload: Workload) -> Iterator[Point]:
    """The real matrices at the real and at other numbers of tokens, and matrices of other shapes around them.

    Each is timed after the matrix that comes before it in a pass: after its like it would take some percent less.
    """
    real = _predecessors(passes)
    tokens = sorted({op.m for forward in passes for op, _ in forward.counted() if isinstance(op, Gemm)})
    spread = [m for m in _TOKENS if m <= tokens[-1]]
    for (n, k), after in real.items():
        for m in dict.fromkeys((*tokens, *spread)):
            yield Point.of("gemm", m=m, n=n, k=k, after=after, dtype=workload.dtype)
    few = [m for m in spread if m <= _FEW_TOKENS]
    for n, k in _between(list(real)):
        for m in dict.fromkeys((*few, *tokens)):
            yield Point.of("gemm", m=m, n=n, k=k, after=(k, n), dtype=workload.dtype)


def _predecessors(passes: Sequence[ForwardPass]) -> dict[Matrix, Matrix]:
    """Every matrix of the passes with the one that comes before it, the last of a layer before its first."""
    found: dict[Matrix, Matrix] = {}
    for forward in passes:
        layer, after = ([(op.n, op.k) for op in ops if isinstance(op, Gemm)] for ops in (forward.layer, forward.after))
        for before, matrix in pairwise([layer[-1], *layer, *after]):
            found.setdefault(matrix, before)
    return found


def _between(matrices: Sequence[Matrix]) -> list[Matrix]:
    """Matrices of the same sizes otherwise combined, within the range of the real ones, largest first."""
    sizes = sorted({size for matrix in matrices for size in matrix})
    elements = [n * k for n, k in matrices]
    found = [(n, k) for n in sizes for k in sizes if (n, k) not in matrices and min(elements) <= n * k <= max(elements)]
    return sorted(found, key=lambda matrix: -matrix[0] * matrix[1])[:_MOST_BETWEEN]


def _attentions(ops: Sequence[Attention], workload: Workload) -> Iterator[Point]:
    for op in ops:
        for context in (op.context // 4, op.context // 2, op.context, 2 * op.context):
            for queries in dict.fromkeys((1, max(1, op.queries // 2), op.queries)):
                for batch in dict.fromkeys((1, max(1, op.batch // 2), op.batch)):
                    yield Point.of(
                        "attention",
                        batch=batch,
                        queries=queries,
                        context=max(context, 1),
                        heads=op.heads,
                        kv_heads=op.kv_heads,
                        head_dim=op.head_dim,
                        dtype=workload.dtype,
                        masked=op.masked,
                    )


def _elementwise(ops: Sequence[Elementwise]) -> Iterator[Point]:
    if not ops:
        return
    sizes = [op.moved_bytes for op in ops]
    for size in np.geomspace(min(sizes) / 2, max(sizes) * 2, 12):
        yield Point.of("elementwise", moved_bytes=int(size) // 16 * 16 + 16)


def _collectives(ops: Sequence[Collective], workload: Workload) -> Iterator[Point]:
    for kind in dict.fromkeys(op.kind for op in ops):
        sizes = [op.message_bytes for op in ops if op.kind == kind]
        for size in np.geomspace(min(min(sizes), 1 << 10), max(max(sizes), 1 << 20), 16):
            message_bytes = int(size) // 64 * 64 + 64
            yield Point.of(kind, message_bytes=message_bytes, ranks=workload.tp)
            yield Point.of(f"{kind} with messages", fitted=False, message_bytes=message_bytes, ranks=workload.tp)


def _links(tp: int) -> Iterator[Point]:
    """The first rank's messages, which the fit sees, and a few sizes of every other target rank's."""
    sizes = [int(size) // 16 * 16 for size in np.geomspace(64, 1 << 24, 16)]
    for size in sizes:
        yield Point.of("link", message_bytes=size)
    for rank in range(1, tp):
        for size in sizes[::5]:
            yield Point.of("rank link", rank=rank, message_bytes=size, fitted=False)
    yield Point.of("round trip", outcome_bytes=256, response_bytes=1024, fitted=False)


def _interference() -> Iterator[Point]:
    """How much passes that stream and passes that compute slow each other on the two sides."""
    for target in ("ar", "verify"):
        for draft in ("draft step one", "branch step"):
            yield Point.of("interference", target=target, draft=draft)


def _checks(workload: Workload) -> Iterator[Point]:
    """Whole passes, which the fit never sees, and the host's gaps."""
    yield Point.of("host gap", role="target")
    for name, _ in workload.target_passes():
        yield Point.of("pass", role="target", name=name, fitted=False)
        yield Point.of("layer", role="target", name=name, fitted=False)
    for name, _ in workload.draft_passes():
        yield Point.of("pass", role="draft", name=name, fitted=False)
