"""SpecActor: PEARL's step with M drafts that work for N targets, each of which has its part of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import Whole
from ssdsim.base.option import choice, searched_choice
from ssdsim.base.record import replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import always_beside
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.occupancy import Devices, Occupancy, target_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Program
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.alternate import drafts, meets
from ssdsim.strategies.protocols.axes import LookaheadAxis, NumberAxis
from ssdsim.strategies.protocols.strategy import Strategy, late, own_lookahead

_MOST = 64


class SpecActor(Strategy):
    """``R = b PEARL(alpha, gamma) / max(T_v(gamma b / N), gamma T_d(b / M) + messages)``.

    N targets verify a window of gamma tokens of each of their ``b / N`` sequences, while M drafts make the next windows
    of ``b / M`` each. All meet at the end of a step. That a window is PEARL's, and that the pass has its rows also
    where nothing is pending, is inferred from the abstract ("inspired by PEARL") and from SGLang's loop.
    """

    name = "specactor"
    title = "SpecActor"
    source = "arXiv 2511.16193 (abstract); SGLang PR 22520; the round is inferred"
    rival = described_as = "pearl"
    drafted = "specactor_window"
    drafts_ahead = True
    searched = (
        LookaheadAxis(option="specactor_window", about="SpecActor's windows that may be chosen [default: 1:16]"),
        NumberAxis(
            option="specactor_targets",
            about="targets of SpecActor that may be chosen [default: 1:8]",
            most=8,
            says="{value} targets",
        ),
    )
    shown_settings = ("specactor_targets",)
    options = (
        own_lookahead(
            name="specactor_window", about="SpecActor's tokens a window", axis="SpecActor's window γ", symbol="γ"
        ),
        searched_choice(
            name="specactor_targets",
            kind=Whole(most=_MOST),
            default=1,
            about="copies of the target that verify parts of SpecActor's batch",
            axis="SpecActor's targets N",
            symbol="N",
        ),
        choice(
            name="specactor_drafts",
            kind=Whole(most=_MOST),
            default=1,
            about="draft devices that work for SpecActor's targets",
            axis="SpecActor's drafts M",
            symbol="M",
        ),
    )

    def least_sequences(self, options: Mapping[str, Any]) -> int:
        """One sequence for each target and each draft."""
        return max(_counts(options))

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        super().settle(settings, site, drafter)
        least = self.least_sequences(settings)
        if least > settings["b"]:
            raise CannotRun(f"SpecActor parts its batch for {least} targets or drafts, got --b {settings['b']}")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["specactor_window"]), Kernel.of_windows)

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        targets, drafts = _counts(options)
        return Devices(targets * tp, drafts if drafter.needs_device else 0)

    def occupancies(self, site: Site, drafter: Drafter) -> tuple[Occupancy, ...]:
        (targets, drafts), tokens = _counts(site.options), self.lookahead(site.options)
        one = replace(target_on(site, tokens), devices=targets)
        verifying = Occupancy(f"{site.target.name} at tp {site.tp}", [one], site.profile)
        if not drafter.needs_device:
            return (verifying,)
        demand = replace(drafter.demand(site, tokens, 0), devices=drafts)
        return verifying, Occupancy(
            f"{site.draft.name} on devices of its own ({self.title})", [demand], site.draft_profile
        )

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        (targets, drafts), tokens = _counts(site.options), self.lookahead(site.options)
        verifying, drafting = (site.with_batch(-(-site.batch // each)) for each in (targets, drafts))
        draft = Step("draft", speculate(drafting, drafter, tokens, beside=False), drafts)
        verify, draft = always_beside(site, replace(verifying.verify_step("verify", tokens), devices=targets), draft)
        return {
            "verify": verify,
            "sample": verifying.sampling_step(),
            "draft": draft,
            "outcome": verifying.outcome_message(tokens),
            "speculation": drafting.speculation_message(tokens),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {
            "verify": t["verify"],
            "draft": late(t["draft"] + t["speculation"], t["verify"]),
            "communicate": t["outcome"],
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": partial(meets, "verify"), "draft": drafts}


def _counts(options: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers of targets and drafts."""
    return int(options["specactor_targets"]), int(options["specactor_drafts"])
