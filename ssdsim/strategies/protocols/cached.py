"""Shared by strategies whose draft prepares for the outcomes of the running verification (SSD's round)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.kinds import SHARE, OneOf, Whole
from ssdsim.base.option import Needs, Option, Section, choice, machine_choice
from ssdsim.pricing.contention import beside_each_other, on_one_device
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.drafter import Drafter, branches_per_device
from ssdsim.pricing.occupancy import Devices, Occupancy
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.round import Seconds, States, Stationary
from ssdsim.strategies.protocols.alternate import beside_target
from ssdsim.strategies.protocols.axes import DraftDevicesAxis, DraftPlaceAxis, OutcomesAxis
from ssdsim.strategies.protocols.shared import ahead, served_by, sharing_of
from ssdsim.strategies.protocols.strategy import Service, Strategy, late
from ssdsim.tokens.hit_models import uniform_fan_out

DRAFT_PLACE = DraftPlaceAxis(
    option="draft_devices",
    about="whose devices SSD's draft may work on [default: own; shared where there is one GPU]",
    placing=True,
)

DRAFT_DEVICES = DraftDevicesAxis(
    option="draft_gpus",
    place=DRAFT_PLACE.option,
    about="draft devices of SSD that may be chosen [default: all]",
    placing=True,
    bounded=True,
)

MOST_RUN = 24
"""Cached outcomes a sequence, the most that anybody is known to have run: three guesses at K 7 (SSD paper).

More fit into a verification by their kernels. But masks held the paper's engine back, and nobody timed building them.
"""

OUTCOMES = OutcomesAxis(
    option="budget",
    about=f"cached outcomes a sequence that may be chosen [default: searched up to {MOST_RUN}, as many as were run]",
    most=MOST_RUN,
    says="{value} outcomes",
    idle_with=("p_hit",),  # given: more outcomes then only cost time
    lookahead="k",
    tabled=(1, 2, 3, 4, 5, 8, 12),
    tabled_as="f",
)

DRAFT_GPUS = machine_choice(
    name=DRAFT_DEVICES.option,
    prominence=2,
    default=1,
    kind=Whole(),
    about="draft devices of SSD, which share the branches",
    axis="draft GPUs",
    doubling=True,
    varied_by=("recommend",),
)

PLACE = choice(
    name=DRAFT_PLACE.option,
    section=Section.MACHINE,
    default="own",
    kind=OneOf(DRAFT_PLACE.words),
    about="whose devices SSD's draft works on while the target verifies: its own, or the target's (shared)",
    axis="SSD's draft devices",
    varied_by=("recommend",),
)

OVERLAP = Option(
    name="overlap",
    section=Section.MACHINE,
    kind=SHARE,
    about="of verification and pre-speculation on shared devices, the share of the shorter that is hidden",
    axis="overlap on shared devices",
    default_note="as on an H100: 0.29 at batch 1, 0.24 at 16, 0.14 at 64",
    needs=Needs((PLACE.name,), "shared"),
)

SHARED_DEVICES = (PLACE, OVERLAP)
"""The options of a strategy whose draft may work on its target's devices."""


class Cached(Strategy):
    """``max(T_v + post + send, T_p) + lookup + [any miss] T_b + respond``: Algorithm 1 of the SSD paper.

    A sequence is in the state ``hit`` where its last outcome was in the speculation cache, else ``miss``.
    """

    miss_state = "miss"
    caches = "outcomes"
    """What a message about memory calls that which is cached."""

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        if not drafter.needs_device or self.shares(options, drafter):
            return Devices(tp)
        return Devices(tp, options["draft_gpus"], *sharing_of(self.options, options))

    def shares(self, options: Mapping[str, Any], drafter: Drafter) -> bool:
        """Tell whether the draft works on the target's devices while it verifies."""
        return PLACE in self.options and drafter.needs_device and options[PLACE.name] == "shared"

    def occupancies(self, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
        if not self.shares(site.options, drafter):
            return super().occupancies(site, drafter)
        return beside_target(self, site, drafter, branches=site.options["budget"])

    def guesses(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        return tuple(settings.get("fan_outs") or uniform_fan_out(settings["budget"], settings["k"]).tolist())

    def draft_holds(self, site: Site) -> tuple[str, int, int]:
        branches = branches_per_device(site.options["budget"], site.options["draft_gpus"])
        return f"with {branches} cached {self.caches} a sequence", self.lookahead(site.options), branches

    def round_steps(
        self,
        site: Site,
        verify: Step,
        prespeculate: Step,
        fallback: Step,
        outcome: Step,
        speculation: Step,
        beside: bool = False,
    ) -> dict[str, Step]:
        """The round's steps by name, with verification and pre-speculation slowed by each other.

        ``beside``: both are on the same device.
        """
        if beside:
            verify, prespeculate = on_one_device(site, verify, prespeculate, site.options[OVERLAP.name])
        else:
            verify, prespeculate = beside_each_other(site, verify, prespeculate)
        return {
            "verify": verify,
            "sample": site.sampling_step(),
            "outcome": outcome,
            "pre-speculate": prespeculate,
            "look up": Step("host", (Piece("look up", Cost()),)),
            "fallback": fallback,
            "speculation": speculation,
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {
            "verify": t["verify"],
            "draft": late(t["pre-speculate"], _hidden_s(t)),
            "communicate": t["outcome"] + t["speculation"],
            "fallback": states.any_to("miss") * t["fallback"],
            "host": t["sample"] + t["look up"],
        }

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        """Corollary 16's denominator, which has no overheads and lets a late draft overlap the fallback."""
        p_all = states.none_to("miss")
        clean: Seconds = np.maximum(t["verify"], t["pre-speculate"])
        paper: Seconds = p_all * clean + (1.0 - p_all) * (t["verify"] + t["fallback"])
        return paper

    def service(self, t: Mapping[str, Seconds], states: States) -> Service:
        return Service(
            first_s=t["pre-speculate"],
            away_s=t["speculation"],
            hidden_s=_hidden_s(t),
            look_up_s=t["look up"],
            missed=states.any_to("miss"),
            again_s=t["fallback"],
        )

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        targets, together = served_by(self.options, options) if drafter.needs_device else (1, False)
        return ahead(targets, together) if targets > 1 else {"target": _target, "draft": _draft}


def _hidden_s(t: Mapping[str, Seconds]) -> Seconds:
    """Seconds behind which pre-speculation is hidden: until the draft has the outcome."""
    return t["verify"] + t["sample"] + t["outcome"]


def _target(me: Actor) -> Generator[Any, Any, None]:
    """Verify, send the outcome, wait for the next speculation."""
    for _ in me.rounds():
        yield me.do("verify")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        yield me.receive("speculation")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    """Pre-speculate (not pre-emptible), take the outcome, look it up, fall back on a miss, answer."""
    for _ in me.rounds():
        yield me.do("pre-speculate")
        me.fill()
        outcome = yield me.receive("outcome")
        yield me.do("look up")
        if me.misses(outcome):
            yield me.do("fallback")
        yield me.send("target", "speculation")
