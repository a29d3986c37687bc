"""One replica under arrivals, round by round: continuous batching of whatever is there."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from math import isnan

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.serving.batching import LEAST_CHUNK, Batching
from ssdsim.serving.journal import ROUND, Requests
from ssdsim.serving.outcome_rows import BELOW_ONE, OutcomeRows, Uniforms
from ssdsim.serving.policy import Policy, Variant
from ssdsim.serving.waiting import Queue
from ssdsim.serving.workload import Workload
from ssdsim.transformer.mixed import Chunk


class Replica:
    """Sequences in arrays, in the order in which they were admitted; a call of :meth:`step` is a round.

    A round decodes all running sequences and, chunked, processes what the pass has room for of the prompts that wait
    (FCFS). A request whose prompt ends in a round has its first token at its end, and enters decoding without a
    speculation: in a strategy with a speculation cache its first look-up is a miss, and the batch waits for the
    fallback. Where a cache has no block left, the newest sequence goes back to the queue and is processed again.
    """

    def __init__(
        self, policy: Policy, batching: Batching, workload: Workload, requests: Requests, *, seed: int, number: int = 0
    ) -> None:
        self.policy, self.batching, self.workload, self.requests = policy, batching, workload, requests
        self.number = number
        self.now = 0.0
        self.waiting = Queue(workload.requests)
        self.journal, self.rounds_done = array("d"), 0  # its numbers, one round after the other
        self.misses = self.lookups = self.wasted_tokens = 0
        self.finished: list[int] = []
        self.prefilling: deque[list[int]] = deque()  # of each: request, tokens done, tokens in all
        most = batching.max_batch
        self.sequences, self._ones = np.zeros((6, most)), np.ones(most)
        self._left, self._total, self._request, self._since, self._row, self._kind = self.sequences
        self.running = self.cached = 0  # sequences that decode, and their cached tokens
        self.prompt_tokens = 0  # of the prompts that are being processed
        self._surely = 0  # rounds in which surely no sequence ends
        self.todo = workload.output_tokens.astype(np.int64)  # a copy
        self.totals = workload.input_tokens + self.todo
        self.longest = min(ledger.most_tokens for variant in policy.variants for ledger in variant.ledgers)
        self.uniforms = Uniforms([seed, 7, number])
        self.chances = [variant.rows.chances([seed, 11, number]) for variant in policy.variants]
        self.kinds = [variant.rows.kind_of(workload.kind) for variant in policy.variants]
        self.variant_number = 0
        self._wanted, self._asked_for = 0, 0
        self._settled_at = -1  # requests for which what runs was wanted, whatever their context
        self._scheduled = 0  # requests of the last pass
        self._steering = None if policy.steered is None else policy.steered()
        self._variant = policy.variants[0]
        self.forced = False
        self.shares_draft = False
        self.draft_late_s = 0.0  # until the draft's device is free: it drafts for others, too
        self.drafted_s = 0.0  # for how long the last round needs it

    # what a driver does

    def offer(self, requests: Iterable[int]) -> None:
        """Requests that come now; one that could never be held is rejected."""
        for request in requests:
            if self.totals[request] <= self.longest:
                self.waiting.push(request)
                self.requests.replica[request] = self.number
            else:
                self.requests.rejected[request] = True
                self.finished.append(request)

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.running or self.prefilling)

    @property
    def rounds(self) -> Array:
        """Rounds of the replica, a row each: :data:`ssdsim.serving.journal.ROUND`."""
        return np.frombuffer(self.journal).reshape(-1, len(ROUND))

    @property
    def held(self) -> int:
        """Sequences that are decoded or processed."""
        return self.running + len(self.prefilling)

    @property
    def load_tokens(self) -> int:
        """Tokens in its caches and in its queue."""
        queued = int(self.workload.input_tokens[self.waiting.requests].sum())
        return self.cached + self.prompt_tokens + queued

    def step(self, horizon_s: float = np.inf) -> None:
        """A round, or several that are all alike, which end before anybody comes at ``horizon_s``."""
        self._admit()
        running = self.running
        if len(self.policy.variants) > 1:
            self._choose(running)
        variant = self._variant
        if not self._surely_fits(variant, 0, 0):
            running = self._make_room(variant)
        chunks, ended = self._next_chunks(running) if self.prefilling else ((), ())
        if not running and not chunks:
            return  # who came had its only token where its prompt was processed
        if chunks and (not running or self.batching.prefill == "priority"):
            self._prompts_alone(variant, chunks, ended)
        elif variant.rows.is_certain and not chunks and not self.forced:
            self._alike(variant, running, horizon_s)
        else:
            self._decode(variant, running, chunks, ended)

    def runs(self, number: int) -> None:
        """Go on with a variant after rounds that were made elsewhere."""
        self.variant_number, self._variant = number, self.policy.variants[number]
        self._surely, self._settled_at = 0, -1

    # rounds

    def _decode(self, variant: Variant, running: int, chunks: tuple[Chunk, ...], ended: tuple[int, ...]) -> None:
        """One round of ``running`` sequences, with chunks of prompts of which some end."""
        rows, table = variant.rows, variant.table
        if rows.is_certain:
            tokens, states, before = np.full(running, rows.tokens_of_certain), bytes(running), b""
        else:
            before = self._states(running) if variant.asks_before else b""
            tokens, states = self._draw(rows, running)
        self._left[:running] -= tokens
        bits = 0
        for bit, ends, state in variant.asked:
            if state in (states if ends else before):
                bits |= bit
        forced = self._first_lookups(variant, ended) if ended else ()
        if self.forced or True in forced:
            bits |= table.miss_bit
            self.forced = False
        context = self.cached / running
        if chunks or self.draft_late_s:
            seconds = table.mixed_round_s(running, context, bits, chunks, self.draft_late_s)
        else:
            seconds = table.round_s(running, context, bits)
        if self.shares_draft:
            self.drafted_s = table.drafting_s(running, context, bits, chunks)
        end = self._log(seconds, running, bits, chunks)
        if self._steering is not None:
            self._steer(tokens)
        if variant.caches:
            self.lookups += running
            self.misses += states.count(variant.joins_in)
        self.cached += int(tokens.dot(self._ones[:running]))  # sooner than their sum
        if self._surely:
            self._surely -= 1
        else:
            self._retire(end)
        if ended:
            self._join(variant, ended, forced, end)

    def _states(self, running: int) -> bytes:
        """The states in which the sequences are."""
        return (self._row[:running] - self._kind[:running]).astype(np.uint8).tobytes()

    def _draw(self, rows: OutcomeRows, running: int) -> tuple[np.ndarray, bytes]:
        """A round of each sequence: its tokens, and the states in which they end it."""
        uniform, row = self.uniforms.take(running), self._row[:running]
        chances = self.chances[self.variant_number]
        if chances is not None:
            kind, state = np.divmod(row.astype(np.int64), len(rows.states))
            uniform = np.minimum(chances.moved(uniform, state, kind, 1), BELOW_ONE)
        drawn = rows.cdf.searchsorted(uniform + row if rows.several else uniform, side="right")
        tokens = rows.tokens[drawn]
        if len(rows.states) == 1:
            return tokens, bytes(running)
        after = rows.state[drawn]
        if rows.kinds == 1:
            self._row[:running] = after
        else:
            np.add(self._kind[:running], after, out=row)
        return tokens, after.tobytes()

    def _alike(self, variant: Variant, running: int, horizon_s: float) -> None:
        """Rounds in which every sequence makes as many tokens, until one ends or somebody comes."""
        each = variant.rows.tokens_of_certain
        self.drafted_s = 0.0
        rounds = -(-int(self._left[:running].min()) // each)
        if len(self.policy.variants) > 1 or not self._surely_fits(variant, 0, rounds * running * each):
            rounds = 1
        context, done = self.cached / running, 0
        while done < rounds and (not done or self.now < horizon_s):
            self._log(variant.table.round_s(running, context + done * each, 0), running, 0, ())
            done += 1
        if self._steering is not None:
            self._steer(np.full(running, each))  # where K may change, a round is alone
        self._left[:running] -= done * each
        self.cached += done * each * running
        self._surely = max(0, self._surely - done)
        self._retire(self.now)

    def _prompts_alone(self, variant: Variant, chunks: tuple[Chunk, ...], ended: tuple[int, ...]) -> None:
        """A pass over prompts; nothing is decoded."""
        forced = self._first_lookups(variant, ended)
        end = self._log(variant.table.prompts_s(chunks, sum(forced), self.draft_late_s), 0, 0, chunks)
        if self.shares_draft:
            self.drafted_s = variant.table.drafting_s(0, 0.0, 0, chunks)
        if ended:
            self._join(variant, ended, forced, end)

    def _log(self, seconds: float, running: int, bits: int, chunks: tuple[Chunk, ...]) -> float:
        if self.policy.is_schedule:
            seconds *= 1.0 + self.batching.tax
        start = self.now
        end = self.now = start + seconds
        self._scheduled = running + len(chunks)
        of_prompts = sum(chunk.tokens for chunk in chunks) if chunks else 0
        held, still = self.running + len(self.prefilling), 0 if running else self.running
        self.journal.extend((start, end, running, held, bits, self.variant_number, of_prompts, still))
        self.rounds_done += 1
        return end

    # requests come

    def _admit(self) -> None:
        """First come, first served, while there is a place and a block."""
        while self.waiting and self.held < self.batching.max_batch:
            request = self.waiting.first
            tokens = int(self.totals[request] - self.todo[request])
            if not self._fits(self._variant, tokens):
                return
            self.waiting.pop()
            if isnan(self.requests.scheduled_s[request]):
                self.requests.scheduled_s[request] = self.now
            if self.batching.prefill == "none" and not self.requests.preemptions[request]:
                self._join(self._variant, (request,), (True,), self.now)
                self.forced = self._variant.caches
            else:
                self.prefilling.append([request, 0, tokens])
                self.prompt_tokens += tokens

    def _next_chunks(self, running: int) -> tuple[tuple[Chunk, ...], tuple[int, ...]]:
        """Chunks of prompts in the next pass, and the requests whose prompts end in it."""
        room = self.batching.token_budget
        if self.batching.prefill != "priority":
            room = max(LEAST_CHUNK, room - running * self._variant.queries)
        chunks, ended = [], []
        for prompt in self.prefilling:
            request, done, tokens = prompt
            take = min(room, tokens - done)
            chunks.append(Chunk(take, done))
            prompt[1] += take
            room -= take
            if prompt[1] == tokens:
                ended.append(request)
            if room <= 0:
                break
        return tuple(chunks), tuple(ended)

    def _first_lookups(self, variant: Variant, ended: tuple[int, ...]) -> tuple[bool, ...]:
        """Say whether each new request misses in the speculation cache; none where nothing is cached."""
        if not variant.caches:
            return (False,) * len(ended)
        if self.batching.first_speculation == "miss":
            return (True,) * len(ended)
        return tuple((self.uniforms.take(len(ended)) >= variant.p_hit).tolist()) if ended else ()

    def _join(self, variant: Variant, ended: tuple[int, ...], forced: tuple[bool, ...], end: float) -> None:
        """Prompts are done: their requests have their first token, and decode from now on."""
        requests, kinds, states = self.requests, self.kinds[self.variant_number], len(variant.rows.states)
        elsewhere = self.batching.prefill == "none"
        for request, missed in zip(ended, forced, strict=True):
            todo, total = int(self.todo[request]), int(self.totals[request])
            if not elsewhere or requests.preemptions[request]:
                self.prefilling.popleft()
                self.prompt_tokens -= total - todo
            if isnan(requests.first_s[request]):
                ready = requests.arrival_s[request] + self.batching.prefill_ms / 1e3
                requests.first_s[request] = ready if elsewhere else end
            left = todo - 1
            if left <= 0:
                self._finish(request, end)
                continue
            if missed and variant.caches:
                requests.forced_misses[request] += 1
            at, state, kind = self.running, variant.joins_in if missed else 0, int(kinds[request]) * states
            self.sequences[:, at] = left, total, request, self.rounds_done, kind + state, kind
            self.running = at + 1
            self.cached += total - left
            self._surely = min(self._surely, (left - 1) // variant.rows.most_tokens)

    # requests go

    def _retire(self, end: float) -> None:
        """Sequences that have all their tokens leave."""
        least = 1
        while self.running:
            at = int(self._left[: self.running].argmin())  # sooner than its minimum
            least = int(self._left[at])
            if least > 0:
                break
            total, request, since = map(int, self.sequences[1:4, at].tolist())
            self.cached -= total - least
            self.requests.rounds[request] += self.rounds_done - since
            self._finish(request, end)
            self.running -= 1
            self.sequences[:, at : self.running] = self.sequences[:, at + 1 : self.running + 1]
        self._surely = max(0, least - 1) // self._variant.rows.most_tokens

    def _finish(self, request: int, end: float) -> None:
        self.requests.last_s[request] = end
        self.todo[request] = 0
        self.finished.append(request)

    # the caches

    def _surely_fits(self, variant: Variant, sequences: int, tokens: int) -> bool:
        """So many sequences and tokens more fit, even if each wasted a block."""
        count = self.running + len(self.prefilling) + sequences
        tokens += self.cached + self.prompt_tokens
        for ledger in variant.ledgers:  # noqa: SIM110  a generator takes longer than the check
            if tokens + count * ledger.waste > ledger.tokens:
                return False
        return True

    def _fits(self, variant: Variant, tokens: int | None = None) -> bool:
        """Say whether what is held fits, and a sequence of ``tokens`` more."""
        if self._surely_fits(variant, tokens is not None, tokens or 0):
            return True
        return all(
            used <= ledger.blocks for used, ledger in zip(self.blocks_in_use(tokens), variant.ledgers, strict=True)
        )

    def blocks_in_use(self, more: int | None = None) -> list[int]:
        """Blocks in use by ledger, with a sequence of ``more`` tokens where asked for."""
        cached = (self._total - self._left)[: self.running]
        prompts = [prompt[2] for prompt in self.prefilling] + ([] if more is None else [more])
        every = np.concatenate([cached, np.array(prompts, dtype=np.int64)])
        return [ledger.blocks_of_all(every) for ledger in self._variant.ledgers]

    def _make_room(self, variant: Variant) -> int:
        """The newest sequences go back to the queue until what is held fits; how many are left that decode."""
        while self.held > 1 and not self._fits(variant):
            if self.prefilling:
                request, done, tokens = self.prefilling.pop()
                self.prompt_tokens -= tokens
                self.wasted_tokens += done
            else:
                at = self.running - 1
                request = int(self._request[at])
                self.todo[request] = int(self._left[at])
                self.cached -= int(self._total[at] - self._left[at])
                self.wasted_tokens += int(self._total[at] - self._left[at])
                self.requests.rounds[request] += self.rounds_done - int(self._since[at])
                self.running = at
            self.requests.preemptions[request] += 1
            self.waiting.push_front(request)
        return self.running

    # the schedule

    def _wants(self, batch: int, context: float) -> int:
        if self._steering is None:
            return self.policy.number(batch, context)
        return self.policy.number_of_k(self._steering.k(batch))

    def _steer(self, tokens: np.ndarray) -> None:
        """Tell what was accepted: of each sequence's tokens all but the last."""
        assert self._steering is not None
        if self._steering.heard(tokens - 1, self._variant.k):
            self._settled_at = -1

    def _choose(self, running: int) -> None:
        """Choose what the policy wants for what runs; another strategy starts as new requests do."""
        counted = self._scheduled if self.policy.counts_scheduled else running
        if counted == self._settled_at:
            return
        context = self.cached / running if running else float(self.policy.contexts[0])
        wanted = self._wants(max(1, counted), context)
        if wanted == self.variant_number:
            self._asked_for = 0
            self._settled_at = counted if len(self.policy.contexts) == 1 else -1
            return
        self._settled_at = -1
        self._asked_for = self._asked_for + 1 if wanted == self._wanted else 1
        self._wanted = wanted
        if running and self._asked_for < self.batching.hold:
            return
        before, self._variant = self._variant, self.policy.variants[wanted]
        self.variant_number, self._asked_for = wanted, 0
        self._surely = 0
        variant = self._variant
        states = len(variant.rows.states)
        state = self._row[:running] - self._kind[:running]
        self._kind[:running] = self.kinds[wanted][self._request[:running].astype(np.int64)] * states
        if before.name != variant.name:
            state[:] = variant.joins_in
            self.forced = variant.caches and running > 0
        self._row[:running] = self._kind[:running] + state
