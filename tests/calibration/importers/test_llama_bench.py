"""llama-bench's passes of a user's own models make the machine that takes as long for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ssdsim
from calibration.importers.llama_bench import Machine, import_llama_bench
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.runtime_catalog import SUFFIX, save_runtime
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.transformer.forward import forward_pass
from tests.refusals import refused

pytestmark = pytest.mark.quick

TARGET = {1: 9.0, 2: 9.6, 3: 10.4, 4: 11.3, 5: 12.6, 6: 13.5, 8: 15.8, 16: 22.0, 32: 24.0}
DRAFT = {1: 2.2, 2: 2.4, 3: 2.5, 4: 2.6, 8: 3.4}
LARGE = ("Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama 8B Q4_K - Medium", 4.92e9, 8.03e9)
SMALL = ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "llama 1B Q4_K - Medium", 0.81e9, 1.24e9)


def bench(folder: Path, model: tuple[str, str, float, float], timed: Mapping[int, float], **said: Any) -> Path:
    """A file of llama-bench: milliseconds by rows, of one row as 128 generated tokens."""
    file, kind, size, weights = model
    common = {"build_number": 6500, "backends": "Vulkan", "gpu_info": "AMD Radeon RX 7900 XTX", "n_gpu_layers": 99}
    common |= {"model_filename": file, "model_type": kind, "model_size": size, "model_n_params": weights} | said
    tests = []
    for rows, milliseconds in timed.items():
        made = 128 if rows == 1 else 0
        nanoseconds = 1e6 * milliseconds * (made or 1)
        prompt = 0 if made else rows
        of_test = {"n_prompt": prompt, "n_gen": made, "avg_ns": nanoseconds, "stddev_ns": 0.01 * nanoseconds}
        tests.append({**common, **of_test})
    path = folder / f"{file}.json"
    path.write_text(json.dumps(tests))
    return path


def kept(machine: Machine) -> str:
    """The name of the machine's profile, which lies beside its runtime."""
    machine.profile.save(machine.output)
    save_runtime(machine.runtime, machine.output.with_suffix(SUFFIX))
    return str(machine.output)


@pytest.fixture
def pair(tmp_path: Path) -> Machine:
    files = [bench(tmp_path, LARGE, TARGET), bench(tmp_path, SMALL, DRAFT)]
    (machine,) = import_llama_bench(files, tmp_path / "mine.json", memory_bytes=24 * 2**30)
    return machine


def test_passes_of_the_models_take_what_was_timed(pair: Machine) -> None:
    target, draft = pair.models
    for model, timed, error in ((target, TARGET, 0.01), (draft, {1: DRAFT[1]}, 0.02)):
        for rows, milliseconds in timed.items():
            forward = forward_pass(model.card, batch=1, queries=rows, context=model.cached(rows), tp=1)
            after = tuple(replace(op, m=1) if op.name == "lm_head" else op for op in forward.after)  # as of a prompt
            seconds = cost_of_pass(replace(forward, after=after), pair.profile, pair.runtime).seconds
            assert 1e3 * seconds == pytest.approx(milliseconds, rel=error)
    assert pair.profile.spread == pytest.approx(0.01)


def test_a_question_takes_the_models_and_the_gpu_of_the_files(pair: Machine) -> None:
    answer = ssdsim.predict(hardware=kept(pair), alpha=0.7, strategies=["ar", "sd"])
    site = answer.configuration.scenarios["sd"].site
    assert (site.target.name, site.draft.name, site.tp) == ("llama-3.1-8b", "llama-3.2-1b", 1)
    assert 1e3 * answer.estimates["ar"].round_s == pytest.approx(9.0, rel=0.1)
    assert answer.estimates["sd"].round_s > answer.estimates["ar"].round_s


