"""Autoregressive decoding: one target pass a token."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from simpy import Event, Process

from ssdsim.engine.devices import Device
from ssdsim.engine.run import Run
from ssdsim.engine.steps import Steps
from ssdsim.rounds.block import RoundBlock
from ssdsim.rounds.estimate import Estimate
from ssdsim.rounds.outcomes import OutcomeSource
from ssdsim.rounds.scenario import Scenario, Stationary


def closed_form(scenario: Stationary) -> Estimate:
    """One token a pass of ``T_ar(b)``."""
    times = scenario.times
    return Estimate(
        strategy="ar",
        batch=scenario.batch,
        gpus=scenario.gpus.ar,
        tokens_per_round=1.0,
        breakdown_s={
            "verify": times.ar_pass_s,
            "draft": 0.0,
            "communicate": 0.0,
            "fallback": 0.0,
            "host": times.post_s,
        },
    )


def monte_carlo(scenario: Scenario, outcomes: OutcomeSource, steps: Steps, rounds: int) -> RoundBlock:
    """A block of rounds without a clock; nothing is drawn from ``outcomes``."""
    parts = {"verify": steps.block("ar_pass_s", rounds), "host": steps.block("post_s", rounds)}
    return RoundBlock.without_speculation(scenario.batch, rounds, parts)


def start(run: Run) -> Process:
    """Start the target; the returned process ends with the run."""
    gpus = run.device("target", [f"target GPU {i}" for i in range(run.scenario.gpus.ar)])
    return run.env.process(_target(run, gpus))


def _target(run: Run, gpus: Device) -> Generator[Event]:
    for rounds in run.blocks():
        block = monte_carlo(run.scenario, run.outcomes, run.steps, rounds)
        started, ends = run.env.now, []
        for decode, post in zip(block.parts_s["verify"].tolist(), block.parts_s["host"].tolist(), strict=True):
            yield gpus.run("decode", decode)
            if post:
                yield gpus.run("sample", post)
            ends.append(run.env.now)
        run.recorder.add(block.timed(np.diff(ends, prepend=started)))
