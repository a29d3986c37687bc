"""Block drafters: heads that denoise a block of masked tokens in one pass, then make its tokens fit each other."""

from __future__ import annotations

from ssdsim.strategies.protocols.drafts import HeadDrafter, OnePass
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import block_head
from ssdsim.transformer.layers import Loop


class BlockDrafter(OnePass, HeadDrafter):
    """One pass: the context of every verified token, the block, the target's LM head, and a loop.

    A block costs the same whatever is verified of it. ``loop`` says what follows the LM head; ``anchored``, that the
    block's first row, the last accepted token, proposes the first token (otherwise it proposes nothing).
    """

    loop: Loop = "none"
    anchored = False

    def recipe(self, target: Transformer) -> Transformer:
        return block_head(target, self.name, self.loop)

    def rows(self, tokens: int) -> int:
        """The last accepted token and the masks."""
        return tokens if self.anchored else tokens + 1


class DFlash(BlockDrafter):
    """Tokens of a block are chosen independently, so later ones fit worse."""

    name = "dflash"
    title = "DFlash"
    source = "Chen, Liang, Liu, 2026, arXiv 2602.06036"


class DSpark(BlockDrafter):
    """A token's logits get a bias from the token before it: K small steps in a row."""

    name = "dspark"
    title = "DSpark"
    source = "Cheng et al., 2026, arXiv 2607.05147; vLLM PR 47808"
    loop = "markov"
    anchored = True


class DFlash2(BlockDrafter):
    """DFlash 2: the best path through 16 guesses a position, by scores of neighbours."""

    name = "dflash2"
    title = "DFlash2"
    source = "z-lab, 2026; vLLM PR 52816"
    loop = "selector"


class Domino(BlockDrafter):
    """DFlash, then a GRU over the tokens chosen so far: a bias of all logits, once a token after the first.

    The sizes of the GRU and of its MLP are ours (:data:`ssdsim.transformer.layers.GRU_STATE`).
    """

    name = "domino"
    title = "Domino"
    source = "2026, arXiv 2605.29707; vLLM domino/speculator.py, unmerged"
    loop = "gru"
