"""Many sequences of two Markov chains in lockstep: the sides of a loop, each step of which is one stride over them all.

A strategy's own programs run them, and what is drawn and kept is the loop's own rules' (:class:`Rules`); only the texts
are side by side. A chain's distributions depend on one token, so that they are worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.backups import Lookup, lookup_named
from calibration.pairs.measure.loop import AnswerEnd, PlayedRound, Way, converse
from calibration.pairs.measure.verification import Rules
from tests.calibration.measure.chains import MarkovChain

Whole = NDArray[np.int64]


@dataclass
class Drafted:
    """Speculations: ``lengths`` of the ``tokens``, shape ``(n, K)``, count; ``after`` are the tokens drawn after."""

    tokens: Whole
    after: Whole
    lengths: Whole
    backup: NDArray[np.bool_]


@dataclass
class Verdicts:
    """How many drafted tokens of each sequence stay, and the tokens after them."""

    accepted: Whole
    bonus: Whole


class _Texts:
    """What was written of each sequence; ``text`` is the shortest, which ends a loop."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self.all = [list(each) for each in texts]
        self.text = list(min(self.all, key=len))

    @property
    def last(self) -> Whole:
        return np.array([each[-1] for each in self.all])

    def learn(self, drafted: Drafted, verdicts: Verdicts) -> list[list[int]]:
        tokens, accepted, bonus = drafted.tokens.tolist(), verdicts.accepted.tolist(), verdicts.bonus.tolist()
        came = [[*row[:stay], after] for row, stay, after in zip(tokens, accepted, bonus, strict=True)]
        for text, new in zip(self.all, came, strict=True):
            text += new
        self.text[:] = min(self.all, key=len)
        return came


class Targets(_Texts):
    """:class:`calibration.pairs.measure.loop.TargetSide` of many sequences."""

    def __init__(self, chain: MarkovChain, draft: MarkovChain, rules: Rules, prompts: Sequence[Sequence[int]]) -> None:
        super().__init__(prompts)
        self._p, self._q, self._rules = rules.target(chain.logits), rules.draft(draft.logits), rules
        for text, token in zip(self.all, rules.draw(self._p[self.last]), strict=True):
            text.append(token)
        self.text[:] = min(self.all, key=len)
        self.rounds: list[tuple[Drafted, Verdicts]] = []
        self._drafted: Drafted
        self._verdicts: Verdicts

    def do(self, step: str) -> None:
        if step == "sample":  # a chain's pass is a look-up
            self._verdicts = self._verify(self._drafted)
            self.learn(self._drafted, self._verdicts)
            self.rounds.append((self._drafted, self._verdicts))

    def _verify(self, drafted: Drafted) -> Verdicts:
        verdicts = Verdicts(np.zeros_like(drafted.lengths), np.zeros_like(drafted.lengths))
        last = self.last
        for length, backup in np.unique(np.column_stack([drafted.lengths, drafted.backup]), axis=0):
            some = np.flatnonzero((drafted.lengths == length) & (drafted.backup == backup))
            tokens = drafted.tokens[some, :length]
            q = np.eye(len(self._p))[tokens] if backup else self._q[drafted.after[some, :length]]
            p = self._p[np.column_stack([last[some], tokens])]
            verdicts.accepted[some], verdicts.bonus[some] = self._rules.verify_each(tokens, q, p)
        return verdicts

    def content(self) -> Verdicts:
        return self._verdicts

    def take(self, content: Drafted) -> None:
        self._drafted = content


