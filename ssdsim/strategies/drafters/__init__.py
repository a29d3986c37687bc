"""Drafters of tokens, one file each. ``ALL`` lists them; a new one is registered there."""

from ssdsim.base.registry import Registry
from ssdsim.pricing.drafter import Drafter
from ssdsim.strategies.drafters.block import DFlash, DFlash2, Domino, DSpark
from ssdsim.strategies.drafters.eagle import Eagle, Eagle3
from ssdsim.strategies.drafters.glide import Glide, LongSpec
from ssdsim.strategies.drafters.lookup import NGram, Suffix
from ssdsim.strategies.drafters.medusa import Medusa
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.strategies.drafters.mtp import MTP
from ssdsim.strategies.drafters.parallel import Pard, PEagle
from ssdsim.strategies.drafters.sparse import SparseSelf

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
    Domino(),
    NGram(),
    Suffix(),
    SparseSelf(),
    Glide(),
    LongSpec(),
)
