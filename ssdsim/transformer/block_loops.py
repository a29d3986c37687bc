"""Operations of block drafters after the LM head, which make the tokens of a block fit each other."""

from __future__ import annotations

from typing import Literal

from ssdsim.transformer.operations import DTYPE_BYTES, Collective, Elementwise, Gemm, Operation

Loop = Literal["none", "markov", "selector"]
"""``none``: each position's likeliest token (DFlash). ``markov``: a row of W1 for the token before, times W2 (r x V),
is added to the logits, once a token (DSpark; its confidence, a dot product, is left out). ``selector``: 16 guesses a
position, scores of all neighbouring pairs, a walk over them, in one launch (DFlash2)."""

MARKOV_RANK = 256
SELECTOR_RANK = 32  # inferred: two tables of V rows make most of the 16.5 million parameters that vLLM PR 52816 adds
_CONVOLUTIONS = 2_000_000  # parameters of DFlash2's two-tap convolutions
_GUESSES = 16


def loop_parameters(loop: Loop, hidden_size: int, vocab_size: int) -> int:
    """Weights of a loop."""
    if loop == "markov":
        return 2 * MARKOV_RANK * vocab_size + hidden_size + MARKOV_RANK
    return 2 * SELECTOR_RANK * vocab_size + SELECTOR_RANK * hidden_size + _CONVOLUTIONS if loop == "selector" else 0


def loop_operations(
    loop: Loop, blocks: int, tokens: int, hidden_size: int, vocab_shard: int, tp: int, dtype: str
) -> tuple[Operation, ...]:
    """The operations after the LM head of ``blocks`` blocks of ``tokens`` proposals each, on one of ``tp`` devices.

    W2 is shared by the devices as the LM head is (settled here).
    """
    value_bytes = DTYPE_BYTES[dtype]
    if loop == "markov":
        step: tuple[Operation, ...] = (
            Elementwise("markov_gather", 2 * blocks * MARKOV_RANK * value_bytes),
            Gemm("markov_bias", blocks, vocab_shard, MARKOV_RANK, dtype),
            Elementwise("markov_add", 2 * blocks * vocab_shard * value_bytes),
        )
        if tp > 1:
            step += (Collective("markov_all_gather", "all_gather", blocks * vocab_shard * tp * value_bytes, tp),)
        return step * tokens
    if loop == "selector":
        rows = blocks * tokens
        return (
            Elementwise("likeliest", rows * vocab_shard * tp * value_bytes),
            Gemm("selector", rows, SELECTOR_RANK, hidden_size, dtype),
            Elementwise("scores", rows * (2 * _GUESSES * SELECTOR_RANK + _GUESSES**2) * value_bytes),
        )
    return ()
