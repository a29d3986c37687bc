"""Devices with sequences of their own whose experts lie apart: what passes compute, send and hold, and when it pays."""

from __future__ import annotations

from itertools import combinations
from math import comb, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import configure, predict, recommend
from ssdsim.advise.export.export import export
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.laws import DATASHEET_LOG_SD
from ssdsim.pricing.occupancy import demand_of
from ssdsim.serving.serve import serve
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Collective, ExpertMlp, Gemm, LatentAttention, Operation
from ssdsim.transformer.routing import busiest_over_mean, devices_of_a_token
from tests.refusals import refused
from tests.ssdsim.serving.sample_runs import requests

R1 = find_transformer("deepseek-r1")
SPREAD: dict[str, Any] = {"target": "deepseek-r1", "drafter": "mtp", "dtype": "nvfp4", "hardware": "b200-sxm", "tp": 8}
DATA_PARALLEL: dict[str, Any] = {**SPREAD, "attention": "data-parallel"}


def the(kind: type[Any], forward: ForwardPass, name: str) -> Any:
    """The one operation of a kind and name."""
    (the,) = {op for op, _ in forward.counted if isinstance(op, kind) and op.name == name}
    return the


def spread_pass(batch: int, queries: int = 1, devices: int = 8) -> ForwardPass:
    return forward_pass(R1, batch=batch, queries=queries, context=1000, tp=devices, ep=devices, data_parallel=True)


def test_a_device_attends_to_its_own_sequences_and_serves_everyones_tokens() -> None:
    """32 sequences of 3 tokens on 8 devices: 12 tokens each, 96 for the experts, and DeepSeek's bytes by hand."""
    forward, shared = spread_pass(32, 3), forward_pass(R1, batch=32, queries=3, context=1000, tp=8, ep=8)
    attention = the(LatentAttention, forward, "attention")
    assert (attention.batch, attention.queries, attention.heads) == (4, 3, 128)
    assert the(Gemm, forward, "attention_out").k == 128 * 128
    assert {op.m for op, _ in forward.counted if isinstance(op, Gemm)} == {12}
    apart, together = the(ExpertMlp, forward, "experts"), the(ExpertMlp, shared, "experts")
    assert apart == together
    assert (apart.tokens, apart.count, apart.width) == (96, 32, 2048)
    messages = [(op.name, op.kind) for op, _ in forward.counted if isinstance(op, Collective)]
    assert messages == [("dispatch", "all_to_all"), ("combine", "all_to_all")]
    once_to_each = 8 * (1 - comb(224, 8) / comb(256, 8))  # of 256 experts 224 lie elsewhere
    busiest = 8 * apart.share
    by_hand = 12 * 7168 * 2 * once_to_each * busiest
    dispatch, combine = (the(Collective, forward, name) for name in ("dispatch", "combine"))
    assert dispatch.message_bytes == combine.message_bytes == pytest.approx(by_hand, abs=1)
    assert dispatch.message_bytes < 12 * 7168 * 2 * 8 * busiest  # a copy for every expert


