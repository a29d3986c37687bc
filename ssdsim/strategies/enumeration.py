"""SSD by enumeration: the target's GPU chooses among drafts that it holds, and a miss decodes one token."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import SHARE, OneOf
from ssdsim.base.option import Option
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.drafter import Drafter, prespeculation
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece, Step, chances_at_once
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import ByState, Kernel, Tokens, tokens_of
from ssdsim.rounds.round import Seconds, States, Stationary
from ssdsim.strategies.protocols.axes import LOOKAHEAD
from ssdsim.strategies.protocols.cached import DRAFT_DEVICES, DRAFT_GPUS, OUTCOMES, Cached
from ssdsim.strategies.protocols.hits import CHAINS, settle_budget
from ssdsim.strategies.protocols.strategy import late
from ssdsim.tokens.hit_rates import forget_derived_hits, hits_given_accepted

_ROWS = ("padded", "ragged")


class Enumeration(Cached):
    """``R = b (pi E + 1 - pi) / max(T_v(rows) + host, T_p + messages)``, with ``pi = p_m / (1 - p + p_m)``.

    The draft sends every outcome's tokens to the target before the target's pass ends. The target's GPU takes those
    that fit. A sequence whose outcome was not among them decodes one token in the next pass: nobody waits for it. ``p``
    is the hit rate after a round of K drafted tokens, ``p_m`` that after a round of one token (``--p-hit-backup``, or
    the hit curve of a backup). A late buffer is a miss of all its sequences. Rows are padded to ``b (K + 1)``, or
    ragged: one, and K of each of those that hit, ``b pi`` of them on average.
    """

    name = "enumeration"
    title = "SSD by enumeration"
    source = "SGLang roadmap 27462 and PR 27634 (decoupled_enum_buffer.py)"
    rival = "sd"
    sends_async = True
    ragged = True
    searched = (DRAFT_DEVICES, LOOKAHEAD, OUTCOMES)
    shown_settings = ("budget",)
    options = (
        DRAFT_GPUS,
        *CHAINS,
        Option(
            name="enum_rows",
            kind=OneOf(_ROWS),
            default="padded",
            about="rows of enumeration's sequences without a draft: K + 1 (padded, as graphs need), or one (ragged)",
            axis="enumeration's rows",
        ),
        Option(
            name="enum_late",
            kind=SHARE,
            default=0.0,
            about="share of enumeration's buffers that come too late, which makes misses of them",
            axis="share of late buffers",
        ),
    )

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive the budget of outcomes and, without hardware, the time of the draft."""
        if settings.source("fan_out_policy") != GIVEN:
            settings.settle("fan_out_policy", "uniform", "as its source has it")
        settle_budget(settings)
        if site.unit_free and settings["t_p"] is None:
            settings.derive("t_p", settings["t_sd"], "same as t_sd")
        if settings["enum_rows"] == "ragged":
            hits = self.kernel(settings, drafter).averages.inside["hit"]
            forget_derived_hits(settings)  # the kernel of the priced rounds derives them anew, by accepted length
            settings.derive("enum_verified", 1.0 + settings["k"] * float(hits), "one, and K of those that hit")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        """Kernel by state: did the last outcome hit.

        Raises
        ------
        CannotRun : the draft needs the target's hidden states, whose outcomes nobody has enumerated.
        """
        if drafter.self_conditions:
            raise CannotRun(f"{drafter.title} drafts from the target's hidden states; enumeration takes a draft model")
        k = settings["k"]
        accepted = drafter.accepted(settings, k)
        alone = np.eye(k + 1)[0]
        hit, hit_after_one = hits_given_accepted(settings, accepted.pmf, alone, fast=True)
        in_time = 1.0 - settings["enum_late"]
        rows = {"hit": k + 1, "miss": 1 if settings["enum_rows"] == "ragged" else k + 1}

        def kernel(pmf: Array) -> Kernel:
            def to(own: Array, rate: Array) -> Mapping[str, Array]:
                return {"hit": own * rate * in_time, "miss": own * (1.0 - rate * in_time)}

            made = Kernel.by_state({"hit": to(pmf, hit), "miss": to(alone, hit_after_one)})
            return ByState(made.states, made.p, rows=rows) if rows["miss"] == 1 else made

        return tokens_of(accepted, kernel)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k, budget = self.lookahead(site.options), site.options["budget"]
        prespeculate = site.override("t_p", prespeculation(site, drafter, k, budget))
        verify, prespeculate = beside_each_other(site, self._verify(site, k), prespeculate)
        return {
            "verify": verify,
            "sample": site.sampling_step(),
            "outcome": site.outcome_message(k + 1),
            "pre-speculate": prespeculate,
            "speculation": site.speculation_message(budget * k, distributions=0),  # token ids of every outcome
            "look up": Step("host", (Piece("look up", Cost()),)),
        }

    def _verify(self, site: Site, k: int) -> Step:
        if site.options["enum_rows"] == "padded":
            return site.verify_step("verify", k + 1)
        b = site.options["b"]
        hits = chances_at_once(b, (site.options["enum_verified"] - 1.0) / k).tolist()
        return site.ragged_step("verify", {b + k * n: p for n, p in enumerate(hits)}, b * (1 + k))

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """Parts of a round: the draft has the outcome, drafts and sends while the target verifies."""
        drafted = t["outcome"] + t["pre-speculate"] + t["speculation"]
        return {
            "verify": t["verify"],
            "draft": late(drafted, t["verify"] + t["sample"]),
            "host": t["sample"] + t["look up"],
        }

    def paper_round_s(self, t: Mapping[str, Seconds], states: Stationary) -> Seconds | None:
        return None

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target, "draft": _draft}


def _target(me: Actor) -> Generator[Any, Any, None]:
    """Tell the draft the choice, verify it, then choose among the drafts that came meanwhile."""
    for number in me.rounds():
        me.post("draft", "outcome", number, takes="outcome")
        yield me.do("verify")
        yield me.do("sample")
        yield me.receive("speculation")
        yield me.do("look up")
        me.end_round()


def _draft(me: Actor) -> Generator[Any, Any, None]:
    """Draft for every outcome of the running pass, and send all."""
    for number in me.rounds():
        yield me.receive("outcome")
        yield me.do("pre-speculate")
        me.fill()
        me.post("target", "speculation", number, takes="speculation")
