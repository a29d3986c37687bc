"""Prompts that arrive while others decode, where an engine puts parts of them into the passes that decode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import cost_of_mixed_pass
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass
from ssdsim.transformer.prefill import Chunk, mixed_pass

PASS_TOKENS = 8192
"""Tokens that an engine has room for in one pass: what vLLM's and TensorRT-LLM's servers take by default."""

_RARE = 1e-4  # share of passes


class MixedPass(Pass):
    """A pass of which ``decoded`` tokens are decoded and the others are parts of prompts."""

    decoded: int = 0

    @cached_property
    def cost(self) -> Cost:
        return cost_of_mixed_pass(self.forward, self.decoded, self.profile, self.runtime, self.model)


def with_prompts(site: Site, verified: Pass, tokens: int, a_pass: float) -> list[tuple[MixedPass, float]]:
    """The passes that have parts of prompts in them, and the share of all passes that each is.

    ``verified`` is the pass without; ``a_pass`` prompts of ``tokens`` tokens come to each, in a Poisson process. As
    many as there is room for join one pass, and a prompt that is longer than the room takes several. Where more come
    than passes hold, all passes hold some, and the rest waits in a queue.
    """
    decoded = verified.forward.tokens
    shared: dict[str, Any] = {
        "tp": site.tp,
        "ep": site.ep,
        "dcp": site.dcp,
        "dtype": site.dtype,
        "kv_dtype": site.kv_dtype,
        "states": site.runtime.states,
    }

    def mixed(*chunks: Chunk) -> MixedPass:
        queries = decoded // site.batch
        of = {"batch": site.batch, "queries": queries, "context": site.context, **shared}
        forward = mixed_pass(site.target, chunks, **of)
        return MixedPass("prompts", "target", forward, site.tp, site.profile, site.local_runtime, decoded=decoded)

    room = max(1, PASS_TOKENS - decoded)
    passes = [(mixed(*chunks), share) for chunks, share in _filled(tokens, room, a_pass)]
    crowded = max(1.0, sum(share for _, share in passes))
    return [(each, share / crowded) for each, share in passes]


def _filled(tokens: int, room: int, a_pass: float) -> Iterator[tuple[tuple[Chunk, ...], float]]:
    """What passes hold of prompts, and how many of all passes do."""
    most = room // tokens
    if not most:
        starts = range(0, tokens, room)
        yield from (((Chunk(min(room, tokens - start), start),), a_pass) for start in starts)
        return
    shares = dict.fromkeys(range(most + 1), 0.0)
    chance, number, left = math.exp(-a_pass), 0, 1.0
    while left > _RARE * min(1.0, a_pass):
        full, more = divmod(number, most)
        shares[most] += full * chance
        shares[more] += chance
        left -= chance
        number += 1
        chance *= a_pass / number
    yield from (((Chunk(tokens),) * count, share) for count, share in shares.items() if count and share > 0.0)
