"""The journal of a run: a line a request, a line a round; and the timeline that Perfetto opens."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.checks import Array
from ssdsim.base.record import MutableRecord, field
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload

ROUND = ("start_s", "end_s", "decoding", "held", "bits", "variant", "prompt_tokens", "still")
"""Of a round: start and end, sequences decoding, sequences held, bits of what happened, number of the variant, tokens
of prompts, and sequences that stand still meanwhile."""


class Requests:
    """Times of each request: first scheduled, first token, last token (s; NaN where they did not come)."""

    def __init__(self, workload: Workload) -> None:
        count = workload.requests
        self.arrival_s = workload.arrival_s.copy()
        self.scheduled_s, self.first_s, self.last_s = (np.full(count, np.nan) for _ in range(3))
        self.rounds, self.preemptions, self.forced_misses = (np.zeros(count, dtype=np.int64) for _ in range(3))
        self.replica = np.zeros(count, dtype=np.int64)
        self.rejected = np.zeros(count, dtype=np.bool_)


class Run(MutableRecord):
    """One run of a replica or of several: the workload, its requests, each replica's rounds, shape ``(rounds, 8)``.

    ``misses`` of ``lookups`` outcomes of sequences were not in a speculation cache; ``wasted_tokens`` were processed
    again after a preemption. ``most_blocks`` is the largest number of blocks in use by ledger.
    """

    workload: Workload
    requests: Requests
    gpus: float
    miss_bits: list[int]
    rounds: list[Array] = field(default_factory=list)
    misses: int = 0
    lookups: int = 0
    wasted_tokens: int = 0

    @cached_property
    def columns(self) -> Array:
        """All rounds, shape ``(8, rounds)``, in the order of :data:`ROUND`."""
        return self.rounds[0].T if len(self.rounds) == 1 else np.concatenate(self.rounds).T

    @cached_property
    def round_s(self) -> Array:
        """Each round's seconds."""
        return np.asarray(self.columns[1] - self.columns[0])

    @cached_property
    def decoding(self) -> Array:
        """Sequences that decode in each round, side by side in memory."""
        return np.ascontiguousarray(self.columns[2])

    @cached_property
    def gap_s(self) -> Array:
        """Seconds between a round's tokens and those before: the round, and passes over prompts that it waited for."""
        waited = [_waited(each.T) for each in self.rounds if each.size]
        return np.asarray(self.round_s + np.concatenate(waited or [np.zeros(0)]))

    @property
    def end_s(self) -> float:
        """End of the last round."""
        return float(self.columns[1].max()) if self.columns.shape[1] else 0.0

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Requests that were answered."""
        return np.asarray(np.isfinite(self.requests.last_s))

    @property
    def clean_share(self) -> float | None:
        """Rounds that decode without a miss, forced ones included, of those of variants that cache; None of none."""
        if not any(self.miss_bits):
            return None
        bits, variants = self.columns[4].astype(int), self.columns[5].astype(int)
        of_variant = np.array(self.miss_bits, dtype=int)[variants] if variants.size else np.zeros(0, dtype=int)
        caching = (of_variant > 0) & (self.decoding > 0)
        return float(((bits & of_variant) == 0)[caching].mean()) if caching.any() else None


def _waited(columns: Array) -> Array:
    """Seconds of passes since the last round that decodes, during which sequences stood still, of each round."""
    if not columns[7].any():
        return np.zeros(columns.shape[1])
    decodes = columns[2] > 0
    still_s = np.cumsum((columns[1] - columns[0]) * (columns[7] > 0))
    last = np.maximum.accumulate(np.where(decodes, np.arange(decodes.size), -1))
    before = np.concatenate([[-1], last[:-1]]).astype(int)
    since = still_s - np.where(before >= 0, still_s[before], 0.0)
    return np.asarray(np.where(decodes, since, 0.0))


MOST_ROUNDS = 20_000
"""Of a timeline: a kilobyte each."""


def timeline(run: Run, policy: Policy, start_s: float = 0.0, end_s: float = np.inf) -> Trace:
    """The rounds of each replica that begin from ``start_s`` on and before ``end_s``, at most :data:`MOST_ROUNDS`.

    A track of rounds, one of the parts of each (a draft that is late, a fallback), one of the strategies in use, one a
    slot of the requests whose prompts are processed, and how many decode.
    """
    trace = Trace(f"ssdsim plan {policy.title}")
    for number, rounds in enumerate(run.rounds):
        shown = rounds[(rounds[:, 0] >= start_s) & (rounds[:, 0] < end_s)][:MOST_ROUNDS].tolist()
        for each in shown:
            _round(trace, policy, number, each)
        _strategies(trace, policy, number, shown)
        if shown:
            _prompts(trace, run, number, shown[0][0], shown[-1][1])
    return trace


def _round(trace: Trace, policy: Policy, number: int, each: list[float]) -> None:
    start, end = each[:2]
    running, held, bits, variant_number, tokens, _ = map(int, each[2:])
    variant = policy.variants[variant_number]
    missed = bool(bits & variant.table.miss_bit)
    what = f"{running} decode" if running else "prompts"
    name = what + (f" + {tokens} of prompts" if running and tokens else "") + (", miss" if missed else "")
    trace.slice(f"replica {number} rounds", name, start, end, running=running, held=held, prompt_tokens=tokens)
    trace.count(f"replica {number} running", start, decoding=running, waiting_for_prompt=held - running)
    if not running:
        return
    at = start
    for part, seconds in variant.table.parts_s(running, bits, tokens, end - start).items():
        trace.slice(f"replica {number} parts", _NAMES.get(part, part), at, at + seconds)
        at += seconds


_NAMES = {"draft": "draft, exposed or late"}


def _strategies(trace: Trace, policy: Policy, number: int, rounds: list[list[float]]) -> None:
    """One slice for each stretch in which the same variant runs."""
    start = 0
    for at in range(1, len(rounds) + 1):
        if at == len(rounds) or rounds[at][5] != rounds[start][5]:
            label = policy.variants[int(rounds[start][5])].label
            trace.slice(f"replica {number} strategy", label, rounds[start][0], rounds[at - 1][1])
            start = at


def _prompts(trace: Trace, run: Run, number: int, start_s: float, end_s: float) -> None:
    """Requests from where they are first scheduled to their first token; one that then misses says so."""
    requests = run.requests
    mine = np.flatnonzero((requests.replica == number) & (requests.first_s > start_s) & (requests.scheduled_s < end_s))
    free: list[float] = []
    for request in mine[np.argsort(requests.scheduled_s[mine], kind="stable")].tolist():
        begin, first = float(requests.scheduled_s[request]), float(requests.first_s[request])
        slot = next((slot for slot, until in enumerate(free) if until <= begin), len(free))
        free[slot : slot + 1] = [first]
        missed = ", forced miss" if requests.forced_misses[request] else ""
        name = f"request {request} joins{missed}"
        tokens = int(run.workload.input_tokens[request])
        trace.slice(f"replica {number} prompts {slot}", name, begin, first, input_tokens=tokens)
