"""EAGLE: one decoder layer on the target's hidden states; EAGLE-1 and -2, and EAGLE-3."""

from __future__ import annotations

from ssdsim.strategies.protocols.drafts import HeadDrafter
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import eagle3_head, eagle_head


class Eagle(HeadDrafter):
    """Autoregression on the target's last hidden state; the target's LM head is over half of a pass."""

    name = "eagle"
    title = "EAGLE"
    source = "Li et al., 2024, arXiv 2401.15077; EAGLE-2: arXiv 2406.16858"

    def recipe(self, target: Transformer) -> Transformer:
        return eagle_head(target)


class Eagle3(HeadDrafter):
    """Three hidden states of the target fused, tokens predicted directly, an LM head of 32,000 tokens."""

    name = "eagle3"
    title = "EAGLE-3"
    source = "Li et al., 2025, arXiv 2503.01840; in SSD: its appendix E and reference engine"

    def recipe(self, target: Transformer) -> Transformer:
        return eagle3_head(target)
