"""How far a case is from the rows behind a card: intervals never narrow on the way, and a warning says what is far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import predict
from ssdsim.base.intervals import bounds_95
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.extrapolation import STEPS, ExtrapolationError, OperatingPoint, TrainingDomain, distance, steps
from ssdsim.hardware.runtime_card import KERNELS, Runtime, far_from_rows
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.hardware.runtime_numbers import CardErrors

log_sds = st.floats(0.0, 0.5)
away = st.builds(ExtrapolationError, **dict.fromkeys(STEPS, log_sds))
sizes = {
    "peak_flops": st.sampled_from([1e14, 1e15, 2e15]),
    "memory_bandwidth": st.sampled_from([1e12, 4e12, 8e12]),
    "tp": st.sampled_from([1, 2, 4, 8]),
    "active_parameters": st.integers(10**8, 10**12),
    "experts": st.booleans(),
}
batches = st.tuples(st.integers(1, 512), st.integers(1, 512)).map(lambda pair: (min(pair), max(pair)))
versions = st.lists(st.sampled_from(["1", "2"]), unique=True).map(tuple)
settings = st.builds(TrainingDomain, device=st.sampled_from("ab"), batches=batches, versions=versions, **sizes)
cases = st.builds(
    OperatingPoint, device=st.sampled_from("ab"), batch=st.integers(1, 512), version=st.sampled_from(["", "1"]), **sizes
)


@pytest.mark.long
@given(case=cases, covered=st.lists(settings, min_size=1, max_size=5).map(tuple), away=away, more=settings)
def test_one_more_setting_never_takes_the_rows_away(
    case: OperatingPoint, covered: tuple[TrainingDomain, ...], away: ExtrapolationError, more: TrainingDomain
) -> None:
    one, other = distance(case, (*covered, more), away), distance(case, covered, away)
    assert one.beside_matrices.log_sd <= other.beside_matrices.log_sd
    assert one.whole.log_sd <= other.whole.log_sd


@pytest.mark.long
@given(
    case=cases,
    covered=st.lists(settings, min_size=1, max_size=5).map(tuple),
    away=away,
    way=st.sampled_from(["gpu", "degree", "size", "batch", "version"]),
    doublings=st.integers(1, 4),
)
def test_an_interval_never_narrows_as_a_case_moves_away_from_what_the_card_covered(
    case: OperatingPoint, covered: tuple[TrainingDomain, ...], away: ExtrapolationError, way: str, doublings: int
) -> None:
    """From beyond every setting further in the same direction."""
    times = 2**doublings
    largest = {name: max(getattr(each, name) for each in covered) for name in ("peak_flops", "memory_bandwidth", "tp")}
    most = max(each.batches[1] for each in covered)
    parameters = max(each.active_parameters for each in covered)
    near, far = {
        "gpu": [
            replace(case, **{name: n * largest[name] for name in ("peak_flops", "memory_bandwidth")})
            for n in (1, times)
        ],
        "degree": [replace(case, tp=n * largest["tp"]) for n in (1, times)],
        "size": [replace(case, active_parameters=n * parameters) for n in (1, times)],
        "batch": [replace(case, batch=n * most) for n in (1, times)],
        "version": [replace(case, version=version) for version in ("", "3")],
    }[way]
    card = find_runtime("kernels").changed(errors=CardErrors(beside_log_sd=0.1), covered=covered, away=away)
    before, after = (card.facing(each).errors for each in (near, far))
    assert after.beside_log_sd >= before.beside_log_sd - 1e-12 >= 0.1 - 2e-12
    assert after.pass_log_sd >= before.pass_log_sd - 1e-12


@given(case=cases, covered=settings)
def test_at_home_nothing_is_away(case: OperatingPoint, covered: TrainingDomain) -> None:
    at_home = replace(
        case,
        peak_flops=covered.peak_flops,
        memory_bandwidth=covered.memory_bandwidth,
        tp=covered.tp,
        active_parameters=covered.active_parameters,
        experts=covered.experts,
        batch=covered.batches[0],
        version="",
    )
    assert steps(at_home, covered) == (0.0,) * len(STEPS)


def a_card(hardware: str, batches: tuple[int, int] = (1, 64), **changed: float) -> Runtime:
    """One whose rows were of Llama-3.1-8B on one GPU."""
    case = OperatingPoint.of(find_transformer("llama-3.1-8b"), find_hardware(hardware).device, hardware, 1, 1)
    covered = TrainingDomain(
        device=hardware,
        peak_flops=case.peak_flops,
        memory_bandwidth=case.memory_bandwidth,
        tp=1,
        active_parameters=case.active_parameters,
        batches=batches,
    )
    law = ExtrapolationError(**{**dict.fromkeys(STEPS, 0.2), **changed})
    return find_runtime("kernels").changed(
        name="of rows", errors=CardErrors(beside_log_sd=0.1), covered=(covered,), away=law
    )


def half_width(card: Runtime, path: Path, **asked: Any) -> tuple[float, list[str]]:
    save_runtime(card, path)
    setting = {"target": "llama-3.1-8b", "hardware": "b200-sxm", "tp": 1, "b": 8, **asked}
    prediction = predict(strategies=("ar",), engine=str(path), **setting)
    interval = prediction.intervals["ar"]
    return (interval.high - interval.low) / float(
        prediction.estimates["ar"].tokens_per_second
    ), prediction.configuration.warnings


def test_a_prediction_far_from_the_rows_is_wider_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    home, quiet = half_width(a_card("b200-sxm"), path)
    far, said = half_width(a_card("h100-sxm"), path)
    assert far > 1.2 * home
    assert not [line for line in quiet if "of rows" in line]
    assert [line for line in said if "no row of the runtime of rows is on a b200-sxm" in line]
    beyond, told = half_width(a_card("b200-sxm", (1, 2)), path)
    assert beyond > 1.2 * home
    assert [line for line in told if line.endswith("batches 1 to 2: intervals are wider for other batches")]


def test_nothing_is_said_where_the_card_knows_nothing_of_its_rows() -> None:
    card = find_runtime("kernels")
    case = OperatingPoint.of(find_transformer("llama-3.1-8b"), find_hardware("b200-sxm").device, "b200-sxm", 8, 512)
    assert far_from_rows(card, case) == frozenset()
    assert card.facing(case) is card


@pytest.mark.parametrize("way", STEPS)
def test_every_way_to_be_away_has_words(way: str) -> None:
    """Whatever makes an interval wider is named in its warning."""
    case = OperatingPoint.of(
        find_transformer("gpt-oss-120b"), find_hardware("b200-sxm").device, "b200-sxm", 8, 512, "9"
    )
    card = a_card("h100-sxm", **{each: 0.5 if each == way else 0.0 for each in STEPS})
    (said,) = far_from_rows(card, case)
    assert said.split("intervals are wider for ")[1]


def test_a_round_that_no_row_of_the_engine_is_like_may_take_as_long_as_launching_every_layer(tmp_path: Path) -> None:
    """It was 1.43 times AR, surely; one was published that took 0.37 times (vLLM issue 39680)."""
    large = find_transformer("qwen3.5-27b")
    assert large.recurrent is not None
    small = large.changed(
        name="small",
        layers=24,
        hidden_size=1024,
        heads=8,
        kv_heads=2,
        intermediate_size=3584,
        recurrent=large.recurrent.changed(layers=18, heads=16),
        tied_embeddings=True,
    )
    path = tmp_path / "small.toml"
    path.write_text(tomli_w.dumps(small.as_dict(without_none=True)))
    asked: dict[str, Any] = {"target": str(path), "hardware": "h100-sxm", "tp": 1, "drafter": "mtp", "k": 1}
    asked |= {"acceptance": "synthetic:1.97", "strategies": ("ar", "sd"), "context": 512}
    prediction = predict(engine="vllm", **asked)
    assert prediction.draws is not None
    low, high = bounds_95(prediction.draws["sd"].joint / prediction.draws["ar"].joint)
    assert low < 0.5
    assert high > 1.2
    said = "tells what a round of a dense model with recurrent layers takes"
    assert any(said in each for each in prediction.configuration.warnings)
    seen = predict(engine="sglang", **asked)
    assert not any(said in each for each in seen.configuration.warnings)


def test_rounds_of_a_mixture_or_without_recurrent_layers_are_as_the_card_says() -> None:
    card = find_runtime("vllm")
    for name in ("llama-3.1-8b", "qwen3.5-122b-a10b", "qwen3-30b-a3b"):
        assert card.verifying(find_transformer(name)) is card
    hybrid = find_transformer("qwen3.5-27b")
    assert KERNELS.verifying(hybrid) is KERNELS
    (added,) = card.verifying(hybrid).wander[len(card.wander) :]
    assert added.keys() == {"per_round_layer_s"}
    own = card.changed(wander=(*card.wander, {"per_recurrent_layer_s": 1e-6}))
    assert own.verifying(hybrid) is own


def test_sixteen_bit_experts_are_more_open_where_no_row_of_the_engine_has_experts() -> None:
    """A mixture on TensorRT-LLM 0.11 took two thirds of what its card, of dense rows, says."""

    def open_too(name: str) -> float:
        return max(way.get("experts_16_bit", 0.0) for way in find_runtime(name).wander)

    assert open_too("trtllm-0.11") == open_too("vllm-0.5") == 0.25 > open_too("trtllm") > open_too("sglang")
