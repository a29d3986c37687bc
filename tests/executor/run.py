"""Small models on CPU ranks."""

from __future__ import annotations

from typing import Any

from ssdsim.executor.plan import RankPlan
from ssdsim.executor.timeline import Timeline
from ssdsim.machine.ranks import Ranks
from ssdsim.scenario.configuration import Configuration, configure
from ssdsim.scenario.scenario import Scenario
from ssdsim.validation.bench import HANDLER, executor_options

ROUNDS = 20
SEED = 3


def small(*strategies: str, **options: Any) -> Configuration:
    """Models that a core runs in a moment; what they would take on the profile does not matter."""
    given = {"b": 2, "k": 3, "backup": "jit", "tp": 1, "context": 32, "dtype": "bfloat16"} | options
    cards = {"target": "transformer-shaped-512x3", "draft": "transformer-shaped-256x1"}
    return configure(**cards, **given, **({"strategies": strategies} if strategies else {}))


def run(configuration: Configuration, *scenarios: Scenario, devices: tuple[str, ...] = ("cpu:0", "cpu:1")) -> Any:
    """The timelines of each rank, for each of the scenarios."""
    plans = [RankPlan.of(scenario) for scenario in scenarios]
    tp = max(scenario.devices.target for scenario in scenarios)
    with Ranks(devices, HANDLER, executor_options([configuration], tp, "bfloat16")) as ranks:
        ranks.ask({"prepare": plans}, 60.0)
        return [ranks.ask({"plan": plan, "seed": SEED, "rounds": ROUNDS}, 60.0) for plan in plans]


def run_one(configuration: Configuration, strategy: str, devices: tuple[str, ...] = ("cpu:0", "cpu:1")) -> Any:
    """The timelines of the ranks of one strategy."""
    return run(configuration, configuration.scenarios[strategy], devices=devices)[0]


def spans(timeline: Timeline, *names: str) -> list[tuple[float, float]]:
    """Start and end of the events called ``names``."""
    return [(event.start_s, event.end_s) for event in timeline.events if event.what in names]


def whats(timeline: Timeline) -> list[str]:
    """What a rank did, in its order."""
    return [event.what for event in timeline.events]
