"""What a plain dense transformer has not: routed experts, a latent cache, windows, the features of another model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ssdsim.records import Card
from ssdsim.transformer.block_loops import Loop
from ssdsim.transformer.routing import OVERLAP, SKEW

LARGEST = 10**9
"""Of any size of a transformer; the largest that exist have a context of 10 million tokens."""
Size = Annotated[int, Field(gt=0, le=LARGEST)]
Some = Annotated[int, Field(ge=0, le=LARGEST)]


class Experts(Card):
    """Routed experts, in ``layers`` of the model's layers; the others have its dense MLP.

    Each token uses ``per_token`` of ``count`` gated MLPs of ``width``, and an expert of ``shared_width`` (0: none) that
    all tokens use. ``beside_mlp``: layers with experts have the dense MLP as well. ``overlap``: the share of a
    token's experts that the next token of its sequence uses too; ``skew``: of their popularity, 0 where it is balanced
    (both of :mod:`ssdsim.transformer.routing`).
    """

    count: Size
    per_token: Size
    width: Size
    layers: Size
    shared_width: Some = 0
    beside_mlp: bool = False
    overlap: float = Field(default=OVERLAP, ge=0.0, le=1.0)
    skew: float = Field(default=SKEW, ge=0.0, le=3.0)

    @model_validator(mode="after")
    def _enough(self) -> Experts:
        if self.per_token > self.count:
            raise ValueError(f"per_token ({self.per_token}) must be at most count ({self.count})")
        return self


class Latent(Card):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one compressed vector a token stands for all heads.

    The cache holds ``rank + rope_dim`` values a token and layer, on every device. Queries and keys have
    ``nope_dim + rope_dim`` values a head, values ``value_dim``; queries come from ``query_rank`` values (None: from the
    hidden state itself).
    """

    rank: Size
    rope_dim: Size
    nope_dim: Size
    value_dim: Size
    query_rank: Size | None = None

    @property
    def cached(self) -> int:
        """Values that a token adds to a layer's cache."""
        return self.rank + self.rope_dim


class Window(Card):
    """``layers`` of the model's layers see the last ``tokens`` only; heads of their own where they differ.

    Chunked attention, which sees what came in its chunk, is taken for a window as wide: it is one at its end.
    ``gathered``: what they see lies in a cache of its own, so that ordinary attention reads it whole (MagicDec).
    """

    tokens: Size
    layers: Size
    kv_heads: Size | None = None
    head_dim: Size | None = None
    gathered: bool = False


class Head(Card):
    """Layers that read their target's hidden states: EAGLE, MTP, DFlash.

    ``features`` hidden states of the target, each ``feature_size`` wide, become one of the head's own by ``fc``.
    ``reads`` says how: ``joined`` (EAGLE-1, MTP), ``fc`` joins the token's embedding and the state, of every token;
    ``beside`` (EAGLE-3), queries, keys and values read both side by side, twice as wide, and ``fc`` runs only where
    states are the target's own; ``cached`` (DFlash), keys and values of the context are made of the states, in the
    head's cache, and ``fc`` runs once a verified token. The embedding is the target's, and so is the LM head but where
    the head has its ``own_lm_head``. A block drafter has a ``loop`` after it.
    """

    features: Size
    feature_size: Size
    reads: Literal["joined", "beside", "cached"] = "joined"
    own_lm_head: bool = False
    loop: Loop = "none"

    def fused(self, hidden_size: int) -> int:
        """Values that ``fc`` reads of a token."""
        return self.features * self.feature_size + (hidden_size if self.reads == "joined" else 0)
