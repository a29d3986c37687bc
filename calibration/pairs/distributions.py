"""Distributions of target and draft from logits, and the few numbers of each position that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record

Floats = NDArray[np.float32]
Whole = NDArray[np.int32]

SCALES = np.array([1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0])
"""Factors by which Saguaro's rescaling can lift the draft's tail; between them the overlap is a straight line."""


class Positions(Record):
    """``n`` positions of one answer, its first token included; token ids only where they may be kept.

    ``p``, ``q`` are the probabilities of the token that came, ``rank`` is how many tokens the draft holds likelier,
    ``target_rank`` how many the target does. ``above`` is the share of the rejected token's mass that ranks above the
    token that came, ``overlap`` is sum min(p, q), ``entropy`` the target's in nats. ``top_*``, shape ``(n, top)``, are
    the draft's likeliest tokens and both models' probabilities of them. ``tail_overlap[:, i]`` is
    sum min(p, SCALES[i] q) over all the other tokens: with it Saguaro's C needs no second pass.
    """

    token: Whole
    p: Floats
    q: Floats
    rank: Whole
    target_rank: Whole
    above: Floats
    overlap: Floats
    entropy: Floats
    top_ids: Whole
    top_q: Floats
    top_p: Floats
    tail_overlap: Floats

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def joined(cls, parts: list[Positions]) -> Positions:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__struct_fields__))


def softmax(logits: NDArray[Any], temperature: float = 1.0) -> Array:
    """Probabilities at a temperature; at 0 all mass is on the first largest logit."""
    if not temperature >= 0.0:
        raise InputError(f"temperature must be at least 0, got {temperature:g}")
    if temperature == 0.0:
        certain = np.zeros(logits.shape)
        np.put_along_axis(certain, logits.argmax(axis=-1)[..., None], 1.0, axis=-1)
        return certain
    weights = np.asarray(logits, dtype=np.float64) / temperature
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
