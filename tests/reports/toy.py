"""A strategy that only tests know: its draft starts to fill the cache when the target is done, and so hides nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy, target_alone
from ssdsim.pricing.prespeculation import prespeculation
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.protocols.axes import LOOKAHEAD
from ssdsim.protocols.strategy import Strategy
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.mixing import tokens_of
from ssdsim.rounds.round import Seconds
from ssdsim.rounds.states import States
from ssdsim.speculation.acceptance import accepted_length_pmf
from ssdsim.speculation.caching import hits_given_accepted
from ssdsim.speculation.hit_models import uniform_fan_out


class Sleepy(Strategy):
    """``T_v + T_p + [any miss] T_b``."""

    name = "sleepy"
    title = "Sleepy"
    source = "this test"
    rival = "sd"
    miss = "miss"
    searched = (LOOKAHEAD,)

    def alternatives(self, settings: Settings) -> Iterable[Settings]:
        for backup in ("jit", "fast") if settings["backup"] == "auto" else (settings["backup"],):
            choice = settings.copy()
            choice.settle("backup", backup, "the faster")
            yield choice

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        settings.settle("budget", settings["budget"] or settings["f"] * (settings["k"] + 1), "f (k + 1)")

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["k"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        accepted, fast = drafter.accepted(settings, settings["k"]), settings["backup"] == "fast"
        backup = accepted_length_pmf(0.0, settings["k"]) if fast else accepted.pmf
        hit, backup_hit = hits_given_accepted(settings, accepted.pmf, backup, fast)
        after_miss = {"hit": backup * backup_hit, "miss": backup * (1.0 - backup_hit)}
        return tokens_of(
            accepted,
            lambda pmf: Kernel.by_state({"hit": {"hit": pmf * hit, "miss": pmf * (1.0 - hit)}, "miss": after_miss}),
        )

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(uniform_fan_out(settings["budget"], settings["k"]).tolist())

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, 1)

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        yield target_alone(site, site.options["k"])

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = site.options["k"]
        fast = site.options["backup"] == "fast"
        return {
            "verify": site.verify_step("verify", k + 1),
            "outcome": site.outcome_message(),
            "fill": prespeculation(site, drafter, k, site.options["budget"]),
            "fallback": Step("fallback", () if fast else site.speculate(drafter, k, beside=False)),
            "speculation": site.speculation_message(k),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {
            "verify": t["verify"],
            "draft": t["fill"],
            "communicate": t["outcome"] + t["speculation"],
            "fallback": states.any_to("miss") * t["fallback"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target, "draft": _draft}


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify")
        yield me.send("draft", "outcome", me.outcome())
        yield me.receive("speculation")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        outcome = yield me.receive("outcome")
        yield me.do("fill")
        me.fill()
        if me.misses(outcome):
            yield me.do("fallback")
        yield me.send("target", "speculation")
