"""Draft heads in the shape of their target: what its authors' recipe makes of any model.

Shapes: EAGLE-1 and -2 (Li et al., arXiv 2401.15077, 2406.16858; SafeAILab/EAGLE ``cnets1.py``), EAGLE-3 (arXiv
2503.01840; ``cnets.py``), MTP (DeepSeek-V3 report, arXiv 2412.19437), P-EAGLE (arXiv 2602.01469), DFlash (arXiv
2602.06036; SpecForge ``qwen3-8b-dflash.json``), DSpark (arXiv 2607.05147), GliDe (arXiv 2402.02082; its
``glideModel.py``), LongSpec (arXiv 2502.17421).
"""

from __future__ import annotations

from functools import lru_cache

from ssdsim.base.errors import InputError
from ssdsim.transformer.card import Transformer, Weights
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.layers import Head, Loop, SlidingWindow
from ssdsim.transformer.operations import DTYPE_BYTES, Collective, Elementwise, Gemm, Operation
from ssdsim.transformer.precision import Precision
from ssdsim.transformer.shard import Block

SHORT_VOCABULARY = 32_000
"""Tokens that EAGLE-3 drafts, the most frequent ones; a target's other tokens are never drafted."""
EAGLE3_FEATURES = 3
BLOCK_LAYERS = 5
PEAGLE_LAYERS = 4
_COMPRESSED_BLOCK_LAYERS = 3
_ALONE = {"mlp_alone": 0, "window": None, "recurrent": None, "mtp_layers": 0, "tied_embeddings": False}
"""What layers of a target have that a head's do not."""


@lru_cache(maxsize=256)
def eagle_head(target: Transformer) -> Transformer:
    """EAGLE-1 and -2: one dense decoder layer of the target's size, ``fc`` 2h -> h, the target's LM head."""
    return _dense(target, "eagle", 1, Head(features=1, feature_size=target.hidden_size), target.vocab_size)


@lru_cache(maxsize=256)
def eagle3_head(target: Transformer, layers: int = 1) -> Transformer:
    """EAGLE-3: features of three layers, queries, keys and values from 2h, an LM head of its own over 32,000 tokens."""
    head = Head(features=EAGLE3_FEATURES, feature_size=target.hidden_size, reads="beside", own_lm_head=True)
    vocabulary = min(SHORT_VOCABULARY, target.vocab_size)
    return _dense(target, "eagle3" if layers == 1 else "p-eagle", layers, head, vocabulary)


@lru_cache(maxsize=256)
def block_head(target: Transformer, kind: str, loop: Loop = "none") -> Transformer:
    """DFlash and its kin: five dense layers over a block of masked tokens, the target's LM head, and a ``loop``.

    Keys and values of the context are made of five fused features of the target; they are in its cache. Of a target
    with compressed attention they are three layers as its own, which see a window (DSpark of DeepSeek-V4).
    """
    head = Head(features=BLOCK_LAYERS, feature_size=target.hidden_size, reads="cached", loop=loop)
    if target.compressed is not None:
        return _of_its_kind(target, kind, _COMPRESSED_BLOCK_LAYERS, head, f"the recipe of {kind}, arXiv 2607.05147")
    return _dense(target, kind, BLOCK_LAYERS, head, target.vocab_size)


@lru_cache(maxsize=256)
def cache_reader(target: Transformer, kind: str, window: int | None, own_lm_head: bool) -> Transformer:
    """GliDe and LongSpec: one dense layer, which attends to its own tokens, then to what a target's layer keeps.

    Its own attention sees a ``window``, or all tokens where there is none.
    """
    kept = "a latent cache" if target.latent is not None else "states" if target.recurrent is not None else ""
    kept = kept or ("compressed entries" if target.compressed is not None else "")
    if kept:
        raise InputError(
            f"--drafter {kind} attends to keys and values of its target's last layer: {target.name} has {kept}"
        )
    head = Head(features=2, feature_size=target.kv_heads * target.head_dim, reads="kept", own_lm_head=own_lm_head)
    made = _dense(target, kind, 1, head, target.vocab_size)
    return made if window is None else made.changed(window=SlidingWindow(tokens=window, layers=1))


