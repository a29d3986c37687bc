"""Shared by strategies whose two models work in every step and meet at its end (PEARL's round)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.alternate import drafts
from ssdsim.strategies.protocols.strategy import Strategy, late


class PrePost(Strategy):
    """A round in two states: in ``pre`` the target checks the draft's first new token, in ``post`` also what is
    pending.

    Either way the draft makes the next tokens meanwhile (its lookahead, or of each branch), and sends them while the
    target verifies. A strategy says what
    it drafts, for how many branches, and its kernel over both states.
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
    """The target's steps: it verifies, and meets the draft at the end; the step of a batch ``with_nothing_pending``."""
    for _ in me.rounds():
        yield me.do("verify" if me.any_in("post") else with_nothing_pending)
        yield me.receive("speculation")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        me.end_round()
