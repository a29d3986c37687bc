"""Choices of real routers: how many distinct experts tokens touch, and the two numbers that say so in a card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ssdsim.base.card import Card, NotNegative
from ssdsim.base.checks import Array
from ssdsim.transformer.routing import distinct_experts

WINDOWS = (1, 2, 4, 8, 16)
"""Tokens in a row, and tokens of different texts, whose experts are counted."""
MOST_SKEW = 3.0
_DRAWS = 200

Choices = NDArray[np.int64]
"""Experts of a text's tokens by layer, shape ``(layers, tokens, per_token)``."""

Touched = tuple[tuple[int, NotNegative], ...]


class Routing(Card):
    """Counted on ``tokens`` of a model's texts, on average over its ``layers`` with experts.

    ``in_a_row`` and ``apart`` are pairs of a number of tokens, neighbours or of different texts, and of the experts
    that they touch. ``overlap`` is the share of a token's experts that the next one uses too; ``skew`` gives ``apart``
    at its most tokens: both as :class:`ssdsim.transformer.layers.Experts` takes them.
    """

    count: Annotated[int, Meta(gt=0)]
    per_token: Annotated[int, Meta(gt=0)]
    layers: Annotated[int, Meta(gt=0)]
    tokens: Annotated[int, Meta(gt=0)]
    overlap: Annotated[float, Meta(ge=0.0, le=1.0)]
    skew: Annotated[float, Meta(ge=0.0, le=MOST_SKEW)]
    in_a_row: Touched
    apart: Touched


def counted(texts: Sequence[Choices], count: int, seed: int = 0) -> Routing | None:
    """Sum up the routers' choices for texts; None where no text has two tokens or there is a single text."""
    texts = [text for text in texts if text.shape[1] > 1]
    if len(texts) < 2:
        return None
    rng, per_token = np.random.default_rng(seed), texts[0].shape[2]
    shared = np.concatenate([_shared(text) for text in texts])
    rows = [m for m in WINDOWS if any(text.shape[1] >= m for text in texts)]
    apart = [(m, _apart(texts, m, rng)) for m in WINDOWS if m <= len(texts)]
    return Routing(
        count=count,
        per_token=per_token,
        layers=texts[0].shape[0],
        tokens=sum(text.shape[1] for text in texts),
        overlap=float(shared.mean()),
        skew=_skew(count, per_token, *apart[-1]),
        in_a_row=tuple((m, _in_a_row(texts, m)) for m in rows),
        apart=tuple(apart),
    )


def _shared(text: Choices) -> Array:
    """The share of a token's experts that the next one uses too, for each token but the last and each layer."""
    same = text[:, :-1, :, None] == text[:, 1:, None, :]
    return np.asarray(same.any(axis=3).mean(axis=2)).ravel()


def _in_a_row(texts: Sequence[Choices], m: int) -> float:
    """Distinct experts of windows of ``m`` tokens that do not overlap."""
    distinct = [_distinct(text[:, start : start + m]) for text in texts for start in range(0, text.shape[1] - m + 1, m)]
    return float(np.mean(distinct))


def _apart(texts: Sequence[Choices], m: int, rng: np.random.Generator) -> float:
    """Distinct experts of draws of ``m`` texts and a token of each."""
    distinct = []
    for _ in range(_DRAWS):
        some = [texts[i] for i in rng.choice(len(texts), m, replace=False)]
        distinct.append(_distinct(np.stack([text[:, rng.integers(text.shape[1])] for text in some], axis=1)))
    return float(np.mean(distinct))


def _distinct(choices: Choices) -> float:
    """Experts that tokens use, on average over layers; ``choices`` of shape ``(layers, tokens, per_token)``."""
    return float(np.mean([len(np.unique(layer)) for layer in choices]))


def _skew(count: int, per_token: int, tokens: int, touched: float) -> float:
    """The skew with which independent tokens touch so many experts; 0 where they touch no fewer than balanced ones."""

    def off(skew: float) -> float:
        return distinct_experts(count, per_token, tokens, 1, skew=skew) - touched

    if tokens == 1 or off(0.0) <= 0.0:
        return 0.0
    from scipy.optimize import brentq  # here, because reading a pair needs no scipy and must start fast

    return MOST_SKEW if off(MOST_SKEW) >= 0.0 else float(brentq(off, 0.0, MOST_SKEW))
