"""Drafters of tokens, one file each. ``ALL`` lists them; a new one is registered there."""

from ssdsim.base.registry import Registry
from ssdsim.drafters.block import DFlash, DFlash2, DSpark
from ssdsim.drafters.eagle import Eagle, Eagle3
from ssdsim.drafters.glide import Glide, LongSpec
from ssdsim.drafters.lookup import NGram, Suffix
from ssdsim.drafters.medusa import Medusa
from ssdsim.drafters.model import ModelDrafter
from ssdsim.drafters.mtp import MTP
from ssdsim.drafters.parallel import Pard, PEagle
from ssdsim.drafters.sparse import SparseSelf
from ssdsim.pricing.drafter import Drafter

ALL: Registry[Drafter] = Registry(
    "drafter",
    ModelDrafter(),
    Eagle(),
    Eagle3(),
    MTP(),
    Medusa(),
    Pard(),
    PEagle(),
    DFlash(),
    DSpark(),
    DFlash2(),
    NGram(),
    Suffix(),
    SparseSelf(),
    Glide(),
    LongSpec(),
)
