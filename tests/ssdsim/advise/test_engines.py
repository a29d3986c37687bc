"""What an engine cannot run is never recommended: it stands apart, with what it would be worth."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import compare, configure, export, recommend
from ssdsim.advise.export.export import _ENGINES
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.engines import Engine
from ssdsim.serving.serve import serve
from ssdsim.serving.workload import Lengths, synthetic
from tests.refusals import refused

ENGINES = ("vllm", "vllm-0.16", "sglang", "trtllm", "ssd-engine")
EVERY = ("ar", "sd", "ssd", "tree")
SMALL: dict[str, Any] = {"k": [2, 6], "tp": [2, 4]}


def can(runtime: str, deployment: Any, drafter: str = "model") -> bool:
    runs = find_runtime(runtime).runs
    assert runs is not None
    few = runs.draft_gpus is None or deployment.shape.devices.draft <= runs.draft_gpus
    return runs.has(deployment.shape.strategy, drafter) and few


@pytest.mark.long
@pytest.mark.parametrize("runtime", ENGINES)
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_nothing_is_recommended_that_the_engines_card_says_it_cannot_run(runtime: str, drafter: str) -> None:
    strategies = EVERY if drafter == "model" else ("ar", "sd", "ssd")
    recommendation = recommend(gpus=6, b=[1, 32], engine=runtime, strategies=strategies, drafter=drafter, **SMALL)
    for answer in recommendation.answers:
        assert answer.best is not None
        named = [answer.best, *answer.by_strategy.values(), *answer.pareto]
        assert all(can(runtime, each, drafter) for each in named)
        assert not any(can(runtime, each.deployment, drafter) for each in answer.unsupported.values())
        assert answer.unsupported.keys() >= {
            n for n in strategies if Engine.of(recommendation.request.options).lacks(n)
        }
    assert all(can(runtime, each.deployment, drafter) for each in recommendation.fewer)


@pytest.mark.long
def test_what_stands_apart_says_what_it_would_be_worth() -> None:
    on_vllm, on_any = (recommend(gpus=5, engine=each, **SMALL) for each in ("vllm", None))
    (answer,) = on_vllm.answers
    assert answer.best is not None
    assert "of what vLLM runs: SD (lean: 9" in on_vllm.sentence
    apart = answer.unsupported["ssd"]
    assert apart.worth == pytest.approx(apart.deployment.per_user / answer.best.per_user)
    assert apart.sentence == f"with SSD, which vLLM does not have: {apart.worth:.2f}x"
    assert on_any.answers[0].best is not None
    assert on_any.answers[0].best.shape.strategy == "ssd"
    assert not on_any.answers[0].unsupported
    assert recommend(gpus=5, engine="kernels", **SMALL).request.ranked == ("ar", "sd", "ssd")


@pytest.mark.long
def test_devices_that_an_engine_has_not_stand_apart() -> None:
    (answer,) = recommend(gpus=8, b=16, engine="ssd-engine", tp=4, k=[7, 8]).answers
    assert answer.best is not None
    assert answer.best.shape.devices.draft == 1
    assert "it drafts on 1 GPU of its own" in answer.unsupported["ssd"].sentence


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": "ssd"}, "SSD"),
        ({"subject": "ssd"}, "--subject ssd"),
        ({"strategies": "sd", "drafter": "self", "target": "llama-3.1-8b"}, "sparse self-draft"),
    ],
)
def test_asking_an_engine_for_what_it_has_not_is_refused(options: dict[str, str], message: str) -> None:
    with refused(message):
        recommend(gpus=5, engine="vllm", **options)


def test_compare_names_no_winner_that_the_engine_lacks() -> None:
    comparison = compare(gpus=5, engine="vllm", strategies="ar,sd,ssd", **SMALL)
    (answer,) = comparison.answers
    assert answer.by_strategy.keys() == {"ar", "sd"}
    assert answer.unsupported.keys() == {"ssd"}


def test_serving_ranks_what_the_engine_runs() -> None:
    requests = synthetic(50, 1.0, Lengths.parse("256", "x"), Lengths.parse("64", "x"))
    serving = serve(workload=requests, rate=[2.0], solver="closed", engine="vllm", strategies="ar,sd,ssd,auto")
    assert serving.subject == "sd"
    assert serving.capacities.keys() == {"ar", "sd", "auto"}
    assert all(v.scenario.strategy.name != "ssd" for v in serving.policies.by_name["auto"].variants)
    (apart,) = serving.unsupported.values()
    assert apart.sentence.startswith("with SSD, which vLLM does not have: 1.")
    assert apart.worth[0] is not None
    assert apart.worth[0] > 1.0
    with refused("vLLM", "SSD"):
        serve(workload=requests, rate=[2.0], solver="closed", engine="vllm", strategies="ar,sd,ssd", subject="ssd")
    assert serving.how.batching.prefill == "chunked"


def test_a_prediction_says_that_the_engine_has_no_such_strategy() -> None:
    said = "vLLM does not implement SSD; this prices it as if it did"
    assert said in configure(engine="vllm", strategies="ar,ssd").warnings
    assert not any("does not implement" in w for w in configure(engine="vllm").warnings)
    assert not any("does not implement" in w for w in configure().warnings)


def test_dialects_can_say_what_their_engines_run() -> None:
    """But for the SSD engine's EAGLE-3, whose command line names no head."""
    for dialect in _ENGINES.values():
        assert {*dialect.runs.drafters} - {*dialect.drafters} <= ({"eagle3"} if dialect.name == "ssd" else set())


def test_an_export_is_held_to_the_runtime_that_is_named() -> None:
    options = {"b": 1, "k": 4, "target": "qwen3-8b", "tp": 1, "strategies": ("ar", "sd"), "drafter": "dflash"}
    assert '"dflash"' in export("vllm", **options).text
    with refused("--format vllm", "SD", "DFlash"):
        export("vllm", **{**options, "strategies": ("sd",)}, engine="vllm-0.5")


def test_heads_that_draft_beside_the_target_leave_no_traceback() -> None:
    """Medusa's export ended in one, where a window of the cache was priced that it cannot fill."""
    exported = export("vllm", drafter="medusa", target="llama-3.1-8b", tp=1, b=1, k=3)
    assert '"medusa"' in exported.text
