"""Experts that really run: the answer of each token's experts, on choices that are as a text's on average."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from calibration.machine.experts import DRAWS, ExpertWeights, Routes, routes, run_experts, usual_routes
from ssdsim.transformer.layers import Experts
from ssdsim.transformer.routing import busiest_over_mean, distinct_experts


def test_a_token_gets_the_mean_of_its_experts_answers() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = ExpertWeights(
        torch.randn(6, 2 * 12, 10, generator=generator), torch.randn(6, 10, 12, generator=generator)
    )
    tokens, choices = torch.randn(7, 10, generator=generator), torch.randint(0, 6, (7, 2), generator=generator)
    choices[:, 1] = (choices[:, 0] + 1 + choices[:, 1] % 5) % 6  # two different ones
    tensor = run_experts(tokens, choices, weights, torch.empty(7, 10))
    for token, chosen, answer in zip(tokens, choices, tensor, strict=True):
        expected = torch.zeros(10)
        for expert in chosen.tolist():
            gate, up = (weights.gate_up[expert] @ token).chunk(2)
            expected += weights.down[expert] @ (functional.silu(gate) * up) / 2
        assert torch.allclose(answer, expected, atol=1e-4)


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_parts_of_the_experts_add_up_to_all(parts: int) -> None:
    """Also where a part has none of those that were chosen."""
    generator = torch.Generator().manual_seed(1)
    gate_up, down = torch.randn(6, 2 * 12, 10, generator=generator), torch.randn(6, 10, 12, generator=generator)
    tokens, choices = torch.randn(3, 10, generator=generator), torch.tensor([[0, 5], [5, 1], [1, 0]])
    whole = run_experts(tokens, choices, ExpertWeights(gate_up, down), torch.empty(3, 10))
    tensors = [
        run_experts(tokens, choices, ExpertWeights(*own), torch.empty(3, 10), number * 6 // parts)
        for number, own in enumerate(zip(gate_up.chunk(parts), down.chunk(parts), strict=True))
    ]
    assert torch.allclose(sum(tensors[1:], tensors[0]), whole, atol=1e-5)
    idle = [number for number, part in enumerate(tensors) if not part.any()]
    assert idle == {2: [], 3: [1], 6: [2, 3, 4]}[parts]


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "per_token", "skew"), [(16, 2, 0.75), (16, 2, 0.0), (64, 6, 0.75), (3, 2, 0.0), (4, 4, 0.0)]
)
def test_choices_touch_as_many_experts_as_are_priced(count: int, per_token: int, skew: float) -> None:
    experts = Experts(count=count, per_token=per_token, width=8, layers=1, skew=skew)
    rng = np.random.default_rng(0)
    for sequences, tokens in ((1, 1), (1, 8), (4, 4), (16, 1)):
        drawn = [routes(experts, sequences, tokens, rng) for _ in range(200)]
        assert {choices.shape for choices in drawn} == {(sequences * tokens, per_token)}
        assert all(len(set(row)) == per_token for row in drawn[0].tolist())
        average = np.mean([len(np.unique(choices)) for choices in drawn])
        priced = distinct_experts(count, per_token, sequences, tokens, experts.overlap, skew)
        assert average == pytest.approx(priced, rel=0.05)


@pytest.mark.parametrize(("sequences", "tokens"), [(1, 3), (2, 3), (4, 2), (16, 8), (16, 64)])
def test_few_routes_of_a_pass_touch_together_what_is_priced(sequences: int, tokens: int) -> None:
    experts = Experts(count=16, per_token=2, width=8, layers=1)
    kept = usual_routes(experts, sequences, tokens, np.random.default_rng(0))
    priced = distinct_experts(16, 2, sequences, tokens, experts.overlap, experts.skew)
    touched = [len(np.unique(choices)) for choices in kept]
    assert np.mean(touched) == pytest.approx(priced, rel=0.03)
    assert len(kept) == (16 if (sequences, tokens) == (16, 64) else DRAWS)
    assert max(touched) > min(touched) or priced > 15.9  # they are not all alike


@pytest.mark.long
def test_the_busiest_of_devices_reads_about_what_is_priced() -> None:
    """On the choices that ranks run, 64 experts on 4 devices: a tenth more at most, for unlike popularity."""
    experts = Experts(count=64, per_token=4, width=8, layers=1)
    for sequences, tokens in ((1, 1), (1, 4), (4, 4), (16, 2)):
        listed = []
        for seed in range(12):
            drawn = Routes(experts, torch.device("cpu"), seed)
            for _ in range(DRAWS):
                used = np.unique(drawn.next(sequences, tokens).numpy())
                listed.append(np.bincount(used // 16, minlength=4).max())
        touched = distinct_experts(64, 4, sequences, tokens, experts.overlap, experts.skew)
        priced = busiest_over_mean(64, touched, 4) * touched / 4
        assert 0.97 * priced < np.mean(listed) < 1.15 * priced
