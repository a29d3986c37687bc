"""The load on a server: points with a number of requests in flight, the prompts, and the closed loop that keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from calibration.bench.server import Prompt, TimedAnswer
from ssdsim.base.errors import InputError
from ssdsim.base.record import MutableRecord, Record

_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were her all she there would their we him been has when who will more no if out so said what "
    "up its about into than them can only other new some could time these two may then do first any my now such "
    "like our over man me even most made after also did many before must through back years where much your way "
    "well down should because each just those people how too little state good very make world still own see men "
    "work long get here between both life being under never day same another know while last might us great old "
    "year off come since against go came right used take three "
).split()
_MOST_REQUESTS = 10_000_000
Ask = Callable[[int, int, bool], Awaitable[TimedAnswer]]
"""Requests an answer: (prompt tokens, answer tokens, whether it is measured)."""


class LoadPoint(Record):
    """One repeat of one load: ``concurrency`` requests in flight, of ``input_tokens`` and ``output_tokens``.

    Each of the ``concurrency`` streams has ``requests`` measured answers, one after the other.
    """

    concurrency: int
    input_tokens: int
    output_tokens: int
    requests: int
    repeat: int

    def lengths(self, stream: int) -> Iterator[tuple[int, bool]]:
        """Tokens of the answers of a stream, and whether each is measured.

        The first answer is shorter, by another length in each stream, so that answers end one after the other, as under
        a steady load. The last answer makes up for it, so that all streams end together and every measured answer sees
        the point's number of requests in flight.
        """
        alone = self.concurrency == 1
        first = 0 if alone else round(self.output_tokens * (stream + 0.5) / self.concurrency)
        last = 0 if alone else self.output_tokens - first
        around = [(length, False) for length in (first, last)]
        measured = [(self.output_tokens, True)] * self.requests
        yield from (each for each in (around[0], *measured, around[1]) if each[0] > 0)

    @property
    def answers(self) -> int:
        """Number of requests."""
        return sum(1 for stream in range(self.concurrency) for _ in self.lengths(stream))

    @property
    def asked_tokens(self) -> int:
        """Output tokens of all requests."""
        return sum(length for stream in range(self.concurrency) for length, _ in self.lengths(stream))


def shuffled(
    concurrencies: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    requests: int,
    repeats: int,
    seed: int,
) -> list[LoadPoint]:
    """Every point once in random order, then again for each repeat, so that drift moves all points alike."""
    if sum(concurrencies) * (requests + 2) * len(inputs) * len(outputs) * repeats > _MOST_REQUESTS:
        raise InputError(f"over {_MOST_REQUESTS:,} requests: fewer --requests, --repeats or values of --concurrency")
    random = np.random.default_rng(seed)
    points = []
    for repeat in range(1, repeats + 1):
        own = [LoadPoint(c, i, o, requests, repeat) for c in concurrencies for i in inputs for o in outputs]
        points += [own[place] for place in random.permutation(len(own))]
    return points


class SyntheticPrompts(MutableRecord):
    """Common words in random order. The first word is a number, so that no prefix cache knows a prompt's beginning.

    ``tokens_a_word`` and ``overhead_tokens`` (of a prompt beside its words) are learned from the first answers.
    """

    random: np.random.Generator
    tokens_a_word: float = 1.0
    overhead_tokens: float = 0.0

    def __post_init__(self) -> None:
        self._numbers: Iterator[int] = count(int(self.random.integers(10**6)))

    def of(self, tokens: int) -> str:
        """The next prompt, of about so many tokens."""
        return self.of_words(max(1, round((tokens - self.overhead_tokens) / self.tokens_a_word)))

    def of_words(self, words: int) -> str:
        number = str(next(self._numbers))
        chosen = self.random.choice(_WORDS, max(0, words - 1)).tolist()
        return " ".join([number, *chosen])


class UserPrompts(MutableRecord):
    """A user's prompts, in turn, of their own lengths."""

    texts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self._at = count()

    def of(self, tokens: int) -> Prompt:
        """The next prompt, whatever its length."""
        return self.texts[next(self._at) % len(self.texts)]


Prompts = SyntheticPrompts | UserPrompts


def own_prompts(path: Path) -> UserPrompts:
    """The prompts of a file of JSON lines or Parquet, as ``ssdsim measure`` reads it."""
    from calibration.pairs.measure.prompts import read_prompts  # here: it reads Parquet, which takes time to load

    texts: list[Prompt] = []
    for each in read_prompts(path, None):
        said = "\n".join(message["content"] for message in each.messages or ())
        texts.append(each.ids if each.ids is not None else each.text if each.text is not None else said)
    return UserPrompts(texts)


async def closed_loop(point: LoadPoint, ask: Ask) -> list[TimedAnswer]:
    """All answers of a point.

    Raises
    ------
    InputError : one failed; the others are given up.
    """
    answers: list[TimedAnswer] = []

    async def stream(number: int) -> None:
        for tokens, measured in point.lengths(number):
            answers.append(await ask(point.input_tokens, tokens, measured))

    try:
        async with asyncio.TaskGroup() as streams:
            for number in range(point.concurrency):
                streams.create_task(stream(number))
    except ExceptionGroup as errors:
        raise min(errors.exceptions, key=lambda error: not isinstance(error, InputError)) from None
    return answers
