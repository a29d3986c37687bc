"""Experts counted on a real router, of a mixture with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ssdsim.question.configuration import configure
from ssdsim.tokens.pair_file import AtTemperature, Pair
from ssdsim.tokens.pair_routing import counted
from ssdsim.transformer.layers import Experts
from ssdsim.transformer.routing import distinct_experts

COUNT, PER_TOKEN, LAYERS = 16, 2, 3


def mixture() -> object:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=200, hidden_size=64, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, num_experts=COUNT, num_experts_per_tok=PER_TOKEN, head_dim=16,
    )  # fmt: skip
    return Qwen3MoeForCausalLM(config).eval()


@pytest.mark.long
def test_the_router_s_own_choices_are_counted() -> None:
    from calibration.pairs.measure.models import CausalModel, count_experts

    model = CausalModel("a mixture", mixture(), None, 200)
    rng = np.random.default_rng(0)
    texts = [(rng.integers(0, 200, 30).tolist(), 20) for _ in range(8)]
    found = count_experts(model, texts)
    assert found is not None
    chosen: list[list[torch.Tensor]] = []

    def look(_: object, given: tuple[torch.Tensor, ...], out: object) -> None:
        inputs = given[0].reshape(-1, 64)
        chosen[-1].append((inputs @ weight.t()).topk(PER_TOKEN, dim=1).indices[-20:])

    gates = [layer.mlp.gate for layer in model.model.model.layers]
    for text, _ in texts:
        chosen.append([])
        for gate in gates:
            weight = gate.weight
            handle = gate.register_forward_hook(look)
            with torch.inference_mode():
                model.model(input_ids=torch.tensor([text]), use_cache=False)
            handle.remove()
    by_text = [torch.stack(layers).numpy() for layers in chosen]
    again = counted(by_text, COUNT)
    assert again == found
    windows = [
        len(np.unique(text[layer, s : s + 4])) for text in by_text for layer in range(LAYERS) for s in range(0, 20, 4)
    ]
    assert dict(found.in_a_row)[4] == pytest.approx(np.mean(windows))
    assert (found.count, found.per_token, found.layers, found.tokens) == (COUNT, PER_TOKEN, LAYERS, 160)


def test_independent_choices_have_the_overlap_of_chance() -> None:
    rng = np.random.default_rng(0)
    texts = [
        np.stack([[rng.choice(COUNT, PER_TOKEN, replace=False) for _ in range(40)] for _ in range(LAYERS)])
        for _ in range(24)
    ]
    found = counted(texts, COUNT)
    assert found is not None
    assert found.overlap == pytest.approx(PER_TOKEN / COUNT, abs=0.02)
    assert found.skew < 0.3
    for m, touched in (*found.in_a_row, *found.apart):
        assert touched == pytest.approx(distinct_experts(COUNT, PER_TOKEN, m, 1, skew=0.0), rel=0.05)


def test_popular_experts_are_told_by_their_skew() -> None:
    rng, rank = np.random.default_rng(0), np.log(np.arange(1, 65))
    texts = [np.argsort(-(rng.gumbel(size=(2, 30, 64)) - 0.8 * rank), axis=2)[:, :, :6] for _ in range(40)]
    found = counted(texts, 64)
    assert found is not None
    assert found.skew == pytest.approx(0.8, abs=0.15)


def test_a_pair_s_count_prices_its_mixture(tmp_path: Path) -> None:
    found = counted([np.zeros((1, 9, 1), dtype=np.int64), np.zeros((1, 9, 1), dtype=np.int64)], COUNT)
    assert found is not None
    assert found.overlap == 1.0
    routing = {"target": found.changed(per_token=PER_TOKEN, skew=0.0)}
    at = AtTemperature(temperature=0.0, alpha={"mean": 0.8}, length={})  # type: ignore[arg-type]
    path, card = tmp_path / "pair.json", tmp_path / "mixture.toml"
    Pair(how="loop", by_temperature=(at,), routing=routing).save(path)  # type: ignore[arg-type]
    sizes = {"hidden_size": 1024, "layers": 4, "heads": 16, "kv_heads": 4, "head_dim": 64, "intermediate_size": 2048}
    text = "".join(f"{name} = {value}\n" for name, value in {**sizes, "vocab_size": 32000, "max_context": 8192}.items())
    experts = f"[experts]\ncount = {COUNT}\nper_token = {PER_TOKEN}\nwidth = 512\nlayers = 4\n"
    card.write_text(f'name = "mixture"\narchitecture = "qwen3_moe"\nsource = "a test"\n{text}{experts}')
    common = {
        "target": str(card),
        "draft": "qwen3-0.6b",
        "tp": 1,
        "b": 1,
        "k": 7,
        "strategies": ("sd",),
        "any_vocabulary": True,
    }
    without, with_pair = (configure(**common, **more) for more in ({}, {"pair": str(path)}))
    assert without.site is not None
    assert with_pair.site is not None
    assert without.site.target.experts == Experts(count=COUNT, per_token=PER_TOKEN, width=512, layers=4)
    assert with_pair.site.target.experts is not None
    assert (with_pair.site.target.experts.overlap, with_pair.site.target.experts.skew) == (1.0, 0.0)
    verify = [each.scenarios["sd"].steps["verify"].seconds for each in (without, with_pair)]
    assert verify[1] < verify[0]  # all tokens use the same experts
