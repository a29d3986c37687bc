"""Ranks that play a strategy's roles with real models: one holds the target (0), one the draft (1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from calibration.machine.executor.actor import MailActor, drive
from calibration.machine.executor.cache import OUTCOME_VALUES
from calibration.machine.executor.messages import Mail, Route, head_bytes
from calibration.machine.ranks import connect_pairs
from calibration.pairs.measure.checks import GreedyCheck, compare_greedy, tolerance_of
from calibration.pairs.measure.collect import Template, check_attention, tokenized
from calibration.pairs.measure.loop import SEPARATE_ROLES, AnswerEnd, DraftSide, TargetSide
from calibration.pairs.measure.models import CausalModel, load_model, participant
from calibration.pairs.measure.prompts import Prompt
from calibration.pairs.measure.roles import Speculator, Verifier
from calibration.pairs.measure.verification import Rules, Speculation, Verified, certain
from calibration.validation.tokens.calibration import (
    Courier,
    Size,
    TimedSteps,
    time_decoding,
    time_drafting,
    time_prespeculating,
    time_verifying,
)
from calibration.validation.tokens.comparison import Spoken
from ssdsim import strategies
from ssdsim.base.record import Record
from ssdsim.pricing.step import Message
from ssdsim.strategies import drafters
from ssdsim.tokens.pair_file import Participant

MESSAGES = ("outcome", "speculation")


class TokenMail:
    """Verdicts and speculations as messages: (accepted, bonus), and a pair (token, whether a backup's) each.

    Greedy: a drafted token is certain, so that its distribution needs no sending.
    """

    def __init__(self, mail: Mail, vocabulary: int) -> None:
        self._mail, self._vocabulary = mail, vocabulary

    def send(self, name: str, content: Speculation | Verified) -> None:
        if isinstance(content, Verified):
            self._mail.send(name, [[content.accepted, content.bonus]])
        else:
            self._mail.send(name, [[token, int(content.backup)] for token in content.tokens])

    def receive(self, name: str) -> Any:
        """The verdict or the speculation."""
        values = self._mail.receive(name)
        pairs = np.empty((0, OUTCOME_VALUES), dtype=np.int64) if values is None else values
        if name == "outcome":
            return Verified(int(pairs[0, 0]), int(pairs[0, 1]))
        tokens = tuple(int(token) for token in pairs[:, 0])
        backup = not tokens or bool(pairs[0, 1])  # only a look-up may propose nothing
        return Speculation(tokens, certain(tokens, self._vocabulary), backup)

    def tell(self, name: str) -> None:
        """A role has one rank."""

    def close(self) -> None:
        self._mail.close()


def messages(k: int) -> tuple[dict[str, Message], int]:
    """Room for a verdict and for K pairs, and for how many pairs messages are read."""
    return dict.fromkeys(MESSAGES, Message(head_bytes(k))), k


class TokenActor(MailActor):
    """One role on a rank of its own (:class:`ssdsim.rounds.actor.Actor`): its steps are a model's passes."""

    def __init__(self, side: TargetSide | DraftSide, answer: AnswerEnd, mail: TokenMail) -> None:
        super().__init__(mail)
        self._side, self._answer = side, answer

    def rounds(self) -> Iterator[int]:
        self.timeline.start_s = time.perf_counter()
        return self._answer.rounds(self._side.text)

    def do(self, step: str) -> None:
        self.timeline.record(step, step, partial(self._side.do, step))

    def send(self, to: str, message: str, content: Any = None) -> None:
        super().send(to, message, self._side.content())

    def receive(self, message: str) -> Any:
        content = super().receive(message)
        self._side.take(content)
        return content

    def outcome(self) -> Speculation | Verified:
        return self._side.content()

    def fill(self) -> None:
        """The branches are in the cache already."""

    def misses(self, outcome: Verified) -> int:
        assert isinstance(self._side, DraftSide)
        self.timeline.misses.append(self._side.misses(outcome))
        return self.timeline.misses[-1]

    def any_in(self, state: str) -> bool:
        raise ValueError("a rank of tokens knows no states")

    def end_round(self) -> None:
        assert isinstance(self._side, TargetSide)
        self.timeline.end_round(self._side.rounds[-1].accepted + 1)


TARGET, DRAFT = 0, 1
_FOR_TOLERANCE = 3  # texts


class Loaded(Record):
    """Description of a rank's model: for the check that it is the measured one, and that tokens mean the same."""

    participant: Participant
    tokens: Mapping[str, int]
    logits: int


class TokenRank:
    """One rank. Every request is one that both ranks answer, each with its part."""

    def __init__(self, rank: int, device: torch.device, *, models: Sequence[str], dtype: str) -> None:
        self.rank, self.device, self._dtype = rank, device, dtype
        self._name = models[rank]
        self._rules = Rules(0.0, np.random.default_rng(0))
        self._to_leader = None
        if dist.get_backend() == "nccl":
            self._to_leader = dist.new_group([TARGET, DRAFT])
            connect_pairs(rank, 2, device, self._to_leader)

    def load(self) -> Loaded:
        self._model: CausalModel = load_model(self._name, self._dtype, str(self.device))
        check_attention(self._model)
        model = self._model
        return Loaded(participant(model, self._dtype), model.tokenizer.get_vocab(), model.vocabulary)

    def agree(self, vocabulary: int) -> frozenset[int]:
        """Cut the logits to as many as both models have. Returns the tokens that end a text."""
        self._model.vocabulary = vocabulary
        return self._model.end

    def ask(self, prompts: Sequence[Prompt], template: Template, room: int) -> list[tuple[int, ...]] | None:
        """Prompts as the target reads them."""
        if self.rank != TARGET:
            return None
        return [each.ids for each in tokenized(prompts, self._model, template, room)]

    def write(self, prompts: Sequence[tuple[int, ...]], new_tokens: int) -> dict[tuple[int, ...], list[int]] | None:
        """The target's greedy answers, which go on after an end."""
        if self.rank != TARGET:
            return None
        return {tuple(p): self._model.write([p], new_tokens, frozenset())[0] for p in prompts}

    def time(self, strategy: str, answered: Mapping[tuple[int, ...], Sequence[int]], size: Size) -> TimedSteps | None:
        """The steps of a strategy that the rank has; None where it has none."""
        prompts, model, rules = list(answered), self._model, self._rules
        mail = self._mail(size.k)
        courier = Courier(mail)
        dist.barrier()
        match strategy, self.rank:
            case "ar", 0:
                timed = TimedSteps.of(time_decoding(model, rules, prompts, size))
            case "sd" | "ssd", 0:
                timed = TimedSteps.of(time_verifying(model, rules, answered, size, courier), courier)
            case "sd", 1:
                timed = TimedSteps.of(time_drafting(model, rules, prompts, size, courier), courier)
            case "ssd", 1:
                timed = TimedSteps.of(time_prespeculating(model, rules, prompts, size, courier), courier)
            case _:
                return None
        mail.close()
        return timed

    def play(
        self, strategy: str, prompts: Sequence[tuple[int, ...]], size: Size, end: frozenset[int]
    ) -> list[Spoken] | None:
        """Answer the prompts one after the other by the strategy's own programs; None of a role that it lacks."""
        programs = strategies.ALL.named(strategy).programs(SEPARATE_ROLES, drafters.ALL.named("model"))
        role = ("target", "draft")[self.rank]
        answers = []
        for prompt in prompts:
            mail = self._mail(size.k)
            side: TargetSide | DraftSide | None
            if role == "target":
                side = self._target(strategy, prompt, mail)
            else:
                side = self._draft(strategy, prompt, size, mail) if role in programs else None
            dist.barrier()
            if side is not None:
                answer = AnswerEnd(len(prompt), size.new_tokens, end)
                actor = TokenActor(side, answer, mail)
                timeline = drive(programs[role], actor)
                seconds = timeline.ends_s[-1] - timeline.start_s if timeline.ends_s else 0.0
                rounds = side.rounds if isinstance(side, TargetSide) else []
                hits = side.hits if isinstance(side, DraftSide) else []
                answers.append(Spoken(answer.cut(side.text), rounds, hits, seconds))
        return answers or None

    def _target(self, strategy: str, prompt: Sequence[int], mail: TokenMail) -> TargetSide:
        """The side after the prompt's pass, which gives the first token, as an engine's does."""
        verifier = Verifier(self._model, self._rules, prompt)
        verifier.decode()
        first = verifier.sample(None)
        if strategy != "ar":
            mail.send("outcome", first)
        speculation = mail.receive("speculation") if strategy == "ssd" else None
        return TargetSide(verifier, speculation)

    def _draft(self, strategy: str, prompt: Sequence[int], size: Size, mail: TokenMail) -> DraftSide:
        """The side after its own pass over the prompt; SSD's first speculation is there when the first round begins."""
        first = mail.receive("outcome")
        text = [*prompt, first.bonus]
        self._model.after(text, 1)
        side = DraftSide(Speculator(self._model, self._rules, text, size.k, size.fan_out, None))
        if strategy == "ssd":
            side.do("draft")
            mail.send("speculation", side.content())
        return side

    def compare(
        self, prompts: Sequence[tuple[int, ...]], own: Sequence[list[int]], spoken: Sequence[list[int]], k: int
    ) -> GreedyCheck | None:
        """Answers against AR's own; others are classed by the gap of the target's logits."""
        if self.rank != TARGET:
            return None
        texts = [[*prompt, *answer] for prompt, answer in zip(prompts, own, strict=True)]
        tolerance = tolerance_of(self._model, texts[:_FOR_TOLERANCE], k)
        return compare_greedy(self._model, prompts, own, spoken, tolerance)

    def _mail(self, k: int) -> TokenMail:
        leads = self.rank == TARGET
        links = (None, self._to_leader) if leads else (self._to_leader, None)
        route = Route(self.rank, (self.rank,), DRAFT if leads else TARGET, None, *links)
        return TokenMail(Mail(route, *messages(k), self.device), self._model.vocabulary)


def make_rank(rank: int, device: torch.device, options: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """A rank's handler: ``{"do": a method's name, ...its arguments}``."""
    served = TokenRank(rank, device, **options)
    allowed = {name: getattr(served, name) for name in ("load", "agree", "ask", "write", "time", "play", "compare")}

    def handle(request: Mapping[str, Any]) -> Any:
        arguments = dict(request)
        return allowed[arguments.pop("do")](**arguments)

    return handle
