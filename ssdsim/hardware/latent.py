"""Attention over a latent cache: what its block takes beyond its products, and the law."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds, in_order
from ssdsim.base.checks import Array
from ssdsim.hardware.laws import Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import DTYPE_BYTES, LatentAttention

TILE_ROWS = 64
"""Query rows that share one reading of the cache: fewer take the arithmetic of so many."""
_SPLIT_ROWS = 8  # from which on the kernels around the cache no longer differ by the rows of a sequence


class LatentCosts(Card):
    """Seconds as a sum of a floor, of what every token and row adds, and of reading the cache.

    The floor is ``launch_s``, ``per_doubling_s`` for each doubling of the tokens and ``per_row_doubling_s`` for each of
    a sequence's query rows, up to eight. A token takes ``per_token_s``, a query row (a head of a token) ``per_row_s``,
    and ``per_unfilled_row_s`` where a sequence has fewer than :data:`TILE_ROWS` of them, together at most what a full
    tile takes, to which they could be padded. The cache is read at
    ``bandwidth`` while its tiles of rows are multiplied at ``peak_flops``: a smooth maximum of ``sharpness``.
    """

    launch_s: Seconds
    per_doubling_s: Seconds
    per_row_doubling_s: Seconds
    per_token_s: Seconds
    per_row_s: Seconds
    per_unfilled_row_s: Seconds
    bandwidth: Positive
    peak_flops: Positive
    sharpness: Annotated[float, Meta(ge=1.0, le=100.0)]

    def floor_s(self, tokens: ArrayLike, rows: ArrayLike) -> Array:
        """Seconds however short the context; ``rows`` are of one sequence."""
        doublings = np.log2(np.asarray(tokens, float))
        of_rows = np.minimum(np.log2(np.asarray(rows, float)), np.log2(_SPLIT_ROWS))
        return np.asarray(self.launch_s + self.per_doubling_s * doublings + self.per_row_doubling_s * of_rows)

    def seconds(
        self, batch: ArrayLike, queries: ArrayLike, rows: ArrayLike, cache_bytes: ArrayLike, row_flops: ArrayLike
    ) -> Array:
        """Seconds of a block; ``rows`` are of one sequence, ``row_flops`` those of one of them over its cache."""
        batch, rows = np.asarray(batch, float), np.asarray(rows, float)
        tokens = batch * np.asarray(queries, float)
        of_rows_s = np.minimum((self.per_row_s + self.per_unfilled_row_s) * rows, self.per_row_s * TILE_ROWS)
        of_rows_s = np.where(rows < TILE_ROWS, of_rows_s, self.per_row_s * rows)
        tiles = batch * np.ceil(rows / TILE_ROWS) * TILE_ROWS
        reading = np.asarray(cache_bytes, float) / self.bandwidth
        multiplying = tiles * np.asarray(row_flops, float) / self.peak_flops
        work_s = self.per_token_s * tokens + of_rows_s * batch
        return np.asarray(self.floor_s(tokens, rows) + work_s + smooth_maximum(reading, multiplying, self.sharpness))


def smooth_maximum(one: Array, other: Array, sharpness: float) -> Array:
    """The larger of two, and more where they are alike: the norm of this power."""
    longest = np.maximum(one, other)
    return np.asarray(longest * ((one / longest) ** sharpness + (other / longest) ** sharpness) ** (1.0 / sharpness))


class LatentModel(TimingModel):
    """Attention over a latent cache on one device. The variables of the domain:

    * ``batch``: sequences
    * ``rows``: of queries of a sequence, heads times its tokens in flight
    * ``context``: cached tokens of a sequence
    * ``cached``: values of a token's latent
    """

    dimensions: ClassVar[tuple[str, ...]] = ("batch", "rows", "context", "cached")

    costs: LatentCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        cache, weights = keys
        if not (scaling.knows(cache) and scaling.multiplies(weights)):
            return None
        launches = ("launch_s", "per_doubling_s", "per_row_doubling_s")
        streams = ("per_token_s", "per_row_s", "per_unfilled_row_s")
        peak_flops = self.costs.peak_flops * scaling.wide
        return self.unfitted(costs=scaling.of(self.costs, *launches, streams=streams, peak_flops=peak_flops))


_RATES = (0.96, 0.8, 4.5)
"""Shares of bandwidth and peak, and the sharpness."""

SCALED: Mapping[tuple[bool, bool], LatentCosts] = {
    (False, False): in_order(LatentCosts, (4.25e-5, 2.95e-6, 3.35e-6, 4.0e-8, 1.95e-9, 0.0, *_RATES)),
    (False, True): in_order(LatentCosts, (6.9e-6, 4.3e-6, 1.8e-6, 4.1e-8, 1.85e-9, 0.0, *_RATES)),
    (True, False): in_order(LatentCosts, (5.8e-5, 3.5e-6, 3.65e-6, 2.7e-8, 2.2e-9, 5.9e-9, *_RATES)),
    (True, True): in_order(LatentCosts, (2.2e-5, 4.45e-6, 2.3e-6, 3.0e-8, 2.3e-9, 6.6e-9, *_RATES)),
}
"""Of devices on which none was timed: halfway between what the H100's and the H200's tables ask for, by whether the
cache has 8 bits and whether the projections beside it are priced as block-scaled; the bandwidth and the peak are shares
of the device's. On either of the two, the other's law by the ratio of bandwidths misses whole blocks by a median of 2.7
to 5.0 %."""


class LatentLaw(Law[LatentAttention]):
    """A model for each dtype of the cache and format of the projections beside it.

    Only one query a sequence was ever timed: what several take is inferred from as many times the heads. Without any
    timings, what H100 and H200 take, by this device's bandwidth and peak.
    """

    def timing(self, op: LatentAttention) -> Timing:
        key, rows = f"latent_attention:{op.heads}x{op.rank}:{op.cache_dtype}", op.queries * op.heads
        model, outside = self._timed(op)
        costs = model.costs if model else self._scaled(op)
        seconds = float(costs.seconds(op.batch, op.queries, rows, op.streamed_bytes, op.row_flops))
        if model is None:
            said = "no attention over a latent cache was timed"
            return untimed(self.profile, key, seconds, said, "scaled from that of H100 and H200")
        seen = {"batch": op.batch, "rows": rows, "context": op.context, "cached": op.rank + op.rope_dim}
        outside = outside or model.beyond(seen)
        if outside is None and op.queries > 1:
            outside = "one query a sequence was timed, more are taken for as many times the heads"
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: LatentAttention) -> float:
        model, _ = self._timed(op)
        costs = model.costs if model else self._scaled(op)
        return float(costs.floor_s(op.batch * op.queries, op.queries * op.heads))

    def _timed(self, op: LatentAttention) -> tuple[LatentModel | None, str | None]:
        """The timings that ``op`` is priced with and how they are not its own; None where there are none like them."""
        known = self.profile.latent
        by_weights = known.get(op.cache_dtype) or known.get(op.dtype)
        if not by_weights:
            return None, None
        other = None if op.cache_dtype in known else f"a {op.cache_dtype} cache was not timed, {op.dtype} was"
        weights = next((w for w in (op.projections, op.dtype) if w in by_weights), next(iter(by_weights)))
        if weights != (op.projections or op.dtype):
            other = other or f"beside {op.projections} projections it was not timed, beside {weights} it was"
        return by_weights[weights], other

    def _scaled(self, op: LatentAttention) -> LatentCosts:
        """:data:`SCALED` on this device."""
        device, narrow = self.profile.device, DTYPE_BYTES[op.cache_dtype] == 1
        costs = SCALED[narrow, op.projections == "float8-block" and op.projections in self.profile.gemm]
        peak_flops = device.peak_flops.get(op.dtype, min(device.peak_flops.values()))
        rates = {"bandwidth": costs.bandwidth * device.memory_bandwidth, "peak_flops": costs.peak_flops * peak_flops}
        return costs.changed(**rates)
