"""DSI: a draft that never stops, and several copies of the target that verify its blocks side by side."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import Whole
from ssdsim.base.option import choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import always_beside
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.occupancy import Devices
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Program, Stoppable
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.rounds.round import RoundBlock, Seconds, States, with_rest
from ssdsim.strategies.protocols.axes import LookaheadAxis, NumberAxis
from ssdsim.strategies.protocols.strategy import Strategy, late, own_lookahead

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock

_MOST_TARGETS = 64


class DSI(Strategy):
    """``R = 1 / {(1 - a) [1 + k d a / (1 - a^k)]}`` tokens per T_v with enough targets (n k d >= 1).

    A round ends with a verdict. The first one after a rejection is on the bare prefix and takes a pass; then one comes
    every k draft steps, or, with too few targets, as often as those verify. A rejection ends all passes at once, at no
    cost. With one target and k d <= 1 it is PEARL. Blocks go to the targets in turn (the released code takes the newest
    first); their caches are alike at no cost (the source leaves that open); no autoregressive pass races where k d > 1;
    every pass is as wide as one over k drafted tokens (all settled here). The draft may be no slower than the target.
    """

    name = "dsi"
    title = "DSI"
    source = "Timor et al., ICLR 2025, arXiv 2405.14105"
    rival = "sd"
    drafted = "dsi_k"
    most_sequences = 1
    drafts_ahead = True
    searched = (
        NumberAxis(
            option="dsi_targets",
            about="DSI's copies of the target that may be chosen [default: 1:8]",
            placing=True,
            most=8,
            says="{value} targets",
        ),
        LookaheadAxis(option="dsi_k", about="DSI's tokens a block that may be chosen [default: 1:16]"),
    )
    shown_settings = ("dsi_targets",)
    options = (
        own_lookahead(name="dsi_k", about="DSI's tokens a block", axis="DSI's tokens a block k", symbol="k"),
        choice(
            name="dsi_targets",
            kind=Whole(most=_MOST_TARGETS),
            about="DSI's copies of the target",
            axis="DSI's copies of the target",
            default_note="as many as never let a block wait, or as the node holds",
            varied_by=("recommend",),
        ),
    )

    def settle(self, settings: Settings, site: Site, drafter: Drafter) -> None:
        """Derive the tokens a block and the copies of the target that verify them.

        Raises
        ------
        CannotRun : the draft is slower than the target, which then waits for it in the middle of a pass.
        """
        super().settle(settings, site, drafter)
        steps = self.steps(site, drafter)
        verify_s, block_s = steps["verify"].seconds + steps["sample"].seconds, steps["draft"].seconds
        if block_s > verify_s * settings["dsi_k"] * (1.0 + 1e-9):
            raise CannotRun("DSI needs a draft that is no slower than its target")
        if settings["dsi_targets"] is None:
            enough = math.ceil(verify_s / block_s - 1e-9) if block_s * _MOST_TARGETS > verify_s else _MOST_TARGETS
            has = _MOST_TARGETS if site.unit_free else _copies_on_node(site, drafter)
            settings.derive("dsi_targets", max(1, min(enough, has)), "enough for every block, or as many as fit")

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        accepted, targets = drafter.accepted(settings, settings["dsi_k"]), settings["dsi_targets"]
        return tokens_of(accepted, partial(_kernel, targets=targets))

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        targets = options["dsi_targets"] or 1  # until these are settled
        return Devices(tp * int(targets), int(drafter.needs_device))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        k = self.lookahead(site.options)
        draft = Step("draft", speculate(site, drafter, k, beside=False))
        verify, draft = always_beside(site, site.verify_step("verify", k + 1), draft)
        return {
            "verify": verify,
            "sample": site.sampling_step(),
            "draft": draft,
            "a block a target": _times(draft, site.options["dsi_targets"]),
            "outcome": site.outcome_message(k + 1),
            "speculation": site.speculation_message(k),
        }

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """A block's verdict comes a block later than the one before; the first one's messages, and what blocks wait for
        a target in each turn of the targets, come on top, or hide behind each other.
        """
        fresh, first, alone = (states.any_in(state) for state in ("fresh", "first", "alone first"))
        waits, follows, alone_on = (states.any_in(state) for state in ("waits", "follows", "alone"))
        messages = t["outcome"] + t["speculation"]
        waiting = late(t["verify"] + t["sample"], t["a block a target"])
        not_hidden = late(waiting, messages)
        hidden = waiting - not_hidden
        return {
            "verify": fresh * t["verify"] + (waits + alone) * not_hidden + follows * hidden + alone_on * waiting,
            "draft": (1.0 - fresh) * t["draft"],
            "communicate": (first + alone) * messages,
            "host": fresh * t["sample"],
        }

    def clocked(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: Array) -> RoundBlock:
        """Passes overlap: with varying durations, the wait for a verdict is the remainder of its round."""
        return with_rest("draft", super().clocked(outcomes, t, round_s))

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        targets = int(options["dsi_targets"])
        servers = [f"target {number + 1}" for number in range(targets)]
        return {
            "judge": partial(_judges, servers),
            **dict.fromkeys(servers, _verifies),
            "draft": partial(_drafts, servers),
        }

    def cannot_run(self, options: Mapping[str, Any]) -> str | None:
        return "DSI breaks off passes under way, which no engine does on real devices"


def _copies_on_node(site: Site, drafter: Drafter) -> int:
    """Copies of the target that the node holds beside the draft."""
    shares = drafter.needs_device and site.profile.name == site.draft_profile.name
    return (site.profile.device.count - int(shares)) // site.tp


def _times(draft: Step, targets: int | None) -> Step:
    """Seconds to draft a block for each target."""
    return Step(draft.part, draft.pieces * (targets or 1))


def _kernel(accepted_pmf: Array, targets: int) -> Kernel:
    """The kernel from P(exactly j of a block's k tokens are accepted).

    A verdict's state is its place since the last rejection: on the bare prefix (``fresh``), on the ``first`` block,
    then in turns of the targets: the verdict of the one that had the bare prefix (``waits``), of the next one
    (``follows``), of others. With one target all are its own (``alone``).
    """
    rejected_first, short, all_accepted = accepted_pmf[..., :1], accepted_pmf[..., :-1], accepted_pmf[..., -1:]
    on = np.concatenate([np.zeros_like(short[..., 1:]), all_accepted], axis=-1)
    others = [f"block {number}" for number in range(2, targets)]
    turn = ["first", *others, "waits", "follows"] if targets > 1 else ["alone first", "alone"]
    again = [*others, "waits"][0] if targets > 1 else "alone"
    next_of = dict(zip(turn, [*turn[1:], again], strict=True))
    rows = {"fresh": {"fresh": rejected_first, turn[0]: 1.0 - rejected_first}}
    rows |= {state: {"fresh": short, following: on} for state, following in next_of.items()}
    return Kernel.by_state(rows)


def _judges(servers: list[str], me: Stoppable) -> Generator[Any, Any, None]:
    """Take verdicts in text order; at a rejection cancel what is under way and restart."""
    epoch = 0  # rejections so far; what belongs to an older one is void
    me.post(servers[0], "block", epoch)
    for _ in me.rounds():
        while (yield me.receive("verdict")) != epoch:
            pass
        me.post("draft", "outcome", epoch, takes="outcome")
        rejected = me.any_to("fresh")
        me.end_round()
        if rejected:
            epoch += 1
            for server in servers:
                me.post(server, "restart", epoch)
            me.post("draft", "restart", epoch, takes="outcome")
            me.post(servers[0], "block", epoch)


def _verifies(me: Stoppable) -> Generator[Any, Any, None]:
    epoch = 0
    for _ in me.rounds():
        block = yield me.receive("block")
        epoch = max([epoch, *me.here("restart")])
        if block != epoch:
            continue
        if (yield from me.do_unless("verify", "restart")) and (yield from me.do_unless("sample", "restart")):
            me.post("judge", "verdict", epoch)
        else:
            epoch += 1


def _drafts(servers: list[str], me: Stoppable) -> Generator[Any, Any, None]:
    """Draft block after block, each for the next target, never further ahead than targets can take up."""
    epoch = made = judged = 0
    for _ in me.rounds():
        judged += me.here("outcome").count(epoch)
        while made - judged > 2 * len(servers):
            judged += int((yield me.receive("outcome")) == epoch)
        if (yield from me.do_unless("draft", "restart")):
            made += 1
            me.post(servers[made % len(servers)], "block", epoch, takes="speculation")
        else:
            epoch, made, judged = epoch + 1, 0, 0
