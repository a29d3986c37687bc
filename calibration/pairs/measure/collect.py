"""Collecting: the target writes answers (or is given them), then both models pass over each of them once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from zlib import crc32

import numpy as np
import torch

from calibration.pairs.coupling import acceptance
from calibration.pairs.measure.models import CausalModel, keeps_a_window
from calibration.pairs.measure.positions import positions_of
from calibration.pairs.measure.prompts import Prompt
from calibration.pairs.measure.verification import EVERYTHING, Cut
from calibration.pairs.records import RecordedAnswer, RecordFolder
from ssdsim.base.errors import InputError
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record

Template = Literal["auto", "none"]

_LEAST_TOKENS = 3
_MOST_FOREIGN = 0.005  # of text answers that do not come back from their tokens
_ENOUGH_TO_JUDGE = 200  # positions
_GREEDY_OWN = 0.9
_NATS_APART = 0.25


class CollectionPlan(Record):
    """Plan of what to collect. ``precision`` is the half-width of alpha's interval at which a temperature has enough.

    ``cuts`` are what the samplers leave of target and draft.
    """

    temperatures: tuple[float, ...]
    new_tokens: int
    top: int
    seed: int
    batch: int
    template: Template = "auto"
    cuts: tuple[Cut, Cut] = (EVERYTHING, EVERYTHING)
    keep_tokens: bool = True
    precision: float | None = None
    limit_s: float | None = None


class TokenizedPrompt(Record):
    """A prompt as token ids, by an id that is a file's name."""

    id: str
    prompt: Prompt
    ids: tuple[int, ...]


def tokenized(prompts: Sequence[Prompt], model: CausalModel, template: Template, room: int) -> list[TokenizedPrompt]:
    """Prompts as the target reads them, each with an id of its own."""
    asked, most = [], model.context
    for number, prompt in enumerate(prompts):
        ids = prompt.ids if prompt.ids is not None else tuple(_tokens(prompt, model, template))
        if not ids:
            raise InputError(f"request {prompt.name} of {prompt.data_set}: an empty prompt")
        answered = len(prompt.answer_ids or ()) or room
        if most is not None and len(ids) + answered > most:
            raise InputError(
                f"request {prompt.name} of {prompt.data_set}: {len(ids)} tokens and {answered} of answer are over "
                f"{model.name}'s context of {most}"
            )
        asked.append(TokenizedPrompt(f"{number:06d}-{crc32(repr(ids).encode()):08x}", prompt, ids))
    return asked


def _tokens(prompt: Prompt, model: CausalModel, template: Template) -> list[int]:
    tokenizer = model.tokenizer
    if template == "auto" and tokenizer.chat_template:
        messages = list(prompt.messages or ({"role": "user", "content": prompt.text or ""},))
        ids: list[int] = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids
    text = prompt.text if prompt.text is not None else "\n\n".join(m["content"] for m in prompt.messages or ())
    return [int(i) for i in tokenizer.encode(text)]


def check_attention(*models: CausalModel) -> None:
    """One pass must see what drafting alone would."""
    for model in models:
        window = keeps_a_window(model)
        if window is not None:
            raise InputError(f"{model.name}: {window}: one pass does not tell what drafting alone would")


def collect(
    target: CausalModel,
    draft: CausalModel,
    asked: Sequence[TokenizedPrompt],
    work: CollectionPlan,
    folder: RecordFolder,
    progress: Progress,
) -> None:
    """Every answer that the folder lacks, each kept as soon as it is there."""
    began, done, total = time.monotonic(), 0, len(asked) * len(work.temperatures)
    for temperature in work.temperatures:
        rates: list[tuple[float, int]] = []
        for some in (asked[at : at + work.batch] for at in range(0, len(asked), work.batch)):
            for request in _answered(target, draft, some, work, temperature, folder):
                accept = acceptance(request.positions, temperature)[1:]
                rates.append((float(accept.sum()), accept.size))
            done += len(some)
            progress(done, total)
            if work.limit_s is not None and time.monotonic() - began > work.limit_s:
                return
            if work.precision is not None and _half_width(rates) <= work.precision:
                break


