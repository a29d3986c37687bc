"""Sparse attention: what the indexer, its choice and attention to what was chosen take, and their laws."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds, in_order
from ssdsim.base.checks import Array
from ssdsim.hardware.latent import smooth_maximum
from ssdsim.hardware.laws import Roofline, Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.sparse import KEY_DTYPE, Indexer, PrefillSparse, SparseAttention


class IndexerCosts(Card):
    """A launch, reading keys or multiplying them, and what is done with scores.

    ``launch_s`` and ``per_token_s`` are of the kernels around the scores; ``choose_s``, and ``per_choice_s`` a query,
    are added where there are more tokens than are chosen, with ``per_score_s`` for each score, to be written, read and
    sorted. Keys are read at ``bandwidth``, once for all queries of a sequence, while each query's scores are multiplied
    at ``peak_flops``: a smooth maximum of ``sharpness``.
    """

    launch_s: Seconds
    per_token_s: Seconds
    choose_s: Seconds
    per_choice_s: Seconds
    per_score_s: Seconds
    bandwidth: Positive
    peak_flops: Positive
    sharpness: Annotated[float, Meta(ge=1.0, le=100.0)]

    def seconds(
        self, tokens: ArrayLike, chooses: ArrayLike, scores: ArrayLike, key_bytes: ArrayLike, flops: ArrayLike
    ) -> Array:
        """Seconds of ``tokens`` queries with so many ``scores``, some of which are chosen where it ``chooses``."""
        tokens, scores, chooses = (np.asarray(each, float) for each in (tokens, scores, chooses))
        choosing_s = chooses * (self.choose_s + self.per_choice_s * tokens + self.per_score_s * scores)
        around_s = self.launch_s + self.per_token_s * tokens + choosing_s
        reading = np.asarray(key_bytes, float) / self.bandwidth
        multiplying = np.asarray(flops, float) / self.peak_flops
        return np.asarray(around_s + smooth_maximum(reading, multiplying, self.sharpness))


class IndexerModel(TimingModel):
    """An indexer and its choice on one device. The variables of the domain:

    * ``tokens``: queries of all sequences
    * ``context``: cached tokens of a sequence
    * ``heads``: of the indexer
    """

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "context", "heads")

    costs: IndexerCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        (weights,) = keys
        if not (scaling.knows(KEY_DTYPE) and scaling.multiplies(weights)):
            return None
        peak_flops = self.costs.peak_flops * scaling.arithmetic[KEY_DTYPE]
        streams = ("per_token_s", "per_choice_s", "per_score_s")
        costs = scaling.of(self.costs, "launch_s", "choose_s", streams=streams, peak_flops=peak_flops)
        return self.unfitted(costs=costs)


class SparseCosts(Card):
    """A floor, what each token and each head of one takes, and the tokens that it chose: gathered, then multiplied.

    The floor is ``launch_s`` and ``per_doubling_s`` for each doubling of the tokens. A query goes through its chosen
    tokens in turn, ``per_seen_s`` each; all queries together gather theirs at ``bandwidth``, and multiply them at
    ``peak_flops``.
    """

    launch_s: Seconds
    per_doubling_s: Seconds
    per_token_s: Seconds
    per_row_s: Seconds
    per_seen_s: Seconds
    bandwidth: Positive
    peak_flops: Positive

    def floor_s(self, tokens: ArrayLike) -> Array:
        """Seconds however few tokens were chosen."""
        return np.asarray(self.launch_s + self.per_doubling_s * np.log2(np.asarray(tokens, float)))

    def seconds(
        self, tokens: ArrayLike, heads: ArrayLike, seen: ArrayLike, gathered_bytes: ArrayLike, flops: ArrayLike
    ) -> Array:
        """Seconds of ``tokens`` queries of so many ``heads``, each of which has ``seen`` so many tokens."""
        tokens, gathered, flops = (np.asarray(each, float) for each in (tokens, gathered_bytes, flops))
        work_s = self.per_token_s * tokens + self.per_row_s * tokens * np.asarray(heads, float)
        work_s = work_s + self.per_seen_s * np.asarray(seen, float)
        return np.asarray(self.floor_s(tokens) + work_s + gathered / self.bandwidth + flops / self.peak_flops)


class SparseModel(TimingModel):
    """Attention to chosen tokens on one device. The variables of the domain:

    * ``tokens``: queries of all sequences
    * ``heads``
    * ``seen``: tokens that a query attends to
    """

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "heads", "seen")

    costs: SparseCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        cache, weights = keys
        if not (scaling.knows(cache) and scaling.multiplies(weights)):
            return None
        peak_flops = self.costs.peak_flops * scaling.wide
        streams = ("per_token_s", "per_row_s", "per_seen_s")
        return self.unfitted(
            costs=scaling.of(self.costs, "launch_s", "per_doubling_s", streams=streams, peak_flops=peak_flops)
        )


INDEXER_SHARES: IndexerCosts = in_order(IndexerCosts, (1.6e-5, 4e-8, 1.1e-5, 3.3e-8, 4.6e-12, 0.94, 0.45, 1.6))
SPARSE_SHARES: Mapping[bool, SparseCosts] = {
    False: in_order(SparseCosts, (1.1e-4, 2.9e-6, 1.3e-7, 1.8e-9, 2.1e-8, 1.08, 10.0)),
    True: in_order(SparseCosts, (6.5e-5, 2.8e-6, 4.8e-7, 3.2e-9, 1.2e-8, 1.12, 10.0)),
}
"""Of devices on which none was timed: what an H100's tables ask for (vLLM 0.24.0), attention by whether the projections
beside it are priced as block-scaled, which alone take longer than in a block. A rate is a share of the device's, above
1 where a cache or other work hides it. An H100's whole blocks so scaled miss those of an H200 and a B200 by medians of
3.9 and 4.3 %, beside block-scaled projections by 4.4 and 18 %. An indexer's launch is what SGLang 0.5.14 takes longer
for a GLM-5 block with one than without, on an H100 and a B200."""

Model = TypeVar("Model", bound=TimingModel)


class IndexerLaw(Law[Indexer]):
    """A model for each format of the projections beside it; without any, what an H100 takes by this device's rates."""

    def timing(self, op: Indexer) -> Timing:
        key, tokens = f"indexer:{op.heads}x{op.dim}", op.batch * op.queries
        model, outside = _beside(self.profile.indexer, op.projections, op.dtype)
        seconds = float(self._costs(op, model).seconds(tokens, op.chooses, op.scores, op.streamed_bytes, op.flops))
        if model is None:
            return untimed(self.profile, key, seconds, "no indexer was timed", "scaled from that of an H100")
        outside = outside or model.beyond({"tokens": tokens, "context": op.context, "heads": op.heads})
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: Indexer) -> float:
        return self._costs(op, _beside(self.profile.indexer, op.projections, op.dtype)[0]).launch_s

    def _costs(self, op: Indexer, model: IndexerModel | None) -> IndexerCosts:
        return model.costs if model else _of_device(INDEXER_SHARES, self, op)


