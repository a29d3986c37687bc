"""Long runs: a replica's rounds without Python between them, as far as these go."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.serving import compiled as c
from ssdsim.serving.batching import LEAST_CHUNK
from ssdsim.serving.flat_tables import FlatTables, arithmetic_of
from ssdsim.serving.replica import Replica

_LOGGED = 1 << 17  # rounds at a time


class Ahead:
    """A replica that open arrivals drive, at ``times``. What it does is what :meth:`Replica.step` does, to the bit."""

    def __init__(self, replica: Replica, times: Array, tables: FlatTables) -> None:
        requests, batching = replica.requests, replica.batching
        self._replica, self._tables = replica, tables
        stretch = 1.0 + batching.tax if replica.policy.is_schedule else 1.0
        self._limits = c.Limits(batching.max_batch, batching.token_budget, LEAST_CHUNK, replica.longest, stretch)
        self._columns = c.Columns(
            arrival_s=times,
            todo=replica.todo,
            total=replica.totals,
            rejected=requests.rejected,
            scheduled_s=requests.scheduled_s,
            first_s=requests.first_s,
            last_s=requests.last_s,
            rounds=requests.rounds,
            forced_misses=requests.forced_misses,
            queue=replica.waiting.places,
        )
        self._prompts = np.zeros((batching.max_batch, 3), dtype=np.int64)
        self._journal = np.empty((_LOGGED, 8))

    @staticmethod
    def of(replica: Replica, times: Array) -> Ahead | None:
        """One that goes ahead; None where a policy, or an engine, does what no compiled round does."""
        policy, batching = replica.policy, replica.batching
        misses = batching.first_speculation == "miss" or not any(variant.caches for variant in policy.variants)
        waits = batching.hold > 1 and len(policy.variants) > 1
        if batching.prefill != "chunked" or waits or not misses:
            return None
        if policy.counts_scheduled or policy.steered is not None or len(policy.contexts) > 1:
            return None
        arithmetic = arithmetic_of(policy)
        if arithmetic is None or any(chances is not None for chances in replica.chances):
            return None
        longest = int(replica.totals.max())
        return Ahead(replica, times, FlatTables(policy, arithmetic, batching, longest, replica.kinds))

    def run(self, came: int, until: int) -> int:
        """Rounds from where ``came`` requests came until ``until`` did, or one is not known here; how many came."""
        replica, waiting, count = self._replica, self._replica.waiting, np.zeros(c.COUNTERS, dtype=np.int64)
        prompts = replica.prefilling
        self._prompts[: len(prompts)] = np.array(prompts).reshape(-1, 3)
        count[[c.NUMBER, c.RUNNING, c.CACHED]] = replica.variant_number, replica.running, replica.cached
        count[[c.PROMPTS, c.PROMPT_TOKENS, c.FORCED]] = len(prompts), replica.prompt_tokens, replica.forced
        count[[c.ROUND, c.MISSES, c.LOOKUPS]] = replica.rounds_done, replica.misses, replica.lookups
        count[[c.CAME, c.HEAD, c.TAIL, c.DRAWN]] = came, waiting.head, waiting.tail, replica.uniforms.at
        replica.now = float(
            c.advance(
                self._tables.refresh(),
                self._limits,
                self._columns,
                count,
                replica.now,
                until,
                replica.sequences,
                self._prompts,
                replica.uniforms.numbers,
                self._journal,
            )
        )
        known = count.tolist()
        replica.running, replica.cached = known[c.RUNNING], known[c.CACHED]
        replica.prompt_tokens = known[c.PROMPT_TOKENS]
        replica.rounds_done, replica.misses, replica.lookups = known[c.ROUND], known[c.MISSES], known[c.LOOKUPS]
        replica.forced, replica.uniforms.at = bool(known[c.FORCED]), known[c.DRAWN]
        waiting.head, waiting.tail = known[c.HEAD], known[c.TAIL]
        prompts.clear()
        prompts.extend(self._prompts[: known[c.PROMPTS]].tolist())
        replica.journal.frombytes(self._journal[: known[c.LOGGED]].ravel().view(np.uint8).data)
        replica.runs(known[c.NUMBER])
        return known[c.CAME]
