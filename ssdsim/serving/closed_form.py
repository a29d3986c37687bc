"""Serving in closed form: a processor-sharing queue whose rate depends on how many requests share it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.rounds.kernel import Kernel, Mix
from ssdsim.serving.batching import LEAST_CHUNK, Batching
from ssdsim.serving.passes import spaced
from ssdsim.serving.policy import Policy, Variant
from ssdsim.serving.workload import Workload
from ssdsim.transformer.prefill import Chunk

_NODES = spaced(1, 1.25, 4)
_NOTHING = 1e-9  # left of a second beside prompts, below which requests pile up


class Sharing(Record):
    """Speeds of requests that are served together on one replica.

    With ``n`` that decode, all together make ``tokens_per_s[..., n - 1]`` tokens a second, and every request that comes
    costs them ``lost_s[..., n - 1]`` seconds: its prompt, and the miss with which it enters. A request takes
    ``tokens``, those past its end in its last round included. The last column is that of a full batch; leading axes
    are draws. ``round_s`` and ``prompt_s`` are seconds of a round, and of the pass that ends a prompt. Where prompts
    are processed ``elsewhere``, a request has its first token before it waits for a place, as in the loop of rounds.
    """

    tokens_per_s: Array
    lost_s: Array
    tokens: Array
    round_s: Array
    prompt_s: Array
    output_tokens: float
    elsewhere: bool = False

    @property
    def most(self) -> int:
        return int(self.tokens_per_s.shape[-1])

    @cached_property
    def capacity(self) -> Array:
        """Requests a second beyond which the queue grows without end."""
        rate = self.tokens_per_s[..., -1]
        return np.asarray(rate / (self.tokens + rate * self.lost_s[..., -1]))

    def builds_s(self, rate: float) -> float:
        """Seconds in which as many requests as run in the long run at ``rate`` come together, from none: the time after
        which 1/e of what lacks still does. Infinite where more come than go.

        With ``n`` that decode, ``mu(n)`` requests go a second; a lack of one of them is made up at the slope of ``mu``.
        """
        running = float(self.served(rate).running)
        if not running < self.most - 1:
            return np.inf
        each_s = self.tokens_per_s / (self.tokens + self.tokens_per_s * self.lost_s)
        at = max(1, round(running))
        slope = float(each_s[at] - each_s[at - 1])
        return 1.0 / slope if slope > 0.0 else np.inf

    def under(self, draws: NDArray[np.intp]) -> Sharing:
        """Some of its draws; all of it where it has none."""
        if self.tokens_per_s.ndim == 1:
            return self
        return replace(self, tokens_per_s=self.tokens_per_s[draws], lost_s=self.lost_s[draws])

    def served(self, rate: Array | float) -> SteadyState:
        """The long run at ``rate`` requests a second (a number, or one a draw); infinite where it has none.

        ``pi_n ~ prod rate tokens / phi(min(i, most))`` with ``phi`` what is left of the tokens a second beside prompts;
        exact for Poisson arrivals and answers of any law below a full batch, with the prompts' time as a share of all.
        """
        rate = np.asarray(rate, dtype=float)
        weights, empty, rho = self._states(rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail, left = self._tail(rho)
            whole = empty + weights.sum(axis=-1) + weights[..., -1] * tail
            running = self._running(weights, whole, tail)
            queued = weights[..., -1] * tail / left / whole
            lone = weights / weights.sum(axis=-1, keepdims=True)
            half_s = (lone * self.round_s).sum(axis=-1) / 2.0
            prompt_s = (lone * self.prompt_s).sum(axis=-1)
            ttft_s, decode_s = half_s + prompt_s + queued / rate, running / rate
            if self.elsewhere:
                ttft_s, decode_s = prompt_s, decode_s + queued / rate + half_s * (1.0 - empty / whole)

        def where_stable(values: Array) -> Array:
            return np.asarray(np.where(rho < 1.0, values, np.inf))

        return SteadyState(
            running=where_stable(running),
            tpot_s=where_stable(self._a_token(decode_s)),
            queue_s=where_stable(queued / rate),
            ttft_s=where_stable(ttft_s),
            decode_s=where_stable(decode_s),
        )

    def tpot_s(self, rate: Array | float) -> Array:
        """The time per output token of :meth:`served`, alone."""
        if self.elsewhere:
            return self.served(rate).tpot_s
        rate = np.asarray(rate, dtype=float)
        weights, empty, rho = self._states(rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail, _ = self._tail(rho)
            running = self._running(weights, empty + weights.sum(axis=-1) + weights[..., -1] * tail, tail)
            return np.asarray(np.where(rho < 1.0, self._a_token(running / rate), np.inf))

    def _states(self, rate: Array) -> tuple[Array, Array, Array]:
        """Weights of 1, 2, ... and of no requests, all over their largest, and the load of a full batch."""
        left = np.maximum(1.0 - rate[..., None] * self.lost_s, _NOTHING)  # some may go on only when more are there
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            load = rate[..., None] * self.tokens[..., None] / (self.tokens_per_s * left)
            rho = np.where(left[..., -1] > _NOTHING, load[..., -1], np.inf)
            logs = np.cumsum(np.log(load, out=load), axis=-1, out=load)
            peak = np.maximum(logs.max(axis=-1, keepdims=True), 0.0)
            logs -= peak
            return np.exp(logs, out=logs), np.exp(-peak[..., 0]), rho

    def _tail(self, rho: Array) -> tuple[Array, Array]:
        """All states beyond a full batch over its own weight, and what is left of its load."""
        left = 1.0 - np.minimum(rho, 1.0 - 1e-15)
        return np.where(rho < 1.0, rho / left, np.inf), left

    def _running(self, weights: Array, whole: Array, tail: Array) -> Array:
        return np.asarray((weights @ np.arange(1.0, self.most + 1) + weights[..., -1] * tail * self.most) / whole)

    def _a_token(self, decode_s: Array) -> Array:
        return decode_s / (self.output_tokens - 1.0) if self.output_tokens > 1.0 else 0.0 * decode_s


class SteadyState(Record):
    """Means: requests that decode, time per output token, waiting, time to first token, and the time from there to the
    last one. Seconds; infinite where saturated.

    Waiting is that of answers whose lengths follow a geometric law; constant ones wait half as long at a place for one.
    """

    running: Array
    tpot_s: Array
    queue_s: Array
    ttft_s: Array
    decode_s: Array

    @property
    def e2e_s(self) -> Array:
        return np.asarray(self.ttft_s + self.decode_s)


def sharing(policy: Policy, workload: Workload, batching: Batching) -> Sharing:
    """Sharing of a policy by a workload's mean requests.

    Rates between the batches that are worked out (25 % apart) are interpolated.
    """
    context, out = workload.context, float(workload.output_tokens.mean())
    most = most_sequences(policy, workload, batching)
    nodes = _nodes(most)
    tax = 1.0 + batching.tax * policy.is_schedule
    at_nodes = [_at(policy.at(n, context), n, workload, batching, tax) for n in nodes]
    n = np.arange(1, most + 1)
    columns = np.array([(f.tokens_per_s, f.lost_s, f.round_s, f.prompt_s) for f in at_nodes]).T
    phi, lost, round_s, prompt_s = (np.interp(n, nodes, column) for column in columns)
    # a request has its first token from its prompt; of its last round, some tokens are past its end
    tokens = np.asarray(_tokens(policy.at(min(most, 8), context), out, batching))
    return Sharing(phi, lost, tokens, round_s, prompt_s, out, batching.prefill == "none")


def drawn_sharing(
    mean: Sharing, policy: Policy, context: float, errors: TimingErrors
) -> tuple[Sharing, Sharing | None]:
    """The :func:`sharing` under draws of all that is not known; and over the ranges of tokens with timings as they are
    predicted, where it has any.
    """
    nodes, n = _nodes(mean.most), np.arange(1, mean.most + 1)
    drawn = [policy.at(m, context).table.drawn(m, context, errors) for m in nodes]

    def moved(factors: Sequence[Draws]) -> Sharing:
        between = np.array([np.interp(n, nodes, column) for column in np.array(factors).T])
        return replace(mean, tokens_per_s=mean.tokens_per_s * between, lost_s=mean.lost_s / between)

    looks = [np.ones(1) if each.across is None else each.across for each in drawn]
    most_looks = max(each.size for each in looks)
    across = moved([np.broadcast_to(each, most_looks) for each in looks]) if most_looks > 1 else None
    return moved([each.joint for each in drawn]), across


def _nodes(most: int) -> list[int]:
    """Batches up to a full one that are worked out."""
    return [n for n in _NODES if n < most] + [most]


def most_sequences(policy: Policy, workload: Workload, batching: Batching) -> int:
    """Size of a full batch: the engine's bound, that of the caches at the mean context, or that of a round's room."""
    tokens = round(workload.context)
    by_cache = min(ledger.most_sequences(tokens) for v in policy.variants for ledger in v.ledgers)
    most = max(1, min(batching.max_batch, by_cache))
    if not batching.mixes_prompts:
        return most
    return next((n for n in range(1, most) if not _fed(policy.at(n, workload.context), n, workload, batching)), most)


def _fed(variant: Variant, n: int, workload: Workload, batching: Batching) -> bool:
    """Say whether a round has room for as many tokens of prompts as keep ``n`` requests decoding.

    Where it has not, no queue is long enough to have more of them decode.
    """
    made = n * float(variant.scenario.tokens.averages.tokens_per_round)
    finished = made / _tokens(variant, float(workload.output_tokens.mean()), batching)
    return _room(variant, n, batching) >= finished * float(workload.input_tokens.mean())


def _room(variant: Variant, n: int, batching: Batching) -> int:
    """Tokens of prompts that a round has room for beside ``n`` requests: it has a pass a pipeline stage."""
    passes = variant.table.prompts.target.stages
    return max(LEAST_CHUNK, passes * batching.token_budget - n * variant.table.queries)


class _At(Record):
    tokens_per_s: float
    lost_s: float
    round_s: float
    prompt_s: float


def requests_per_s(variant: Variant, n: int, workload: Workload, batching: Batching) -> float:
    """Requests that a variant finishes a second while ``n`` decode and others come as fast as these go."""
    balance = _at(variant, n, workload, batching)
    tokens = _tokens(variant, float(workload.output_tokens.mean()), batching)
    return balance.tokens_per_s / (tokens + balance.tokens_per_s * balance.lost_s)


def _at(variant: Variant, n: int, workload: Workload, batching: Batching, tax: float = 1.0) -> _At:
    """``n`` requests that decode, and what one more that comes costs them."""
    context, prompt = workload.context, max(1, round(float(workload.input_tokens.mean())))
    tokens = _tokens(variant, float(workload.output_tokens.mean()), batching)
    table = variant.table
    plain = table.mean(n, context)
    round_s = float(plain.round_s)
    missing, later_s = batching.first_speculation == "miss", table.prompts.target.later_s(prompt, batching.token_budget)
    if batching.prefill == "none":
        lost_s, prompt_s = table.mean_mixed_s(n, context, (), missing) - round_s, batching.prefill_ms / 1e3
    elif batching.prefill == "priority":
        lost_s = table.prompts_s((Chunk(prompt),), int(missing))
        prompt_s = lost_s + later_s
    else:
        together = max(1, round(n * float(plain.tokens_per_round) / tokens))  # as many come as go in a round
        pieces = _pieces(prompt, _room(variant, n, batching))
        seconds = [table.mean_mixed_s(n, context, (c,) * together, missing and c is pieces[-1]) for c in pieces]
        lost_s, prompt_s = (sum(seconds) - round_s * len(seconds)) / together, sum(seconds) + later_s
    return _At(float(plain.tokens_per_second) / tax, lost_s * tax, round_s * tax, prompt_s * tax)


def _pieces(tokens: int, room: int) -> Sequence[Chunk]:
    return [Chunk(min(room, tokens - done), done) for done in range(0, tokens, room)]


def _tokens(variant: Variant, output: float, batching: Batching) -> float:
    """Count tokens that a request takes at the long run's pace: all but its first token, and what its two ends cost."""
    tokens = variant.scenario.tokens
    mix = Mix.of(tokens)
    hit = variant.p_hit if batching.first_speculation == "prefill" else 0.0
    start = np.zeros(len(tokens.states))
    start[variant.joins_in] = 1.0 - hit
    start[0] += hit
    ends = lost_tokens(mix.kernel) + late_tokens(mix.kernel, start)
    return output - 1.0 + float(mix.weights @ ends / mix.weights.sum())


def lost_tokens(kernel: Kernel) -> Array:
    """Tokens of a request's last round that are past its end, on average: half of what a round exceeds one token by.

    By renewal, of answers that are long beside a round; of each kernel.
    """
    pmf = kernel.yields
    made = np.arange(pmf.shape[-1])
    return np.asarray(0.5 * ((pmf @ made**2) / (pmf @ made) - 1.0))


def late_tokens(kernel: Kernel, start: Array) -> Array:
    """Tokens by which a request that begins in the states ``start`` (shares of them) stays behind the long run.

    The bias of a Markov reward process (Puterman, 1994, section 8.2), with the other sign.
    """
    states, shares = len(kernel.states), kernel.stationary
    ahead = kernel.expected_tokens - np.vecdot(shares, kernel.expected_tokens)[..., None]
    bias = np.linalg.solve(np.eye(states) - kernel.transitions + shares[..., None, :], ahead[..., None])
    return np.asarray(-(start @ bias)[..., 0])
