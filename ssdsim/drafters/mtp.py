"""Multi-token prediction: the layer that a model was trained with to predict one more token."""

from __future__ import annotations

from ssdsim.protocols.head import HeadDrafter
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.heads import mtp_head


class MTP(HeadDrafter):
    """A layer of the target's own kind, used once for each drafted token; more tokens than it was trained for cost it
    acceptance.
    """

    name = "mtp"
    title = "MTP"
    source = "DeepSeek-V3 report, arXiv 2412.19437; Gloeckle et al., arXiv 2404.19737"

    def recipe(self, target: Transformer) -> Transformer:
        return mtp_head(target)