def _answered(
    target: CausalModel,
    draft: CausalModel,
    some: Sequence[TokenizedPrompt],
    work: CollectionPlan,
    temperature: float,
    folder: RecordFolder,
) -> Iterator[RecordedAnswer]:
    missing = [each for each in some if not folder.has(each.id, temperature)]
    if not missing:
        return
    seeds = [crc32(f"{work.seed} {temperature:g} {each.id}".encode()) for each in missing]
    for each, seed, came in zip(missing, seeds, _answers(target, missing, work, temperature, seeds), strict=True):
        if len(came) < _LEAST_TOKENS:
            continue  # nothing was speculated
        request = _scored(target, draft, each, came, temperature, seed, work)
        folder.add(request if work.keep_tokens else request.without_tokens())
        yield request


def _answers(
    target: CausalModel,
    missing: Sequence[TokenizedPrompt],
    work: CollectionPlan,
    temperature: float,
    seeds: Sequence[int],
) -> list[list[int]]:
    if all(each.prompt.answer_ids is not None for each in missing):
        return [list(each.prompt.answer_ids or ())[: work.new_tokens] for each in missing]
    return target.write([each.ids for each in missing], work.new_tokens, target.end, temperature, seeds, work.cuts[0])


def _scored(
    target: CausalModel,
    draft: CausalModel,
    each: TokenizedPrompt,
    came: list[int],
    temperature: float,
    seed: int,
    work: CollectionPlan,
) -> RecordedAnswer:
    text = [*each.ids, *came[:-1]]
    p, q = (model.scored(text, len(came)) for model in (target, draft))
    positions = positions_of(p, q, torch.tensor(came, device=p.device), temperature, work.top, work.cuts)
    finish = "stop" if came[-1] in target.end else "length"
    return RecordedAnswer(
        each.id, each.prompt.data_set, temperature, tuple(each.ids), len(each.ids), finish, seed, positions
    )


def _half_width(rates: Sequence[tuple[float, int]]) -> float:
    """The half-width of the 95 % interval of alpha over requests, as a ratio of sums."""
    if len(rates) < 10:
        return float("inf")
    accepted, tested = np.array(rates).T
    alpha = accepted.sum() / tested.sum()
    residual = accepted - alpha * tested
    return float(1.96 * np.sqrt((residual**2).sum()) / tested.sum())


def tokenised_answers(prompts: Sequence[Prompt], tokenizer: Any) -> list[Prompt]:
    """Answers that are texts as token ids."""
    tokenised_answers, foreign = [], 0
    for prompt in prompts:
        ids = prompt.answer_ids
        if ids is None:
            text = prompt.answer or ""
            ids = tuple(int(i) for i in tokenizer.encode(text, add_special_tokens=False))
            foreign += tokenizer.decode(ids, clean_up_tokenization_spaces=False) != text
        if not ids:
            raise InputError(f"request {prompt.name} of {prompt.data_set}: an empty answer")
        tokenised_answers.append(Prompt(prompt.name, prompt.data_set, prompt.text, prompt.messages, prompt.ids, ids))
    if foreign > _MOST_FOREIGN * len(tokenised_answers):
        raise InputError(
            f"{foreign} of {len(tokenised_answers)} answers do not come back from their tokens: "
            "give output_ids instead of texts"
        )
    return tokenised_answers


def check_author(requests: Sequence[RecordedAnswer], target: str) -> None:
    """Check that the target can have written what it was given."""
    for temperature in sorted({request.temperature for request in requests}):
        some = [request.positions for request in requests if request.temperature == temperature]
        if sum(map(len, some)) < _ENOUGH_TO_JUDGE:
            continue
        if temperature == 0.0:
            own = float(np.concatenate([each.target_rank == 0 for each in some]).mean())
            if own < _GREEDY_OWN:
                raise InputError(
                    f"{target} did not write these answers at temperature 0: {own:.0%} of the tokens are its likeliest"
                )
            continue
        log_p = float(np.log(np.maximum(np.concatenate([each.p for each in some]), 1e-30)).mean())
        expected = -float(np.concatenate([each.entropy for each in some]).mean())
        if log_p < expected - _NATS_APART:
            raise InputError(
                f"{target} did not write these answers at temperature {temperature:g}: mean log p is {log_p:.2f}, "
                f"of its own tokens it would be {expected:.2f}"
            )
