"""Policies, workloads and runs that tests of serving share."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing, sharing
from ssdsim.serving.journal import Run
from ssdsim.serving.policies import AUTO, Policies, policies
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import simulate
from ssdsim.serving.workload import Lengths, Workload, synthetic

ELSEWHERE = Batching(prefill="none", max_batch=64)
"""Nothing but decoding."""


def requests(
    count: int,
    rate: float = 1.0,
    inputs: str = "512",
    outputs: str = "200",
    seed: int = 0,
    concurrency: int | None = None,
) -> Workload:
    lengths = Lengths.parse(inputs, "--input-len"), Lengths.parse(outputs, "--output-len")
    return synthetic(count, rate, *lengths, concurrency=concurrency, seed=seed)


def policies_of(workload: Workload, batching: Batching, **options: Any) -> Policies:
    return policies(options, workload, batching)


@lru_cache(maxsize=32)
def _policy(name: str, shape: tuple[int, float], batching: Batching, options: tuple[tuple[str, Any], ...]) -> Policy:
    """Tables are filled as they are asked, so tests that ask for the same ones share them."""
    context = round(shape[0] + shape[1] / 2.0)
    like = requests(2, inputs=str(max(1, round(context - shape[1] / 2.0))), outputs=str(max(1, round(shape[1]))))
    return policies({**dict(options), "strategies": name}, like, batching).by_name[name]


def policy(name: str, workload: Workload, batching: Batching = ELSEWHERE, **options: Any) -> Policy:
    mean = float(workload.output_tokens.mean())
    shape = (round(float(workload.input_tokens.mean())), round(mean))
    return _policy(name, shape, batching, tuple(sorted(options.items())))


def shared(of: Policy, workload: Workload, batching: Batching = ELSEWHERE) -> Sharing:
    return sharing(of, workload, batching)


SMALL: Mapping[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "engine": "kernels"}


def full_batches(batch: int, batching: Batching, **options: Any) -> tuple[Workload, Run, list[str]]:
    """A run of so many requests at once under a policy of K, and what ran in each round over all of them.

    Answers begin and end at the same contexts, 450 on average; a tenth of the rounds is a request's last.
    """
    workload = requests(150 * batch, inputs="400", outputs="101", concurrency=batch)
    chosen = policies_of(workload, batching, **options).by_name[AUTO]
    run = simulate(chosen, workload, batching)
    decoding = run.columns[:, run.columns[2] == batch]
    return workload, run, [chosen.variants[int(number)].label for number in decoding[5]]
