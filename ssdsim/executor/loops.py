"""AR, SD and SSD run for real on ranks: transformer-shaped passes, messages, and the simulator's own outcomes.

Target ranks are ``0 .. tp-1``, the draft is the last rank. How much each sequence accepts, and which bonus token it
gets, comes from the seeded stream that the simulator reads, so a measured run and a simulated run have the same rounds;
the draft learns of it by message and looks it up in its cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from ssdsim.executor.cache import Guesses, Outcome, SpeculationCache, misses, read_outcome, write_outcome
from ssdsim.machine.devices import busy, messages_lie_on, synchronised, target_group
from ssdsim.machine.graph import DTYPES, Graph
from ssdsim.machine.streams import Streams
from ssdsim.rounds.outcomes import outcome_source, rounds_to_run_in
from ssdsim.rounds.scenario import Scenario
from ssdsim.speculation.speculator import Fallback
from ssdsim.transformer.card import Transformer, forward_pass

Event = tuple[str, float, float]  # what, start and end on the machine's monotonic clock


@dataclass(frozen=True)
class Setting:
    """What is run: the models, the shape of a round, and the bytes of its messages."""

    target: Transformer
    draft: Transformer
    tp: int
    dtype: str
    context: int
    batch: int
    lookahead: int
    branches: int
    fallback: Fallback
    backup_s: float
    outcome_bytes: int
    response_bytes: int
    token_bytes: int  # of a response, the tokens, which every target rank needs
    sd_draft_tp: int | None  # target ranks that hold SD's draft; None: it has the draft's rank to itself
    fan_out: tuple[int, ...]  # cached bonus tokens for each of the K+1 accepted lengths


@dataclass
class Timeline:
    """What a rank did when; of a target rank, when its rounds ended and the tokens that they yielded over the batch; of
    SSD's draft, how many sequences missed in each.
    """

    events: list[Event] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    misses: list[int] = field(default_factory=list)

    def do(self, what: str, action: Callable[[], object]) -> None:
        start = time.perf_counter()
        action()
        self.events.append((what, start, time.perf_counter()))

    def end_round(self, tokens: int) -> None:
        self.ends_s.append(time.perf_counter())
        self.tokens.append(tokens)


class Executor:
    """One rank's part of the loops; graphs and passes are made when a setting first needs them."""

    def __init__(self, rank: int, device: torch.device, capacity: Mapping[str, Any]) -> None:
        self.rank = rank
        self.device = device
        self.tp = int(capacity["tp"])
        self.draft_rank = dist.get_world_size() - 1
        self._capacity = capacity
        self.target_group = target_group(self.tp, device)
        self._passes: dict[tuple[Any, ...], Callable[[], object]] = {}
        self._graphs: dict[tuple[str, int], Graph] = {}

    def run(self, strategy: str, setting: Setting, scenario: Scenario, seed: int, rounds: int) -> Timeline | None:
        """Run ``rounds`` rounds of a strategy; None on a rank that takes no part in it."""
        loop = {"ar": self._ar, "sd": self._sd, "ssd": self._ssd}[strategy]
        outcomes = Guesses(setting.fan_out).outcomes(stream(scenario, strategy, seed).block(rounds))
        self.prepare(setting)
        dist.barrier()
        return loop(setting, outcomes)

    def time_gemms(self, shapes: Sequence[tuple[int, int, int]], runs: int) -> float:
        """Mean seconds of GEMMs ``(m, n, k)`` in a row, their weights streamed as the calibrator streams them."""
        return self._streams.time_gemms(shapes, runs)

    @cached_property
    def _streams(self) -> Streams:
        return Streams(self.device, DTYPES[self._capacity["dtype"]])

    def prepare(self, setting: Setting) -> None:
        """Allocate and capture before the clock runs: what one rank does late, another would wait for.

        No rank waits for another one here unless its passes have collectives, whose ranks all do the same.
        """
        if self.rank == self.draft_rank:
            self._draft_pass(setting, 1, False)
            self._draft_pass(setting, setting.lookahead + 1, False)
            self._draft_pass(setting, setting.branches, True)
        else:
            self._target_pass(setting, 1)
            self._target_pass(setting, setting.lookahead + 1)
        if setting.sd_draft_tp is not None and self.rank < setting.sd_draft_tp:
            self._draft_pass(setting, 1, False, setting.sd_draft_tp)

    def _ar(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline | None:
        if self.rank >= self.tp:
            return None
        decode, timeline = self._target_pass(setting, 1), Timeline()
        for _ in outcomes:
            timeline.do("decode", decode)
            timeline.end_round(setting.batch)
        return timeline

    def _sd(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline | None:
        """K draft steps and a verification take turns, on the same devices or on two sides."""
        if setting.sd_draft_tp is not None:
            return self._sd_colocated(setting, setting.sd_draft_tp, outcomes)
        return self._sd_draft(setting, outcomes) if self.rank == self.draft_rank else self._sd_target(setting, outcomes)

    def _sd_colocated(self, setting: Setting, draft_tp: int, outcomes: NDArray[np.int64]) -> Timeline | None:
        """The target's first rank drafts and tells the others, or all of them draft, each its shard."""
        if self.rank >= self.tp:
            return None
        timeline, messages = Timeline(), _Messages(self, setting)
        drafts = self.rank < draft_tp
        verify = self._target_pass(setting, setting.lookahead + 1)
        for outcome in outcomes:
            if drafts:
                step = self._draft_pass(setting, 1, False, draft_tp)
                for _ in range(setting.lookahead):
                    timeline.do("draft step", step)
            if draft_tp < self.tp:
                timeline.do("send tokens" if drafts else "wait for tokens", messages.tell_ranks)
            timeline.do("verify", verify)
            timeline.end_round(_tokens(outcome))
        return timeline

    def _sd_target(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline:
        timeline, messages = Timeline(), _Messages(self, setting)
        verify = self._target_pass(setting, setting.lookahead + 1)
        for outcome in outcomes:
            timeline.do("wait for speculation", messages.receive_speculation)
            timeline.do("verify", verify)
            timeline.do("send outcome", partial(messages.send_outcome, outcome))
            timeline.end_round(_tokens(outcome))
        return timeline

    def _sd_draft(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline:
        """The draft on a device of its own waits for the outcome, then drafts."""
        timeline, messages = Timeline(), _Messages(self, setting)
        step = self._draft_pass(setting, 1, False)
        for _ in outcomes:
            for _ in range(setting.lookahead):
                timeline.do("draft step", step)
            timeline.do("send speculation", messages.send_speculation)
            timeline.do("wait for outcome", messages.receive_outcome)
        return timeline

    def _ssd(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline | None:
        """Algorithm 1: the target verifies while the draft pre-speculates; a miss is drafted after the outcome."""
        return (
            self._ssd_draft(setting, outcomes) if self.rank == self.draft_rank else self._ssd_target(setting, outcomes)
        )

    def _ssd_target(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline:
        timeline, messages = Timeline(), _Messages(self, setting)
        verify = self._target_pass(setting, setting.lookahead + 1)
        for outcome in outcomes:
            timeline.do("verify", verify)
            timeline.do("send outcome", partial(messages.send_outcome, outcome))
            timeline.do("wait for speculation", messages.receive_speculation)
            timeline.end_round(_tokens(outcome))
        return timeline

    def _ssd_draft(self, setting: Setting, outcomes: NDArray[np.int64]) -> Timeline:
        """The draft knows no outcome before the target sends it: whether it hits is looked up."""
        timeline, messages = Timeline(), _Messages(self, setting)
        cache = SpeculationCache(Guesses(setting.fan_out))
        glue = self._draft_pass(setting, setting.lookahead + 1, False)
        branch, step = self._draft_pass(setting, setting.branches, True), self._draft_pass(setting, 1, False)
        for round_ in range(len(outcomes)):
            timeline.do("glue", glue)
            for _ in range(setting.lookahead):
                timeline.do("branch step", branch)
            timeline.do("fill cache", partial(cache.fill, round_, setting.batch))
            timeline.do("wait for outcome", messages.receive_outcome)
            missed = misses(cache.look_up(messages.outcome()))
            timeline.misses.append(missed)
            if missed and setting.fallback == "fast":
                timeline.do("fallback", partial(busy, setting.backup_s))
            elif missed:
                for _ in range(setting.lookahead):
                    timeline.do("fallback step", step)
            timeline.do("send speculation", messages.send_speculation)
        return timeline

    def _target_pass(self, setting: Setting, queries: int) -> Callable[[], object]:
        return self._prepared("target", self.tp, setting, queries, False)

    def _draft_pass(self, setting: Setting, queries: int, masked: bool, tp: int = 1) -> Callable[[], object]:
        return self._prepared("draft", tp, setting, queries, masked)

    def _prepared(self, role: str, tp: int, setting: Setting, queries: int, masked: bool) -> Callable[[], object]:
        context = setting.context + (setting.lookahead + 1 if masked else 0)  # branches see the verified tokens too
        key = (role, tp, setting.batch, queries, context, masked)
        if key not in self._passes:
            card = setting.target if role == "target" else setting.draft
            shape: dict[str, Any] = {"batch": setting.batch, "queries": queries, "context": context}
            forward = forward_pass(card, **shape, tp=tp, dtype=setting.dtype, masked=masked)
            self._passes[key] = synchronised(self._graph(role, tp).prepare(forward), self.device)
            for _ in range(3):  # buffers are allocated, kernels chosen
                self._passes[key]()
        return self._passes[key]

    def _graph(self, role: str, tp: int) -> Graph:
        """The rank's shard of the target or of the draft; SD's draft may be sharded as the target is."""
        c = self._capacity
        if (role, tp) not in self._graphs:
            self._graphs[role, tp] = Graph(
                c[role],
                device=self.device,
                dtype=c["dtype"],
                batch=c["batch"],
                context=c["context"],
                tp=tp,
                group=self.target_group if tp > 1 else None,
                seed=self.rank,
            )
        return self._graphs[role, tp]


class _Messages:
    """Outcome and speculation between the target's first rank and the draft; the other target ranks are told after."""

    def __init__(self, executor: Executor, setting: Setting) -> None:
        self._executor = executor
        self._batch = setting.batch
        self._token_bytes = setting.token_bytes
        self._outcome, self._speculation = (
            torch.zeros(size, dtype=torch.uint8, device=messages_lie_on(executor.device))
            for size in (setting.outcome_bytes, setting.response_bytes)
        )

    def send_outcome(self, outcome: Outcome) -> None:
        if self._executor.rank == 0:
            write_outcome(outcome, self._outcome)
            self._end(lambda: dist.send(self._outcome, self._executor.draft_rank))

    def receive_outcome(self) -> None:
        self._end(lambda: dist.recv(self._outcome, 0))

    def outcome(self) -> Outcome:
        """What was received."""
        return read_outcome(self._outcome, self._batch)

    def send_speculation(self) -> None:
        self._end(lambda: dist.send(self._speculation, 0))

    def receive_speculation(self) -> None:
        if self._executor.rank == 0:
            self._end(lambda: dist.recv(self._speculation, self._executor.draft_rank))
        if self._executor.tp > 1:
            self.tell_ranks()

    def tell_ranks(self) -> None:
        """The first target rank tells the others the tokens, which their passes need; logits only it needs."""
        tokens = self._speculation[: self._token_bytes]
        self._end(lambda: dist.broadcast(tokens, 0, group=self._executor.target_group))

    def _end(self, message: Callable[[], object]) -> None:
        """Return when the message is through: NCCL only queues it."""
        synchronised(message, self._outcome.device)()


def _tokens(outcome: Outcome) -> int:
    """Tokens that a verification yields over the batch: the accepted ones and a bonus token each."""
    return int(outcome[:, 0].sum()) + len(outcome)


def stream(scenario: Scenario, strategy: str, seed: int) -> Any:
    """The outcomes that :func:`ssdsim.engine.simulate.simulate` replays for the same seed."""
    name = "ssd" if strategy == "ssd" else "sd"
    outcome_seed = np.random.SeedSequence(seed).spawn(2)[0]
    source = outcome_source(scenario, name, outcome_seed)
    run_in = rounds_to_run_in(scenario, name)
    if run_in:
        source.block(run_in)
    return source


def make_executor(rank: int, device: torch.device, options: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """A rank's handler: runs a strategy, or times the GEMMs of a layer, which tell the drift of the machine."""
    executor = Executor(rank, device, options)

    def handle(request: Mapping[str, Any]) -> Any:
        if "prepare" in request:
            executor.prepare(request["prepare"])
            return None
        if "gemms" in request:
            return executor.time_gemms(request["gemms"], request["runs"]) if rank == request["rank"] else None
        return executor.run(**request)

    return handle
