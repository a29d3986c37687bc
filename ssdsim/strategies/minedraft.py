"""MineDraft: the batch in groups that take turns, one verified while the draft works for the next."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.kinds import Whole
from ssdsim.base.option import Option
from ssdsim.base.record import replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.contention import beside_each_other
from ssdsim.pricing.drafter import Drafter, speculate
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Kernel, Tokens, tokens_of
from ssdsim.rounds.round import RoundBlock, Seconds, States, with_rest
from ssdsim.strategies.protocols.axes import LookaheadAxis
from ssdsim.strategies.protocols.strategy import Strategy, late, own_lookahead

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock

_MOST_GROUPS = 16


class MineDraft(Strategy):
    """``R = b E / (m max(T_v(b/m), T_draft(b/m)))`` for ``m`` groups, each side's time with what it sends.

    A round verifies every group once, and drafts for the next one meanwhile. Each sequence has SD's round with all of
    its tokens: nothing is cached, so nothing misses. The target reads its weights once a group. MineDraft therefore
    beats SD where that reading takes less time than the draft, as in large batches with slow drafts. One group, or one
    sequence, is SD with a draft on a device of its own. Groups are as even as they can be; all are priced as the
    largest (settled here).
    """

    name = "minedraft"
    title = "MineDraft"
    source = "Tang et al., ICML 2026, arXiv 2603.18016, released code 272c855"
    rival = "sd"
    drafted = "minedraft_k"
    in_columns = True
    searched = (LookaheadAxis(option="minedraft_k", about="MineDraft's lookaheads that may be chosen [default: 1:16]"),)
    options = (
        own_lookahead(
            name="minedraft_k", about="MineDraft's lookahead", axis="MineDraft's lookahead K (tokens)", symbol="K"
        ),
        Option(
            name="minedraft_groups",
            kind=Whole(most=_MOST_GROUPS),
            default=2,
            about="groups of the batch that MineDraft drafts for and verifies in turn",
            axis="MineDraft's groups of a batch",
            symbol="m",
        ),
    )

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        return tokens_of(drafter.accepted(settings, settings["minedraft_k"]), Kernel.of_tokens)

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        """Steps, numbered by group: equally long on average, with durations drawn apart."""
        k, groups = self.lookahead(site.options), _groups(site.options)
        of_group = site.with_batch(-(-site.options["b"] // groups))
        verify = of_group.verify_step("verify", k + 1)
        draft = Step("draft", speculate(of_group, drafter, k, beside=False))
        if groups > 1:
            verify, draft = beside_each_other(of_group, verify, draft)
        steps = {
            "verify": verify,
            "sample": of_group.sampling_step(),
            "draft": draft,
            "outcome": of_group.outcome_message(k + 1),
            "speculation": of_group.speculation_message(k),
        }
        return {f"{name} {group}": step for group in range(1, groups + 1) for name, step in steps.items()}

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        """Parts of a round: at each step a group is verified and the next one drafted; the slower side ends it."""
        last = len(t) // len(_STEPS)
        if last == 1:
            return {
                "verify": t["verify 1"],
                "draft": t["draft 1"],
                "communicate": t["outcome 1"] + t["speculation 1"],
                "host": t["sample 1"],
            }
        parts: dict[str, FloatOrArray] = dict.fromkeys(("verify", "draft", "communicate", "host"), 0.0)
        for group in range(1, last + 1):
            following = group % last + 1
            verified = t[f"verify {group}"] + t[f"sample {group}"] + t[f"outcome {group}"]
            parts["verify"] += t[f"verify {group}"]
            parts["host"] += t[f"sample {group}"]
            parts["communicate"] += t[f"outcome {group}"]
            parts["draft"] += late(t[f"draft {following}"] + t[f"speculation {following}"], verified)
        return parts

    def monte_carlo(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray]) -> RoundBlock:
        """Drawn rounds. With three groups or more, a late draft is made up for later: they are timed by a clock."""
        block, last = super().monte_carlo(outcomes, t), len(t) // len(_STEPS)
        return block if last < 3 else with_rest("draft", replace(block, round_s=_rounds_s(t, last, outcomes.rounds)))

    def clocked(self, outcomes: OutcomeBlock, t: Mapping[str, FloatOrArray], round_s: Array) -> RoundBlock:
        """Rounds timed by a clock: the target waits for the rest."""
        return with_rest("draft", super().clocked(outcomes, t, round_s))

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        numbers = range(1, _groups(options) + 1)
        return {"target": partial(_verifies, numbers), "draft": partial(_drafts, numbers)}


_IN_A_ROW = 256  # rounds of a run
_RUN_IN = 32
_STEPS = ("verify", "sample", "draft", "outcome", "speculation")


def _rounds_s(t: Mapping[str, FloatOrArray], last: int, rounds: int) -> Array:
    """Seconds of each round, shape ``(rounds,)``: runs side by side, whose first rounds do not count."""
    lanes = max(1, rounds // _IN_A_ROW)
    in_a_row = -(-rounds // lanes)
    places = (np.arange(lanes)[:, None] * in_a_row + np.arange(-_RUN_IN, in_a_row)) % rounds  # (lane, round)

    def of_group(group: int, *names: str) -> Array:
        seconds = sum(t[f"{name} {group}"] for name in names)
        return np.asarray(np.broadcast_to(seconds, rounds)[places].T, dtype=float)

    verified = [of_group(group, "verify", "sample", "outcome") for group in range(1, last + 1)]
    drafted = [of_group(group, "draft", "speculation") for group in range(1, last + 1)]
    target, draft, ends = np.zeros(lanes), np.zeros(lanes), []
    known = [np.zeros(lanes)] * last  # when each group's outcome is at the draft
    for number in range(in_a_row + _RUN_IN):
        for group in range(last):
            draft = np.maximum(draft, known[group]) + drafted[group][number]
            target = known[group] = np.maximum(target, draft) + verified[group][number]
        ends.append(target)
    return np.diff(ends, axis=0)[_RUN_IN - 1 :].T.ravel()[:rounds]


def _groups(options: Mapping[str, Any]) -> int:
    return min(int(options["minedraft_groups"]), int(options["b"]))


def _verifies(groups: range, me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        for group in groups:
            yield me.receive(f"speculation {group}")
            yield me.do(f"verify {group}")
            yield me.do(f"sample {group}")
            yield me.send("draft", f"outcome {group}", me.outcome())
        me.end_round()


def _drafts(groups: range, me: Actor) -> Generator[Any, Any, None]:
    """Draft for each group in turn; with several groups, the first was drafted for before the first round."""
    for number in me.rounds():
        for group in groups:
            if number > 0:
                yield me.receive(f"outcome {group}")
            if number > 0 or group > 1 or len(groups) == 1:
                yield me.do(f"draft {group}")
            yield me.send("target", f"speculation {group}")
    for group in groups:  # the last round's outcomes are still on their way
        yield me.receive(f"outcome {group}")
