"""Time serving: the loop next to a bare loop of as many array operations, the closed form, a cold command, a sweep.

Run: ``python benchmarks/serving_speed.py``. Seconds are those of a core, so that a busy machine says nearly the same;
commands show what a clock says, too. The bare loop draws, adds and
compares as a round must, and knows nothing else: the ratio to it means the same on every machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from ssdsim.serving.batching import Batching
from ssdsim.serving.metrics import measure
from ssdsim.serving.replica import simulate
from ssdsim.serving.serve import serve
from ssdsim.serving.workload import Lengths, Workload, synthetic

REPEATS = 3
REQUESTS = 3000
RUNNING = 32


def workload(rate: float, requests: int = REQUESTS) -> Workload:
    return synthetic(requests, rate, Lengths.parse(1024, "input"), Lengths.parse(256, "output"))


def best_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def bare_rounds(rounds: int) -> None:
    """What no loop of rounds can do without: uniform numbers, outcomes, tokens, the least that is left."""
    uniform = np.random.default_rng(0).random((rounds, RUNNING))
    cdf, tokens = np.linspace(0.0, 1.0, 14)[1:], np.arange(14)
    left = np.full(RUNNING, 1 << 40)
    for row in uniform:
        left -= tokens[cdf.searchsorted(row)]
        left.min()


def main() -> None:
    serving = serve(workload=workload(1.0), solver="closed", prefill="none", strategies="ar,sd,ssd,auto")
    print(f"{'loop, prompts elsewhere':32}{'running':>9}{'rounds/s':>11}{'tokens/s':>12}{'x bare':>8}")
    bare_s = best_s(lambda: bare_rounds(20_000)) / 20_000
    for prefill, rate in (("none", 12.0), ("chunked", 7.0)):
        batching = Batching(prefill=prefill)  # type: ignore[arg-type]
        served = serve(workload=workload(rate), solver="closed", prefill=prefill, strategies="ar,sd,ssd,auto")
        for name, policy in served.policies.by_name.items():
            load = workload(rate)
            run = simulate(policy, load, batching)  # fills the tables
            seconds = best_s(lambda policy=policy, load=load, batching=batching: simulate(policy, load, batching))  # type: ignore[misc]
            rounds, made = run.columns.shape[1], int(load.output_tokens.sum())
            running = measure(run, None).running
            row = f"{rounds / seconds:11,.0f}{made / seconds:12,.0f}{seconds / rounds / bare_s:8.1f}"
            print(f"{name + ', ' + prefill:32}{running:9.1f}{row}")
    sharing = serving.sharings["ssd"]
    print(f"closed form, a rate: {1e3 * best_s(lambda: sharing.served(8.0)):.2f} ms")
    slo = "ttft:500,tpot:15"
    searched = best_s(lambda: serve(workload=workload(1.0, 800), slo=slo, capacity=True, strategies="ssd"))
    print(f"capacity of SSD, 800 requests: {searched:.1f} s")
    for what, arguments in (
        ("cold command, four strategies", "serve --rate 8"),
        ("24 rates x 4 strategies, 2 processes", "serve --rate 1:24 --jobs 2 --prefill none"),
    ):
        command = [sys.executable, "-m", "ssdsim", *arguments.split(), "--quiet"]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cores_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{what}: {time.perf_counter() - start:.1f} s, {cores_s:.1f} s of cores")


if __name__ == "__main__":
    main()
