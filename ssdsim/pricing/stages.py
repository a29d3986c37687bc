"""Pipeline stages of a target: a pass that crosses all of them, and the round of several microbatches in flight.

Engines share the layers out evenly, keep a microbatch for each stage in flight, and draft on the last stage, which has
the final hidden states (vLLM PR 50514, SGLang PR 30775). Nobody has published the times of both together: this is
arithmetic on passes and messages that were timed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from ssdsim.base.errors import InputError
from ssdsim.base.record import field, replace
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Operation


def check_stages(card: Transformer, pp: int) -> None:
    """Raise :class:`InputError` where stages would have no layer."""
    if pp > card.layers:
        raise InputError(f"--pp {pp}: {card.name} has {card.layers} layers to share out, a stage needs one")


class StagedPass(Pass):
    """A target's pass of one microbatch over ``pp`` stages of ``tp`` devices each, one stage after the other.

    Its cost is that of the same pass on one stage, what the engine's host adds to a pass once for each stage, and the
    ``sends``: hidden states from stage to stage, tokens from the last stage back to the first.
    """

    pp: int = 1
    sends: Cost = field(default_factory=Cost)

    @classmethod
    def over(cls, one: Pass, pp: int, sends: Cost) -> StagedPass:
        """The pass ``one``, which is priced on one stage, over several."""
        return cls(one.name, one.model, one.forward, one.tp, one.profile, one.runtime, pp=pp, sends=sends)

    @cached_property
    def cost(self) -> Cost:
        each, others = (self._cost_of(), self.pp - 1)
        whole = cost_of_pass(self.forward, self.profile, self.runtime, self.model)
        return Cost.total(((whole, 1), (each, others), (self.sends, 1)))

    @cached_property
    def shares(self) -> tuple[float, float]:
        """What the slowest stage and the last one take of the pass's time.

        Layers that are left over go to stages before the last one, as vLLM shares them out, since that has the LM head.
        """
        own_s, layers = self._cost_of().seconds, self.forward.layers
        first_s, last_s = (self._cost_of(ops).seconds for ops in (self.forward.before, self.forward.after))
        blocks_s = self.cost.seconds - self.sends.seconds - (self.pp - 2) * own_s - first_s - last_s
        first_s += -(-layers // self.pp) / layers * blocks_s
        last_s += layers // self.pp / layers * blocks_s
        return max(first_s, last_s) / self.cost.seconds, last_s / self.cost.seconds

    def _cost_of(self, operations: tuple[Operation, ...] = ()) -> Cost:
        """A pass of these operations alone: without any, what the host adds to each."""
        return cost_of_pass(ForwardPass(operations, (), 0, ()), self.profile, self.runtime, self.model)


def in_stages(
    steps: Mapping[str, Step], microbatches: int, beside: bool, alone: Collection[str] = ()
) -> Mapping[str, Step]:
    """The steps of a microbatch's rounds; those ``alone`` are of rounds that draft nothing."""
    if microbatches == 1:
        return steps
    rounds = ({name: step for name, step in steps.items() if (name in alone) is plain} for plain in (False, True))
    return {name: step for each in rounds if each for name, step in _in_turn(each, microbatches, beside).items()}


def _in_turn(steps: Mapping[str, Step], microbatches: int, beside: bool) -> Mapping[str, Step]:
    """The steps of a microbatch's round, which waits for the others where a stage is busy longer than the round takes.

    With constant times a round takes the longer of two: one microbatch's way through all its steps, and what a stage
    does for all microbatches. The last stage drafts, too, where the draft is ``beside`` its target: it can then not
    verify, so each microbatch waits for the drafts of all. A draft on devices of its own serves all as it serves
    several targets. Rounds of a cache count without its misses.
    """
    shares = {name: each.shares for name, step in steps.items() for each in step.passes if isinstance(each, StagedPass)}
    ((verify, (slowest, last)),) = shares.items()
    crossed = steps[verify].seconds
    in_turn = ("verify", "host", "communicate", *(["draft"] if beside else []))
    own_s = sum(step.seconds for step in steps.values() if step.part in in_turn)
    drafts = [name for name, step in steps.items() if step.part == "draft" and beside and step.seconds]
    drafted_s = sum(steps[name].seconds for name in drafts)
    busy_s = {verify: slowest * crossed, **dict.fromkeys(drafts, last * crossed + drafted_s)}
    later = max(busy_s, key=busy_s.__getitem__)
    wait_s = microbatches * busy_s[later] - own_s
    return {**steps, later: _waiting(steps[later], wait_s)} if wait_s > 0.0 else steps


def _waiting(step: Step, seconds: float) -> Step:
    """The step with a wait for others like it, which errs as it does."""
    return replace(step, pieces=(*step.pieces, Piece("other microbatches", step.cost * (seconds / step.seconds))))
