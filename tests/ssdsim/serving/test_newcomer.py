"""A strategy and a drafter from outside are served like those of the house, and switched to by a schedule."""

from collections.abc import Iterator

import pytest

from ssdsim import predict, strategies
from ssdsim.serving.batching import Batching
from ssdsim.serving.policies import policies
from ssdsim.serving.replica import simulate
from ssdsim.strategies import drafters
from tests.ssdsim.serving.checks import every_token_was_made
from tests.ssdsim.serving.sample_runs import requests
from tests.ssdsim.strategies.wary import NGrams, Wary

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    strategies.ALL.register(Wary())
    drafters.ALL.register(NGrams())
    yield
    strategies.ALL.forget("wary")
    drafters.ALL.forget("ngrams")


@pytest.mark.parametrize("drafter", ["model", "ngrams"])
def test_it_is_served_at_its_predicted_pace(drafter: str) -> None:
    batching = Batching(prefill="none", max_batch=8)
    workload = requests(24, outputs="2000", concurrency=8)
    options = {"drafter": drafter, "wary_k": 3}
    wary = policies({"strategies": "wary", **options}, workload, batching).by_name["wary"]
    run = simulate(wary, workload, batching)
    predicted = predict(b=8, context=round(workload.context), strategies="wary", **options).estimates["wary"]
    assert float(run.round_s[run.decoding == 8].mean()) == pytest.approx(float(predicted.round_s), rel=0.02)


def test_a_schedule_may_switch_to_it_and_prompts_are_processed() -> None:
    workload = requests(60, 5.0, inputs="300", outputs="60")
    chosen = policies({"strategies": "ar,wary,ssd,auto"}, workload, Batching())
    for policy in chosen.by_name.values():
        every_token_was_made(simulate(policy, workload, Batching()))
