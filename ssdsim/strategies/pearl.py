"""PEARL: both models work in every step and meet at its end, so a draft is verified while the next one is made."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.checks import FloatOrArray
from ssdsim.kinds import Whole
from ssdsim.option import Group, Option
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Occupancy, target_alone
from ssdsim.pricing.prespeculation import beside_each_other
from ssdsim.pricing.room import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step, unit_free
from ssdsim.protocols.axes import Lookahead
from ssdsim.protocols.lockstep import Lockstep, late
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.mixing import tokens_of
from ssdsim.rounds.round import Seconds
from ssdsim.rounds.states import States
from ssdsim.settings import Settings


class PEARL(Lockstep):
    """``R = (1 - a^g) / [(1 - a) (1 + a - a^g) max(g d, 1)]`` tokens per T_v, for g tokens a draft and d = T_d / T_v.

    In the state ``pre`` the target checks the draft's first new token while g are drafted, in ``post`` also the g - 1
    that are pending from the step before. A rejection yields its correction and leads to ``pre``. The first new token
    is tested by rejection sampling in place of a bonus token. The draft sends while the target verifies. In a batch a
    step is a ``post`` step where it is one for some sequence.
    """

    name = "pearl"
    title = "PEARL"
    source = "Liu et al., ICLR 2025, arXiv 2408.11850"
    rival = "sd"
    searched = (
        Lookahead(
            option="gamma",
            about="PEARL's tokens a draft that may be chosen [default: 1:16]",
            says="{symbol} {value}",
        ),
    )
    options = (
        Option(
            name="gamma",
            kind=Whole(most=1_000),
            about="PEARL's tokens a draft",
            axis="PEARL's tokens a draft γ",
            otherwise="the same as --k",
            symbol="γ",
            varied_by=("recommend", "schedule"),
            groups=(Group.CHOICE,),
        ),
    )

    def settle(self, settings: Settings, site: Site | None, drafter: Drafter) -> None:
        if settings["gamma"] is None:
            settings.derive("gamma", settings["k"], "same as k")

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return int(options["gamma"])

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["gamma"]), _kernel)

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, int(drafter.needs_device))

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        gamma = self.lookahead(site.options)
        yield target_alone(site, gamma)
        if drafter.needs_device:
            what = f"{site.draft.name} on a device of its own (PEARL)"
            yield Occupancy(what, [drafter.demand(site, gamma, 0)], site.draft_profile)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        gamma = self.lookahead(site.options)
        draft = Step("draft", drafter.speculate(site, gamma, beside=False))
        verify = Step("verify", (site.piece(site.target_pass("verify", gamma)),))
        pre_verify = Step("verify", (site.piece(site.target_pass("pre-verify", 1)),))
        pre_verify, _ = beside_each_other(site, pre_verify, draft)
        verify, draft = beside_each_other(site, verify, draft)
        return {
            "verify": verify,
            "pre-verify": pre_verify,
            "sample": site.sampling_step(),
            "draft": draft,
            "outcome": site.outcome_message(),
            "speculation": site.speculation_message(gamma),
        }

    def unit_free_steps(self, settings: Settings) -> Mapping[str, Step]:
        draft_step = settings["t_sd"] / settings["k"]
        return {
            "verify": unit_free("verify", ("verify", 1.0, 1)),
            "pre-verify": unit_free("verify", ("pre-verify", 1.0, 1)),
            "sample": Step("host"),
            "draft": unit_free("draft", ("draft step", draft_step, settings["gamma"])),
            "outcome": Step("communicate"),
            "speculation": Step("communicate"),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        post, drafted = (
            states.any_in("post"),
            t["draft"] + t["speculation"],
        )  # the draft sends while the target verifies
        return {
            "verify": post * t["verify"] + (1.0 - post) * t["pre-verify"],
            "draft": post * late(drafted, t["verify"]) + (1.0 - post) * late(drafted, t["pre-verify"]),
            "communicate": t["outcome"],
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target, "draft": _draft}


def _kernel(accepted_pmf: NDArray[np.float64]) -> Kernel:
    """From P(exactly k of gamma accepted): the first new token is judged in ``pre``, all gamma in ``post``."""
    rejected_first = accepted_pmf[:1]
    short, all_accepted = accepted_pmf[:-1], accepted_pmf[-1:]
    none = np.zeros(short.size - 1)
    return Kernel.by_state(
        {
            "pre": {"pre": rejected_first, "post": 1.0 - rejected_first},
            "post": {"pre": short, "post": np.concatenate([none, all_accepted])},
        }
    )


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify" if me.any_in("post") else "pre-verify")
        yield me.receive("speculation")
        yield me.do("sample")
        yield me.send("draft", "outcome", me.outcome())
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("draft")
        yield me.send("target", "speculation")
        yield me.receive("outcome")
