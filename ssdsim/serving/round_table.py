"""Seconds of a strategy's rounds over the batch, the context, what happened in the round, and prompts beside it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Settings
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Step
from ssdsim.question.many import RateDraws
from ssdsim.question.price import round_steps
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.kernel import Averages
from ssdsim.rounds.round import Estimate, Round, Stationary
from ssdsim.serving.passes import PromptTable, PromptTables, draft_place, pairs, spaced, target_place
from ssdsim.serving.rounds import add_prompts, prompts_alone_s
from ssdsim.transformer.prefill import Chunk

_APART = 1.3
_BATCHES = spaced(1, 1.05, 32)
_CONTEXT_BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, *_BATCHES[31::5])


class _Probe:
    """Notes what the parts of a round ask of the states."""

    def __init__(self, answer: float) -> None:
        self.questions: set[tuple[bool, str]] = set()
        self._answer = answer

    def any_in(self, state: str) -> float:
        self.questions.add((False, state))
        return self._answer

    def any_to(self, state: str) -> float:
        self.questions.add((True, state))
        return self._answer


class RoundEvents(Record):
    """The events of a round, a bit for each of ``questions``."""

    questions: tuple[tuple[bool, str], ...]
    bits: int

    def any_in(self, state: str) -> float:
        return float(self.bits >> self.questions.index((False, state)) & 1)

    def any_to(self, state: str) -> float:
        return float(self.bits >> self.questions.index((True, state)) & 1)


class _AfterJoin(Stationary):
    """The long run, in a round after which some sequence ends in ``state``."""

    def __init__(self, batch: int, averages: Averages, state: str | None) -> None:
        super().__init__(batch, averages)
        self._state = state

    def any_to(self, state: str) -> FloatOrArray:
        return 1.0 if state == self._state else super().any_to(state)


class Prompts(Record):
    """Prompt processing beside the rounds: tables of the target and of what drafts (None where nothing does).

    ``queries`` are the tokens a sequence of each step with a pass of the target. ``drafting`` are the steps in which a
    model drafts. It ``has_own_device``, or not; ``hidden``: it is idle there while the target works. So many ``copies``
    of the target, or stages, split the sequences; one part of them has the prompts beside it.
    """

    target: PromptTable
    draft: PromptTable | None
    queries: Mapping[str, int]
    drafting: tuple[str, ...]
    has_own_device: bool
    hidden: bool
    copies: int = 1


class RoundTable:
    """Rounds of one strategy with its settings, worked out at a batch and a context when they are first asked for.

    A batch up to 32 and the ``context`` given are exact; larger batches are interpolated between neighbours 5 % apart,
    other contexts between some 30 % apart, and what such a context adds between batches 25 % apart. What a round took
    is known by ``bits``: one for each question of ``questions`` (whether some sequence ends the round in a state (True,
    state), or begins in it).
    """

    def __init__(self, scenario: Scenario, tables: PromptTables, context: int) -> None:
        assert scenario.site is not None
        self.scenario = scenario
        self._anchor = context
        below = [context]
        while below[-1] > 16:
            below.append(max(16, min(below[-1] - 1, round(below[-1] / _APART))))
        self.contexts = (*reversed(below[1:]), *spaced(context, _APART))
        self._anchor_at = self.contexts.index(context)
        self._tables = tables
        self.strategy = scenario.strategy
        self._steps: dict[tuple[int, int], Mapping[str, Step]] = {}
        self._seconds: dict[tuple[int, int], dict[str, float]] = {}
        self.lines: dict[tuple[int, int], list[tuple[float, float]]] = {}
        self.host: dict[int, float] = {}
        self.steps_of: dict[tuple[int, int], list[tuple[str, float, float]]] = {}
        seconds = self._seconds_at(1, 0)
        probes = _Probe(0.0), _Probe(1.0)
        for probe in probes:
            self.strategy.parts(seconds, probe)
        self.questions = tuple(sorted(probes[0].questions | probes[1].questions))
        miss = (True, scenario.strategy.miss_state)
        self.miss_bit = 1 << self.questions.index(miss) if miss in self.questions else 0
        self.events = [RoundEvents(self.questions, bits) for bits in range(1 << len(self.questions))]
        self.step_names = tuple(seconds)
        self.prompts = self._who_processes_prompts()
        self.queries = max(self.prompts.queries.values())

    def beside_a_draft_of(self, other: RoundTable) -> RoundTable:
        """Copy the table with prompts processed by another one's draft too, which is idle otherwise."""
        prompts, made = other.prompts, copy(self)
        if prompts.draft is not None:
            first = (next(iter(self.prompts.queries)),)
            made.prompts = replace(
                self.prompts,
                draft=prompts.draft,
                drafting=first,
                has_own_device=prompts.has_own_device,
                hidden=prompts.has_own_device,
            )
        return made

    # rounds

    def round_s(self, batch: int, context: float, bits: int) -> float:
        """A round of ``batch`` sequences of ``context`` cached tokens on average."""
        at = max(0, bisect_right(self.contexts, context) - 1)
        lines = self.lines.get((batch, at))
        if lines is None:
            lines = self.lines[batch, at] = self._lines_of(batch, at)
        start, slope = lines[bits]
        return start + (context - self.contexts[at]) * slope

    def mixed_round_s(
        self, batch: int, context: float, bits: int, chunks: Sequence[Chunk], draft_late_s: float = 0.0
    ) -> float:
        """A round in whose verification ``chunks`` of prompts are processed too, by the draft as well, which begins
        ``draft_late_s`` after it where it has a device of its own.
        """
        seconds, prompts = self._with_prompts(batch, context, chunks), self.prompts
        if draft_late_s and prompts.has_own_device:
            for name in prompts.drafting:
                seconds[name] += draft_late_s
        return float(sum(self.strategy.parts(seconds, self.events[bits]).values()))

    def drafting_s(self, batch: int, context: float, bits: int, chunks: Sequence[Chunk]) -> float:
        """Seconds of a draft's own device in a round: to draft, for prompts, and for the fallback of a miss."""
        prompts = self.prompts
        if not prompts.has_own_device:
            return 0.0
        busy_s = prompts.draft.alone_s(chunks) if chunks and prompts.draft is not None else 0.0
        service = self.strategy.service(self._between(batch, context), self.events[bits]) if batch else None
        return busy_s if service is None else busy_s + float(service.busy_s)

    def parts_s(self, batch: int, bits: int, prompt_tokens: int, round_s: float) -> dict[str, float]:
        """Parts of a round's time, in their order; they sum to ``round_s``."""
        chunks = (Chunk(prompt_tokens),) if prompt_tokens else ()
        seconds = self._with_prompts(batch, float(self._anchor), chunks)
        parts = {n: float(s) for n, s in self.strategy.parts(seconds, self.events[bits]).items() if s}
        whole = sum(parts.values())
        return {name: part * round_s / whole for name, part in parts.items()}

    def prompts_s(self, chunks: Sequence[Chunk], joins: int, draft_late_s: float = 0.0) -> float:
        """A pass over ``chunks`` alone, after which ``joins`` requests look in a speculation cache in vain."""
        prompts, batch = self.prompts, max(1, joins)
        target, draft = prompts.target.curves, None if prompts.draft is None else prompts.draft.curves
        host_s, drafts, of = self._host_s(batch), draft is not None, pairs(chunks)
        pass_s = prompts_alone_s(target, draft, drafts, prompts.has_own_device, host_s, draft_late_s, of, len(of))
        if joins and self.miss_bit:
            context = float(max(chunk.prefix + chunk.tokens for chunk in chunks))
            pass_s += self.round_s(batch, context, self.miss_bit) - self.round_s(batch, context, 0)
        return pass_s

    # means

    def mean(self, batch: int, context: float) -> Estimate:
        """The closed form's mean round."""
        return self.strategy.closed_form(self._round(batch, self._between(batch, context)))

    def mean_mixed_s(self, batch: int, context: float, chunks: Sequence[Chunk], joins: bool) -> float:
        """A mean round with ``chunks`` beside it, after which a new request is looked up in vain where it ``joins``."""
        averages = self.scenario.tokens.averages
        states = _AfterJoin(batch, averages, self.strategy.miss_state if joins else None)
        round = self._round(batch, self._with_prompts(batch, context, chunks))
        return float(sum(self.strategy.mean_parts(round, states).values()))

    def drawn(self, batch: int, context: float, errors: TimingErrors) -> RateDraws:
        """Tokens/s of the batch over what is predicted of them, at the nearest context and batch worked out."""
        at = min(range(len(self.contexts)), key=lambda i: abs(self.contexts[i] - context))
        settings = self._settings(batch, self.contexts[at])
        again = self.scenario.priced.again
        again = again and replace(again, site=self._site(batch, at, settings), settings=settings)
        scenario = replace(self.scenario, settings=settings).with_steps(self._steps_at(batch, at), again)
        drawn = RateDraws.of(scenario, errors).over_ranges(scenario, errors)
        return drawn.scaled(1.0 / float(scenario.estimate.tokens_per_second))

    def _round(self, batch: int, seconds: Mapping[str, float]) -> Round:
        assert self.scenario.site is not None
        in_flight = self.scenario.site.with_batch(batch).microbatches
        return replace(self.scenario.round, batch=batch, seconds=seconds, microbatches=in_flight)

    # what they are made of

    def _with_prompts(self, batch: int, context: float, chunks: Sequence[Chunk]) -> dict[str, float]:
        """Each step's seconds in a round in which ``chunks`` are processed."""
        by_name, prompts = self._between(batch, context), self.prompts
        if not chunks:
            return by_name
        names, seconds, of = list(by_name), list(by_name.values()), pairs(chunks)
        queries, drafting = [prompts.queries.get(n, 0) for n in names], [n in prompts.drafting for n in names]
        target, draft = prompts.target.curves, None if prompts.draft is None else prompts.draft.curves
        decoding, drafts, hidden = -(-batch // prompts.copies), draft is not None, prompts.hidden
        add_prompts(seconds, queries, drafting, len(names), decoding, target, draft, drafts, hidden, of, len(of))
        return dict(zip(names, seconds, strict=True))

    def _settings(self, batch: int, context: int) -> Settings:
        settings = self.scenario.settings.copy()
        settings.settle("b", batch, "the sequences that run")
        settings.settle("context", context, "that of the sequences that run")
        return settings

    def _site(self, batch: int, at: int, settings: Settings) -> Site:
        assert self.scenario.site is not None
        return replace(self.scenario.site, batch=batch, context=self.contexts[at], options=settings)

    def _host_s(self, batch: int) -> float:
        """What the host adds to a pass after which so many requests begin."""
        if batch not in self.host:
            self.host[batch] = sum(s.seconds for s in self._steps_at(batch, 0).values() if s.part == "host")
        return self.host[batch]

    def _steps_at(self, batch: int, at: int) -> Mapping[str, Step]:
        event = self._steps.get((batch, at))
        if event is None:
            site = self._site(batch, at, self._settings(batch, self.contexts[at]))
            event = self._steps[batch, at] = round_steps(self.strategy, site, self.scenario.drafter)
        return event

    def _seconds_at(self, batch: int, at: int) -> dict[str, float]:
        """Each step's seconds at a node of the contexts."""
        event = self._seconds.get((batch, at))
        if event is None:
            event = self._at_anchor(batch) if at == self._anchor_at else self._off_anchor(batch, at)
            self._seconds[batch, at] = event
        return event

    def _at_anchor(self, batch: int) -> dict[str, float]:
        low, high, share = _neighbours(batch, _BATCHES)
        seconds = self._priced(low, self._anchor_at)
        if share:
            above = self._priced(high, self._anchor_at)
            seconds = {name: s + share * (above[name] - s) for name, s in seconds.items()}
        return seconds

    def _off_anchor(self, batch: int, at: int) -> dict[str, float]:
        """Seconds of the anchor's steps, and what another context adds: products are the same in both, so that it is
        attention's alone, which is smooth over the batch and worked out at fewer of them.
        """
        low, high, share = _neighbours(batch, _CONTEXT_BATCHES)
        added = self._added(low, at)
        if share:
            above = self._added(high, at)
            added = {name: s + share * (above[name] - s) for name, s in added.items()}
        return {name: s + added[name] for name, s in self._seconds_at(batch, self._anchor_at).items()}

    def _added(self, batch: int, at: int) -> dict[str, float]:
        there, anchor = self._priced(batch, at), self._priced(batch, self._anchor_at)
        return {name: there[name] - s for name, s in anchor.items()}

    def _priced(self, batch: int, at: int) -> dict[str, float]:
        return {name: step.seconds for name, step in self._steps_at(batch, at).items()}

    def _between(self, batch: int, context: float) -> dict[str, float]:
        at = max(0, bisect_right(self.contexts, context) - 1)
        if context == self.contexts[at]:
            return {**self._seconds_at(batch, at)}
        steps = self.steps_of.get((batch, at))
        if steps is None:
            low, high = self._seconds_at(batch, at), self._seconds_at(batch, at + 1)
            tokens = self.contexts[at + 1] - self.contexts[at]
            steps = self.steps_of[batch, at] = [(name, s, (high[name] - s) / tokens) for name, s in low.items()]
        more = context - self.contexts[at]
        return {name: s + more * slope for name, s, slope in steps}

    def _lines_of(self, batch: int, at: int) -> list[tuple[float, float]]:
        """Lines by the bits: seconds at a node, and their growth with every token from there to the next one."""
        low, high = self._seconds_at(batch, at), self._seconds_at(batch, at + 1)
        lines = []
        for events in self.events:
            start, end = (float(sum(self.strategy.parts(each, events).values())) for each in (low, high))
            lines.append((start, (end - start) / (self.contexts[at + 1] - self.contexts[at])))
        return lines

    def _who_processes_prompts(self) -> Prompts:
        scenario, steps = self.scenario, self._steps_at(1, 0)
        site = scenario.site
        assert site is not None
        passes = {name: step.passes for name, step in steps.items()}
        queries = {name: p.forward.tokens for name, each in passes.items() for p in each if p.model == "target"}
        drafts = dict(_drafting(steps))
        one = next(iter(drafts.values()), None)
        draft = None if one is None else self._tables.of(draft_place(site, one.tp, one.profile))
        has_own_device = scenario.devices.draft > 0
        seconds = self._seconds_at(1, 0)
        exposed_s = self.strategy.parts(seconds, self.events[0])["draft"] if drafts else 0.0
        hidden = has_own_device and exposed_s >= sum(seconds[name] for name in drafts) * (1.0 - 1e-9)
        copies = scenario.devices.target // site.tp
        return Prompts(
            self._tables.of(target_place(site)), draft, queries, tuple(drafts), has_own_device, hidden, copies
        )


def _neighbours(batch: int, nodes: Sequence[int]) -> tuple[int, int, float]:
    """The nodes below and above, and how far between them; the same node twice where it is one."""
    at = bisect_right(nodes, batch) - 1
    low = nodes[at]
    if low == batch:
        return low, low, 0.0
    high = nodes[at + 1]
    return low, high, (batch - low) / (high - low)


def _drafting(steps: Mapping[str, Step]) -> Iterator[tuple[str, Pass]]:
    for name, step in steps.items():
        of_draft = [work for work in step.passes if work.model == "draft"]
        if step.part == "draft" and of_draft:
            yield name, of_draft[0]
