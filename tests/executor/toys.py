"""A strategy with states of its own and messages that cross."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy, target_alone
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.strategy import Strategy, late
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.round import Seconds
from ssdsim.rounds.states import States


class Alternating(Strategy):
    """Both sides work in every round and then exchange what they found, as in PEARL.

    After a rejection (``pre``) one token is verified, else (``post``) what was drafted in the round before.
    """

    name = "alternating"
    title = "Alternating"
    source = "a test"
    rival = "ar"

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["k"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        pmf, k = drafter.accepted(settings, settings["k"]).pmf, settings["k"]
        one, rejected = np.zeros(k + 1), np.array([*pmf[:k], 0.0])
        one[0] = 1.0
        stays = np.zeros(k + 1)
        stays[k - 1] = pmf[k]
        return Kernel.by_state(
            {"pre": {"pre": pmf[0] * one, "post": (1.0 - pmf[0]) * one}, "post": {"pre": rejected, "post": stays}}
        )

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, int(drafter.needs_device))

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        yield target_alone(site, self.lookahead(site.options))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        return {
            "pre-verify": site.verify_step("pre-verify", 1),
            "verify": site.verify_step("verify", k),
            "draft": Step("draft", site.speculate(drafter, k, beside=False)),
            "outcome": site.outcome_message(),
            "speculation": site.speculation_message(k),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        post = states.any_in("post")
        return {
            "verify": post * t["verify"] + (1.0 - post) * t["pre-verify"],
            "draft": post * late(t["draft"], t["verify"]) + (1.0 - post) * late(t["draft"], t["pre-verify"]),
            "communicate": np.maximum(t["outcome"], t["speculation"]),
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target, "draft": _draft}


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify" if me.any_in("post") else "pre-verify")
        yield me.send("draft", "outcome", me.outcome())
        yield me.receive("speculation")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("draft")
        yield me.send("target", "speculation")
        yield me.receive("outcome")
