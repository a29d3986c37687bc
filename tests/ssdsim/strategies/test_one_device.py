"""SSD whose draft works on the target's own device while that verifies: one law, which every engine has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.advise.recommend.recommendation import recommend
from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.base.errors import DoesNotFit
from ssdsim.pricing.contention import OVERLAP, overlap_of
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.serving.batching import Batching
from ssdsim.serving.replica import simulate as serve_loop
from tests.refusals import refused
from tests.ssdsim.serving.sample_runs import SMALL, policy, requests

PAIR: dict[str, Any] = {"target": "llama-3.1-8b", "draft": "llama-3.2-1b", "tp": 1, "k": 5, "alpha": 0.8, "p_hit": 0.8}
shares = st.just(0.0) | st.floats(0.01, 1.0)
times = st.just(0.0) | st.floats(0.01, 2.0)
ONE: dict[str, Any] = PAIR | {"engine": "kernels", "draft_devices": "shared", "strategies": "ssd"}


def of(name: str, **options: Any) -> Scenario:
    return configure(**options, strategies=name).scenarios[name]


def rate(name: str, **options: Any) -> float:
    return float(of(name, **options).estimate.tokens_per_second)


def verified_s(batch: int, **options: Any) -> tuple[float, float, float]:
    """Verification and pre-speculation alone, on devices of their own, and both on one."""
    own, shared = (configure(**ONE | {"b": batch, "draft_devices": at} | options) for at in ("own", "shared"))
    alone, beside = own.scenarios["ssd"].priced.seconds, shared.scenarios["ssd"].priced.seconds
    return alone["verify"], alone["pre-speculate"], beside["verify"]


@pytest.mark.parametrize(("batch", "share"), OVERLAP)
def test_one_device_hides_the_measured_share_of_the_shorter_pass(batch: int, share: float) -> None:
    verify_s, prespeculate_s, both_s = verified_s(batch)
    short_s, long_s = sorted((verify_s, prespeculate_s))
    assert both_s == pytest.approx(long_s + (1.0 - share) * short_s)
    assert verified_s(batch, overlap=1.0)[2] == pytest.approx(long_s)


@given(batches=st.tuples(st.integers(1, 4096), st.integers(1, 4096)).map(sorted))
def test_larger_batches_hide_no_larger_share(batches: list[int]) -> None:
    fewer, more = map(overlap_of, batches)
    assert 0.0 <= more <= fewer <= OVERLAP[0][1]


@given(
    alpha=shares,
    k=st.integers(1, 8),
    b=st.sampled_from([1, 4, 64, 200]),
    t_sd=times,
    t_p=times,
    p_hit=shares,
    backup=st.sampled_from(["jit", "fast"]),
    overlap=st.none() | st.floats(0.0, 1.0),
)
@settings(deadline=None, max_examples=60)
def test_a_device_that_is_shared_is_never_faster_than_one_more(overlap: float | None, **options: Any) -> None:
    shared = rate("ssd", **options, draft_devices="shared", overlap=overlap)
    assert shared <= rate("ssd", **options) * (1.0 + 1e-12)


@given(
    alpha=shares,
    k=st.integers(1, 8),
    b=st.sampled_from([1, 4, 64]),
    t_sd=times,
    p_hit=shares,
    backup=st.sampled_from(["jit", "fast"]),
)
@settings(deadline=None, max_examples=60)
def test_without_overlap_ssd_is_no_faster_than_sd_with_as_much_drafting(**options: Any) -> None:
    shared = rate("ssd", **options, draft_devices="shared", overlap=0.0)
    assert shared <= rate("sd", **options) * (1.0 + 1e-12)


@pytest.mark.parametrize("engine", ["kernels", "ssd-engine", "vllm-0.24", "llama-cpp"])
@pytest.mark.parametrize("batch", [1, 16])
def test_the_same_holds_in_the_runtime_of_an_engine(engine: str, batch: int) -> None:
    at = PAIR | {"engine": engine, "b": batch, "backup": "jit", "hardware": "h100-sxm"}
    shared = rate("ssd", **at, draft_devices="shared", overlap=0.0)
    assert shared <= rate("sd", **at, sd_draft="colocated")
    assert shared <= rate("ssd", **at, draft_devices="shared") <= rate("ssd", **at)


@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize("options", [{"b": 8}, {"b": 1, "tp": 2}, {"t_sd": 0.4, "b": 4, "engine": None, "tp": None}])
def test_its_engines_agree(solver: Any, options: dict[str, Any]) -> None:
    asked = {name: value for name, value in (ONE | options).items() if value is not None}
    unit_free = {name: value for name, value in asked.items() if name not in ("target", "draft")}
    (case,) = configure(**(unit_free if "t_sd" in asked else asked)).scenarios.values()
    run = simulate(case, solver=solver, rounds=8_000, seed=5, confidence=0.999)
    assert run.tokens_per_second.covers(float(case.estimate.tokens_per_second))
    assert run.round_s.value == pytest.approx(float(case.estimate.round_s), rel=0.01)


def test_a_full_server_runs_at_the_predicted_pace() -> None:
    options = {**SMALL, "draft": "llama-3.2-1b", "k": 4, "draft_devices": "shared", "p_hit": 0.9}
    batching = Batching(prefill="none", first_speculation="prefill", max_batch=16)
    workload = requests(48, outputs="1000", concurrency=16)
    run = serve_loop(policy("ssd", workload, batching, **options), workload, batching)
    predicted = of("ssd", b=16, context=round(workload.context), **options).estimate
    assert float(run.round_s[run.decoding == 16].mean()) == pytest.approx(float(predicted.round_s), rel=0.02)


def test_the_draft_lies_beside_its_target() -> None:
    """What has room on two GPUs has none on one."""
    asked = PAIR | {"hardware": "rtx-4090", "context": 1024, "b": 44, "strategies": "ssd"}
    assert configure(**asked).scenarios["ssd"].devices.total == 2
    with refused("beside", "SSD", error=DoesNotFit):
        configure(**asked, draft_devices="shared")
    assert configure(**asked | {"b": 4}, draft_devices="shared").scenarios["ssd"].devices.total == 1


@pytest.mark.parametrize(
    ("options", "beyond"),
    [({}, ""), ({"b": 128}, "batch 128"), ({"hardware": "rtx-4090"}, "rtx-4090"), ({"b": 65, "tp": 2}, "tp 2")],
)
def test_it_says_what_the_overlap_rests_on_and_where_that_ends(options: dict[str, Any], beyond: str) -> None:
    told = [each for each in configure(**ONE | options).warnings if "--draft-devices shared" in each]
    assert len(told) == 1
    assert "0.29, 0.24, 0.14" in told[0]
    assert ("extrapolated" in told[0]) == bool(beyond)
    assert beyond in told[0]


def test_the_error_of_an_overlap_that_nobody_measured_is_wider() -> None:
    def width(**options: Any) -> float:
        over = predict(**{**PAIR, "engine": "kernels", "draft_devices": "shared", "strategies": "ar,ssd", **options})
        ratio = over.verdict.over["ar"]
        assert ratio.low is not None
        assert ratio.high is not None
        return ratio.high / ratio.low

    assert width(b=64, hardware="h100-sxm") < width(b=65, hardware="h100-sxm")
    assert width(b=16, hardware="h100-sxm", overlap=0.2) < width(b=16, hardware="h100-sxm")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"targets": 2}, "--draft-devices shared, --targets"),
        ({"draft_gpus": 2}, "--draft-devices shared, --draft-gpus"),
        ({"f": "window", "p_hit": None}, "--draft-devices shared, --f"),
        ({"draft_hardware": "l40s"}, "--draft-devices shared, --draft-hardware"),
        ({"drafter": "medusa", "draft": None}, "Medusa"),
    ],
)
def test_what_needs_a_device_of_the_drafts_own_is_refused(options: dict[str, Any], names: str) -> None:
    asked = {name: value for name, value in (ONE | options).items() if value is not None}
    with refused(*names.split(", ")):
        configure(**asked)


def test_one_gpu_has_ssd_among_its_candidates_and_no_sure_verdict_for_it() -> None:
    here = {"gpus": 1, "target": "llama-3.1-8b", "draft": "llama-3.2-1b", "hardware": "rtx-4090", "k": [3, 4]}
    (answer,) = recommend(b=1, **here).answers
    assert answer.by_strategy["ssd"].gpus == 1
    assert answer.by_strategy["ssd"].shape.settings["draft_devices"] == "shared"
    assert answer.decision is not None
    assert answer.best is not None
    assert answer.decision.word != "clear" or answer.best.shape.strategy != "ssd"
    more = recommend(b=1, **here | {"gpus": 2, "hardware": "h100-sxm"})
    assert all("draft_devices" not in d.shape.settings for d in more.answers[0].by_strategy.values())


def test_an_engine_that_says_what_it_runs_shares_no_device() -> None:
    here = {"gpus": 1, "b": 1, "target": "llama-3.1-8b", "engine": "ssd-engine", "k": 4}
    assert "ssd" not in recommend(**here).answers[0].by_strategy
    with refused("--draft-devices shared"):
        recommend(**here, draft_devices="shared")
