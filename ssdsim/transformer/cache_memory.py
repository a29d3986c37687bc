"""Memory beside weights: what engines keep from caches; states of recurrent layers, and pages as large as one."""

from __future__ import annotations

import math

from ssdsim.base.card import Card, Count
from ssdsim.base.record import Record
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import DTYPE_BYTES
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.recurrences import REPLAYED_TOKENS, StateKeeping

_PAGE_TOKENS = 16
"""Pages hold a multiple of so many tokens."""
_NEARLY_AS_MANY = 1.5
"""Of two kinds of layers: up to here groups are as large as the more frequent one, and the other's are padded."""


class Keeps(Card):
    """Bytes of each device that an engine keeps from its caches, as a pass at its start shows it.

    That pass has ``tokens`` and samples for ``sequences``, which do not need their memory at once: ``logit_bytes`` for
    each of the vocabulary, whole on every device, or all activations of the widest layer. ``other_bytes`` are of
    libraries. Graphs lie in the share of the memory that the engine does not take.
    """

    tokens: Count
    sequences: Count
    logit_bytes: Count
    other_bytes: Count
    source: str

    def bytes(self, card: Transformer, tp: int, precision: Precision) -> int:
        """Bytes of a device beside a model."""
        activations = self.tokens * card.widest_values(tp) * DTYPE_BYTES[precision.activations]
        return max(activations, self.sequences * card.vocab_size * self.logit_bytes) + self.other_bytes


class Caching(Record):
    """An engine's way of keeping caches, and what it ``keeps`` from them (None: nobody said it).

    Of recurrent models ``states``: of tokens that are being verified. ``pages_of_states``: keys, values and states lie
    in pages of one size, each for as many layers. ``head_layers``: of a head whose cache is as the target's, which are
    in its groups.
    """

    states: StateKeeping = "each"
    pages_of_states: bool = False
    head_layers: int = 0
    keeps: Keeps | None = None

    def kept_bytes(self, card: Transformer, tp: int, precision: Precision) -> int:
        """Bytes that it keeps of each device beside a model."""
        return 0 if self.keeps is None else self.keeps.bytes(card, tp, precision)


PLAIN = Caching()


class CacheMemory(Record):
    """Tokens held of one sequence: ``tokens`` with keys and values, ``lookahead`` of them verified, and its
    ``branches``.
    """

    tokens: int
    lookahead: int
    branches: int = 0

    def states(self, keeping: StateKeeping) -> int:
        """One for every token that may be the last accepted one, K + 1; beside it the one before them where the
        accepted one is copied. An engine that replays has one. Each branch has its own besides.
        """
        if keeping == "replayed":
            return 1 + self.branches
        aside = 1 if keeping == "copied" and self.lookahead else 0
        return self.lookahead + 1 + aside + self.branches

    def inputs(self, keeping: StateKeeping) -> int:
        """Tokens whose inputs are kept, of which the states after them can be made again."""
        return (1 + self.branches) * max(REPLAYED_TOKENS, self.lookahead + 1) if keeping == "replayed" else 0


def state_bytes(card: Transformer, held: CacheMemory, keeping: StateKeeping, tp: int, precision: Precision) -> int:
    """Bytes of a sequence's states and kept inputs; 0 of a model without."""
    if card.recurrent is None:
        return 0
    each = card.state_bytes(tp, precision.activations)
    return held.states(keeping) * each + _input_bytes(card, held, keeping, tp, precision)


def in_pages(card: Transformer, caching: Caching) -> bool:
    """Tell whether a model's keys, values and states lie in pages of one size."""
    hybrid = card.recurrent is not None and bool(card.attention_layers) and card.window is None
    return caching.pages_of_states and hybrid


def paged_bytes(card: Transformer, held: CacheMemory, caching: Caching, tp: int, precision: Precision) -> int:
    """Bytes of a sequence's states, keys and values, in pages of one size.

    vLLM's rule (``_get_kv_cache_groups_uniform_page_size``, and the model's config before it): a page of attention
    holds tokens, in sixteens, enough to be as large as a state, and a state's page is padded to it. Layers of a kind
    are in groups of as many as the rarer kind has, the last group padded; a page is one of every layer of a group.
    """
    assert card.recurrent is not None
    assert card.attention_layers
    layers = card.attention_layers + caching.head_layers
    token_bytes = card.kv_bytes_per_token(tp, precision.kv) / card.attention_layers
    of_state = card.state_bytes(tp, precision.activations) / card.recurrent_layers
    page_tokens = _PAGE_TOKENS * math.ceil(of_state / (_PAGE_TOKENS * token_bytes))
    rarer, other = sorted((layers, card.recurrent_layers))
    size = other if other < _NEARLY_AS_MANY * rarer else rarer
    pages = math.ceil(layers / size) * math.ceil(held.tokens / page_tokens)
    pages += math.ceil(card.recurrent_layers / size) * held.states(caching.states)
    kept = _input_bytes(card, held, caching.states, tp, precision)
    return math.ceil(pages * size * page_tokens * token_bytes) + kept


def _input_bytes(card: Transformer, held: CacheMemory, keeping: StateKeeping, tp: int, precision: Precision) -> int:
    if card.recurrent is None:
        return 0
    each = card.recurrent.layers * card.recurrent.input_bytes(tp, precision.activations)
    return held.inputs(keeping) * each
