"""Speculative decoding: K draft steps, then one verification; they alternate."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from simpy import Event, Process

from ssdsim.engine.devices import Device
from ssdsim.engine.run import Run
from ssdsim.engine.steps import Steps
from ssdsim.rounds.block import RoundBlock, total
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.outcomes import OutcomeSource
from ssdsim.rounds.scenario import Scenario, Stationary


def closed_form(scenario: Stationary) -> Estimate:
    """``E / (K T_d + T_v + overheads)`` (Leviathan et al., 2023)."""
    times = scenario.times
    return Estimate(
        strategy="sd",
        batch=scenario.batch,
        gpus=scenario.gpus.sd,
        tokens_per_round=scenario.sd_tokens_per_round,
        breakdown_s={
            "verify": times.sd_verify_s,
            "draft": times.sd_draft_s,
            "communicate": times.sd_message_s,
            "fallback": 0.0,
            "host": times.post_s,
        },
    )


def monte_carlo(scenario: Scenario, outcomes: OutcomeSource, steps: Steps, rounds: int) -> RoundBlock:
    """A block of rounds without a clock."""
    tokens, _ = outcomes.block(rounds).totals()
    parts = {
        "verify": steps.block("sd_verify_s", rounds),
        "draft": steps.block("sd_draft_s", rounds),
        "communicate": steps.block("sd_message_s", rounds),
        "host": steps.block("post_s", rounds),
    }
    return RoundBlock(tokens, None, parts, total(parts))


def start(run: Run) -> Process:
    """Start the alternation; the returned process ends with the run."""
    scenario = run.scenario
    target = run.device("target", [f"target GPU {i}" for i in range(scenario.gpus.ar)])
    separate = scenario.gpus.sd > scenario.gpus.ar
    draft = run.device("draft", ["draft GPU 0"]) if separate else target
    return run.env.process(_alternate(run, target, draft, run.device("link", ["link"])))


def _alternate(run: Run, target: Device, draft: Device, link: Device) -> Generator[Event]:
    step_name = [f"draft step {i + 1}" for i in range(run.scenario.sd.lookahead)]
    message_name = "send tokens" if draft is target else "outcome and speculation"
    for rounds in run.blocks():
        block = monte_carlo(run.scenario, run.outcomes, run.steps, rounds)
        parts = block.parts_s
        started, ends = run.env.now, []
        each = zip(*(parts[name].tolist() for name in ("draft", "communicate", "verify", "host")), strict=True)
        for drafting, message, verify, post in each:
            yield draft.run_steps([(name, drafting / len(step_name)) for name in step_name])
            if message:
                yield link.run(message_name, message)
            yield target.run("verify", verify)
            if post:
                yield target.run("sample", post)
            ends.append(run.env.now)
        run.recorder.add(block.timed(np.diff(ends, prepend=started)))
