"""What is asked of a machine's devices; GPUs only where there are some."""

from __future__ import annotations

import pytest
import torch

from calibration.machine import inventory
from calibration.machine.devices import draft_devices
from calibration.machine.inventory import (
    Gpu,
    check_dtype,
    check_kernels,
    describe,
    device_names,
    gpus,
    natural_dtype,
)
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from tests.refusals import refused

MI300X = Gpu(  # as torch for ROCm describes the first of two
    "AMD Instinct MI300X", "", (9, 4), 192 << 30, free_bytes=191 << 30, compute_units=304, peers=frozenset({"cuda:1"})
)
V100 = Gpu("Tesla V100", "", (7, 0), memory_bytes=32 << 30, free_bytes=30 << 30, compute_units=80, peers=frozenset())
A100 = Gpu("A100", "", (8, 0), memory_bytes=80 << 30, free_bytes=78 << 30, compute_units=108, peers=frozenset())


def test_cpus_are_no_gpus_and_have_a_name() -> None:
    assert gpus(["cpu:0", "cpu:1"]) == {}
    assert device_names(["cpu:0", "cpu:1"])["cpu:1"]
    assert natural_dtype(["cpu:0", "cpu:1"]) == "float32"
    check_dtype("bfloat16", ["cpu:0"])


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA answers here")
def test_a_cuda_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^cuda:0 cannot be asked: \S[^\n]*$"):
        gpus(["cuda:0"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpus_are_asked_in_a_process_that_ends() -> None:
    gpu = gpus(["cuda:0", "cpu:0"])["cuda:0"]
    assert not torch.cuda.is_initialized()
    assert 0 < gpu.free_bytes <= gpu.memory_bytes
    assert gpu.name == device_names(["cuda:0"])["cuda:0"] == torch.cuda.get_device_name(0)


def test_bfloat16_needs_a_gpu_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "gpus", lambda devices: {"cuda:0": A100, "cuda:1": V100})
    assert natural_dtype(["cuda:0", "cuda:1"]) == "float16"
    check_dtype("float16", ["cuda:0", "cuda:1"])
    with refused("cuda:1", "--dtype float16"):
        check_dtype("bfloat16", ["cuda:0", "cuda:1"])
    monkeypatch.setattr(inventory, "gpus", lambda devices: {"cuda:0": A100})
    assert natural_dtype(["cuda:0"]) == "bfloat16"
    check_dtype("bfloat16", ["cuda:0"])


@pytest.mark.parametrize(("gpus_here", "found"), [(1, []), (2, ["cuda:1"])])
def test_a_draft_lies_on_the_gpu_after_the_targets_where_there_is_one(
    gpus_here: int, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus_here)
    assert draft_devices(None, ["cuda:0"]) == found
    assert draft_devices("cpu:3", ["cuda:0"]) == ["cpu:3"]
    assert draft_devices(None, ["cpu:0"]) == ["cpu:1"]


def test_gpus_of_a_torch_for_rocm_are_timed_as_cudas(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {"cuda:0": MI300X, "cuda:1": replace(MI300X, peers=frozenset({"cuda:0"}))}
    monkeypatch.setattr(inventory, "gpus", lambda devices: two)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a", "gfx942"])
    check_kernels([*two])
    assert natural_dtype([*two]) == "bfloat16"
    check_dtype("bfloat16", [*two])
    assert describe(two, {}) == "every pair has peer access"
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a"])
    with refused("has no kernels for AMD Instinct MI300X"):
        check_kernels([*two])
