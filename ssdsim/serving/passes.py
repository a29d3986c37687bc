"""Seconds that parts of prompts add to a pass, tabulated over its tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import (
    Counted,
    Model,
    beside_prompts,
    cost_between_kernels,
    cost_of_operations,
    of_prompts,
    over_cache,
    over_tokens,
)
from ssdsim.pricing.site import Site
from ssdsim.serving.rounds import added_s, alone_s
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.prefill import Chunk, mixed_pass

_EXACT = 32
_MOST = 2_000_000


def spaced(first: int, ratio: float, exact: int = 1) -> tuple[int, ...]:
    """Whole numbers from ``first`` on: each up to ``exact``, then ``ratio`` apart."""
    numbers = list(range(first, exact + 1)) or [first]

    while numbers[-1] < _MOST:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * ratio)))
    return tuple(numbers)


_NODES = spaced(1, 1.05, _EXACT)


class Curve(dict[int, float]):
    """``at(node)`` is exact at nodes; between two of them a straight line. What was asked once is known."""

    def __init__(self, at: Callable[[int], float], nodes: Sequence[int] = _NODES) -> None:
        super().__init__()
        self._at = at
        self._nodes = nodes

    def __missing__(self, x: int) -> float:
        y = self[x] = self._between(x)
        return y

    def _between(self, x: int) -> float:
        low = max(0, bisect_right(self._nodes, x) - 1)
        start = self._nodes[low]
        if x == start:
            return self._at(x)
        value = self[start]
        if x < start:
            return value
        end = self._nodes[low + 1]
        return value + (x - start) / (end - start) * (self[end] - value)


class Place(Record):
    """A model on ``tp`` devices of a kind, or on ``pp`` stages of so many, in an engine's runtime."""

    card: Transformer
    model: Model
    tp: int
    dtype: str | None
    kv_dtype: str | None
    profile: HardwareProfile
    runtime: Runtime
    ep: int = 1
    pp: int = 1

    @property
    def shard(self) -> dict[str, Any]:
        """Shard of the model that a device holds, with its formats, as a pass takes it."""
        formats = {"dtype": self.dtype, "kv_dtype": self.kv_dtype}
        return {"tp": self.tp, "ep": self.ep, "states": self.runtime.states, **formats}


def target_place(site: Site) -> Place:
    """The target's."""
    if site.data_parallel:
        raise InputError("requests that arrive are served with tensor-parallel attention only: leave --attention out")
    own = site.profile, site.runtime, site.ep, site.pp
    return Place(site.target, "target", site.tp, site.dtype, site.kv_dtype, *own)


def draft_place(site: Site, tp: int, profile: HardwareProfile) -> Place:
    """Place where a site's draft runs, on ``tp`` devices of a profile."""
    dtype = site.draft_dtype or site.dtype
    return Place(site.draft, "draft", tp, dtype, site.kv_dtype, profile, site.runtime)


class PromptTable:
    """Seconds of passes with parts of prompts, within 0.5 % of :func:`ssdsim.pricing.passes.cost_of_mixed_pass`.

    Products, all-reduces and element-wise work depend on the tokens of a pass, attention of a part of a prompt on
    where the part ends, and the attention of what is decoded on neither: three curves instead of a pass each.
    Of several pipeline stages they are what each of them takes, to which other passes follow at once.
    """

    def __init__(self, place: Place) -> None:
        self._place, self.stages = place, place.pp
        self.curves = (
            Curve(lambda tokens: self._tokens_s(tokens, place.runtime)),
            Curve(lambda tokens: self._tokens_s(tokens, beside_prompts(place.runtime))),
            Curve(lambda tokens: self._tokens_s(tokens, of_prompts(place.runtime))),
            Curve(self._head_s),
            Curve(self._attention_s),
            Curve(lambda tokens: self._host_s(self._decoding(tokens))),
            Curve(lambda tokens: self._host_s(self._forward(tokens))),
        )
        """In the order of :data:`ssdsim.serving.rounds.CURVES`."""

    def added_s(self, decoded: int, chunks: Sequence[Chunk]) -> float:
        """Seconds that ``chunks`` add to a pass over ``decoded`` tokens."""
        return added_s(self.curves, decoded, pairs(chunks), len(chunks))

    def later_s(self, prompt: int, budget: int) -> float:
        """What a prompt takes behind the first pipeline stage, which its parts (of ``budget`` tokens at most) follow.

        On each stage later that is its largest part: a smaller last one waits there for those before.
        """
        largest = min(prompt, budget)
        return (self.stages - 1) * self.alone_s((Chunk(largest, prompt - largest),)) if self.stages > 1 else 0.0

    def alone_s(self, chunks: Sequence[Chunk]) -> float:
        """A pass over ``chunks`` and nothing else."""
        return alone_s(self.curves, pairs(chunks), len(chunks))

    def _host_s(self, forward: ForwardPass) -> float:
        """Seconds that the runtime adds between a pass's kernels, and to each stage."""
        whole, stage = (
            cost_between_kernels(each, Cost(), self._place.runtime, self._place.model).seconds
            for each in (forward, ForwardPass((), (), 0, ()))
        )
        return whole / self.stages + (1.0 - 1.0 / self.stages) * stage

    def _forward(self, tokens: int) -> ForwardPass:
        return mixed_pass(self._place.card, (Chunk(tokens),), context=tokens, **self._place.shard)

    def _decoding(self, tokens: int) -> ForwardPass:
        return forward_pass(self._place.card, batch=tokens, context=1, **self._place.shard)

    def _body(self, tokens: int) -> Counted:
        forward = self._forward(tokens)
        after = set(forward.after)
        return [(op, times) for op, times in forward.counted if op not in after]

    def _tokens_s(self, tokens: int, runtime: Runtime) -> float:
        return self._on_a_stage_s(over_tokens(self._body(tokens)), runtime)

    def _attention_s(self, tokens: int) -> float:
        return self._on_a_stage_s(over_cache(self._body(tokens)))

    def _head_s(self, tokens: int) -> float:
        after = self._decoding(tokens).after
        return self._on_a_stage_s([(op, 1) for op in after], of_prompts(self._place.runtime)) if after else 0.0

    def _on_a_stage_s(self, counted: Counted, runtime: Runtime = KERNELS) -> float:
        return cost_of_operations(counted, self._place.profile, runtime).seconds / self.stages


def pairs(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """The tokens of each part of a prompt, and those before it."""
    return [(chunk.tokens, chunk.prefix) for chunk in chunks]


class PromptTables:
    """A table a place, shared by all who process prompts there."""

    def __init__(self) -> None:
        self._known: dict[Any, PromptTable] = {}

    def of(self, place: Place) -> PromptTable:
        shard = tuple(place.shard.values())
        key = (place.card, place.model, shard, place.pp, place.profile.name, place.runtime)
        if key not in self._known:
            self._known[key] = PromptTable(place)
        return self._known[key]


def prompt_warnings(site: Site, tokens: int) -> frozenset[str]:
    """Warnings of what is extrapolated in passes over ``tokens`` tokens of a prompt, the target's and the draft's."""
    places = target_place(site), draft_place(site, 1, site.draft_profile)
    prompt_warnings: frozenset[str] = frozenset()
    for place in places:
        forward = mixed_pass(place.card, (Chunk(tokens),), context=tokens, **place.shard)
        prompt_warnings |= cost_of_operations(forward.counted, place.profile).warnings
    return prompt_warnings
