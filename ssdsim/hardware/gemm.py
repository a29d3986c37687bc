"""Products with weights: the fitted timing model of one format, and the law that chooses among them."""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Count, LogSd, Positive
from ssdsim.base.checks import Array
from ssdsim.base.record import replace
from ssdsim.hardware.laws import (
    Correction,
    FitReport,
    Roofline,
    Scaling,
    TimingModel,
    check_domain,
    clamped,
)
from ssdsim.hardware.nodes import Lattice, continued, doublings, in_proportion, padded
from ssdsim.hardware.timing import Law, Timing, as_efficient, nearest_timed, of_dtype, timed
from ssdsim.transformer.operations import QUANTISED_BYTES, WEIGHT_BYTES, Gemm

STANDS_IN = {"float8-block": "float8"}
"""Formats that are near enough for the timings of one, with an extra error, where the other's are not there."""

GEMM_SIZES = ("m", "n", "k", "nk")
"""Of a product's shape; ``nk`` is the number of weights."""

GEMM_VARIABLES = (*GEMM_SIZES, "rows", "step")
"""What a correction may read. ``rows`` is ``m`` in whole tiles of sixteen, ``step`` the largest power of two that
divides ``m``, at most sixteen: kernels of block-scaled weights take up to 30 % longer where four or eight do not."""

SHARED_ROWS = 1024
"""Up to this many rows time grows at most in proportion; beyond, operands outgrow caches and power limits the clock."""

UNPACKING_A_ROW = {True: (0.0, 0.04), False: (0.3, 0.15)}
"""Of the time in which 4-bit weights stream, what a row beside the first adds to a product, and its standard deviation:
where kernels turn weights back into 16 bits as they multiply (tensor cores since Ampere), and where they do not.

It is of rounds of Qwen3.8-27B in llama.cpp with its MTP head (qwen38-mtp c7bc4153), beside those that are
priced on an RTX PRO 6000. Of a step without drafts, a drafted token more takes -0.07 to 0.05 besides on an RTX 5090, a
3090, two 5060 Ti, a 7900 XTX and Strix Halo (15 rows), 0.19 to 0.26 on a V100 (5 rows), 0.55 to 0.72 on an M3 Ultra.
"""

_TILE_ROWS = 16
_TILES = 8  # whose edges are all nodes
_NODES_A_DOUBLING = 4  # beyond these
_MOST_ROWS = 2.0**22


def gemm_variables(m: ArrayLike, n: ArrayLike, k: ArrayLike, names: Iterable[str]) -> dict[str, ArrayLike]:
    """The sizes and what is made of them, where it is named, of shapes that broadcast together."""
    gemm_variables: dict[str, ArrayLike] = {"m": m, "n": n, "k": k, "nk": np.multiply(n, k)}
    if "rows" in names:
        gemm_variables["rows"] = _TILE_ROWS * np.ceil(np.divide(m, _TILE_ROWS))
    if "step" in names:
        gemm_variables["step"] = np.gcd(np.asarray(m).astype(np.int64), _TILE_ROWS).astype(float)
    return gemm_variables


class GemmSegment(Card):
    """A corrected roofline for one range of ``m``."""

    roofline: Roofline
    correction: Correction = Correction()
    report: FitReport | None = None
    by_weights: tuple[tuple[Positive, LogSd], ...] = ()
    """Held-out log-sds of matrices up to so many weights, which ascend."""

    def __post_init__(self) -> None:
        check_domain(self.correction.domain, GEMM_VARIABLES)

    def log_sd(self, weights: float) -> float | None:
        """Held-out log-sd of matrices of so many weights; None where nobody judged it."""
        own = next((log_sd for most, log_sd in self.by_weights if weights <= most), None)
        return own if own is not None or self.report is None else self.report.log_sd

    def log_seconds(self, m: Array, n: Array, k: Array, weight_bytes: float, value_bytes: float) -> Array:
        moved_bytes = value_bytes * m * (n + k) + weight_bytes * n * k
        roofline = np.log(self.roofline.seconds(moved_bytes, 2 * m * n * k))
        domain = self.correction.domain
        n, k = (clamped(size, *domain.get(name, (0, np.inf))) for name, size in (("n", n), ("k", k)))
        return np.asarray(roofline + self.correction.log_factor(gemm_variables(m, n, k, domain)))

    def wander(self, m: float, n: float, k: float) -> list[float]:
        """Tell how much each direction of the uncertainty moves the logarithm of the time."""
        return self.correction.wander(gemm_variables(m, n, k, self.correction.domain))


