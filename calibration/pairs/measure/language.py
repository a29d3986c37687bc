"""Questions of a loop and a measurement to a language model: logits, in NumPy, wherever the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

Logits = NDArray[Any]
"""Shape ``(n, V)``, of any float type."""


class Branches(Protocol):
    """Continuations of one text, side by side."""

    @property
    def logits(self) -> Logits:
        """The logits of each branch's next token, shape ``(branches, V)``."""
        ...

    def extend(self, tokens: Sequence[int]) -> None:
        """Go on by a token a branch."""
        ...


class LanguageModel(Protocol):
    """A causal model of one text at a time; it may keep what it worked out of a beginning that comes again."""

    @property
    def vocabulary(self) -> int: ...

    def after(self, text: Sequence[int], last: int) -> Logits:
        """Ask what follows each of the ``last`` longest beginnings of ``text``, the text itself being the longest."""
        ...

    def branches(self, text: Sequence[int], suffixes: Sequence[Sequence[int]]) -> Branches:
        """Texts that begin alike and go on by their suffixes, each of at least one token."""
        ...
