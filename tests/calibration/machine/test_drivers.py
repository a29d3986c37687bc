"""GPUs as the driver tells them, in the format of nvidia-smi, and what is said of torch builds."""

from __future__ import annotations

import pytest

from calibration.machine import drivers
from calibration.machine.drivers import (
    OLD_WHEEL,
    SeenGpu,
    has_kernels,
    kernels_missing,
    named_devices,
    seen_gpus,
    torch_missing,
)
from ssdsim.base.extras import install
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

TOLD = {
    "V100": "0, Tesla V100-SXM2-32GB, 7.0, 32768 MiB\n1, Tesla V100-SXM2-32GB, 7.0, 32768 MiB\n",
    "V100 with an old driver": "0, Tesla V100-SXM2-16GB, 16160 MiB\n",
    "H100": "0, NVIDIA H100 80GB HBM3, 9.0, 81559 MiB\n",
    "none": "",
}
BUILDS = {  # torch.cuda.get_arch_list()
    "cu126": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
    "rocm6.4": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100"),
    "cu128": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"),
}


@pytest.fixture(params=TOLD)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that tells this; an old driver refuses a question about compute_cap."""
    name = str(request.param)

    def told(*arguments: str) -> str:
        return "" if "old" in name and "compute_cap" in arguments[0] else TOLD[name]

    monkeypatch.setattr(drivers, "nvidia_smi", told)
    return name


def test_what_the_driver_tells_is_read(machine: str) -> None:
    assert (
        seen_gpus()
        == {
            "V100": [SeenGpu("Tesla V100-SXM2-32GB", (7, 0), 32768 << 20)] * 2,
            "V100 with an old driver": [SeenGpu("Tesla V100-SXM2-16GB", (7, 0), 16160 << 20)],
            "H100": [SeenGpu("NVIDIA H100 80GB HBM3", (9, 0), 81559 << 20)],
            "none": [],
        }[machine]
    )


def test_without_torch_the_wheel_with_kernels_is_named(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = OLD_WHEEL if "V100" in machine else install("torch")
    assert torch_missing("calibrate").startswith(f"calibrate needs torch: {wheel}")
    for module in ("calibration.cli.doctor", "calibration.timings.answer", "calibration.validation.run"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    assert f"calibrate needs torch: {wheel}" in " ".join(asked("doctor").stdout.split())
    assert f"error: calibrate needs torch: {wheel}" in asked("calibrate", "--gpus", "0", "-o", "mine.json").stderr
    assert f"error: validate needs torch: {wheel}" in asked("validate", "run").stderr


def test_doctor_lists_the_drivers_gpus(machine: str) -> None:
    said = {
        "V100": "GPUs: 2 x Tesla V100-SXM2-32GB (32 GiB)",
        "V100 with an old driver": "GPUs: 1 x Tesla V100-SXM2-16GB (16 GiB)",
        "H100": "GPUs: 1 x NVIDIA H100 80GB HBM3 (80 GiB)",
        "none": "GPUs: none",
    }[machine]
    assert said in asked("doctor").stdout


@pytest.mark.parametrize(
    ("gpu", "capability", "of_126", "of_128"),
    [
        ("V100", (7, 0), True, False),
        ("A100", (8, 0), True, True),
        ("A40", (8, 6), True, True),
        ("L40S, RTX 4090", (8, 9), True, True),
        ("H100", (9, 0), True, True),
        ("B200", (10, 0), False, True),
        ("newer", (13, 0), False, True),
    ],
)
def test_which_builds_have_kernels(gpu: str, capability: tuple[int, int], of_126: bool, of_128: bool) -> None:
    assert has_kernels(BUILDS["cu126"], capability) == of_126
    assert has_kernels(BUILDS["cu128"], capability) == of_128


def test_kernels_of_8_0_run_on_8_6_and_8_9_and_on_no_other() -> None:
    runs = [c for c in ((7, 0), (8, 0), (8, 6), (8, 9), (9, 0)) if has_kernels(["sm_80"], c)]
    assert runs == [(8, 0), (8, 6), (8, 9)]
    assert not has_kernels(["sm_90a"], (9, 1))


def test_a_torch_without_kernels_is_told_which_to_install() -> None:
    said = kernels_missing("2.9.0", "12.8", [SeenGpu("Tesla V100-SXM2-32GB", (7, 0), 1)] * 2)
    assert said == f"torch 2.9.0 (CUDA 12.8) has no kernels for Tesla V100-SXM2-32GB: {OLD_WHEEL} --force-reinstall"


@pytest.mark.parametrize(
    ("gpu", "capability", "runs"),
    [("MI210", (9, 0), True), ("MI300X", (9, 4), True), ("MI355X", (9, 5), True), ("RX 7600", (11, 2), False)],
)
def test_a_torch_for_rocm_has_kernels_of_its_architectures(gpu: str, capability: tuple[int, int], runs: bool) -> None:
    """It was refused on every GPU: its architectures have no sm in their names."""
    assert has_kernels(BUILDS["rocm6.4"], capability) == runs
    said = kernels_missing("2.9.0+rocm6.4", None, [SeenGpu(f"AMD {gpu}", capability, 1)])
    assert said == f"torch 2.9.0+rocm6.4 has no kernels for AMD {gpu}: install a newer torch"


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("mps", "ssdsim import llama-bench takes llama.cpp's passes of your models"),
        ("mps:0", "'mps:0' is not timed: on Metal torch captures no passes and connects no ranks"),
        ("hip:0", "'hip:0' is cuda here: torch for ROCm numbers its GPUs as CUDA's, cuda:0-3"),
        ("rocm", "calibrate --gpus 0-4"),
    ],
)
def test_other_names_of_devices_say_where_to_go(device: str, said: str) -> None:
    with refused(said):
        named_devices(device)
    told = asked("calibrate", "--device", device, "-o", "mine.json")
    assert (told.returncode, said in told.stderr) == (2, True)