class SparseLaw(Law[SparseAttention]):
    """A model for each dtype of the cache and format of the projections beside it; without any, what an H100 takes."""

    def timing(self, op: SparseAttention) -> Timing:
        key, tokens = f"sparse_attention:{op.heads}x{op.rank}:{op.cache_dtype}", op.batch * op.queries
        model, outside = self._timed(op)
        seconds = float(self._costs(op, model).seconds(tokens, op.heads, op.seen, op.gathered_bytes, op.flops))
        if model is None:
            said = "no attention to chosen tokens was timed"
            return untimed(self.profile, key, seconds, said, "scaled from that of an H100")
        outside = outside or model.beyond({"tokens": tokens, "heads": op.heads, "seen": op.seen})
        if outside is None and op.queries > 1:
            outside = "one query a sequence was timed, each of several is taken to gather its own tokens"
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: SparseAttention) -> float:
        return float(self._costs(op, self._timed(op)[0]).floor_s(op.batch * op.queries))

    def _costs(self, op: SparseAttention, model: SparseModel | None) -> SparseCosts:
        block_scaled = op.projections == "float8-block" and op.projections in self.profile.gemm
        return model.costs if model else _of_device(SPARSE_SHARES[block_scaled], self, op)

    def _timed(self, op: SparseAttention) -> tuple[SparseModel | None, str | None]:
        known = self.profile.sparse_attention
        by_weights = known.get(op.cache_dtype) or known.get(op.dtype) or {}
        model, other = _beside(by_weights, op.projections, op.dtype)
        if model is not None and op.cache_dtype not in known:
            other = f"a {op.cache_dtype} cache was not timed, {op.dtype} was"
        return model, other


def _beside(models: Mapping[str, Model], projections: str, dtype: str) -> tuple[Model | None, str | None]:
    """The model beside projections of this format, and how it is not its own; None where there are none."""
    if not models:
        return None, None
    weights = next((w for w in (projections, dtype) if w in models), next(iter(models)))
    own = weights == (projections or dtype)
    return models[
        weights
    ], None if own else f"beside {projections} projections it was not timed, beside {weights} it was"


Costs = TypeVar("Costs", IndexerCosts, SparseCosts)


def _of_device(shares: Costs, law: Law[Any], op: Operation) -> Costs:
    """Costs whose rates are shares of the device's."""
    device = law.profile.device
    peak_flops = shares.peak_flops * _peak_flops(law, op)
    return shares.changed(bandwidth=shares.bandwidth * device.memory_bandwidth, peak_flops=peak_flops)


def _peak_flops(law: Law[Any], op: Operation) -> float:
    """The peak in the best dtype that is known for it; the lowest of all where none is."""
    device = law.profile.device
    return device.peak_flops.get(device.multiplies_in(op) or "", min(device.peak_flops.values()))


PREFILL_REACHED = 0.25
"""Of the peak rate that scores over prompts and attention to chosen tokens are taken to reach."""


class PrefillSparseLaw(Law[PrefillSparse]):
    """The device's roofline at a part of the peak rate: no profile has timings of its own."""

    def timing(self, op: PrefillSparse) -> Timing:
        device = self.profile.device
        reached = PREFILL_REACHED * _peak_flops(self, op)
        roofline = Roofline(launch_s=0.0, bandwidth=device.memory_bandwidth, peak_flops=reached)
        seconds, said = float(roofline.seconds(op.bytes, op.flops)), f"no {op.kernel} was timed"
        return untimed(self.profile, op.kernel, seconds, said, f"{PREFILL_REACHED:.0%} of the device's peak flops")
