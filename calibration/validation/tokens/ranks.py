"""A rank's handler: holds one model of the pair, times its steps, plays its role. The target is rank 0, the draft 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from calibration.machine.executor.actor import drive
from calibration.machine.executor.messages import Mail, Route
from calibration.machine.ranks import connect_pairs
from calibration.pairs.measure.checks import GreedyCheck, compare_greedy, tolerance_of
from calibration.pairs.measure.collect import Template, check_attention, tokenized
from calibration.pairs.measure.loop import SEPARATE_ROLES, AnswerEnd, DraftSide, TargetSide
from calibration.pairs.measure.models import CausalModel, load_model, participant
from calibration.pairs.measure.prompts import Prompt
from calibration.pairs.measure.roles import Speculator, Verifier
from calibration.pairs.measure.verification import Rules
from calibration.validation.tokens.actor import TokenActor, TokenMail, messages
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
from ssdsim.strategies import drafters
from ssdsim.tokens.pair_file import Participant

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