class Drafts(_Texts):
    """:class:`calibration.pairs.measure.loop.DraftSide` of many sequences."""

    def __init__(
        self, chain: MarkovChain, rules: Rules, texts: Sequence[Sequence[int]], way: Way, lookups: Sequence[Lookup]
    ) -> None:
        super().__init__(texts)
        self._logits, self._q, self._rules, self._way, self._lookups = (
            chain.logits,
            rules.draft(chain.logits),
            rules,
            way,
            lookups,
        )
        for lookup, text in zip(lookups, texts, strict=bool(lookups)):
            lookup.read(text)
        self.current = self._draft(self.last)
        self.hits: list[NDArray[np.bool_]] = []

    def do(self, step: str) -> None:
        match step:
            case "pre-speculate":
                self._prespeculate()
            case "fallback":
                self._fall_back()

    def _draft(self, last: Whole) -> Drafted:
        """K tokens after each of the tokens."""
        tokens = [last]
        for _ in range(self._way.k):
            tokens.append(np.array(self._rules.draw(self._q[tokens[-1]])))
        whole = np.column_stack(tokens)
        return Drafted(whole[:, 1:], whole[:, :-1], np.full(len(last), self._way.k), np.zeros(len(last), dtype=bool))

    def _prespeculate(self) -> None:
        """For every number of accepted tokens the likeliest bonus tokens but the rejected one, and K after each."""
        now, f = self.current, self._way.fan_out
        verified = np.column_stack([self.last, now.tokens])
        ranked = np.argsort(-self._logits, axis=-1, kind="stable")[:, : f + 1][verified]
        can_be_rejected = np.arange(self._way.k + 1) < now.lengths[:, None]
        rejected = np.where(can_be_rejected, np.pad(now.tokens, ((0, 0), (0, 1))), -1)
        spared = np.argsort(ranked == rejected[..., None], axis=-1, kind="stable")[..., :f]
        self._guessed = np.take_along_axis(ranked, spared, axis=-1)
        self._branches = self._draft(self._guessed.ravel())

    def content(self) -> Drafted:
        return self.current

    def take(self, content: Verdicts) -> None:
        came = self.learn(self.current, content)
        for lookup, new in zip(self._lookups, came, strict=bool(self._lookups)):
            lookup.read(new)

    def misses(self, outcome: Verdicts) -> int:
        each = np.arange(len(self.all))
        found = self._guessed[each, outcome.accepted] == outcome.bonus[:, None]
        hit = found.any(axis=1)
        branch = np.ravel_multi_index((each, outcome.accepted, found.argmax(axis=1)), self._guessed.shape)
        branches = self._branches
        self.current = Drafted(
            branches.tokens[branch], branches.after[branch], branches.lengths[branch], branches.backup[branch]
        )
        self.hits.append(hit)
        return int((~hit).sum())

    def _fall_back(self) -> None:
        """In place of what was found in the cache, where nothing was."""
        missed, now = np.flatnonzero(~self.hits[-1]), self.current
        if not self._lookups:
            drafted = self._draft(self.last[missed])
            now.tokens[missed], now.after[missed] = drafted.tokens, drafted.after
            return
        for i in missed:
            tokens = self._lookups[i].propose(self._way.k)
            now.tokens[i, : len(tokens)], now.lengths[i], now.backup[i] = tokens, len(tokens), True


def played_together(
    pair: tuple[MarkovChain, MarkovChain], way: Way, rules: Rules, prompts: Sequence[Sequence[int]], new_tokens: int
) -> tuple[list[list[int]], list[list[PlayedRound]]]:
    """What :class:`.Loop` plays of each prompt (of one length), by its number as the seed.

    Sequences go on until the shortest is over.
    """
    target = Targets(*pair, rules, prompts)
    jit = way.backup == "jit"
    lookups = [] if jit else [lookup_named(way.backup, pair[0].vocabulary, seed) for seed in range(len(prompts))]
    draft = Drafts(pair[1], rules, target.all, way, lookups)
    target.take(draft.current)
    prompt = len(prompts[0])
    converse(way.strategy, {"target": target, "draft": draft}, AnswerEnd(prompt, new_tokens, frozenset()))
    rounds = [
        list(map(PlayedRound, *(part.tolist() for part in (drafted.lengths, verdicts.accepted, drafted.backup, hit))))
        for (drafted, verdicts), hit in zip(target.rounds, draft.hits, strict=True)
    ]
    return [text[prompt:] for text in target.all], [list(each) for each in zip(*rounds, strict=True)]
