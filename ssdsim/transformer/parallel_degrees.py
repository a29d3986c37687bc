"""Degrees by which devices can share a model evenly: tensor-parallel ones, and groups with different experts."""

from __future__ import annotations

from functools import lru_cache

from ssdsim.base.errors import InputError
from ssdsim.transformer.card import Transformer

MOST_DEVICES = 32
"""The most devices that are proposed to share a model."""


def check_tensor_parallel(card: Transformer, tp: int, ep: int = 1) -> None:
    """Raise :class:`InputError` unless ``tp`` devices can share the heads and the MLPs of ``card`` evenly.

    ``ep`` groups of them hold different experts.
    """
    check_expert_parallel(card, tp, ep)
    if tp < 1 or not _divides(card, tp, ep):
        widths = ", ".join(f"{what} {width}" for what, width in _widths(card).items())
        widths = f"{card.recurrent.heads} recurrent heads, {widths}" if card.recurrent else widths
        raise InputError(
            f"tp {tp} does not divide {card.name} ({card.heads} heads, {card.kv_heads} kv heads, "
            f"{widths}); allowed: {', '.join(map(str, legal_tensor_parallel(card, ep)))}"
        )


def check_expert_parallel(card: Transformer, tp: int, ep: int) -> None:
    """Raise :class:`InputError` unless the experts of ``card`` can lie on ``ep`` groups of ``tp`` devices."""
    if ep == 1:
        return
    if card.experts is None:
        raise InputError(f"ep {ep}: {card.name} has no experts to spread; give ep 1")
    count = card.experts.count
    allowed = [degree for degree in range(1, tp + 1) if tp % degree == 0 and count % degree == 0]
    if ep not in allowed:
        raise InputError(
            f"ep {ep} must divide tp {tp} and the {count} experts of {card.name}; allowed: "
            f"{', '.join(map(str, allowed))}"
        )


def _widths(card: Transformer) -> dict[str, int]:
    """Widths of the MLPs that devices share, by what they are called."""
    experts = card.experts
    widths = {"MLP": card.intermediate_size if card.dense_layers else 0}
    if experts is not None:
        widths |= {"expert": experts.width, "shared expert": experts.shared_width}
    return {what: width for what, width in widths.items() if width}


@lru_cache(maxsize=256)
def legal_tensor_parallel(card: Transformer, ep: int = 1) -> tuple[int, ...]:
    """The tensor-parallel degrees that share ``card`` evenly, with its experts in ``ep`` groups of the devices."""
    return tuple(tp for tp in range(ep, MOST_DEVICES + 1, ep) if _divides(card, tp, ep))


@lru_cache(maxsize=1024)
def legal_expert_parallel(card: Transformer, tp: int) -> tuple[int, ...]:
    """The numbers of groups of ``tp`` devices that may hold different experts of ``card``, 1 among them.

    None at all where so many devices share it in no way; a model without experts has no other than 1.
    """
    count = card.experts.count if card.experts else 1
    return tuple(ep for ep in range(1, tp + 1) if tp % ep == 0 and count % ep == 0 and _divides(card, tp, ep))


def _divides(card: Transformer, tp: int, ep: int) -> bool:
    if card.compressed is not None and card.compressed.out_groups % tp:
        return False
    # Fewer kv heads than devices are replicated, as every engine does; a remainder is not. A latent cache has no heads.
    kv_heads = [] if card.latent else [card.kv_heads] + ([card.window_heads[0]] if card.window else [])
    kv_heads += [card.recurrent.key_heads] if card.recurrent else []
    kv_even = all(heads % tp == 0 or tp % heads == 0 for heads in kv_heads)
    widths = ((width, tp // ep if what == "expert" else tp) for what, width in _widths(card).items())
    heads = (card.heads, card.recurrent.heads) if card.recurrent else (card.heads,)
    return all(each % tp == 0 for each in heads) and kv_even and all(width % devices == 0 for width, devices in widths)
