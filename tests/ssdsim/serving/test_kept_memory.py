"""What an engine keeps from its caches: vLLM's own counts of the tokens that its cache holds at its start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.serving.batching import Batching
from ssdsim.serving.policy import ledgers


def case(hardware: str, engine: str = "vllm-0.9", **options: object) -> Scenario:
    asked = {"target": "llama-3.1-8b", "draft": "llama-3.2-1b", "tp": 1, "strategies": "ar", **options}
    return next(iter(configure(hardware=hardware, engine=engine, **asked).scenarios.values()))


def cached_tokens(scenario: Scenario, **batching: float) -> int:
    """Of the target's devices."""
    return ledgers(scenario, Batching(**batching))[0].tokens  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hardware", "share", "tokens"),
    [
        ("rtx-4090", 0.9, 41_408),  # vLLM 0.19, LLMServingSim's trace
        ("rtx-4090", 0.9, 40_528),
        ("a100-40gb", 0.9, 157_648),
        ("a6000", 0.9, 216_624),
        ("h100-sxm", 0.92, 460_496),
    ],
)
def test_the_cache_of_an_8b_is_as_large_as_vllm_says(hardware: str, share: float, tokens: int) -> None:
    """Logs of vLLM 0.10 to 0.3x; cards count the memory that is sold, of which CUDA has 1 to 1.5 % less."""
    assert cached_tokens(case(hardware), kv_fraction=share) == pytest.approx(tokens, rel=0.03)
    assert cached_tokens(case(hardware, "kernels"), kv_fraction=share) > tokens * 1.03


@given(tokens=st.integers(256, 65_536), sequences=st.integers(1, 1_024))
@settings(deadline=None, max_examples=20)
def test_larger_passes_leave_no_larger_cache(tokens: int, sequences: int) -> None:
    at = case("rtx-4090", "vllm")
    held = cached_tokens(at, token_budget=tokens, max_batch=sequences)
    assert held <= cached_tokens(at, token_budget=256, max_batch=sequences)
    assert held <= cached_tokens(at, token_budget=tokens, max_batch=1)
    kernels = case("rtx-4090", "kernels")
    assert cached_tokens(kernels, token_budget=tokens, max_batch=sequences) == cached_tokens(kernels)


def test_logits_are_on_every_device_of_a_target() -> None:
    """Llama-3-8B kept 1.26 GiB on one GPU, and on each of two (vLLM pull 10511)."""
    kept = []
    for tp in (1, 2):
        needed = []
        for engine in ("vllm", "kernels"):
            ar = case("h100-sxm", engine, tp=tp)
            assert ar.site is not None
            needed.append(ar.strategy.occupancies(ar.site, ar.drafter)[0].needs_bytes(1))
        kept.append(needed[0] - needed[1])
    assert kept[0] == kept[1] == pytest.approx(1.26 * 2**30, rel=0.05)


def test_a_draft_beside_its_target_keeps_nothing_besides() -> None:
    """Its passes run when the target's do not."""
    kept = []
    for engine in ("vllm", "kernels"):
        sd = case("h100-sxm", engine, strategies="sd", k=4)
        assert sd.site is not None
        kept.append([each.needs_bytes(1) for each in sd.strategy.occupancies(sd.site, sd.drafter)])
    (alone, both), (bare, bare_both) = kept
    assert alone - bare == both - bare_both > 0
