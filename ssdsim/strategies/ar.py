"""Autoregressive decoding: one target pass a token."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.strategy import Strategy


class Autoregressive(Strategy):
    """One token a pass of ``T_ar(b)``."""

    name = "ar"
    title = "AR"
    winner_name = "at this batch plain autoregressive decoding"
    source = "Vaswani et al., 2017"
    drafts = False
    staged = True
    in_columns = True

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return Kernel.of_tokens(np.ones(1))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        decode = site.verify_step("decode", 1)
        return {"decode": decode, "sample": site.sampling_step(speculates=False)}

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {"verify": t["decode"], "host": t["sample"]}

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target}


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("decode")
        yield me.do("sample")
        me.end_round()
