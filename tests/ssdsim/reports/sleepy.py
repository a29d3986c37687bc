"""SSD with a round of its own: the draft starts to fill the cache when the target is done, and so hides nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.pricing.drafter import Drafter
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.round import Seconds, States, Stationary
from ssdsim.strategies.ssd import SSD


class Sleepy(SSD):
    """``T_v + T_p + [any miss] T_b``."""

    name = "sleepy"
    title = "Sleepy"
    source = "this test"

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {**super().parts(t, states), "draft": t["pre-speculate"]}

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        return None

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {**super().programs(options, drafter), "draft": _draft}


def _draft(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        outcome = yield me.receive("outcome")
        yield me.do("pre-speculate")
        me.fill()
        yield me.do("look up")
        if me.misses(outcome):
            yield me.do("fallback")
        yield me.send("target", "speculation")
