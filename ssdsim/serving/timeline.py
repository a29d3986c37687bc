"""A run as a timeline that Perfetto opens: rounds, what they waited for, prompts, strategies, how many run."""

from __future__ import annotations

import numpy as np

from ssdsim.answers.simulation.trace import Trace
from ssdsim.serving.journal import Run
from ssdsim.serving.policy import Policy

MOST_ROUNDS = 20_000
"""Of a timeline: a kilobyte each."""


def timeline(run: Run, policy: Policy, start_s: float = 0.0, end_s: float = np.inf) -> Trace:
    """The rounds of each replica that begin from ``start_s`` on and before ``end_s``, at most :data:`MOST_ROUNDS`.

    A track of rounds, one of the parts of each (a draft that is late, a fallback), one of the strategies in use, one a
    slot of the requests whose prompts are processed, and how many decode.
    """
    trace = Trace(f"ssdsim serve {policy.title}")
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
