"""Small models on CPU ranks."""

from __future__ import annotations

from typing import Any

from calibration.machine.executor.executor import BufferShape
from calibration.machine.executor.plan import RankPlan, Timeline
from calibration.machine.ranks import Ranks
from calibration.validation.bench import HANDLER
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.scenario import Scenario

ROUNDS = 20
SEED = 3
CARDS = {"target": "transformer-shaped-512x3", "draft": "transformer-shaped-256x1"}
DTYPE = "bfloat16"


def small(*strategies: str, **options: Any) -> Configuration:
    """Models that a core runs in a moment; what they would take on the profile does not matter."""
    given = {"b": 2, "k": 3, "backup": "jit", "tp": 1, "context": 32, "dtype": DTYPE} | options
    return configure(**{**CARDS, **given}, **({"strategies": strategies} if strategies else {}))


def executing(target: int, draft: int) -> Ranks:
    """So many ranks of each model, with room for what :func:`small` gives; they take turns on two cores."""
    buffers = {model: BufferShape(find_transformer(card), DTYPE, batch=2, context=64) for model, card in CARDS.items()}
    devices = [f"cpu:{rank % 2}" for rank in range(target + draft)]
    return Ranks(devices, HANDLER, {"target_ranks": target, "dtype": DTYPE, "buffers": buffers})


def run(ranks: Ranks, scenario: Scenario) -> Any:
    """The timelines of the ranks."""
    return ranks.ask({"plan": RankPlan.of(scenario), "seed": SEED, "rounds": ROUNDS}, 120.0)


def spans(timeline: Timeline, *names: str) -> list[tuple[float, float]]:
    """Start and end of the events called ``names``."""
    return [(event.start_s, event.end_s) for event in timeline.events if event.what in names]


def overlap_s(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
    """Seconds in which something of both runs."""
    return sum(max(0.0, min(e, f) - max(s, t)) for s, e in a for t, f in b)


def whats(timeline: Timeline) -> list[str]:
    """What a rank did, in its order."""
    return [event.what for event in timeline.events]