def test_other_models_of_the_format_are_scaled_with_a_wider_error(pair: Machine) -> None:
    def cost_of(name: str) -> Any:
        forward = forward_pass(find_transformer(name), batch=1, queries=1, context=64, tp=1)
        return cost_of_pass(forward, pair.profile, pair.runtime)

    own, other = cost_of("llama-3.1-8b-q4_k_m"), cost_of("qwen3-8b-q4_k_m")
    assert other.seconds == pytest.approx(own.seconds, rel=0.1)
    assert other.log_sd > 1.05 * own.log_sd
    assert any("no matrix of the models" in warning for warning in other.warnings)


def test_a_draft_on_the_cpu_is_a_second_profile_and_no_gpu(tmp_path: Path) -> None:
    on_cpu = {"backends": "CPU", "gpu_info": "", "cpu_info": "AMD Ryzen 9 7950X", "n_gpu_layers": 0}
    files = [bench(tmp_path, LARGE, TARGET), bench(tmp_path, SMALL, {1: 22.0}, **on_cpu)]
    target, draft = import_llama_bench(files, tmp_path / "mine.json", memory_bytes=24 * 2**30)
    answer = ssdsim.predict(alpha=0.7, k=2, hardware=kept(target), draft_hardware=kept(draft))
    assert {name: each.gpus for name, each in answer.configuration.scenarios.items()} == {"ar": 1, "sd": 1}
    assert 1e3 * float(answer.estimates["sd"].breakdown_s["draft"]) == pytest.approx(2 * 22.0, rel=0.1)
    assert not any("placeholder" in each for each in answer.configuration.warnings)


def test_a_draft_on_another_device_is_a_second_profile(tmp_path: Path) -> None:
    both = {"gpu_info": "NVIDIA GeForce RTX 4090, NVIDIA GeForce RTX 3090", "backends": "CUDA"}
    files = [
        bench(tmp_path, LARGE, TARGET, devices="CUDA0", **both),
        bench(tmp_path, SMALL, DRAFT, devices="CUDA1", **both),
    ]
    target, draft = import_llama_bench(files, tmp_path / "mine.json")
    assert [each.profile.device.name for each in (target, draft)] == [
        "NVIDIA GeForce RTX 4090",
        "NVIDIA GeForce RTX 3090",
    ]
    assert (draft.output.name, target.remarks) == ("mine-draft.json", ())
    asked = {"hardware": kept(target), "draft_hardware": kept(draft)}
    answer = ssdsim.predict(alpha=0.7, **asked)
    assert [*answer.estimates] == ["ar", "sd"]
    assert answer.configuration.scenarios["sd"].devices.draft == 1


def test_markdown_and_a_draft_in_another_format(tmp_path: Path) -> None:
    eight_bits = ("Llama-3.2-1B-Instruct-Q8_0.gguf", "llama 1B Q8_0", 1.32e9, 1.24e9)
    files = [bench(tmp_path, LARGE, TARGET), bench(tmp_path, eight_bits, DRAFT)]
    (machine,) = import_llama_bench(files, tmp_path / "mine.json")
    assert {"int4", "int8"} <= machine.profile.gemm.keys()
    assert machine.profile.calibrated is not None
    assert machine.profile.calibrated.draft == "llama-3.2-1b-q8-0"


def test_what_a_machine_cannot_be_made_of_is_refused(tmp_path: Path) -> None:
    with refused("no step of one token", "-n 128"):
        import_llama_bench([bench(tmp_path, LARGE, {2: 9.6})], tmp_path / "mine.json")
    with refused("no card is called 'Foo-9B-Q4_K_M'", "--target"):
        import_llama_bench([bench(tmp_path, ("Foo-9B-Q4_K_M.gguf", *LARGE[1:]), TARGET)], tmp_path / "mine.json")
    with refused("is a mixture"):
        mixture = ("Qwen3-30B-A3B-Q4_K_M.gguf", "qwen3moe 30B.A3B Q4_K - Medium", 18.6e9, 30.5e9)
        import_llama_bench([bench(tmp_path, mixture, TARGET)], tmp_path / "mine.json")
    with refused("8.03 billion weights", "llama-3.2-1b"):
        import_llama_bench([bench(tmp_path, LARGE, TARGET)], tmp_path / "mine.json", target="llama-3.2-1b")
