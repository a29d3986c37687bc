"""Kernels of rounds: how many tokens one yields a sequence, and in which state it leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray, float_or_array
from ssdsim.base.record import Record, replace
from ssdsim.tokens.accepted import Accepted
from ssdsim.tokens.chains import long_run

_ENDLESS = 1 << 62  # tokens of a request that never ends
_AT_ONCE = 4_000_000  # numbers: 32 MB


class Kernel(Record):
    """``p[s, n, t]`` = P(the round yields n tokens and leads to state t | it begins in state s).

    A state is whatever of its past a sequence's next round depends on: in SSD, whether its last outcome was in the
    speculation cache; in PEARL, pre- or post-verification. A sequence starts in the first state. The shape is
    ``(states, most tokens + 1, states)``; a round yields at least one token. SSD paper, Theorem 7, has two states.

    Sequences of a batch are independent unless they are ``shared``: then the chance of ending a round in the first
    state is, round by round, one draw for all of them, of a Beta with the mean that p says and this concentration.

    Many kernels at once have axes more in front, and columns for averages.
    """

    states: tuple[str, ...]
    p: Array
    shared: float | None = None

    def __post_init__(self) -> None:
        states = len(self.states)
        if self.p.ndim < 3 or self.p.shape[-3] != states or self.p.shape[-1] != states:
            raise ValueError(
                f"a kernel of {states} states has the shape ({states}, tokens, {states}), not {self.p.shape}"
            )
        nothing = self.p[..., 0, :]
        if nothing.any() or (self.p < 0.0).any() or (np.abs(self.p.sum(axis=(-2, -1)) - 1.0) > 1e-9).any():
            raise ValueError(
                "each state's row of a kernel is a distribution over at least one token and the next state"
            )

    @classmethod
    def of_tokens(cls, accepted_pmf: Array) -> Kernel:
        """One state: ``k`` accepted tokens and a bonus token with probability ``accepted_pmf[k]``."""
        return cls.by_state({"": {"": accepted_pmf}})

    @classmethod
    def by_state(cls, rows: Mapping[str, Mapping[str, Array]], shared: float | None = None) -> Kernel:
        """``rows[s][t][k]`` = P(k accepted tokens, so k + 1 tokens, and then state t | state s)."""
        shapes = [pmf.shape for row in rows.values() for pmf in row.values()]
        most, at_once = max(shape[-1] for shape in shapes), np.broadcast_shapes(*(shape[:-1] for shape in shapes))
        p = np.zeros((*at_once, len(rows), most + 1, len(rows)))
        states = tuple(rows)
        for state, row in rows.items():
            for to, pmf in row.items():
                p[..., states.index(state), 1 : pmf.shape[-1] + 1, states.index(to)] = pmf
        return cls(states, p, shared)

    @classmethod
    def of_windows(cls, accepted_pmf: Array) -> Kernel:
        """PEARL's, from P(exactly k of a window accepted): the first new token is judged in ``pre``, all in ``post``.

        There is no bonus token; a rejection yields its correction, and nothing is pending after it.
        """
        rejected_first, short, all_accepted = accepted_pmf[..., :1], accepted_pmf[..., :-1], accepted_pmf[..., -1:]
        none = np.zeros_like(short[..., 1:])
        return cls.by_state(
            {
                "pre": {"pre": rejected_first, "post": 1.0 - rejected_first},
                "post": {"pre": short, "post": np.concatenate([none, all_accepted], axis=-1)},
            }
        )

    @cached_property
    def is_certain(self) -> bool:
        """Tell whether every round yields the same number of tokens and leads to the same state."""
        return bool(np.all(np.count_nonzero(self.p, axis=(1, 2)) == 1) and self.forgets)

    @cached_property
    def forgets(self) -> bool:
        """Tell whether what a round does depends on no state."""
        return bool(np.all(self.p == self.p[:1]))

    @cached_property
    def transitions(self) -> Array:
        """P(state t after the round | state s before), shape ``(states, states)``."""
        return np.asarray(self.p.sum(axis=-2))

    @cached_property
    def stationary(self) -> Array:
        """The long run's share of each state, shape ``(states,)``; from the first where it is not unique."""
        if len(self.states) == 1:
            return np.ones(self.p.shape[:-2])
        if len(self.states) == 2:  # exact, where a linear solver would lose the digits of small rates
            leave, come_back = self.transitions[..., 0, 1], self.transitions[..., 1, 0]
            stays = leave + come_back == 0.0
            come_back = np.where(stays, 1.0, come_back)
            return np.stack([come_back, leave], axis=-1) / (leave + come_back)[..., None]
        return long_run(self.transitions)[..., 0, :]

    @cached_property
    def expected_tokens(self) -> Array:
        """Tokens of a round that begins in each state, shape ``(states,)``: at least one, also by rounding."""
        return np.asarray(np.maximum(1.0, self.p.sum(axis=-1) @ np.arange(self.p.shape[-2], dtype=float)))

    @property
    def yields(self) -> Array:
        """P(a round of the long run yields n tokens)."""
        return np.asarray(np.vecdot(self.stationary[..., None, :], self.p.sum(axis=-1).swapaxes(-1, -2)))

    @cached_property
    def averages(self) -> Averages:
        shares = {state: float_or_array(self.stationary[..., at]) for at, state in enumerate(self.states)}
        accepted = np.asarray(self.p[..., 0, 1:, :].sum(axis=-1))
        tokens = float_or_array(np.vecdot(self.stationary, self.expected_tokens))
        return Averages(tokens, shares, shares, accepted, self.shared)


