"""What logits say: the target's and the draft's distributions, and the few numbers of each position that are kept."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import within

Floats = NDArray[np.float32]
Whole = NDArray[np.int32]

SCALES = np.array([1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0])
"""Factors by which Saguaro's rescaling can lift the draft's tail; between them the overlap is a straight line."""


@dataclass(frozen=True)
class Positions:
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
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def softmax(logits: NDArray[Any], temperature: float = 1.0) -> NDArray[np.float64]:
    """Probabilities at a temperature; at 0 all mass is on the first largest logit."""
    within("temperature", temperature, 0)
    if temperature == 0.0:
        certain = np.zeros(logits.shape)
        np.put_along_axis(certain, logits.argmax(axis=-1)[..., None], 1.0, axis=-1)
        return certain
    scaled = np.asarray(logits, dtype=np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def positions_of(
    target: NDArray[Any], draft: NDArray[Any], tokens: NDArray[Any], temperature: float, top: int
) -> Positions:
    """The numbers of the positions whose token is ``tokens[t]``, given both models' logits there, shape ``(n, V)``.

    At temperature 0 probabilities are those at 1: what decides are ranks alone. Equal logits rank by token number.
    ``above`` is then 1 wherever the token was not the draft's first choice, which was rejected.
    """
    tokens = np.asarray(tokens, dtype=np.int64)
    p, q = softmax(target, temperature or 1.0), softmax(draft, temperature or 1.0)
    rank = _rank(draft, tokens)
    rejected = np.maximum(q - p, 0.0)
    total = rejected.sum(axis=-1)
    if temperature == 0.0:
        above = (rank > 0).astype(float)
    else:
        likelier = _likelier(draft, tokens)
        above = np.divide((rejected * likelier).sum(axis=-1), total, out=np.zeros(len(tokens)), where=total > 0)
    ids = _top(draft, min(top, q.shape[-1]))
    top_q, top_p = np.take_along_axis(q, ids, -1), np.take_along_axis(p, ids, -1)
    entropy = -(p * np.log(np.maximum(p, np.finfo(float).tiny))).sum(axis=-1)
    return Positions(
        token=tokens.astype(np.int32),
        p=_of(p, tokens),
        q=_of(q, tokens),
        rank=rank.astype(np.int32),
        target_rank=_rank(target, tokens).astype(np.int32),
        above=above.astype(np.float32),
        overlap=np.minimum(p, q).sum(axis=-1).astype(np.float32),
        entropy=entropy.astype(np.float32),
        top_ids=ids.astype(np.int32),
        top_q=top_q.astype(np.float32),
        top_p=top_p.astype(np.float32),
        tail_overlap=_tail_overlap(p, q, top_p, top_q),
    )


def _of(probabilities: NDArray[np.float64], tokens: NDArray[np.int64]) -> Floats:
    return np.take_along_axis(probabilities, tokens[:, None], -1)[:, 0].astype(np.float32)


def _likelier(logits: NDArray[Any], tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tokens rank above the given one, shape ``(n, V)``."""
    own = np.take_along_axis(logits, tokens[:, None], -1)
    earlier = np.arange(logits.shape[-1]) < tokens[:, None]
    return np.asarray((logits > own) | ((logits == own) & earlier))


def _rank(logits: NDArray[Any], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(_likelier(logits, tokens).sum(axis=-1))


def _top(logits: NDArray[Any], top: int) -> NDArray[np.int64]:
    """The likeliest tokens in the order of their ranks."""
    if top == logits.shape[-1]:
        return np.argsort(-logits, axis=-1, kind="stable")
    found = np.sort(np.argpartition(-logits, top, axis=-1)[:, :top], axis=-1)  # equal logits: by token number
    order = np.argsort(-np.take_along_axis(logits, found, -1), axis=-1, kind="stable")
    return np.take_along_axis(found, order, -1)


def _tail_overlap(
    p: NDArray[np.float64], q: NDArray[np.float64], top_p: NDArray[np.float64], top_q: NDArray[np.float64]
) -> Floats:
    """Over all tokens less that over the top ones; all zeros where the top ones are the vocabulary."""
    found = [np.minimum(p, scale * q).sum(axis=-1) - np.minimum(top_p, scale * top_q).sum(axis=-1) for scale in SCALES]
    return np.asarray(np.maximum(0.0, np.stack(found, axis=-1)), dtype=np.float32)
