"""Base classes: draft and target take turns (SD), or work at once and meet at the end of each step (PEARL)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.kinds import OneOf
from ssdsim.base.option import machine_choice
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Devices, Occupancy, target_alone, target_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.axes import WordAxis
from ssdsim.strategies.protocols.shared import alternating, served_by, sharing_of
from ssdsim.strategies.protocols.strategy import Service, Strategy, late

PLACES = WordAxis(
    option="sd_draft",
    about="where the draft may be that takes turns with its target [default: both are tried]",
    placing=True,
    words=("colocated", "separate"),
)

SD_DRAFT = machine_choice(
    name=PLACES.option,
    default="colocated",
    kind=OneOf(PLACES.words),
    about="the draft of SD and of a tree on the target's devices, or on its own as in SSD",
    axis="SD's draft",
    varied_by=("recommend",),
)


class Alternate(Strategy):
    """``draft + verify + sample`` and messages, one after the other; the draft may have a device of its own."""

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        if not is_apart(options, drafter):
            return Devices(tp)
        return Devices(tp, 1, *sharing_of(self.options, options))

    def occupancies(self, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
        if is_apart(site.options, drafter) or not drafter.needs_device:
            return super().occupancies(site, drafter)
        return beside_target(self, site, drafter, "; --sd-draft separate needs less")

    def round_steps(
        self, site: Site, drafter: Drafter, draft: Step, verify: Step, distributions: int | None = None
    ) -> dict[str, Step]:
        """The steps by name, around the ``draft`` and ``verify`` of a strategy.

        ``distributions`` is the number of distributions that the draft is drawn from; by default one a token.
        """
        k, apart = self.lookahead(site.options), is_apart(site.options, drafter)
        beside = draft.passes[0] if draft.passes else None
        return {
            "verify": verify,
            "draft": draft,
            "sample": site.sampling_step(),
            "speculation": site.speculation_message(k, distributions) if apart else site.broadcast_message(k, beside),
            "outcome": site.outcome_message(k + 1) if apart else Step("communicate"),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {
            "verify": t["verify"],
            "draft": t["draft"],
            "communicate": t["outcome"] + t["speculation"],
            "host": t["sample"],
        }

    def service(self, t: Mapping[str, Seconds], states: States) -> Service:
        parts = self.parts(t, states)
        return Service(t["draft"], parts["verify"] + parts["communicate"] + parts["host"])

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        if not is_apart(options, drafter):
            return {"target": _alternates}
        targets, together = served_by(self.options, options)
        return alternating(targets, together) if targets > 1 else {"target": _verifies, "draft": drafts}


def is_apart(options: Mapping[str, Any], drafter: Drafter) -> bool:
    """Tell whether the draft has a device of its own."""
    return bool(options["sd_draft"] == "separate" and drafter.needs_device)


def beside_target(
    strategy: Strategy, site: Site, drafter: Drafter, advice: str = "", branches: int = 0
) -> tuple[Occupancy, ...]:
    """Memory of the target's devices, alone and with the draft beside it; a refusal ends with ``advice``."""
    k = strategy.lookahead(site.options)
    both = [target_on(site, k, beside=True), drafter.demand(site, k, branches, beside=True)]
    what = f"{site.target.name} at tp {site.tp} with {site.draft.name} beside it ({strategy.title})"
    return target_alone(site, k), Occupancy(what, both, site.profile, advice)


def _alternates(me: Actor) -> Generator[Any, Any, None]:
    """Draft and verify on the target's devices: one of them drafts and tells the others, or all do."""
    for _ in me.rounds():
        yield me.do("draft")
        yield me.tell("speculation")
        yield me.do("verify")
        yield me.do("sample")
        me.end_round()


def _verifies(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.receive("speculation")
        yield me.do("verify")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        me.end_round()


def drafts(me: Actor) -> Generator[Any, Any, None]:
    """Draft on own devices, in rounds that end with the target's outcome."""
    for _ in me.rounds():
        yield me.do("draft")
        yield me.send("target", "speculation")
        yield me.receive("outcome")


class PrePost(Strategy):
    """A round in one of two states: ``pre`` verifies the draft's first new token, ``post`` all that are pending.

    In both states the draft makes the next K tokens (K of each branch) and sends them while the target verifies. A
    strategy defines what it drafts, for how many branches, and its kernel over both states.
    """

    drafts_ahead = True

    def branches(self, options: Mapping[str, Any]) -> int:
        """The number of continuations that are drafted."""
        return 1

    @abstractmethod
    def drafting(self, site: Site, drafter: Drafter) -> tuple[Piece, ...]:
        """The draft's passes of a step."""

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        tokens = self.lookahead(site.options)
        draft = Step("draft", self.drafting(site, drafter))
        pre_verify, _ = beside_each_other(site, site.verify_step("pre-verify", 1), draft)
        verify, draft = beside_each_other(site, site.verify_step("verify", tokens), draft)
        return {
            "verify": verify,
            "pre-verify": pre_verify,
            "sample": site.sampling_step(),
            "draft": draft,
            "outcome": site.outcome_message(tokens),
            "speculation": site.speculation_message(tokens * self.branches(site.options)),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        post, drafted = states.any_in("post"), t["draft"] + t["speculation"]
        return {
            "verify": post * t["verify"] + (1.0 - post) * t["pre-verify"],
            "draft": post * late(drafted, t["verify"]) + (1.0 - post) * late(drafted, t["pre-verify"]),
            "communicate": t["outcome"],
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": partial(meets, "pre-verify"), "draft": drafts}


def meets(with_nothing_pending: str, me: Actor) -> Generator[Any, Any, None]:
    """Verify, and meet the draft at the end; ``with_nothing_pending`` is the step of a batch in ``pre``."""
    for _ in me.rounds():
        yield me.do("verify" if me.any_in("post") else with_nothing_pending)
        yield me.receive("speculation")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        me.end_round()
