"""Compressed attention: what its parts take in decoding and over prompts, and their laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds, in_order
from ssdsim.base.checks import Array
from ssdsim.hardware.laws import Scaling, TimingModel
from ssdsim.hardware.of_engines import model_beside, read_among
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.compressed import (
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
    Part,
    PrefillCompressed,
)
from ssdsim.transformer.sparse import KEY_DTYPE

if TYPE_CHECKING:
    from ssdsim.hardware.profile import HardwareProfile

PartOperation = CompressedAttention | CompressedIndexer | PrefillCompressed


class PartCosts(Card):
    """Seconds as a sum of a launch and of what all that a part does adds.

    A token takes ``per_token_s``, each head of one ``per_row_s``; a query goes through what it sees in turn,
    ``per_seen_s`` each. ``choose_s``, ``per_choice_s`` a query and ``per_score_s`` a score are added where an indexer
    sees more than is chosen. Bytes come at ``bandwidth``, products at ``peak_flops``.
    """

    launch_s: Seconds
    per_token_s: Seconds
    per_row_s: Seconds
    per_seen_s: Seconds
    choose_s: Seconds
    per_choice_s: Seconds
    per_score_s: Seconds
    bandwidth: Positive
    peak_flops: Positive

    def seconds(
        self,
        tokens: ArrayLike,
        heads: ArrayLike,
        seen: ArrayLike,
        choosing: ArrayLike,
        scores: ArrayLike,
        moved: ArrayLike,
        flops: ArrayLike,
    ) -> Array:
        """Seconds of a :class:`ssdsim.transformer.compressed.Work`."""
        tokens, choosing = np.asarray(tokens, float), np.asarray(choosing, float)
        around_s = self.launch_s + tokens * (self.per_token_s + self.per_row_s * np.asarray(heads, float))
        choosing_s = self.choose_s * (choosing > 0) + self.per_choice_s * choosing
        choosing_s = choosing_s + self.per_score_s * np.asarray(scores, float)
        streamed_s = np.asarray(moved, float) / self.bandwidth + np.asarray(flops, float) / self.peak_flops
        return np.asarray(around_s + choosing_s + self.per_seen_s * np.asarray(seen, float) + streamed_s)


class CompressedModel(TimingModel):
    """One part on one device. The variables of the domain:

    * ``tokens``: queries of all sequences
    * ``heads``
    * ``seen``: tokens and entries that a query attends to, or that an indexer scores for it
    """

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "heads", "seen")

    costs: PartCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        *_, part, weights = keys
        scores = part.endswith("indexer")
        if not scaling.multiplies(weights) or (scores and not scaling.knows(KEY_DTYPE)):
            return None
        peak_flops = self.costs.peak_flops * (scaling.arithmetic[KEY_DTYPE] if scores else scaling.wide)
        streams = ("per_token_s", "per_row_s", "per_seen_s", "per_choice_s", "per_score_s")
        costs = scaling.of(self.costs, "launch_s", "choose_s", streams=streams, peak_flops=peak_flops)
        return self.unfitted(costs=costs)


REACHED, PRODUCTS_REACHED, SCORES_REACHED = 0.94, 0.6, 0.45
"""Of memory's bandwidth, by whatever no cache holds; of the peak, by projections and by an indexer's products (the
kernel alone on an H100, vLLM 0.24.0)."""
SHARES: Mapping[Part, PartCosts] = {
    "attention": in_order(PartCosts, (5e-5, 1.2e-7, 8.8e-10, 9.6e-9, 0.0, 0.0, 0.0, 0.5, 3.6)),
    "indexer": in_order(PartCosts, (1.3e-5, 2.8e-8, 0.0, 0.0, 3.7e-6, 0.0, 6.4e-11, REACHED, SCORES_REACHED)),
    "prefill_attention": in_order(PartCosts, (5.1e-5, 1.5e-7, 1.2e-9, 0.0, 0.0, 0.0, 0.0, 10.0, 0.68)),
    "prefill_indexer": in_order(PartCosts, (1.2e-5, 3e-8, 0.0, 0.0, 4.9e-5, 2.8e-7, 0.0, 10.0, 1.0)),
}
"""Of devices on which none was timed: what an H100's tables ask for (vLLM 0.24.0). Rates are shares of the device's."""
_OTHERS_LOG_SD = 0.25
"""Between engines: a block of SGLang's takes 1.05 times vLLM's, and 1.6 times where its indexer chooses (B200)."""


class CompressedLaw(Law[PartOperation]):
    """A model for each engine, part and format of the projections beside it; without any, what an H100 takes."""

    def timing(self, op: PartOperation) -> Timing:
        model, outside, others = self._model(op)
        key, seconds = f"compressed_{op.part}:{op.heads}", float(self._costs(op, model).seconds(*op.work))
        if model is None:
            said = f"no {op.kernel.replace('_', ' ')} was timed"
            return untimed(self.profile, key, seconds, said, "scaled from that of an H100")
        seen = {CompressedAttention: "seen", CompressedIndexer: "context", PrefillCompressed: "tokens"}[type(op)]
        within = {"tokens": op.work.tokens, "heads": op.heads, "seen": getattr(op, seen)}
        outside = others or outside or model.beyond(within)
        if outside is None and getattr(op, "queries", 1) > 1:
            outside = "one query a sequence was timed, each of several is taken to gather its own tokens"
        log_sd = math.hypot(model.log_sd, _OTHERS_LOG_SD) if others else None
        return timed(self.profile, key, model, seconds, outside, log_sd=log_sd)

    def launch_s(self, op: PartOperation) -> float:
        return self._costs(op, self._model(op)[0]).launch_s

    def _model(self, op: PartOperation) -> tuple[CompressedModel | None, str | None, str | None]:
        return _beside(self.profile, op.part, op.projections or op.dtype)

    def _costs(self, op: PartOperation, model: CompressedModel | None) -> PartCosts:
        if model is not None:
            return model.costs
        shares, device = SHARES[op.part], self.profile.device
        peak_flops, bandwidth = shares.peak_flops * device.peak_of(op), shares.bandwidth * device.memory_bandwidth
        return shares.changed(peak_flops=peak_flops, bandwidth=bandwidth)


class CompressedProjectionsLaw(Law[CompressedProjections]):
    """Weights as memory gives them, then their products; the error is that of whole blocks.

    Their launches are in the attention's. No time of a projection alone fits in the tables' blocks: an H100's
    block-scaled ones, timed alone, take longer than whole blocks.
    """

    def timing(self, op: CompressedProjections) -> Timing:
        key, device = f"compressed_projections:{op.weights}", self.profile.device
        seconds = op.streamed_bytes / (REACHED * device.memory_bandwidth)
        seconds += op.flops / (PRODUCTS_REACHED * device.peak_of(op))
        model, outside, others = _beside(self.profile, "attention", op.dtype)
        if model is None:
            return untimed(self.profile, key, seconds, "no compressed attention was timed")
        return timed(self.profile, key, model, seconds, others or outside)


def _beside(
    profile: HardwareProfile, part: Part, weights: str
) -> tuple[CompressedModel | None, str | None, str | None]:
    """The model beside projections of this format, and how it is not its own, nor its engine's; None without any."""
    there = {engine: of_part[part] for engine, of_part in profile.compressed.items() if part in of_part}
    if not there:
        return None, None, None
    engine, others = read_among(profile.engine, there)
    return *model_beside(there[engine], weights, weights), others