class GemmModel(TimingModel):
    """``(m, k) @ (k, n)`` with elements of ``element_bytes``.

    Kernels of different families serve few and many tokens, so there is a segment for each range of ``m``;
    between segment ``i`` and ``i + 1`` time is blended geometrically while ``m`` crosses ``blends[i]``.
    """

    dimensions: ClassVar[tuple[str, ...]] = GEMM_SIZES

    element_bytes: Positive
    """Of a weight, its share of block scales included: 0.5625 of four bits with an eight-bit scale for sixteen."""
    segments: Annotated[tuple[GemmSegment, ...], Meta(min_length=1)]
    blends: tuple[tuple[Positive, Positive], ...] = ()
    matrices: tuple[tuple[Count, Count], ...] = ()
    """Those, by ``n`` and ``k``, of the models whose whole passes are all that was timed; of others nobody knows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.blends) != len(self.segments) - 1:
            raise ValueError(f"{len(self.segments)} segments need {len(self.segments) - 1} blends")
        if any(start >= end for start, end in self.blends):
            raise ValueError("blends: each must rise from its start to its end")

    def seconds(self, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> Array:
        """Seconds of shapes that broadcast together; each matrix is made monotone on its nodes of ``m``."""
        m, n, k = np.broadcast_arrays(*(np.asarray(size, float) for size in (m, n, k)))
        seconds = np.empty(m.shape)
        for matrix in {(float(n_), float(k_)) for n_, k_ in zip(n.flat, k.flat, strict=True)}:
            of = (n == matrix[0]) & (k == matrix[1])
            seconds[of] = np.exp(self.on_nodes(*matrix).at(m[of]))
        return seconds

    def on_nodes(self, n: float, k: float, weight_bytes: float | None = None) -> Lattice:
        """One matrix over the rows that it is multiplied with: never less time for more of them, nor more than theirs.

        Where fewer rows were slower they are padded, as engines do with the tokens of their graphs. Only a tile begun
        anew may take more than its rows' share, and more than :data:`SHARED_ROWS`. Each segment counts as much as it
        serves at ``m``. ``weight_bytes`` are those of a format that was not timed, whose kernels are taken to reach as
        much of the rooflines.
        """
        of = np.asarray(n, float), np.asarray(k, float), weight_bytes or self.element_bytes, self.element_bytes
        most = self.domain.get("m", (1.0, np.inf))[1]
        m, steps = _row_nodes(self.tiled)
        crossed = _crossed(self.blends, m)
        first = max([i + 1 for i, share in enumerate(crossed) if share.min() == 1.0], default=0)
        log_seconds = self.segments[first].log_seconds(m, *of)
        for share, segment in zip(crossed[first:], self.segments[first + 1 :], strict=True):
            if share.any():
                log_seconds = (1 - share) * log_seconds + share * segment.log_seconds(m, *of)
        seconds = continued(np.asarray(np.exp(log_seconds)), m, 0, m <= most)
        return Lattice((m,), in_proportion(padded(np.log(seconds)), m, 0, steps))

    def beyond(self, values: Mapping[str, Any]) -> str | None:
        if self.matrices and (values["n"], values["k"]) not in self.matrices:
            return "it is no matrix of the models whose passes were timed"
        return super().beyond(values)

    @property
    def tiled(self) -> bool:
        """Say whether its kernels take longer where tokens do not fill tiles."""
        return any("rows" in segment.correction.domain for segment in self.segments)

    def segment_at(self, m: float) -> GemmSegment:
        """The segment that serves ``m`` (the nearer one within a blend)."""
        return self.segments[sum(crossed > 0.5 for crossed in _crossed_at(self.blends, m))]

    def wander(self, m: float, n: float, k: float) -> dict[str, float]:
        """Tell how much each direction of each segment's uncertainty moves the logarithm of the time."""
        if not any(segment.correction.uncertainty for segment in self.segments):
            return {}
        crossed = [1.0, *_crossed_at(self.blends, m), 0.0]
        shares = [before * (1.0 - after) for before, after in pairwise(crossed)]
        return {
            f"{i}.{way}": share * moved
            for i, (segment, share) in enumerate(zip(self.segments, shares, strict=True))
            if share > 0.0
            for way, moved in enumerate(segment.wander(m, n, k))
        }

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        (dtype,) = keys
        if not scaling.knows(dtype):
            return None
        segments = (
            segment.changed(
                roofline=segment.roofline.scaled(scaling, scaling.arithmetic[dtype]), report=None, by_weights=()
            )
            for segment in self.segments
        )
        return self.unfitted(segments=tuple(segments))

    def judged_as(self, other: Self, log_sd: float) -> Self:
        segments = (
            own.changed(
                report=before.report and before.report.farther(log_sd),
                by_weights=tuple((most, math.hypot(held_out, log_sd)) for most, held_out in before.by_weights),
            )
            for own, before in zip(self.segments, other.segments, strict=True)
        )
        return super().judged_as(other, log_sd).changed(segments=tuple(segments))


