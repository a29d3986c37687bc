"""Sparse attention: what a choice of tokens or blocks, and attention to what was chosen, take, and their laws."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds
from ssdsim.base.checks import Array
from ssdsim.hardware.latent import smooth_maximum
from ssdsim.hardware.laws import Roofline, Scaling, TimingModel
from ssdsim.hardware.of_engines import EnginesLaw, model_beside
from ssdsim.hardware.timing import Law, Timing, untimed
from ssdsim.transformer.block_sparse import BlockAttention, BlockChoice
from ssdsim.transformer.sparse import KEY_DTYPE, Indexer, PrefillSparse, SparseAttention

Choice = TypeVar("Choice", Indexer, BlockChoice)
Chosen = TypeVar("Chosen", SparseAttention, BlockAttention)


class IndexerCosts(Card):
    """A launch, reading keys or multiplying them, and what is done with scores.

    ``launch_s`` and ``per_token_s`` are of the kernels around the scores; ``choose_s``, and ``per_choice_s`` a query,
    are added where there are more tokens than are chosen, with ``per_score_s`` for each score, to be written, read and
    sorted, and ``per_key_s`` for each token of a context, since the scores of a query are gone through in turn, those
    of ``at_once`` queries at a time. Keys are read at ``bandwidth``, once for all queries of a sequence, while each
    query's scores are multiplied at ``peak_flops``: a smooth maximum of ``sharpness``.
    """

    launch_s: Seconds
    per_token_s: Seconds
    choose_s: Seconds
    per_choice_s: Seconds
    per_score_s: Seconds
    per_key_s: Seconds
    at_once: Positive
    bandwidth: Positive
    peak_flops: Positive
    sharpness: Annotated[float, Meta(ge=1.0, le=100.0)]

    def seconds(
        self,
        tokens: ArrayLike,
        chooses: ArrayLike,
        scores: ArrayLike,
        context: ArrayLike,
        key_bytes: ArrayLike,
        flops: ArrayLike,
    ) -> Array:
        """Seconds of ``tokens`` queries with so many ``scores``, some of which are chosen where it ``chooses``."""
        tokens, scores, chooses, context = (np.asarray(each, float) for each in (tokens, scores, chooses, context))
        sorting_s = self.per_score_s * scores + self.per_key_s * context * np.maximum(1.0, tokens / self.at_once)
        choosing_s = chooses * (self.choose_s + self.per_choice_s * tokens + sorting_s)
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
        *_, weights = keys
        faster = self.faster(scaling)
        if faster is None or not scaling.multiplies(weights):
            return None
        peak_flops = self.costs.peak_flops * faster
        times = ("launch_s", "per_token_s", "choose_s", "per_choice_s", "per_key_s")
        return self.unfitted(costs=scaling.of(self.costs, *times, streams=("per_score_s",), peak_flops=peak_flops))

    def faster(self, scaling: Scaling) -> float | None:
        """The factor of its arithmetic; None where a device has none of it."""
        return scaling.arithmetic.get(KEY_DTYPE)


class BlockChoiceModel(IndexerModel):
    """A choice of blocks, whose index keys have 16 bits."""

    def faster(self, scaling: Scaling) -> float | None:
        return scaling.wide


class SparseCosts(Card):
    """A floor, what each token and each head of one takes, and the tokens that it chose: gathered, then multiplied.

    The floor is ``launch_s``, ``per_head_s`` for each head however few tokens there are, and ``per_doubling_s`` for
    each doubling of these. A query goes through its chosen tokens in turn, ``per_seen_s`` each; all queries together
    gather theirs at ``bandwidth``, and multiply them at ``peak_flops``.
    """

    launch_s: Seconds
    per_head_s: Seconds
    per_doubling_s: Seconds
    per_token_s: Seconds
    per_row_s: Seconds
    per_seen_s: Seconds
    bandwidth: Positive
    peak_flops: Positive

    def floor_s(self, tokens: ArrayLike, heads: ArrayLike) -> Array:
        """Seconds however few tokens were chosen."""
        of_heads_s = self.per_head_s * np.asarray(heads, float)
        return np.asarray(self.launch_s + of_heads_s + self.per_doubling_s * np.log2(np.asarray(tokens, float)))

    def seconds(
        self, tokens: ArrayLike, heads: ArrayLike, seen: ArrayLike, gathered_bytes: ArrayLike, flops: ArrayLike
    ) -> Array:
        """Seconds of ``tokens`` queries of so many ``heads``, each of which has ``seen`` so many tokens."""
        tokens, gathered, flops = (np.asarray(each, float) for each in (tokens, gathered_bytes, flops))
        work_s = self.per_token_s * tokens + self.per_row_s * tokens * np.asarray(heads, float)
        work_s = work_s + self.per_seen_s * np.asarray(seen, float)
        return np.asarray(self.floor_s(tokens, heads) + work_s + gathered / self.bandwidth + flops / self.peak_flops)


class SparseModel(TimingModel):
    """Attention to chosen tokens on one device. The variables of the domain:

    * ``tokens``: queries of all sequences
    * ``heads``
    * ``seen``: tokens that a query attends to
    """

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "heads", "seen")

    costs: SparseCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        *_, cache, weights = keys
        if not (scaling.knows(cache) and scaling.multiplies(weights)):
            return None
        peak_flops = self.costs.peak_flops * scaling.wide
        times = ("launch_s", "per_head_s", "per_doubling_s", "per_token_s", "per_row_s", "per_seen_s")
        return self.unfitted(costs=scaling.of(self.costs, *times, peak_flops=peak_flops))


class ChoiceLaw(EnginesLaw[Choice]):
    """Of a choice: a model for each engine and format of the projections beside it."""

    def key(self, op: Choice) -> str:
        return f"{self.field}:{op.heads}x{op.dim}"

    def model_of(self, op: Choice, of_engine: Mapping[str, Any]) -> tuple[IndexerModel, str | None]:
        return model_beside(of_engine, op.projections, op.dtype)

    def seconds_by(self, op: Choice, model: Any) -> float:
        tokens, of_choice = op.batch * op.queries, (op.chooses, op.scores, op.context)
        return float(model.costs.seconds(tokens, *of_choice, op.streamed_bytes, op.flops))

    def variables(self, op: Choice) -> Mapping[str, float]:
        return {"tokens": op.batch * op.queries, "context": op.context, "heads": op.heads}

    def launch_s(self, op: Choice) -> float:
        return float(self._model(op)[0].costs.launch_s)


class ChosenLaw(EnginesLaw[Chosen]):
    """Of attention to what was chosen: a model for each engine, dtype of the cache and format of the projections."""

    def model_of(self, op: Chosen, of_engine: Mapping[str, Any]) -> tuple[SparseModel, str | None]:
        kept = next((dtype for dtype in (op.cache_dtype, op.dtype) if dtype in of_engine), next(iter(of_engine)))
        model, other = model_beside(of_engine[kept], op.projections, op.dtype)
        other = other if kept == op.cache_dtype else f"a {op.cache_dtype} cache was not timed, {kept} was"
        if other is None and op.queries > 1:
            other = "one query a sequence was timed, each of several is taken to gather its own tokens"
        return model, other

    def seconds_by(self, op: Chosen, model: Any) -> float:
        return float(model.costs.seconds(op.batch * op.queries, op.heads, op.seen, op.gathered_bytes, op.flops))

    def variables(self, op: Chosen) -> Mapping[str, float]:
        return {"tokens": op.batch * op.queries, "heads": op.heads, "seen": op.seen}

    def launch_s(self, op: Chosen) -> float:
        return float(self._model(op)[0].costs.floor_s(op.batch * op.queries, op.heads))


class IndexerLaw(ChoiceLaw[Indexer]):
    """Of an indexer."""

    field, what = "indexer", "indexer"


class SparseLaw(ChosenLaw[SparseAttention]):
    """Of attention to tokens in a latent cache."""

    field, what = "sparse_attention", "attention to chosen tokens"

    def key(self, op: SparseAttention) -> str:
        return f"sparse_attention:{op.heads}x{op.rank}:{op.cache_dtype}"


class BlockChoiceLaw(ChoiceLaw[BlockChoice]):
    """Of a choice of blocks."""

    field, what = "block_choice", "choice of blocks"


class BlockAttentionLaw(ChosenLaw[BlockAttention]):
    """Of attention to blocks of keys and values."""

    field, what = "block_attention", "attention to chosen blocks"

    def key(self, op: BlockAttention) -> str:
        return f"block_attention:{op.heads}/{op.kv_heads}x{op.head_dim}:{op.cache_dtype}"


class OverPrompts(NamedTuple):
    """A step over prompts: what each token takes, and the share of the peak that its products reach."""

    per_token_s: float
    reached: float


OVER_PROMPTS: Mapping[str, tuple[OverPrompts, OverPrompts]] = {
    "indexer": (OverPrompts(0.0, 0.36), OverPrompts(0.0, 0.18)),
    "sparse_attention": (OverPrompts(1.7e-7, 0.67), OverPrompts(1.7e-7, 0.67)),
    "block_choice": (OverPrompts(0.0, 0.2), OverPrompts(0.0, 0.5)),
    "block_attention": (OverPrompts(3e-8, 0.17), OverPrompts(6e-9, 0.29)),
}
"""Before Blackwell, and from it on: what whole blocks of vLLM 0.24 ask for (``dsa_context_module_perf`` and
``msa_context_module_perf``, 256 to 32,768 tokens). They miss blocks of DeepSeek-V3.2 and GLM-5 by medians of 5 to 14 %
on an H100 and an H200, by 13 to 17 % on a B200 and a B300; MiniMax-M3's by 7 to 9 % with a cache of 16 bits (of 8 bits
26 to 30 % on Hopper), and by 6 to 18 %. The host's 0.8 ms a DSA layer is not in them: nobody captures prompts."""


class PrefillSparseLaw(Law[PrefillSparse]):
    """What vLLM took on four GPUs, as a share of this device's peak: no profile has timings of its own."""

    def timing(self, op: PrefillSparse) -> Timing:
        device = self.profile.device
        taken = OVER_PROMPTS[op.name][device.multiplies_4_bits]
        peak = taken.reached * device.peak_of(op)
        roofline = Roofline(launch_s=0.0, bandwidth=device.memory_bandwidth, peak_flops=peak)
        seconds = float(roofline.seconds(op.bytes, op.padding * op.flops)) + op.batch * op.tokens * taken.per_token_s
        said = f"no {op.kernel} was timed alone"
        return untimed(self.profile, op.kernel, seconds, said, f"what blocks over prompts took, {peak / 1e12:.0f} TF/s")