@lru_cache(maxsize=256)
def mtp_head(target: Transformer) -> Transformer:
    """One more layer of the target's own kind (experts, where it has them), ``fc`` 2h -> h, the target's LM head.

    Of a model with recurrent layers it is one with attention: nothing in it has to be taken back.
    """
    if not target.mtp_layers:
        raise InputError(f"{target.name} has no MTP layer: --drafter mtp needs a target whose card has mtp_layers")
    head = Head(features=1, feature_size=target.hidden_size)
    return _of_its_kind(target, "mtp", 1, head, f"one more layer of {target.name} (DeepSeek-V3, arXiv 2412.19437)")


def _of_its_kind(target: Transformer, kind: str, layers: int, head: Head, source: str) -> Transformer:
    """Layers of the target's own kind; compressed attention in them is to a window alone."""
    compressed = target.compressed and target.compressed.changed(csa_layers=0, hca_layers=0)
    changed = {
        "name": f"{kind}-{target.name}",
        **_ALONE,
        "layers": layers,
        "experts": target.experts and target.experts.changed(layers=layers),
        "sparse": target.sparse and target.sparse.changed(layers=layers),
        "compressed": compressed,
        "weights": Weights() if target.mtp_plain else target.weights,
        "head": head,
        "source": source,
    }
    return target.changed(**changed)


def _dense(target: Transformer, kind: str, layers: int, head: Head, vocab_size: int) -> Transformer:
    """Dense layers of the target's width, heads and activations' dtype; unquantised, as heads are trained."""
    return target.changed(
        name=f"{kind}-{target.name}",
        checkpoint="",
        **_ALONE,
        layers=layers,
        experts=None,
        latent=None,
        sparse=None,
        block_sparse=None,
        compressed=None,
        attention_gate=False,
        residual_block=None,
        streams=1,
        keys_are_values=False,
        vocab_size=vocab_size,
        intermediate_size=_dense_width(target),
        weights=Weights(),
        kv_dtype=None,
        head=head,
        source=f"the recipe of {kind} in the shape of {target.name}",
    )


def _dense_width(target: Transformer) -> int:
    """The width of the target's dense MLP; of a mixture without one, that of the experts that a token uses."""
    experts = target.experts
    if experts is None or target.dense_layers:
        return target.intermediate_size
    return experts.per_token * experts.width + experts.shared_width


def medusa_parameters(target: Transformer, heads: int) -> int:
    """Weights of so many Medusa heads: a block h -> h and a matrix h -> V each (148 million of a 7B model)."""
    return heads * target.hidden_size * (target.hidden_size + target.vocab_size)


@lru_cache(maxsize=1024)
def medusa_heads(target: Transformer, heads: int, batch: int, tp: int, precision: Precision) -> ForwardPass:
    """A pass of so many Medusa heads over the last accepted token of each sequence (arXiv 2401.10774), unquantised.

    The block with its residual is on every device whole, the matrix to the vocabulary shared.
    """
    hidden, dtype = target.hidden_size, precision.activations
    vocab_shard = -(-target.vocab_size // tp)
    ops: list[Operation] = [
        Gemm("medusa_block", batch, hidden, hidden, dtype),
        Elementwise("medusa_silu", batch * 3 * hidden * DTYPE_BYTES[dtype]),
        Gemm("medusa_head", batch, vocab_shard, hidden, dtype),
    ]
    if tp > 1:
        ops.append(Collective("logits_all_gather", "all_gather", batch * vocab_shard * tp * DTYPE_BYTES[dtype], tp))
    return ForwardPass((), (Block(tuple(ops), heads),), 0, ())
