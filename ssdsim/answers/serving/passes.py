"""What parts of prompts add to a pass: the one description of a pass, tabulated over its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ssdsim.answers.serving.curve import Curve
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.between_kernels import Model, cost_between_kernels, of_prompts
from ssdsim.pricing.mixed import Counted, over_cache, over_tokens
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.runtimes.card import Runtime
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.mixed import Chunk, mixed_pass


@dataclass(frozen=True)
class Place:
    """A model on ``tp`` devices of a kind, in an engine's runtime."""

    card: Transformer
    model: Model
    tp: int
    dtype: str | None
    kv_dtype: str | None
    profile: HardwareProfile
    runtime: Runtime


class PromptTable:
    """Seconds of passes with parts of prompts, within 0.5 % of :func:`ssdsim.pricing.mixed.cost_of_mixed_pass`.

    Products, all-reduces and element-wise work depend on the tokens of a pass, attention of a part of a prompt on
    where the part ends, and the attention of what is decoded on neither: three curves instead of a pass each.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._beside = Curve(lambda tokens: self._tokens_s(tokens, place.runtime))
        self._alone = Curve(lambda tokens: self._tokens_s(tokens, of_prompts(place.runtime)))
        self._heads = Curve(self._head_s)
        self._attention = Curve(self._attention_s)

    def added_s(self, decoded: int, chunks: Sequence[Chunk]) -> float:
        """What ``chunks`` add to a pass over ``decoded`` tokens."""
        total = decoded + sum(chunk.tokens for chunk in chunks)
        share = decoded / total
        tokens_s = share * self._beside(total) + (1.0 - share) * self._alone(total) - self._beside(decoded)
        return tokens_s + self._heads(decoded + len(chunks)) - self._heads(decoded) + self._over_cache_s(chunks)

    def alone_s(self, chunks: Sequence[Chunk]) -> float:
        """A pass over ``chunks`` and nothing else."""
        total = sum(chunk.tokens for chunk in chunks)
        kernels_s = self._alone(total) + self._heads(len(chunks)) + self._over_cache_s(chunks)
        place = self._place
        return kernels_s + cost_between_kernels(place.card.layers, kernels_s, place.runtime, place.model).seconds

    def _over_cache_s(self, chunks: Sequence[Chunk]) -> float:
        """Each part takes its share of the attention of its prompt up to its end."""
        seconds = 0.0
        for chunk in chunks:
            end = chunk.prefix + chunk.tokens
            seconds += self._attention(end) * (1.0 - chunk.prefix * (chunk.prefix + 1) / (end * (end + 1)))
        return seconds

    def _body(self, tokens: int) -> Counted:
        place = self._place
        forward = mixed_pass(
            place.card, (Chunk(tokens),), context=tokens, tp=place.tp, dtype=place.dtype, kv_dtype=place.kv_dtype
        )
        after = set(forward.after)
        return [(op, times) for op, times in forward.counted() if op not in after]

    def _tokens_s(self, tokens: int, runtime: Runtime) -> float:
        return cost_of_operations(over_tokens(self._body(tokens)), self._place.profile, runtime).seconds

    def _attention_s(self, tokens: int) -> float:
        return cost_of_operations(over_cache(self._body(tokens)), self._place.profile).seconds

    def _head_s(self, tokens: int) -> float:
        place = self._place
        after = forward_pass(
            place.card, batch=tokens, context=1, tp=place.tp, dtype=place.dtype, kv_dtype=place.kv_dtype
        ).after
        if not after:
            return 0.0
        return cost_of_operations([(op, 1) for op in after], place.profile, of_prompts(place.runtime)).seconds


class PromptTables:
    """A table a place, shared by all who process prompts there."""

    def __init__(self) -> None:
        self._known: dict[Any, PromptTable] = {}

    def of(self, place: Place) -> PromptTable:
        key = (place.card, place.model, place.tp, place.dtype, place.kv_dtype, place.profile.name, place.runtime)
        if key not in self._known:
            self._known[key] = PromptTable(place)
        return self._known[key]
