"""Speculative speculative decoding (Algorithm 1): the draft pre-speculates while the target verifies."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from simpy import Event, Process

from ssdsim.engine.devices import Device, Mailbox
from ssdsim.engine.run import Run
from ssdsim.engine.steps import Steps
from ssdsim.engine.trace import Trace
from ssdsim.rounds.block import RoundBlock, total
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.outcomes import OutcomeSource
from ssdsim.rounds.scenario import Scenario, Stationary

_INSIDE_S = 1e-9  # arrows of a trace start and end this far inside a slice


def closed_form(scenario: Stationary) -> Estimate:
    """The stationary round: ``max(T_v + post + send, T_p) + lookup + [any miss] T_b + respond``.

    Exact for constant durations: sequences are independent two-state chains, so all hit with probability ``p^b``
    (Corollary 16). ``paper_round_s`` is the paper's denominator, which has no overheads and lets a late draft
    overlap the fallback.
    """
    times = scenario.times
    p_all = scenario.ssd.p_hit**scenario.batch
    target_side = times.verify_s + times.post_s + times.send_s
    lateness = np.maximum(0.0, times.prespeculate_s - target_side)
    clean = np.maximum(times.verify_s, times.prespeculate_s)
    return Estimate(
        strategy="ssd",
        batch=scenario.batch,
        gpus=scenario.gpus.ssd,
        tokens_per_round=scenario.ssd.tokens_per_round,
        breakdown_s={
            "verify": times.verify_s,
            "draft": lateness,
            "communicate": times.send_s + times.respond_s,
            "fallback": (1.0 - p_all) * times.fallback_s,
            "host": times.post_s + times.lookup_s,
        },
        p_hit=scenario.ssd.p_hit,
        p_all_hit=p_all,
        paper_round_s=p_all * clean + (1.0 - p_all) * (times.verify_s + times.fallback_s),
    )


def monte_carlo(scenario: Scenario, outcomes: OutcomeSource, steps: Steps, rounds: int) -> RoundBlock:
    """A block of rounds without a clock: the closed form's round, with drawn misses and durations."""
    tokens, misses = outcomes.block(rounds).totals()
    verify, post, send = (steps.block(name, rounds) for name in ("verify_s", "post_s", "send_s"))
    parts = {
        "verify": verify,
        "draft": np.maximum(0.0, steps.block("prespeculate_s", rounds) - (verify + post + send)),
        "communicate": send + steps.block("respond_s", rounds),
        "fallback": np.where(misses > 0, steps.block("fallback_s", rounds), 0.0),
        "host": post + steps.block("lookup_s", rounds),
    }
    return RoundBlock(tokens, misses, parts, total(parts))


@dataclass(frozen=True)
class _Exchange:
    """What target and draft have between them."""

    link: Device
    outcome: Mailbox
    speculation: Mailbox


def start(run: Run) -> Process:
    """Start target and draft; the returned process, the target's, ends with the run."""
    scenario = run.scenario
    target = run.device("target", [f"target GPU {i}" for i in range(scenario.gpus.ar)])
    draft = run.device("draft", [f"draft GPU {i}" for i in range(scenario.draft_devices)])
    exchange = _Exchange(run.device("link", ["link"]), Mailbox(run.env), Mailbox(run.env))
    run.env.process(_draft(run, draft, exchange))
    return run.env.process(_target(run, target, exchange))


def _target(run: Run, gpus: Device, exchange: _Exchange) -> Generator[Event, tuple[float, ...]]:
    """Verify, send the outcome, wait for the next speculation."""
    env, link = run.env, exchange.link
    for rounds in run.blocks():
        tokens, misses = run.outcomes.block(rounds).totals()
        verifies, posts, sends = (run.steps.block(name, rounds) for name in ("verify_s", "post_s", "send_s"))
        started, rows = env.now, []
        each = zip(misses.tolist(), verifies.tolist(), posts.tolist(), sends.tolist(), strict=True)
        for missed, verify, post, send in each:
            yield gpus.run("verify", verify)
            if post:
                yield gpus.run("sample", post)
            verified = env.now
            if send:
                yield link.run("outcome", send)
            arrived = env.now
            exchange.outcome.send((missed, verified))
            answer = yield exchange.speculation.arrival
            exchange.speculation.empty()
            rows.append((arrived, env.now, *answer))
            if run.trace is not None:
                _draw_speculation(run.trace, max(arrived, answer[0]), env.now)
        arrived, ended, ready, lookup, fallback, respond = np.array(rows).T
        parts = {
            "verify": verifies,
            "draft": np.maximum(0.0, ready - arrived),
            "communicate": sends + respond,
            "fallback": fallback,
            "host": posts + lookup,
        }
        run.recorder.add(RoundBlock(tokens, misses, parts, np.diff(ended, prepend=started)))


def _draft(run: Run, gpus: Device, exchange: _Exchange) -> Generator[Event, tuple[int, float]]:
    """Pre-speculate (not pre-emptible), take the outcome, look it up, fall back on a miss, answer."""
    env, link = run.env, exchange.link
    for prespeculate, lookup, fallback, respond in _draft_durations(run.steps):
        yield _prespeculate(run, gpus, prespeculate)
        ready = env.now
        missed, verified = yield exchange.outcome.arrival
        exchange.outcome.empty()
        if run.trace is not None:
            _draw_outcome(run.trace, verified, env.now)
        if lookup:
            yield gpus.run("look up", lookup)
        spent = fallback if missed else 0.0
        if spent:
            yield gpus.run(f"{run.scenario.fallback} fallback", spent, misses=missed)
        if respond:
            gpus.run("send", respond)
            yield link.run("speculation", respond)
        exchange.speculation.send((ready, lookup, spent, respond))


def _draft_durations(steps: Steps) -> Iterator[tuple[float, ...]]:
    names = ("prespeculate_s", "lookup_s", "fallback_s", "respond_s")
    while True:
        yield from zip(*(steps.block(name, 1024).tolist() for name in names), strict=True)


def _prespeculate(run: Run, gpus: Device, seconds: float) -> Event:
    """The glue pass and the K branch steps; a timeline shows them apart, in their shares of the time."""
    if run.trace is None or seconds == 0.0:
        return gpus.run("pre-speculate", seconds)
    times, k = run.scenario.times, run.scenario.lookahead
    glue = seconds * float(times.glue_s) / float(times.prespeculate_s)
    branch = (seconds - glue) / k
    return gpus.run_steps([("glue", glue), *((f"branch step {i + 1}", branch) for i in range(k))])


# The arrows: an outcome ends, and its speculation starts, where the draft begins to answer.


def _draw_outcome(trace: Trace, verified_s: float, answering_s: float) -> None:
    trace.flow("outcome", "target GPU 0", verified_s - _INSIDE_S, "draft GPU 0", answering_s + _INSIDE_S)


def _draw_speculation(trace: Trace, answering_s: float, received_s: float) -> None:
    trace.flow("speculation", "draft GPU 0", answering_s + _INSIDE_S, "target GPU 0", received_s + 2 * _INSIDE_S)