@lru_cache(maxsize=2)
def _row_nodes(tiled: bool) -> tuple[Array, tuple[int, ...]]:
    """Nodes of ``m``, and those that may take more than their rows' share."""
    edges = _TILE_ROWS * np.arange(1, _TILES + 1)
    octaves = doublings(edges[-1], _MOST_ROWS)
    full = np.concatenate([edges, np.outer(octaves, 1.0 + np.arange(_NODES_A_DOUBLING) / _NODES_A_DOUBLING).ravel()])
    begun = {float(rows) + 1.0 for rows in full} if tiled else set()
    nodes = sorted({*map(float, range(1, _TILE_ROWS)), *map(float, full), *begun})
    return np.array(nodes), tuple(i for i, rows in enumerate(nodes) if rows in begun or rows > SHARED_ROWS)


def _crossed(blends: Iterable[tuple[float, float]], m: ArrayLike) -> list[Array]:
    """Share of each blend that ``m`` has crossed: 0 before it, 1 after it, linear in log m."""
    ends = [(math.log(start), math.log(end)) for start, end in blends]
    return [clamped((np.log(m) - start) / (end - start), 0.0, 1.0) for start, end in ends]


@lru_cache(maxsize=4096)
def _crossed_at(blends: tuple[tuple[float, float], ...], m: float) -> tuple[float, ...]:
    """Shares of each blend; remembered, since the products of a pass have ``m`` in common."""
    return tuple(map(float, _crossed(blends, m)))


class GemmLaw(Law[Gemm]):
    """A model for each format of the weights, or that of a near one.

    Where nothing like a quantised format was timed, as much of the rooflines as the nearest that was reaches.
    """

    def timing(self, op: Gemm) -> Timing:
        taken = self._timed_as(op.dtype)
        if taken is None:
            return self._as_efficient(op)
        model, matrix = self.model(taken), (taken, op.n, op.k)
        if matrix not in self.nodes:  # worked out once: batches differ in ``m`` alone
            self.nodes[matrix] = model.on_nodes(op.n, op.k)
        outside = model.beyond({"m": op.m, "n": op.n, "k": op.k, "nk": op.n * op.k})
        if outside is None and taken != op.dtype:
            outside = f"{op.dtype} was not timed, {taken} was"
        seconds, wander = np.exp(self.nodes[matrix].at(op.m)), model.wander(op.m, op.n, op.k)
        key = f"gemm:{op.n}x{op.k}:{op.dtype}"
        log_sd = model.segment_at(op.m).log_sd(op.n * op.k)
        return timed(self.profile, key, model, seconds, outside, wander, f"gemm:{taken}", log_sd)

    def launch_s(self, op: Gemm) -> float:
        return self.model(self._timed_as(op.dtype) or self._nearest(op)).segment_at(op.m).roofline.launch_s

    def model(self, dtype: str) -> GemmModel:
        """Model of one format; InputError where none were timed."""
        return of_dtype(self.profile, "gemm", self.profile.gemm, dtype)

    def _timed_as(self, dtype: str) -> str | None:
        """The format whose timings are taken; None where nothing like this quantised one was timed."""
        known = self.profile.gemm
        taken = dtype if dtype in known else STANDS_IN.get(dtype, dtype)
        return None if dtype in QUANTISED_BYTES and taken not in known else taken

    def _nearest(self, op: Gemm) -> str:
        """The format that is most like one that was not timed; the activations' own where that was not timed either."""
        known = self.profile.gemm if op.activations_dtype in self.profile.gemm else {}
        return (
            nearest_timed(self.profile, op, known, lambda kept: self._with_own_bytes(op, kept)) or op.activations_dtype
        )

    def _with_own_bytes(self, op: Gemm, kept: str) -> float:
        """Seconds by the model of a format whose kernels reach as much of the rooflines with the operation's bytes."""
        matrix = (kept, op.dtype, op.n, op.k)
        if matrix not in self.nodes:
            self.nodes[matrix] = self.model(kept).on_nodes(op.n, op.k, WEIGHT_BYTES[op.dtype])
        return float(np.exp(self.nodes[matrix].at(op.m)))

    def _as_efficient(self, op: Gemm) -> Timing:
        """A guess: the operation's own bytes, at what the nearest format that was timed reaches of its rooflines.

        What it costs to turn weights back into 16 bits is that of other devices' kernels, for each row of the first
        tile: with more rows it is cheaper to turn back a whole matrix once.
        """
        near, key = self._nearest(op), f"gemm:{op.n}x{op.k}:{op.dtype}"
        seconds, device = self._with_own_bytes(op, near), self.profile.device
        guess = as_efficient(self.profile, key, self.model(near), seconds, f"{op.dtype} GEMMs", near)
        if device.multiplies_in(op) not in (None, op.activations_dtype):
            return guess
        row, row_sd = UNPACKING_A_ROW[device.kind == "cuda" and not device.lacks_flash_attention]
        rows_s = (min(op.m, _TILE_ROWS) - 1) * WEIGHT_BYTES["int4"] * op.n * op.k / device.memory_bandwidth
        seconds += row * rows_s
        moved = row_sd * rows_s / seconds
        log_sd = math.hypot(guess.log_sd, moved)
        return replace(guess, seconds=seconds, log_sd=log_sd, shared={f"gemm:{op.dtype} rows": moved})