class Mix(Record):
    """Kinds of requests with their shares, a kernel each; every request is ``output_tokens`` long.

    Continuous batching: a finished request is replaced at once by one of a kind drawn by ``weights``. A slow request
    stays for more rounds, so the average over rounds leans towards the slow kinds.

    The kinds are the first axis of ``kernel``. Many mixes at once have another one behind it, and columns for averages.
    """

    weights: Array
    output_tokens: int
    kernel: Kernel

    @classmethod
    def of(cls, tokens: Tokens) -> Mix:
        """Requests that are alike are one kind, which never ends."""
        return tokens if isinstance(tokens, Mix) else cls(np.ones(1), _ENDLESS, replace(tokens, p=tokens.p[None]))

    @property
    def states(self) -> tuple[str, ...]:
        return self.kernel.states

    @property
    def shared(self) -> float | None:
        return self.kernel.shared

    @property
    def is_certain(self) -> bool:
        return False

    @property
    def p(self) -> Array:
        """The kernels' ``p``, shape ``(kinds, ..., states, most tokens + 1, states)``."""
        return self.kernel.p

    @property
    def began(self) -> Array:
        """Mean rounds of a request of each kind that begin with n tokens made, shape ``(kinds, tokens, states)``."""
        return np.concatenate([*_began(self.p, self.output_tokens)], axis=1)

    @cached_property
    def _inside(self) -> Array:
        """Mean rounds of a request of each kind that begin in each state, shape ``(kinds, ..., states)``."""
        p = self.p.reshape(-1, *self.p.shape[-3:])
        numbers = p.size * (p.shape[-2] + isqrt(self.output_tokens))
        parts = np.array_split(p, min(len(p), 1 + numbers // _AT_ONCE))
        found = [np.concatenate([*_began(part, self.output_tokens, in_sum=True)], axis=1) for part in parts]
        return np.concatenate([np.ones(each.shape[1]) @ each for each in found]).reshape(self.p.shape[:-2])

    @cached_property
    def averages(self) -> Averages:
        """Exact averages of a slot's rounds, by renewal over requests.

        Tokens past the end of a request's last round are not counted.
        """
        to = (self._inside[..., None, :] @ self.kernel.transitions)[..., 0, :]
        began_in, ended_in = (np.tensordot(self.weights, each, axes=1) for each in (self._inside, to))
        made = self.output_tokens * float(self.weights.sum())
        tokens = float_or_array(made / began_in.sum(axis=-1))
        return Averages(tokens, self._shares(began_in), self._shares(ended_in), shared=self.shared)

    @property
    def yields(self) -> Array:
        """P(a round of the long run yields n tokens), if requests had no ends that cut it short."""
        rounds = self.weights[:, None] * self._inside
        return np.asarray(np.einsum("gs,gsn->n", rounds, self.p.sum(axis=-1)) / rounds.sum())

    def _shares(self, rounds: Array) -> dict[str, FloatOrArray]:
        """The share of rounds in each state, none above 1."""
        shares = rounds / rounds.sum(axis=-1, keepdims=True)
        return {state: float_or_array(shares[..., at]) for at, state in enumerate(self.states)}


def _began(p: Array, tokens: int, in_sum: bool = False) -> Iterator[Array]:
    """Mean rounds of a request that begin with n tokens made, of n = 0, 1, ..., shape ``(kinds, some n, states)``.

    It starts in the first state and lasts until it has so many ``tokens``. How many rounds begin with n tokens made
    follows from a window of those that began with fewer, and so do those of a whole block at once. ``in_sum`` the sum
    over all n is what counts: those that the next window does not hold are one number a block.
    """
    kinds, states, width, _ = p.shape
    window = (width - 1) * states
    # from the state in which a round of j = most...1 tokens began to that in which the next one begins
    block = p[:, :, :0:-1].transpose(0, 2, 1, 3).reshape(kinds, window, states)
    one = np.broadcast_to(np.eye(window), (kinds, window, window))
    while 2 * block.shape[-1] <= states * min(isqrt(tokens), tokens // window):
        block = np.concatenate([block, np.concatenate([one, block], axis=-1)[..., -window:] @ block], axis=-1)
    blocks, rest = divmod((tokens - 1) * states, block.shape[-1])
    first = block[..., :rest]
    if in_sum and block.shape[-1] > window + states:
        before = block[..., :-window].reshape(kinds, window, -1, states).sum(axis=-2)
        block = np.concatenate([before, block[..., -window:]], axis=-1)
    last = np.zeros((kinds, 1, window))
    last[..., -states] = 1.0
    yield last[..., -states:]
    for following in (first, *[block] * blocks):
        made = last @ following
        yield made.reshape(kinds, -1, states)
        last = np.concatenate([last, made], axis=-1)[..., -window:]


Tokens = Kernel | Mix


def tokens_of(accepted: Accepted, kernel_of: Callable[[Array], Kernel]) -> Tokens:
    """The kernel ``kernel_of(accepted_pmf)`` of all requests, or a mix of kinds, which lie in front of columns."""
    return tokens_of_each([accepted], lambda pmfs: kernel_of(pmfs[0]))


def tokens_of_each(accepted: Sequence[Accepted], kernel_of: Callable[[Sequence[Array]], Kernel]) -> Tokens:
    """The same of several accepted lengths of the same requests."""
    first = accepted[0]
    if first.kinds is None:
        return kernel_of([each.pmf for each in accepted])
    pmfs = [np.moveaxis(each.kinds.pmfs, -2, 0) for each in accepted if each.kinds is not None]
    made = kernel_of([each if each.ndim == 3 else each[:, None] for each in pmfs])
    alone = made.p.shape[1] == 1
    return Mix(first.kinds.weights, first.output_tokens, replace(made, p=made.p[:, 0]) if alone else made)


def each_kind(kernel_of: Callable[[Array], Kernel]) -> Callable[[Array], Kernel]:
    """A kernel of all kinds of requests, of what makes one at a time."""

    def of_all(pmfs: Array) -> Kernel:
        if pmfs.ndim == 1:
            return kernel_of(pmfs)
        made = [kernel_of(pmf) for pmf in pmfs[:, 0]]
        return replace(made[0], p=np.array([[each.p] for each in made]))

    return of_all


class Averages(Record):
    """Averages over a sequence's rounds in the long run; numbers, or columns of them.

    ``inside[s]`` is the share of rounds that begin in state s, ``to[s]`` of those that end in it. They differ only
    where requests end: a new one begins in the first state, whatever the last round of the old one led to.
    ``accepted[..., k]`` is P(exactly k accepted) in a round that begins in the first state, NaN beyond its most (None
    where requests differ). ``shared`` is the kernel's, infinite or NaN where sequences are independent.
    """

    tokens_per_round: FloatOrArray
    inside: Mapping[str, FloatOrArray]
    to: Mapping[str, FloatOrArray]
    accepted: Array | None = None
    shared: FloatOrArray | None = None


def stack(made: Sequence[Averages], free_running: bool = True) -> Averages:
    """Averages of many cases as one, every number a column of them (of numbers, or of columns of one shape).

    Accepted lengths, which only who is ``free_running`` reads, are below each other, NaN beyond each one's end.
    """

    def shares(rows: Sequence[Mapping[str, FloatOrArray]]) -> dict[str, Array]:
        nowhere = np.zeros_like(made[0].tokens_per_round)
        states = dict.fromkeys(state for row in rows for state in row)
        return {state: np.array([row.get(state, nowhere) for row in rows]) for state in states}

    return Averages(
        np.array([each.tokens_per_round for each in made]),
        shares([each.inside for each in made]),
        shares([each.to for each in made]),
        _below_each_other([each.accepted for each in made]) if free_running else None,
        _shared([each.shared for each in made]),
    )


def _shared(made: Sequence[FloatOrArray | None]) -> FloatOrArray | None:
    """A column of what sequences share: infinite where they are independent; None where they are so everywhere."""
    if all(each is None for each in made):
        return None
    width = next(np.shape(each) for each in made if each is not None)
    return np.array([np.full(width, np.inf) if each is None else each for each in made])


def _below_each_other(pmfs: Sequence[Array | None]) -> Array | None:
    known = [pmf for pmf in pmfs if pmf is not None]
    if not known:
        return None
    rows = np.full((len(pmfs), *known[0].shape[:-1], max(pmf.shape[-1] for pmf in known)), np.nan)
    for row, pmf in zip(rows, pmfs, strict=True):
        if pmf is not None:
            row[..., : pmf.shape[-1]] = pmf
    return rows


def select(averages: Averages, at: NDArray[np.intp]) -> Averages:
    """The rows ``at`` of columns."""
    return _each(averages, lambda column: np.asarray(column)[at])


def tile(averages: Averages, count: int) -> Averages:
    """Repeat the numbers ``count`` times, or keep columns of as many."""
    bare = averages if averages.accepted is None else replace(averages, accepted=None)
    # numpy's broadcast_to takes three times as long
    made = _each(bare, lambda number: np.asarray(number) if np.shape(number) == (count,) else np.full(count, number))
    accepted = averages.accepted
    return made if accepted is None else replace(made, accepted=np.broadcast_to(accepted, (count, accepted.shape[-1])))


def _each(averages: Averages, change: Callable[[FloatOrArray], Array]) -> Averages:
    """The averages with each number, or column, changed alike."""
    return Averages(
        change(averages.tokens_per_round),
        {state: change(share) for state, share in averages.inside.items()},
        {state: change(share) for state, share in averages.to.items()},
        None if averages.accepted is None else change(averages.accepted),
        None if averages.shared is None else change(averages.shared),
    )


class ChosenRows(Kernel, kw_only=True):
    """The literal rule of a kernel that is its mean in a large batch: each round chooses its rows from confidences.

    ``seconds[B]`` is a round's time where B drafted tokens of the batch have a row. From the confidences of ``lag``
    rounds ago, 1 where there were none, it takes the B of the most expected tokens a second, or ``budget``. The tokens
    with the B highest survivals by the confidences of now get a row. A token is accepted with the probability that is
    its confidence, so a sequence accepts as many of its first tokens as have a row and are right.
    """

    rates: tuple[float, ...]
    concentration: float
    seconds: Array
    lag: int
    budget: int | None


class GatedDrafts(Kernel, kw_only=True):
    """The literal rule of a kernel that is its mean: a draft ends at the first confidence below ``least``."""

    rates: tuple[float, ...]
    concentration: float
    least: float


class ByState(Kernel, kw_only=True):
    """A sequence's ``rows`` in the pass of a round follow from the state in which the round begins."""

    rows: Mapping[str, float]


OFF = "off"
"""The state of rounds that decode a token: speculation was switched off."""


def switched_off(tokens: Tokens, off: FloatOrArray) -> Tokens:
    """Rounds that yield a token in a state of their own where speculation is ``off`` (1, else 0), in columns too."""
    if isinstance(tokens, Mix):
        return replace(tokens, kernel=_switched_off(tokens.kernel, off))
    return _switched_off(tokens, off)


def _switched_off(tokens: Kernel, off: FloatOrArray) -> Kernel:
    *many, states, most, _ = tokens.p.shape
    is_off, p = np.asarray(off, dtype=float)[..., None, None, None], np.zeros((*many, states + 1, most, states + 1))
    p[..., :-1, :, :-1], p[..., -1:, :, :-1] = (1.0 - is_off) * tokens.p, (1.0 - is_off) * tokens.p[..., :1, :, :]
    p[..., :, 1, -1] = is_off[..., 0, 0]
    names = (*tokens.states, OFF)
    if np.ndim(off) == 0 and off:  # it is off from the start
        names, p = (OFF, *tokens.states), np.roll(p, 1, axis=(-3, -1))
    made = replace(tokens, states=names, p=p)
    return replace(made, rows={**made.rows, OFF: 1}) if isinstance(made, ByState) else made


PRE, POST, AGAIN = "pre", "post", "again"
"""States: without drafts to verify, with them, and with them after all of the batch without any drafted anew."""


class Retried(Kernel, kw_only=True):
    """The literal rule of a kernel that is its mean: ``most_failed`` of a batch may be without drafts after a round.

    Where more are, all begin the next round in ``again``, as they do the first one. Without the rule a sequence moves
    as ``alone`` says, whose states are ``pre`` and ``post``.
    """

    alone: Kernel
    most_failed: int
