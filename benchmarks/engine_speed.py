"""Rounds a second of the engines, side by side with a bare SimPy ping-pong of the same number of events.

Run: python benchmarks/engine_speed.py
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Generator
from unittest.mock import patch

from simpy import Environment, Event

from ssdsim import strategies
from ssdsim.answers.simulation import actor
from ssdsim.answers.simulation.events import Clock
from ssdsim.answers.simulation.simulate import Engine, simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario

REPEATS = 3
EVENTS_A_ROUND = 5  # verify, outcome, pre-speculation, speculation, and a fallback in nearly every round of 16


def bare_ping_pong(rounds: int) -> None:
    """Two processes that wait for each other, with as many events a round as SSD and nothing else."""
    env = Environment()
    ping, pong = [env.event()], [env.event()]

    def target() -> Generator[Event]:
        for _ in range(rounds):
            yield env.timeout(1.0)
            ping[0].succeed()
            yield pong[0]
            pong[0] = env.event()

    def draft() -> Generator[Event]:
        while True:
            yield env.timeout(0.6)
            yield ping[0]
            ping[0] = env.event()
            yield env.timeout(0.3)
            pong[0].succeed()

    env.process(draft())
    env.run(until=env.process(target()))


def scenario(batch: int, backup: str = "jit") -> Scenario:
    configuration = configure(
        t_sd=0.3, t_p=0.6, t_b=0.3, k=7, alpha=0.8, p_hit=0.85, b=batch, backup=backup, strategies="ssd"
    )
    return configuration.scenarios["ssd"]


def rate(run: Callable[[int], object], rounds: int) -> float:
    """Best rounds a second of a few repeats (the machine's noise only ever slows)."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        run(rounds)
        best = min(best, time.perf_counter() - start)
    return rounds / best


def replay(case: Scenario, solver: Engine) -> Callable[[int], object]:
    return lambda rounds: simulate(case, solver=solver, rounds=rounds)


def peak_mib(run: Callable[[int], object], rounds: int) -> float:
    tracemalloc.start()
    run(rounds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def events_a_round(case: Scenario, rounds: int) -> float:
    clock = Clock()
    with patch.object(actor, "Clock", lambda: clock):
        simulate(case, solver="des", rounds=rounds)
    return next(clock._eid) / rounds


def by_strategy(bare_rounds_s: float) -> None:
    """Events a second of each strategy over those of the bare loop: rounds have from one event to fifty."""
    for name in strategies.ALL.names:
        case = configure(t_sd=0.3, k=7, alpha=0.8, strategies=name).scenarios[name]
        events = events_a_round(case, 2_000)
        found = rate(replay(case, "des"), 20_000) * events / (bare_rounds_s * EVENTS_A_ROUND)
        print(f"{f'{name}, {events:.1f} events a round':44}{found:29.2f} of the bare loop's events/s")


def main() -> None:
    bare = rate(bare_ping_pong, 50_000)
    print(f"{'bare ping-pong, ' + str(EVENTS_A_ROUND) + ' events a round':44}{bare:14,.0f} rounds/s   1.00")
    for batch in (1, 16, 64):
        for backup in ("jit", "fast"):
            speed = rate(replay(scenario(batch, backup), "des"), 50_000)
            print(f"{f'event engine, b = {batch}, {backup}':44}{speed:14,.0f} rounds/s   {speed / bare:.2f}")
    for batch in (1, 16, 64):
        for backup in ("jit", "fast"):
            speed = rate(replay(scenario(batch, backup), "mc"), 2_000_000)
            print(f"{f'Monte Carlo, b = {batch}, {backup}':44}{speed:14,.0f} rounds/s   {speed / bare:.0f}")
    by_strategy(bare)
    for solver, sizes in (("des", (20_000, 200_000)), ("mc", (2_000_000, 20_000_000))):
        case = replay(scenario(16), solver)  # type: ignore[arg-type]
        small, large = (1.0 / rate(case, size) for size in sizes)
        peaks = [peak_mib(case, size // 10) for size in sizes]
        more, longer = sizes[1] / sizes[0], sizes[1] / sizes[0] * large / small
        print(f"{solver}: {more:.0f} times the rounds take {longer:.1f} times the time; ", end="")
        print(f"peak memory {peaks[0]:.2f} and {peaks[1]:.2f} MiB")


if __name__ == "__main__":
    main()
