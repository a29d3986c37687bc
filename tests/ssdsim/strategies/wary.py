"""A strategy and a drafter in one file: what a newcomer writes. Nothing else has to be changed for either."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.kinds import SHARE, Number, Whole
from ssdsim.base.option import Group, Option
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Draft, Drafter, speculate
from ssdsim.pricing.occupancy import Demand, Devices, Occupancy, target_alone
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import Strategy
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.accepted import Accepted
from ssdsim.transformer.card import Transformer


class Wary(Strategy):
    """Speculative decoding that drafts one token only, as long as the last round rejected one (``shy``)."""

    name = "wary"
    title = "Wary SD"
    source = "an example"
    rival = "sd"
    drafted = "wary_k"
    options = (
        Option(
            name="wary_k",
            kind=Whole(),
            default=4,
            about="Wary SD's lookahead while nothing is rejected",
            axis="Wary SD's lookahead (tokens)",
            symbol="W",
            varied_by=("recommend", "schedule"),
            groups=(Group.CHOICE,),
        ),
    )
    searched = (LookaheadAxis(option="wary_k", about="Wary SD's lookaheads that may be chosen", most=6),)

    # tokens: what a round does to a sequence, by the state in which it begins

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        sure, shy = (drafter.accepted(settings, k).pmf for k in (settings["wary_k"], 1))
        return Kernel.by_state({"sure": _by_rejection(sure), "shy": _by_rejection(shy)})

    # costs: where it runs, and what each step takes there

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp)

    def occupancies(self, site: Site, drafter: Drafter) -> Iterable[Occupancy]:
        yield target_alone(site, self.lookahead(site.options))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        return {
            "draft": Step("draft", speculate(site, drafter, k, beside=True)),
            "verify": site.verify_step("verify", k + 1),
            "draft one": Step("draft", speculate(site, drafter, 1, beside=True)),
            "verify one": site.verify_step("verify one", 2),
            "sample": site.sampling_step(),
        }

    # the round: once for closed form and Monte Carlo, once for SimPy and real ranks

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        sure = states.any_in("sure")
        return {
            "verify": sure * t["verify"] + (1.0 - sure) * t["verify one"],
            "draft": sure * t["draft"] + (1.0 - sure) * t["draft one"],
            "host": t["sample"],
        }

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target}


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        sure = me.any_in("sure")
        yield me.do("draft" if sure else "draft one")
        yield me.do("verify" if sure else "verify one")
        yield me.do("sample")
        me.end_round()


def _by_rejection(accepted_pmf: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    """All accepted leads to ``sure``, a rejection to ``shy``."""
    all_accepted = np.zeros_like(accepted_pmf)
    all_accepted[-1] = accepted_pmf[-1]
    return {"sure": all_accepted, "shy": accepted_pmf - all_accepted}


class NGrams(Drafter):
    """Continues with what followed the last words before: no model, no device, some microseconds on the host."""

    name = "ngrams"
    title = "n-gram look-up"
    source = "an example"
    needs_device = False
    options = (
        Option(
            name="ngram_us",
            kind=Number(),
            default=300.0,
            about="microseconds of a look-up of n-grams",
            axis="n-gram look-up (us)",
        ),
        Option(
            name="ngram_alpha",
            kind=SHARE,
            default=0.4,
            about="acceptance rate of tokens from n-grams",
            axis="acceptance rate of n-grams",
        ),
    )

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        return Draft(target)

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        return (site.on_host("look up n-grams", 1e-6 * site.options["ngram_us"]),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        return (site.on_host("look up n-grams", 1e-6 * site.options["ngram_us"]),)

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        return Accepted(accepted_length_pmf(options["ngram_alpha"], tokens))

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        return Demand(0, 0)