def test_the_fullest_device_sets_the_pass_and_one_device_alone_sends_nothing() -> None:
    assert the(LatentAttention, spread_pass(9), "attention").batch == 2
    assert the(LatentAttention, spread_pass(3), "attention").batch == 1
    assert spread_pass(9).counted[1] == spread_pass(16).counted[1]
    alone, plain = (forward_pass(R1, batch=4, context=1000, tp=1, data_parallel=each) for each in (True, False))
    assert alone.counted == plain.counted
    with refused("ep", "8", "2"):
        forward_pass(R1, batch=4, context=1000, tp=8, ep=2, data_parallel=True)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_the_devices_of_a_token_are_counted_over_all_choices(own: int, devices: int, per_token: int) -> None:
    count = own * devices
    per_token = min(per_token, count)
    choices = list(combinations(range(count), per_token))
    seen = sum(len({expert // own for expert in chosen}) for chosen in choices) / len(choices)
    assert devices_of_a_token(count, per_token, devices) == pytest.approx(seen)


def test_memory_is_the_whole_model_but_for_the_experts_and_a_part_of_the_sequences() -> None:
    kept = R1.precision("float8-block")
    own, shared = (demand_of(R1, 8, 4096, 2, kept, data_parallel=each) for each in (True, False))
    by_part = R1.parameters_by_part
    others = sum(count for part, count in by_part.items() if part != "experts")
    widths = {"attention": 1.0, "attention_out": 1.0, "mlp": 1.0, "lm_head": 2.0, "activations": 2.0}
    scales = 1.0 + 4 / 128**2
    by_hand = by_part["experts"] / 8 * scales + sum(
        by_part[part] * (scales if width == 1.0 else width) for part, width in widths.items()
    )
    assert others == sum(by_part[part] for part in widths)
    assert own.weights_bytes == pytest.approx(by_hand, rel=1e-9)
    assert own.weights_bytes > shared.weights_bytes
    assert own.sequence_bytes == shared.sequence_bytes == 61 * 576 * 2 * (4096 + 3)  # every device has the latent
    assert own.total_bytes(17) - own.weights_bytes == 3 * own.sequence_bytes
    bare = demand_of(R1, 8, 4096, 0, kept, data_parallel=True)  # as plain decoding has it
    most = floor((find_hardware("h200-sxm").device.memory_bytes * 0.9 - bare.weights_bytes) / bare.sequence_bytes)
    with refused(f"fits is {8 * most}"):
        configure(target="deepseek-r1", hardware="h200-sxm", dtype="float8-block", tp=8, attention="data-parallel",
                  strategies=("ar",), context=4096, kv_dtype="bfloat16", b=100_000, engine="kernels")  # fmt: skip


def test_the_whole_of_attention_costs_one_sequence_dear_and_a_thousand_pay_it_back() -> None:
    """Rounds with MTP drafted beside the target, on every device for its own sequences."""
    for batch, pays in ((1, False), (1024, True)):
        own, shared = (
            predict(strategies=("ar", "sd"), b=batch, k=2, **options).configuration.scenarios["sd"]
            for options in (DATA_PARALLEL, {**SPREAD, "ep": 8})
        )
        assert (own.estimate.tokens_per_second > shared.estimate.tokens_per_second) is pays
        drafts = [each for step in own.steps.values() for each in step.passes if each.model == "draft"]
        exchanged: list[Operation] = [op for each in drafts for op, _ in each.forward.counted]
        assert {op.ranks for op in exchanged if isinstance(op, Collective)} == {8}
        assert max(op.m for op in exchanged if isinstance(op, Gemm)) == -(-batch // 8) * 3
        told = configure(strategies=("sd",), b=batch, k=2, **DATA_PARALLEL)
        assert told.site is not None
        assert told.site.degrees == "DP 8, EP 8"
        assert "all_to_all" in told.provenance[0]["summary"]
        assert (told.settings["ep"], told.settings.source("ep")) == (8, "tp, beside data-parallel attention")


def test_a_heads_cache_is_split_as_its_targets_is() -> None:
    """A refusal's largest batch has room; a head's device holds an eighth of the sequences, as its target's does."""
    at: dict[str, Any] = {"target": "glm-5.2", "hardware": "b200-sxm", "tp": 8, "engine": "sglang", "strategies": "sd"}
    at |= {"attention": "data-parallel", "kv_dtype": "float8", "context": 131_072}
    assert configure(**at, b=64).scenarios
    with refused("fits is 64"):
        configure(**at, b=72)


def test_an_exchange_that_nobody_timed_is_taken_for_an_all_gather_and_says_so() -> None:
    profile = find_hardware("h100-sxm")
    timed = profile.seconds(Collective("dispatch", "all_to_all", 2**20, 8))
    assert timed.warning is None
    assert timed.key == "all_to_all:8"
    bare = profile.changed(collectives={**profile.collectives, "all_to_all": {}})
    untimed = bare.seconds(Collective("dispatch", "all_to_all", 2**20, 8))
    assert untimed.seconds == profile.seconds(Collective("logits", "all_gather", 2**20, 8)).seconds
    assert untimed.own_log_sd == DATASHEET_LOG_SD > timed.own_log_sd
    assert untimed.warning == "h100-sxm: no 8-rank all-to-all was timed: as an all-gather of as much"


def test_what_does_not_go_together_is_refused_in_one_line() -> None:
    with refused("--ep", "--attention data-parallel"):
        configure(**DATA_PARALLEL, ep=8)
    with refused("llama-3.1-70b"):
        configure(attention="data-parallel")
    with pytest.raises(InputError, match="served with tensor-parallel attention only"):
        serve(workload=requests(10, 1.0), solver="closed", strategies="ar,sd", **DATA_PARALLEL)


GIVEN: dict[str, Any] = {**DATA_PARALLEL, "engine": "kernels"}


@pytest.mark.long
def test_a_recommendation_and_an_export_have_it_as_it_is_given() -> None:
    best = recommend(gpus=8, b=512, k=[1, 2], strategies="ar,sd", **GIVEN).answers[0].best
    assert best is not None
    assert (best.name, best.shape.ep) == ("SD DP 8, EP 8", 8)
    options = best.shape.point({**GIVEN}, 512)
    estimate = configure(**options).scenarios[best.shape.strategy].estimate
    assert best.rate.tokens_per_second == pytest.approx(float(estimate.tokens_per_second))
    sglang = export("sglang", b=512, k=2, **DATA_PARALLEL).text.split()
    assert "--enable-dp-attention" in sglang
    assert [sglang[sglang.index(flag) + 1] for flag in ("--tp-size", "--dp-size", "--ep-size")] == ["8", "8", "8"]
    vllm = export("vllm", b=512, k=2, **DATA_PARALLEL)
    assert "--data-parallel-size 8 --enable-expert-parallel" in " ".join(vllm.notes)
    several = export("vllm", b=[1, 8], k=2, **DATA_PARALLEL)  # a sequence an engine, both
    assert "batches that 8 engines share alike have one row of the table" in " ".join(several.notes)


def test_the_busiest_share_is_that_of_the_experts() -> None:
    op = the(ExpertMlp, spread_pass(1), "experts")
    assert op.share * 8 == pytest.approx(busiest_over_mean(256, 8.0, 8))
