"""MI300X and MI355X: what was timed is told from what is scaled, and what they cannot do is not there."""

from __future__ import annotations

import pytest

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.extrapolation import OperatingPoint, steps
from ssdsim.hardware.gpu_names import is_amds, is_same_gpu
from ssdsim.hardware.laws import DATASHEET_LOG_SD
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.transformer.operations import Attention, Collective, ExpertMlp, Gemm, LatentAttention
from tests.ssdsim.cli.in_process import asked

AMD = ("mi300x", "mi355x")


@pytest.mark.parametrize("name", AMD)
def test_a_driver_names_it(name: str) -> None:
    device = find_hardware(name).device
    assert is_same_gpu(f"AMD Instinct {name.upper()} OAM", device.name, device.memory_bytes)
    assert name in asked("hardware", "list").stdout


@pytest.mark.parametrize("name", AMD)
def test_timed_kernels_are_told_from_scaled_ones(name: str) -> None:
    profile = find_hardware(name)
    timed = profile.seconds(Gemm("gemm", 16, 3072, 1536, "float8-block"))
    assert (timed.provenance_kind, timed.warnings) == ("imported", ())
    experts = profile.seconds(ExpertMlp("experts", 16, 7168, 2048, 32, 8, 30.0, "float8-block", "bfloat16"))
    assert experts.provenance_kind == "imported"
    attention = profile.seconds(Attention("attention", 16, 1, 2048, 8, 1, 128, "bfloat16"))
    assert attention.provenance_kind == "hypothetical"
    assert attention.log_sd >= DATASHEET_LOG_SD
    assert all(model.source in profile.sources for model in profile.models().values())


@pytest.mark.parametrize("name", AMD)
def test_latent_attention_of_fewer_heads_than_were_timed_is_extrapolated(name: str) -> None:
    many, few = (
        find_hardware(name).seconds(LatentAttention("attention", 16, 1, 21, heads, 512, 64, "bfloat16"))
        for heads in (128, 16)
    )
    assert (many.provenance_kind, many.is_extrapolated, few.is_extrapolated) == ("imported", False, True)
    assert 8e-6 < many.seconds < 20e-6
    assert few.log_sd > many.log_sd


def test_whose_all_reduces_were_timed() -> None:
    ranks = {name: [n for n in (2, 4, 8) if _reduce(name, n) == "imported"] for name in AMD}
    assert ranks == {"mi300x": [2, 4], "mi355x": [8]}


def _reduce(name: str, ranks: int) -> str:
    return find_hardware(name).seconds(Collective("reduce", "all_reduce", 1 << 18, ranks)).provenance_kind


def test_4_bits_are_multiplied_by_the_newer_one_alone() -> None:
    assert {name: "mxfp4" in find_hardware(name).gemm for name in AMD} == {"mi300x": False, "mi355x": True}
    assert {name: "mxfp4" in find_hardware(name).experts for name in AMD} == {"mi300x": False, "mi355x": True}
    assert not any("nvfp4" in find_hardware(name).device.peak_flops for name in AMD)


@pytest.mark.parametrize("name", AMD)
def test_a_calibration_of_it_is_planned(name: str) -> None:
    told = asked("calibrate", "--dry-run", "--machine", name, "--gpus", "0-4")
    assert (told.returncode, "llama-3.1-70b" in told.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "amds"),
    [
        ("AMD Instinct MI300X", True),
        ("mi355x", True),
        ("my-mi300x", True),
        ("AMD Radeon RX 7900 XTX", True),
        ("NVIDIA H200", False),
        ("b200-sxm", False),
        ("AMD EPYC", True),
    ],
)
def test_whose_a_gpu_is(name: str, amds: bool) -> None:
    assert is_amds(name) == amds


def test_an_engine_fitted_on_another_makers_gpus_is_unsure_here() -> None:
    """SGLang's card has rows on a B200, whose figures are like an MI355X's: its interval was as narrow there."""

    def log_sd(name: str, runtime: str) -> float:
        profile, card = find_hardware(name), find_transformer("deepseek-r1")
        case = OperatingPoint.of(card, profile.device, name, 8, 16)
        return find_runtime(runtime).facing(case).errors.pass_log_sd

    assert log_sd("mi355x", "sglang") > 0.5 > log_sd("b200-sxm", "sglang")
    assert log_sd("mi355x", "sglang-rocm") < 0.1
    own = find_runtime("sglang").covered[0].changed(device="mine")  # rows of one's own MI355X, however it is called
    case = OperatingPoint.of(find_transformer("deepseek-r1"), find_hardware("mi355x").device, "mine", 8, 16)
    assert steps(case, own)[0] < 1.0
