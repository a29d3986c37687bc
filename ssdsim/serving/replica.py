"""One replica under arrivals, and the run of a whole workload: continuous batching of whatever is there."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.extras import failure
from ssdsim.base.progress import unheard
from ssdsim.serving import rounds as r
from ssdsim.serving.batching import LEAST_CHUNK, Batching
from ssdsim.serving.flat_tables import FlatTables
from ssdsim.serving.journal import ROUND, Requests, Run
from ssdsim.serving.policy import BELOW_ONE, Policy, Variant
from ssdsim.serving.workload import Workload
from ssdsim.transformer.prefill import Chunk

_DRAWN = 1 << 15  # uniform numbers, at least, at a time
_LOGGED, _LOGGED_COMPILED = 1 << 11, 1 << 17  # rounds at a time
_TOLD = 200  # times in a run, how far it is
_ENDLESS = 1 << 62


class Replica:
    """Sequences in the order in which they were admitted, decoded by :mod:`ssdsim.serving.rounds`.

    A round decodes all running sequences and, chunked, processes what the pass has room for of the prompts that wait
    (FCFS). A request whose prompt ends in a round has its first token at its end, and enters decoding without a
    speculation: in a strategy with a speculation cache its first look-up is a miss, and the batch waits for the
    fallback. Where a cache has no block left, the newest sequence goes back to the queue and is processed again.
    """

    def __init__(
        self,
        policy: Policy,
        batching: Batching,
        workload: Workload,
        requests: Requests,
        *,
        seed: int,
        number: int = 0,
        tables: FlatTables | None = None,
        comes_s: Array | None = None,
        compiled: bool = False,
    ) -> None:
        self.policy, self.workload = policy, workload
        self._tables = tables or FlatTables.of(policy, batching, workload, compiled)
        self._advance = _compiled() if compiled else r.advance
        self._journal = array("d")  # its numbers, one round after the other
        self._rng = np.random.default_rng([seed, 7, number])
        self._chances = [variant.rows.chances([seed, 11, number]) for variant in policy.variants]
        self._steering = None if policy.steered is None else policy.steered()
        self._limits = r.Limits(
            max_batch=batching.max_batch,
            token_budget=batching.token_budget,
            passes=policy.variants[0].table.prompts.target.stages,
            least_chunk=LEAST_CHUNK,
            longest=min(ledger.most_tokens for variant in policy.variants for ledger in variant.ledgers),
            stretch=1.0 + batching.tax if policy.is_schedule else 1.0,
            hold=batching.hold,
            has_priority=batching.prefill == "priority",
            is_elsewhere=batching.prefill == "none",
            elsewhere_s=batching.prefill_ms / 1e3,
            guesses=batching.first_speculation == "prefill",
            counts_scheduled=policy.counts_scheduled,
            is_steered=policy.steered is not None,
            number=number,
        )
        todo = workload.output_tokens.astype(np.int64)  # a copy
        comes_s = np.empty(0) if comes_s is None else comes_s
        self._columns = r.RequestColumns(
            comes_s=comes_s if compiled else comes_s.tolist(),
            todo=todo,
            total=workload.input_tokens + todo,
            queue=np.empty(workload.requests, dtype=np.int64),
            **vars(requests),
        )
        self._state = _state(batching.max_batch, self._tables, compiled)
        self._c, self._f = self._state.c, self._state.f
        self._tables.refresh()

    # what a driver sees and does

    @property
    def now(self) -> float:
        """The end of the last round."""
        return float(self._f[r.NOW])

    @now.setter
    def now(self, now: float) -> None:
        self._f[r.NOW] = now

    @property
    def is_busy(self) -> bool:
        return bool(self._c[r.HEAD] < self._c[r.TAIL] or self.sequences)

    @property
    def sequences(self) -> int:
        """Sequences that are decoded or processed."""
        return int(self._c[r.RUNNING] + self._c[r.PROMPTS])

    @property
    def finished(self) -> int:
        """Requests that were answered or rejected."""
        return int(self._c[r.FINISHED])

    @property
    def misses(self) -> int:
        return int(self._c[r.MISSES])

    @property
    def lookups(self) -> int:
        return int(self._c[r.LOOKUPS])

    @property
    def wasted_tokens(self) -> int:
        return int(self._c[r.WASTED])

    @property
    def rounds(self) -> Array:
        """Rounds of the replica, a row each: :data:`ssdsim.serving.journal.ROUND`."""
        self._flush()
        return np.frombuffer(self._journal).reshape(-1, len(ROUND))

    @property
    def load_tokens(self) -> int:
        """Tokens in its caches and in its queue."""
        c, queue = self._c, self._columns.queue
        queued = int(self.workload.input_tokens[queue[c[r.HEAD] : c[r.TAIL]]].sum())
        return int(c[r.CACHED] + c[r.PROMPT_TOKENS]) + queued

    @property
    def variant(self) -> Variant:
        """The variant that runs."""
        variant: Variant = self.policy.variants[self._c[r.NUMBER]]
        return variant

    def blocks_in_use(self) -> list[int]:
        """Blocks in use by ledger."""
        return [r.blocks_in_use(ledger.reserve, ledger.block, self._state, -1) for ledger in self.variant.ledgers]

    def offer(self, first: int, last: int) -> None:
        """Requests from the first one to before the last one come now."""
        r.offer(self._limits, self._columns, self._c, first, last)

    def step(self, horizon_s: float = np.inf) -> None:
        """A round, or several that are all alike, which end before anybody comes at ``horizon_s``."""
        self._go(_ENDLESS, horizon_s, 1)

    def step_with_draft(self, horizon_s: float, late_s: float) -> float:
        """A round whose draft is free ``late_s`` from now; for how long it needs the draft: not at all where nothing
        runs, since who came had its only token where its prompt was processed.
        """
        before, self._f[r.LATE] = self._c[r.ROUND], late_s
        self.step(horizon_s)
        if self._c[r.ROUND] == before or self._c[r.ALIKE]:
            return 0.0
        line = self._state.journal[self._c[r.LOGGED] - 1]
        decoding, bits = int(line[2]), int(line[4])
        variant, context = self.policy.variants[int(line[5])], self._f[r.CONTEXT] if decoding else 0.0
        return variant.table.drafting_s(decoding, context, bits, self._chunks)

    def run(self, hears: Callable[[float], None] = unheard) -> None:
        """All rounds of requests that come when they come; who ``hears`` is told the share of them that came."""
        count, c = len(self._columns.comes_s), self._c
        while c[r.CAME] < count or self.is_busy:
            self._go(int(c[r.CAME]) + -(-count // _TOLD), np.inf, _ENDLESS)
            hears(c[r.CAME] / count)

    # what rounds need from outside

    def _go(self, until: int, horizon_s: float, rounds: int) -> None:
        while True:
            why = self._advance(self._tables.tables, self._limits, self._columns, self._state, until, horizon_s, rounds)
            if why == r.DONE:
                return
            self._answer(why)
            if why == r.HEARING and rounds == 1:
                return

    def _answer(self, why: int) -> None:
        """Give what a round lacks."""
        c, f, state, table = self._c, self._f, self._state, self.variant.table
        batch = int(c[r.RUNNING])
        if why == r.LINE:
            table.round_s(batch, f[r.CONTEXT], c[r.BITS])
            self._tables.refresh()
        elif why == r.ROUND_PRICE:
            f[r.PRICE] = table.mixed_round_s(batch, f[r.CONTEXT], c[r.BITS], self._chunks, f[r.LATE])
            self._tables.refresh()
        elif why == r.PROMPTS_PRICE:
            f[r.PRICE] = table.prompts_s(self._chunks, c[r.BATCH], f[r.LATE])
            self._tables.refresh()
        elif why == r.NUMBERS:
            at, kept, more = c[r.DRAWN], c[r.KEPT], c[r.WANTING]
            numbers = np.minimum(self._rng.random(max(_DRAWN, more)), BELOW_ONE)
            self._state = state._replace(uniforms=np.concatenate([state.uniforms[at : at + kept], numbers]))
            c[r.DRAWN] = 0
        elif why == r.JOURNAL:
            self._flush()
            if c[r.WANTING] > len(state.journal):
                self._state = state._replace(journal=np.empty((c[r.WANTING], len(ROUND))))
        elif why == r.CHANCES:
            self._share_chances(batch)
        elif why == r.STEERING:
            assert self._steering is not None
            c[r.STEERED] = self.policy.number_of_k(self._steering.k(c[r.BATCH]))
        else:
            assert self._steering is not None
            if self._steering.heard(state.round_tokens[: c[r.HEARD]] - 1, self.variant.k):
                c[r.SETTLED] = -1

    @property
    def _chunks(self) -> tuple[Chunk, ...]:
        return tuple(Chunk(int(tokens), int(done)) for tokens, done in self._state.chunks[: self._c[r.PARTS]])

    def _share_chances(self, batch: int) -> None:
        """Move the next random numbers by the chances that the batch shares in this round."""
        c, state = self._c, self._state
        chances, rows = self._chances[c[r.NUMBER]], self.variant.rows
        assert chances is not None
        kind, in_state = np.divmod(state.sequences[4, :batch].astype(np.int64), len(rows.states))
        numbers = state.uniforms[c[r.DRAWN] : c[r.DRAWN] + batch]
        np.minimum(chances.moved(numbers, in_state, kind, 1), BELOW_ONE, out=numbers)
        c[r.MOVED] = 1

    def _flush(self) -> None:
        """Put the last rounds to those before."""
        lines = self._state.journal[: self._c[r.LOGGED]]
        self._journal.frombytes(lines.ravel().view(np.uint8).data)
        self._c[r.LOGGED] = 0


def _state(most: int, tables: FlatTables, compiled: bool) -> r.State:
    """A replica that nobody has come to."""
    counters = [0] * r.COUNTERS
    counters[r.SETTLED] = counters[r.STEERED] = -1
    plain: list[Any] = [counters, [0.0, 0.0, -1.0, 0.0], [(0, 0, 0)] * most, [(0, 0)] * most, [0.0] * tables.registers]
    c, f, prompts, chunks, register = map(np.array, plain) if compiled else plain
    return r.State(
        c=c,
        f=f,
        prompts=prompts,
        chunks=chunks,
        register=register,
        missed=np.zeros(most, dtype=np.int64),
        round_tokens=np.zeros(most),
        ones=np.ones(most),
        sequences=np.zeros((6, most)),
        uniforms=np.empty(0),
        journal=np.empty((_LOGGED_COMPILED if compiled else _LOGGED, len(ROUND))),
    )


@cache
def _compiled() -> Any:
    """The rounds, compiled once for this machine.

    numba names what it keeps after the function, and cannot read what it kept of classes with other names. So the name
    holds the file's digest.
    """
    from numba import njit  # here, because it takes half a second
    from numba.extending import register_jitable

    for function in vars(r).values():
        if isfunction(function) and function.__module__ == r.__name__:
            register_jitable(function)
    r.advance.__qualname__ = f"advance_{sha256(Path(r.__file__).read_bytes()).hexdigest()[:16]}"
    try:
        return njit(cache=True)(r.advance)
    except RuntimeError:  # no folder can be written to
        return njit(r.advance)


_LONG = 2_000_000  # tokens


def simulate(
    policy: Policy,
    workload: Workload,
    batching: Batching,
    seed: int = 0,
    hears: Callable[[float], None] = unheard,
    tokens: float | None = None,
) -> Run:
    """Every request of a workload on one replica, until the last one is answered; who ``hears`` is told the share of
    them that came. A run of ``tokens`` (None: its own) that :func:`is_long` has compiled rounds, where numba works.
    """
    requests = Requests(workload)
    if workload.concurrency is not None:
        replica = Replica(policy, batching, workload, requests, seed=seed)
        _closed(replica, workload, workload.concurrency, requests, hears)
    else:
        comes_s = workload.arrival_s + batching.prefill_ms / 1e3  # prompts that are processed elsewhere come then
        compiled = is_long(tokens or float(workload.output_tokens.sum())) and _compiles(policy)
        replica = Replica(policy, batching, workload, requests, seed=seed, comes_s=comes_s, compiled=compiled)
        replica.run(hears)
    return run_of(policy, workload, batching, requests, [replica])


def is_long(tokens: float) -> bool:
    """Say whether compiled rounds gain more in a run of so many tokens than they take to begin."""
    return tokens >= _LONG


def _compiles(policy: Policy) -> bool:
    """Say whether numba works, and nobody is asked in each round."""
    asks = policy.steered is not None or any(variant.rows.shares_chances for variant in policy.variants)
    return not asks and failure("numba") is None


def run_of(policy: Policy, workload: Workload, batching: Batching, requests: Requests, replicas: list[Replica]) -> Run:
    """Record of what replicas of a policy did; answers come later by a prompt's way behind the first pipeline stage."""
    prompts = policy.variants[0].table.prompts.target
    if prompts.stages > 1 and batching.prefill != "none":
        each, of = np.unique(workload.input_tokens, return_inverse=True)
        later_s = np.array([prompts.later_s(tokens, batching.token_budget) for tokens in each.tolist()])[of]
        requests.first_s += later_s
        requests.last_s += later_s
    return Run(
        workload=workload,
        requests=requests,
        gpus=len(replicas) * policy.gpus,
        miss_bits=[variant.table.miss_bit for variant in policy.variants],
        rounds=[replica.rounds for replica in replicas],
        misses=sum(replica.misses for replica in replicas),
        lookups=sum(replica.lookups for replica in replicas),
        wasted_tokens=sum(replica.wasted_tokens for replica in replicas),
    )


def _closed(
    replica: Replica, workload: Workload, concurrency: int, requests: Requests, hears: Callable[[float], None]
) -> None:
    """A new request comes as soon as one is answered."""
    came = min(concurrency, workload.requests)
    requests.arrival_s[:came] = 0.0
    replica.offer(0, came)
    while replica.is_busy:
        replica.step()
        more = min(concurrency + replica.finished, workload.requests) - came
        if more:
            requests.arrival_s[came : came + more] = replica.now
            replica.offer(came, came + more)
            came += more
            hears(came / workload.requests)
