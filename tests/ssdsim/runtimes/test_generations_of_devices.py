"""Cards of engines that are other ones on devices that multiply 4 bits themselves."""

from __future__ import annotations

import pytest
from fidelity_generations import fit_generations

from calibration.runtimes.fit import DECODING
from ssdsim import configure, predict
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import KERNELS, Fp4Overrides
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.runtime_numbers import NUMBERS, Kernels
from ssdsim.pricing.passes import kernel_factor
from ssdsim.readers.priced_row import value_of, work_of
from ssdsim.readers.row import Metric, Row
from ssdsim.transformer.operations import Gemm
from tests.refusals import refused

BEFORE, LATER = "h100-sxm", "b200-sxm"
BOTH = KERNELS.changed(
    name="both",
    host=KERNELS.host.changed(per_layer_s=20e-6, per_step_s=1e-3),
    four_bits=Fp4Overrides(cache_dtype="float8", numbers={"per_layer_s": 5e-6}),
)
START = KERNELS.changed(name="start")


def row(hardware: str, batch: int, metric: Metric = "step_ms", tp: int = 1) -> Row:
    return Row(
        model="llama-3.1-8b",
        hardware=hardware,
        tp=tp,
        batch=batch,
        input_tokens=512,
        output_tokens=256,
        metric=metric,
        value=1.0,
    )


def as_the_card_has_it(asked: Row) -> Row:
    return asked.changed(value=value_of(asked, work_of(asked, BOTH).cost.seconds))


def test_a_card_is_another_one_on_devices_that_multiply_4_bits() -> None:
    before, later = (BOTH.on(find_hardware(name).device) for name in (BEFORE, LATER))
    assert (before.host.per_layer_s, before.cache_dtype) == (20e-6, None)
    assert (later.host.per_layer_s, later.cache_dtype) == (5e-6, "float8")
    assert later.host.per_step_s == before.host.per_step_s == 1e-3
    assert KERNELS.on(find_hardware(LATER).device) is KERNELS


@pytest.mark.parametrize("hardware", [BEFORE, LATER])
def test_predict_takes_the_devices_own_numbers(hardware: str) -> None:
    asked = {"strategies": ("ar",), "target": "llama-3.1-8b", "hardware": hardware, "tp": 1}
    bundled = find_runtime("trtllm")
    own = bundled.on(find_hardware(hardware).device)
    assert own.four_bits is None
    site = predict(engine="trtllm", **asked).configuration.site
    assert site is not None
    assert site.runtime == own


def test_an_unknown_number_is_refused() -> None:
    with refused("per_layer_s", error=ValueError):
        Fp4Overrides(numbers={"per_layers_s": 1e-6})
    with pytest.raises(ValueError, match="unknown number"):
        Fp4Overrides(wander=({"per_layers_s": 1e-6},))


def test_products_of_4_bits_hide_nothing() -> None:
    profile, kernels = find_hardware(LATER), Kernels(overlap=0.5)
    wide, narrow = (Gemm("up", 4, 4096, 4096, dtype) for dtype in ("float8", "nvfp4"))
    assert kernel_factor(wide, profile.seconds(wide).seconds, profile, kernels) < 0.9
    assert kernel_factor(narrow, profile.seconds(narrow).seconds, profile, kernels) == 1.0


def test_a_served_token_waits_for_a_share_of_others_prompts() -> None:
    first = KERNELS.with_numbers({"prompts": 0.5}).changed(name="prompts first")
    for metric, share in (("tpot_ms", 0.5), ("tokens_per_s", 1.0)):
        whole, some = (
            sum(times for _, times in work_of(row(BEFORE, 8, metric), card).prompts) for card in (KERNELS, first)
        )
        assert some == pytest.approx(share * whole)


def test_each_generation_is_fitted_to_its_own_rows() -> None:
    rows = [as_the_card_has_it(row(name, batch, tp=tp)) for name in (BEFORE, LATER) for batch in (1, 4, 16, 64)
            for tp in (1, 2)]  # fmt: skip
    generations = fit_generations(rows, START, "found", "made up", DECODING)
    assert len(generations.fits) == 2
    assert max(fit.error for fit in generations.fits) < 0.01
    assert generations.card.evidence.rows == len(rows)
    for each in rows:
        assert value_of(each, work_of(each, generations.card).cost.seconds) == pytest.approx(each.value, rel=0.02)


def test_a_generation_without_rows_is_as_the_other() -> None:
    rows = [as_the_card_has_it(row(LATER, batch, tp=tp)) for batch in (1, 4, 16, 64) for tp in (1, 2)]
    generations = fit_generations(rows, START, "found", "made up", ("per_layer_s", "per_step_s"))
    assert generations.before is None
    h100, b200 = (generations.card.on(find_hardware(name).device) for name in (BEFORE, LATER))
    assert h100.host == b200.host != KERNELS.host


def test_vllm_with_launched_drafts_is_vllm_in_target_passes() -> None:
    """Its numbers of experts had been left behind by a refit."""
    one, other = find_runtime("vllm-0.9"), find_runtime("vllm-0.16")
    shared = [name for name, number in NUMBERS.items() if not number.has_own_error]
    assert {name: one.numbers[name] for name in shared} == {name: other.numbers[name] for name in shared}
    assert one.four_bits == other.four_bits


@pytest.mark.parametrize("batch", [1, 4, 64, 256])
@pytest.mark.parametrize("target", ["gpt-oss-120b", "llama-3.1-70b"])
def test_what_a_newer_engine_no_longer_takes_it_does_not_take_on_newer_devices_either(target: str, batch: int) -> None:
    """VLLM after 0.24 had its own host on an H100, and that of 0.9 on a B200: 26 µs a sequence.

    An H100 was up to 1.67 times as fast as a B200 with gpt-oss-120b, and measured rows of 0.9 to 0.19 have it at 0.8.
    """
    asked = {"strategies": ("ar",), "target": target, "tp": 8, "b": batch}

    def of(before: str, later: str) -> float:
        h100, b200 = (
            configure(engine=engine, hardware=name, **asked).scenarios["ar"].estimate.tokens_per_second
            for engine, name in ((before, BEFORE), (later, LATER))
        )
        return float(h100 / b200)

    assert of("vllm", "vllm") == pytest.approx(of("vllm==0.18.0", "vllm==0.19.0"), rel=0.3)  # the last that were seen
    assert of("vllm", "vllm") < 1.0
