"""Strategies of decoding, one file each. ``ALL`` lists them in the order in which answers show them."""

from ssdsim.base.registry import Registry
from ssdsim.strategies.adaptive import Adaptive
from ssdsim.strategies.amusd import AMUSD
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.dsi import DSI
from ssdsim.strategies.enumeration import Enumeration
from ssdsim.strategies.hybrid import Hybrid
from ssdsim.strategies.lookahead import Lookahead
from ssdsim.strategies.minedraft import MineDraft
from ssdsim.strategies.pearl import PEARL
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.strategies.sd import Speculative
from ssdsim.strategies.specactor import SpecActor
from ssdsim.strategies.specbranch import SpecBranch
from ssdsim.strategies.spectre import Spectre
from ssdsim.strategies.ssd import SSD
from ssdsim.strategies.swiftspec import SwiftSpec
from ssdsim.strategies.tree import TreeSpeculative
from ssdsim.strategies.treessd import TreeSSD

ALL: Registry[Strategy] = Registry(
    "strategy",
    Autoregressive(),
    Speculative(),
    SSD(),
    PEARL(),
    SpecBranch(),
    DSI(),
    AMUSD(),
    TreeSpeculative(),
    TreeSSD(),
    SwiftSpec(),
    MineDraft(),
    Adaptive(),
    Lookahead(),
    Hybrid(),
    Spectre(),
    SpecActor(),
    Enumeration(),
)

SUBJECT = "ssd"
"""What answers are about where nothing else is asked for: the question that ssdsim exists for."""


DEFAULT = ("ar", "sd", "ssd")
"""What answers compare where nothing else is asked for."""
