"""Does it fit? Weights, key-value cache and speculation cache on each device."""

from __future__ import annotations

from ssdsim.base.record import Record
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.cache_memory import PLAIN, CacheMemory, Caching, in_pages, paged_bytes, state_bytes
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import DTYPE_BYTES
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.sharing import legal_tensor_parallel

USABLE_SHARE = 0.9  # engines keep a tenth for activations, graphs and fragmentation (vLLM's own default)


def usable_bytes(profile: HardwareProfile) -> int:
    """Bytes of each device for weights and caches."""
    return int(profile.device.memory_bytes * USABLE_SHARE)


class Demand(Record):
    """Bytes that one model asks of one device: fixed weights, and what each sequence adds to it.

    All devices have all sequences, or so many ``devices`` split them.
    """

    weights_bytes: int
    sequence_bytes: int
    devices: int = 1

    def total_bytes(self, batch: int) -> int:
        """Bytes of ``batch`` sequences on the fullest device."""
        return self.weights_bytes + -(-batch // self.devices) * self.sequence_bytes


def target_demand(
    card: Transformer,
    tp: int,
    context: int,
    lookahead: int,
    precision: Precision,
    data_parallel: bool = False,
    caching: Caching = PLAIN,
) -> Demand:
    """Weights and cache of the target; K+1 slots a sequence are reserved for the tokens being verified.

    ``data_parallel``: each of the ``tp`` devices has sequences of its own, and the whole model but for its experts.
    ``caching``: what the engine keeps of recurrent layers.
    """
    sharing, devices = (1, tp) if data_parallel else (tp, 1)
    cache_bytes = _cached_bytes(card, context, lookahead, 0, sharing, precision, caching)
    return Demand(card.weight_bytes(sharing, precision, tp), cache_bytes, devices)


def draft_demand(
    card: Transformer,
    tp: int,
    context: int,
    lookahead: int,
    branches: int,
    precision: Precision,
    logits: bool,
    data_parallel: bool = False,
    caching: Caching = PLAIN,
) -> Demand:
    """Weights and cache of the draft, with K slots for each of the cached outcomes of a sequence.

    The speculation cache keeps the logits of every branch token when sampling (SSD paper, appendix C).
    ``data_parallel`` and ``caching`` are as :func:`target_demand` takes them; a branch has a state of its own.
    """
    sharing, devices = (1, tp) if data_parallel else (tp, 1)
    cache_bytes = _cached_bytes(card, context, lookahead, branches, sharing, precision, caching)
    cached_logits = branches * lookahead * card.vocab_size * DTYPE_BYTES[precision.activations] if logits else 0
    return Demand(card.weight_bytes(sharing, precision, tp), cache_bytes + cached_logits, devices)


def _cached_bytes(
    card: Transformer, context: int, lookahead: int, branches: int, tp: int, precision: Precision, caching: Caching
) -> int:
    """Bytes of a sequence with a slot for every token in flight, those of branches among them."""
    more = lookahead + 1 + branches * lookahead
    held = CacheMemory(context + more, lookahead, branches)
    if in_pages(card, caching):
        return paged_bytes(card, held, caching, tp, precision)
    return card.cache_bytes(context, more, tp, precision.kv) + state_bytes(card, held, caching.states, tp, precision)


def largest_budget(
    card: Transformer,
    context: int,
    lookahead: int,
    precision: Precision,
    logits: bool,
    batch: int,
    profile: HardwareProfile,
    caching: Caching = PLAIN,
) -> int:
    """The most cached outcomes a sequence that one draft device holds beside its weights; 0 if none."""
    bare = draft_demand(card, 1, context, lookahead, 0, precision, logits, caching=caching)
    one = draft_demand(card, 1, context, lookahead, 1, precision, logits, caching=caching)
    each = one.sequence_bytes - bare.sequence_bytes
    room = usable_bytes(profile) - bare.total_bytes(batch)
    return max(0, room // (batch * each))


def smallest_tp(
    card: Transformer,
    profile: HardwareProfile,
    context: int,
    lookahead: int,
    precision: Precision,
    data_parallel: bool = False,
    caching: Caching = PLAIN,
) -> int | None:
    """The smallest tensor-parallel degree at which one sequence fits, or None."""
    for tp in legal_tensor_parallel(card):
        demand = target_demand(card, tp, context, lookahead, precision, data_parallel, caching).total_bytes(1)
        if demand <= usable_bytes(profile):
            return tp
    return None
