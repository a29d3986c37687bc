"""What a round of tokens asks of a language model, and the roles of target and draft: verify, draft, fall back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.backups import Lookup
from calibration.pairs.measure.verification import Rules, Speculation, Verified, certain

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


class Verifier:
    """The target's side: its own text grows by what it accepts."""

    def __init__(self, model: LanguageModel, rules: Rules, text: Sequence[int]) -> None:
        self.model, self.rules, self.text = model, rules, list(text)
        self._logits: Logits | None = None

    def decode(self) -> None:
        """One pass over the last token."""
        self._logits = self.model.after(self.text, 1)

    def verify(self, speculation: Speculation) -> None:
        """One pass over the last token and the drafted ones."""
        self._logits = self.model.after([*self.text, *speculation.tokens], len(speculation.tokens) + 1)

    def sample(self, speculation: Speculation | None) -> Verified:
        """Decide on what the last pass was over; without a speculation it was over one token."""
        assert self._logits is not None
        nothing = Speculation((), np.empty((0, self._logits.shape[-1])))
        verdict = self.rules.verify(speculation or nothing, self.rules.target(self._logits))
        self.text += [*(speculation or nothing).tokens[: verdict.accepted], verdict.bonus]
        return verdict


class Speculator:
    """The draft's side: its text follows the target's by verdicts; ``cache`` holds what was pre-speculated.

    ``backup`` answers a miss where it is one that looks tokens up; None is the draft itself, just in time.
    """

    def __init__(
        self, model: LanguageModel, rules: Rules, text: Sequence[int], k: int, fan_out: int, backup: Lookup | None
    ) -> None:
        self.model, self.rules, self.text = model, rules, list(text)
        self.k, self.fan_out, self._backup = k, fan_out, backup
        self.cache: dict[tuple[int, int], Speculation] = {}
        if backup is not None:
            backup.read(text)
        self.current = Speculation((), np.empty((0, model.vocabulary)))

    def draft(self) -> Speculation:
        """K tokens, one after the other."""
        tokens: list[int] = []
        drawn_from = []
        for _ in range(self.k):
            drafted, q = self.rules.drafted(self.model.after([*self.text, *tokens], 1))
            tokens += drafted
            drawn_from.append(q[0])
        return Speculation(tuple(tokens), np.array(drawn_from))

    def look_up_tokens(self) -> Speculation:
        """Ask the backup for what it proposes: certain tokens, perhaps none."""
        assert self._backup is not None
        tokens = tuple(self._backup.propose(self.k))
        return Speculation(tokens, certain(tokens, self.model.vocabulary), backup=True)

    def prespeculate(self) -> None:
        """A branch for every outcome that is guessed: ``fan_out`` bonus tokens after each number of accepted ones.

        The rejected token cannot be the bonus, so it is left out of the guesses.
        """
        tokens = self.current.tokens
        glue = self.model.after([*self.text, *tokens], len(tokens) + 1)
        likeliest = np.argsort(-glue, axis=-1, kind="stable")[:, : self.fan_out + 1].tolist()
        outcomes = [
            (accepted, bonus)
            for accepted, (ranked, rejected) in enumerate(zip(likeliest, [*tokens, None], strict=True))
            for bonus in [token for token in ranked if token != rejected][: self.fan_out]
        ]
        speculations = self._speculate_from([[*tokens[:accepted], bonus] for accepted, bonus in outcomes])
        self.cache = dict(zip(outcomes, speculations, strict=True))

    def _speculate_from(self, suffixes: Sequence[Sequence[int]]) -> list[Speculation]:
        """K tokens of each branch, all branches side by side."""
        branches = self.model.branches(self.text, suffixes)
        drawn: list[list[int]] = []
        drawn_from = []
        for step in range(self.k):
            tokens, q = self.rules.drafted(branches.logits)
            drawn.append(tokens)
            drawn_from.append(q)
            if step + 1 < self.k:
                branches.extend(tokens)
        stacked = np.stack(drawn_from, axis=1)
        return [Speculation(branch, stacked[i]) for i, branch in enumerate(zip(*drawn, strict=True))]

    def learn(self, verdict: Verified) -> None:
        """The text goes on by what was accepted and the bonus token."""
        came = [*self.current.tokens[: verdict.accepted], verdict.bonus]
        self.text += came
        if self._backup is not None:
            self._backup.read(came)

    def look_up(self, verdict: Verified) -> bool:
        """Say whether the outcome was foreseen, whose branch is then the next speculation."""
        branch = self.cache.get((verdict.accepted, verdict.bonus))
        if branch is not None:
            self.current = branch
        return branch is not None

    def fall_back(self) -> None:
        self.current = self.draft() if self._backup is None else self.look_up_tokens()
