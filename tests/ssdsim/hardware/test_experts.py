"""The law of expert layers: fitted to tables as aiconfigurator writes them, and what a pass makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.importers.experts import fits, touched_experts
from ssdsim.answers.predict import predict
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.experts import ExpertCosts, ExpertsModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.layers import Experts
from ssdsim.transformer.operations import ExpertMlp
from tests.refusals import refused

HIDDEN = ExpertCosts(
    launch_s=2e-5, per_hidden_s=2e-9, per_width_s=1e-9, per_expert_s=1e-7, bandwidth=3e12, per_value_s=1e-13,
    flops_per_s=8e14,
)  # fmt: skip
SHAPES = ((2048, 768, 8, 128), (4096, 14336, 2, 8), (7168, 2048, 8, 384), (3072, 1536, 8, 256), (5120, 8192, 1, 16))
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192)
MIXTURE = Transformer(
    name="mixture", architecture="qwen3_moe", hidden_size=2048, layers=4, heads=16, kv_heads=4, head_dim=128,
    intermediate_size=4096, vocab_size=32000, max_context=8192, source="a test",
    experts=Experts(count=64, per_token=4, width=1024, layers=4),
)  # fmt: skip


def table(noise: float, costs: ExpertCosts = HIDDEN) -> pd.DataFrame:
    """Rows of experts in bfloat16 whose costs are known, with what the importer must not read among them."""
    rng, rows = np.random.default_rng(0), []
    for hidden, width, per_token, count in SHAPES:
        for tp in (1, 2, 4, 8):
            for tokens in TOKENS:
                visits = tokens * per_token
                shape = (visits, hidden, width // tp, min(visits, count), 6.0 * hidden * width / tp)
                seconds = float(costs.seconds(*shape)) * np.exp(noise * rng.standard_normal())
                common = (tokens, hidden, width, per_token, count, tp)
                rows.append(("bfloat16", "a kernel", *common, 1, "balanced", seconds))
                rows.append(("bfloat16", "a kernel", *common, 1, "power_law_1.2", 7 * seconds))
                rows.append(("bfloat16", "a kernel", *common, 4, "balanced", 9 * seconds))
        rows.append(("bfloat16", "another kernel", 1, *SHAPES[0], 1, 1, "balanced", 1.0))
    columns = ["moe_dtype", "kernel_source", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"]
    return pd.DataFrame(rows, columns=[*columns, "moe_tp_size", "moe_ep_size", "distribution", "seconds"])


def fitted(noise: float) -> ExpertsModel:
    found, said = fits(table(noise), "moe_perf", HIDDEN.bandwidth)
    assert said == "; bfloat16: a kernel"
    return found["experts", "bfloat16"]()


@pytest.mark.parametrize(
    ("count", "per_token", "exponent", "known"),
    [
        (128, 8, 1.01, {1: 8, 2: 16, 4: 32, 8: 49, 16: 64, 32: 107, 48: 113, 64: 116}),
        (128, 8, 1.2, {4: 29}),
        (8, 2, 1.01, {2: 3.2, 4: 4.6}),
        (128, 4, 1.01, {2: 8, 4: 16, 8: 32, 16: 48, 32: 64, 64: 96}),
    ],
)
def test_experts_of_uneven_rows_are_as_many_as_their_collector_drew(
    count: int, per_token: int, exponent: float, known: dict[int, float]
) -> None:
    """The means of its own draws, as a reading of its source found them."""
    for tokens, touched in known.items():
        assert touched_experts(tokens, count, per_token, exponent) == pytest.approx(touched, rel=0.03)


@given(st.integers(1, 300), st.sampled_from([8, 16, 128, 256]), st.integers(1, 8), st.sampled_from([1.01, 1.2]))
def test_no_draw_touches_more_experts_than_there_are_visits_or_fewer_than_a_token(
    tokens: int, count: int, per_token: int, exponent: float
) -> None:
    touched = touched_experts(tokens, count, per_token, exponent)
    assert per_token <= touched <= min(count, tokens * per_token)


def uneven_table() -> pd.DataFrame:
    """The rows of :func:`table` that are uneven alone, priced by what they touched."""
    rows = table(0.0)
    rows = rows[rows["distribution"] == "power_law_1.2"].copy()
    shapes = rows[["num_tokens", "num_experts", "topk"]].itertuples(index=False, name=None)
    touched = np.array([touched_experts(*shape, 1.2) for shape in shapes])
    width = (rows["inter_size"] // rows["moe_tp_size"]).to_numpy(float)
    hidden = rows["hidden_size"].to_numpy(float)
    visits = (rows["num_tokens"] * rows["topk"]).to_numpy(float)
    return rows.assign(seconds=HIDDEN.seconds(visits, hidden, width, touched, 6.0 * hidden * width))


@pytest.mark.long
def test_a_table_of_uneven_rows_alone_has_a_law_by_the_experts_drawn_anew() -> None:
    found, said = fits(uneven_table(), "moe_perf", HIDDEN.bandwidth)
    model = found["experts", "bfloat16"]()
    assert isinstance(model, ExpertsModel)
    assert model.few.bandwidth == pytest.approx(HIDDEN.bandwidth, rel=0.01)
    assert model.few.per_expert_s == pytest.approx(HIDDEN.per_expert_s, rel=0.05)
    assert said == "; bfloat16: a kernel; experts of uneven rows drawn anew"


def test_experts_that_beat_the_memory_are_left_out_and_counted() -> None:
    rows = uneven_table()
    rows.loc[rows.index[:3], "seconds"] /= 1e3
    _, said = fits(rows, "moe_perf", HIDDEN.bandwidth)
    assert said.endswith(f"; 3 of {len(rows)} rows of bfloat16 left out, their weights came from a cache")


def test_the_costs_behind_a_table_are_found() -> None:
    model = fitted(0.0)
    assert model.few.bandwidth == pytest.approx(HIDDEN.bandwidth, rel=1e-3)
    assert model.few.per_expert_s == pytest.approx(HIDDEN.per_expert_s, rel=1e-2)
    assert model.few.launch_s == pytest.approx(HIDDEN.launch_s, rel=1e-2)
    assert model.many.flops_per_s == pytest.approx(HIDDEN.flops_per_s, rel=1e-2)
    assert model.report is not None
    assert model.report.p95_error < 1e-3


@pytest.mark.long
def test_tiles_of_more_tokens_than_experts_are_seen_and_shapes_left_out_have_them_too() -> None:
    rows = table(0.0)
    slower = np.where(rows["num_tokens"] > rows["num_experts"], 1.8, 1.0)
    found, _ = fits(rows.assign(seconds=slower * rows["seconds"]), "moe_perf", HIDDEN.bandwidth)
    model = found["experts", "bfloat16"]()
    assert isinstance(model, ExpertsModel)
    assert model.outnumbered == pytest.approx(1.8, rel=1e-2)
    assert model.few.bandwidth == pytest.approx(HIDDEN.bandwidth, rel=1e-2)
    assert model.report is not None
    assert model.report.p95_error < 0.02
    assert fitted(0.0).outnumbered == fitted(0.05).outnumbered == 1.0


def test_the_error_is_that_of_shapes_left_out() -> None:
    model = fitted(0.05)
    assert model.report is not None
    assert 0.02 < model.report.median_error < 0.06  # of a normal error of 5 %, its median is 3.4 %
    assert model.log_sd == pytest.approx(0.05, rel=0.4)
    assert model.log_sd_at(8192) >= model.log_sd


@given(
    tokens=st.integers(1, 4000),
    more=st.integers(0, 200),
    touched=st.floats(4.0, 60.0),
    width=st.sampled_from([256, 512, 1024]),
)
def test_more_tokens_or_more_experts_take_no_less(tokens: int, more: int, touched: float, width: int) -> None:
    many = HIDDEN.changed(per_value_s=0.0)
    model = ExpertsModel(source="a", few=HIDDEN, many=many, outnumbered=1.5)
    shape = (2048, width)
    at = model.seconds(tokens, 64, 4.0 * tokens, *shape, touched, 6.0 * 2048 * width)
    assert model.seconds(tokens + more, 64, 4.0 * (tokens + more), *shape, touched, 6.0 * 2048 * width) >= at
    assert model.seconds(tokens, 64, 4.0 * tokens, *shape, touched + 1.0, 6.0 * 2048 * width) > at


def profile_with_experts() -> HardwareProfile:
    bare = find_hardware("h100-sxm")
    source = Provenance(kind="imported", source="a test")
    sources = {**bare.sources, "a test": source}
    model = fitted(0.0).changed(source="a test")
    return bare.changed(experts={"bfloat16": model}, sources=sources)


def test_a_pass_is_priced_by_the_experts_that_it_touches() -> None:
    profile = profile_with_experts()
    for queries, masked in ((1, False), (8, False), (8, True)):
        (op,) = {
            op
            for op, _ in forward_pass(MIXTURE, batch=2, queries=queries, context=500, masked=masked).counted
            if isinstance(op, ExpertMlp)
        }
        timing = profile.seconds(op)
        known = HIDDEN.seconds(2 * queries * 4, 2048, 1024, op.touched, op.expert_bytes)
        assert timing.seconds == pytest.approx(float(known), rel=1e-3)
        assert timing.warning is None


def test_experts_that_are_spread_cost_what_the_busiest_device_reads() -> None:
    """Whole experts on fewer devices: the busiest reads more than its part, and never more than all."""
    profile = profile_with_experts()

    def experts(ep: int, batch: int) -> ExpertMlp:
        forward = forward_pass(MIXTURE, batch=batch, context=500, tp=4, ep=ep)
        return next(op for op, _ in forward.counted if isinstance(op, ExpertMlp))

    for batch in (1, 4, 64):
        whole, spread = experts(1, batch), experts(4, batch)
        assert (spread.count, spread.width) == (whole.count // 4, whole.width * 4)
        assert whole.touched / 4 <= spread.touched <= min(whole.touched, spread.count)
        assert spread.visits / spread.touched == pytest.approx(whole.visits / whole.touched)
        assert profile.seconds(spread).seconds > 0.0
    few, many = (experts(4, batch).touched / experts(1, batch).touched for batch in (1, 256))
    assert few > many  # of few tokens' experts one device has more than its share
    with refused("ep 3", "tp 4", "mixture", "1, 2, 4"):
        forward_pass(MIXTURE, batch=1, context=500, tp=4, ep=3)
    dense = MIXTURE.changed(experts=None, name="dense")
    with refused("ep 2", "dense"):
        forward_pass(dense, batch=1, context=500, tp=2, ep=2)


def test_untimed_experts_are_a_roofline_that_says_so() -> None:
    (op,) = {op for op, _ in forward_pass(MIXTURE, batch=1, context=500).counted if isinstance(op, ExpertMlp)}
    bare = find_hardware("h100-sxm").changed(experts={})
    timing = bare.seconds(op)
    assert timing.warning is not None
    assert "no bfloat16 experts were timed" in timing.warning
    assert timing.seconds > op.bytes / bare.device.memory_bandwidth
    assert timing.log_sd >= 0.25


@pytest.mark.long
def test_every_strategy_decodes_a_mixture_and_verification_costs_more_than_of_a_dense_model(tmp_path: Path) -> None:
    path = tmp_path / "with-experts.json"
    profile_with_experts().save(path)
    card = tmp_path / "mixture.toml"
    numbers = "\n".join(f"{name} = {value}" for name, value in (
        ("hidden_size", 2048), ("layers", 32), ("heads", 16), ("kv_heads", 4), ("head_dim", 128),
        ("intermediate_size", 4096), ("vocab_size", 32000), ("max_context", 8192),
    ))  # fmt: skip
    experts = "[experts]\ncount = 64\nper_token = 4\nwidth = 1024\nlayers = 32\n"
    card.write_text(f'name = "mixture"\narchitecture = "qwen3_moe"\nsource = "a test"\n{numbers}\n{experts}')
    dense = tmp_path / "dense.toml"
    dense.write_text(f'name = "dense"\narchitecture = "qwen3"\nsource = "a test"\n{numbers}\n')
    common = {
        "draft": "qwen3-0.6b",
        "any_vocabulary": True,
        "hardware": str(path),
        "tp": 4,
        "b": 1,
        "k": 5,
        "engine": "kernels",
    }
    premiums = {}
    for target in (card, dense):
        predicted = predict(target=str(target), strategies=("ar", "sd", "ssd"), **common)
        scenarios = predicted.configuration.scenarios
        premiums[target] = scenarios["sd"].steps["verify"].seconds / scenarios["ar"].steps["decode"].seconds
    assert premiums[card] > 1.1
    assert premiums[dense] < 1.05
