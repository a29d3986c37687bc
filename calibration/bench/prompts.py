"""Prompts: texts of a length, no two alike, or a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from calibration.bench.dialects import Prompt

_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were her all she there would their we him been has when who will more no if out so said what "
    "up its about into than them can only other new some could time these two may then do first any my now such "
    "like our over man me even most made after also did many before must through back years where much your way "
    "well down should because each just those people how too little state good very make world still own see men "
    "work long get here between both life being under never day same another know while last might us great old "
    "year off come since against go came right used take three "
).split()


@dataclass
class Words:
    """Common words in an order drawn by chance; the first ones number the prompt, so that no cache knows its beginning.

    ``tokens_a_word`` is learned from the first answer.
    """

    random: np.random.Generator
    tokens_a_word: float = 1.0
    beside: float = 0.0

    def __post_init__(self) -> None:
        self._numbers: Iterator[int] = count(int(self.random.integers(10**6)))

    def of(self, tokens: int) -> str:
        """The next one, of about so many tokens."""
        return self.of_words(max(1, round((tokens - self.beside) / self.tokens_a_word)))

    def of_words(self, words: int) -> str:
        number = str(next(self._numbers))
        chosen = self.random.choice(_WORDS, max(0, words - 1)).tolist()
        return " ".join([number, *chosen])


@dataclass
class Own:
    """A user's prompts, in turn; how long they are is theirs."""

    texts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self._at = count()

    def of(self, tokens: int) -> Prompt:
        """The next one, whatever its length."""
        return self.texts[next(self._at) % len(self.texts)]


Prompts = Words | Own


def own_prompts(path: Path) -> Own:
    """The prompts of a file of JSON lines or Parquet, as ``ssdsim measure`` reads it."""
    from calibration.pairs.measure.prompts import read_prompts  # here: it reads Parquet, which takes time to load

    texts: list[Prompt] = []
    for each in read_prompts(path, None):
        said = "\n".join(message["content"] for message in each.messages or ())
        texts.append(each.ids if each.ids is not None else each.text if each.text is not None else said)
    return Own(texts)
