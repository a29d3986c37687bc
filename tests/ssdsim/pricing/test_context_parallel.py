"""Devices that share each sequence's cache in place of copies: what passes compute, send and hold, and when it pays."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_generator.shown import PROJECT
from ssdsim import configure, predict, recommend
from ssdsim.answers.predict import as_json
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.occupancy import demand_of
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.context_parallel import cache_copies, legal_context_parallel, shared_attention
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Attention, Collective, Elementwise, LatentAttention
from ssdsim.transformer.prefill import Chunk, mixed_pass
from tests.refusals import refused

R1, QWEN, LLAMA = (find_transformer(name) for name in ("deepseek-r1", "qwen3-235b-a22b", "llama-3.1-70b"))
H200 = find_hardware("h200-sxm")
LONG: dict[str, Any] = {
    "target": "deepseek-r1", "drafter": "mtp", "hardware": "h200-sxm", "engine": "vllm", "tp": 8, "context": 65_536,
    "k": 2,
}  # fmt: skip
ALONE = {name: value for name, value in LONG.items() if name not in ("drafter", "k")}
MODELS = st.sampled_from([(R1, 8), (R1, 16), (QWEN, 8), (QWEN, 16), (LLAMA, 16), (LLAMA, 32)])


def shared(card: Transformer, tp: int, dcp: int, batch: int = 1, queries: int = 1, context: int = 1000) -> ForwardPass:
    return forward_pass(card, batch=batch, queries=queries, context=context, tp=tp, dcp=dcp)


def in_order(forward: ForwardPass) -> list[Any]:
    """The attention of a layer with what comes directly before and after it."""
    ops = [op for block in forward.blocks for op in block.operations]
    at = next(n for n, op in enumerate(ops) if isinstance(op, Attention | LatentAttention))
    return ops[at - 1 : at + 3]


def test_queries_are_gathered_and_outputs_exchanged_by_deepseeks_bytes() -> None:
    """16 sequences of 3 tokens over 1,001 on 8 devices: 128 heads over 126 tokens each, bytes by hand."""
    gathered, attention, exchanged, merged = in_order(shared(R1, 8, 8, 16, 3, 1001))
    alone = in_order(shared(R1, 8, 1, 16, 3, 1001))[1]
    assert (alone.heads, alone.context) == (16, 1001)
    assert attention == replace(alone, heads=128, context=126)
    rows = 16 * 3 * 128
    assert gathered == Collective("queries_all_gather", "all_gather", rows * 576 * 2, 8)
    assert exchanged == Collective("outputs_all_to_all", "all_to_all", rows * (512 * 2 + 4), 8)
    assert merged == Elementwise("outputs_merge", rows * (512 * 2 + 4) + rows // 8 * 512 * 2)


def test_qwens_four_heads_are_shared_by_pairs_of_eight_devices() -> None:
    gathered, attention, _, _ = in_order(shared(QWEN, 8, 2))
    assert (attention.heads, attention.kv_heads, attention.context) == (16, 1, 500)
    assert (gathered.ranks, gathered.message_bytes) == (2, 16 * 128 * 2)
    assert [cache_copies(*each) for each in ((QWEN, 8), (QWEN, 4), (LLAMA, 4), (R1, 4))] == [2, 1, 1, 4]


@given(MODELS, st.integers(1, 64), st.integers(1, 8), st.integers(1, 200_000), st.data())
def test_as_much_is_computed_and_a_part_of_the_cache_read(
    model: tuple[Transformer, int], batch: int, queries: int, context: int, data: st.DataObject
) -> None:
    card, tp = model
    dcp = data.draw(st.sampled_from(legal_context_parallel(card, tp)))
    op = next(
        op for op, _ in shared(card, tp, 1, batch, queries, context).counted
        if isinstance(op, Attention | LatentAttention)
    )  # fmt: skip
    mine = next(each for each in shared_attention(op, dcp) if type(each) is type(op))
    longer = ceil(context / dcp) * dcp / context
    assert mine.flops == pytest.approx(op.flops * longer)
    assert mine.streamed_bytes * dcp == pytest.approx(op.streamed_bytes * longer)
    if context % dcp == 0:
        assert mine.bytes - mine.streamed_bytes == pytest.approx(dcp * (op.bytes - op.streamed_bytes))


@given(MODELS, st.integers(1, 200_000), st.integers(0, 8), st.data())
def test_copies_become_parts_of_a_cache_of_which_not_one_token_is_lost(
    model: tuple[Transformer, int], context: int, lookahead: int, data: st.DataObject
) -> None:
    """All devices that share a cache hold the whole, and at most one token each more than their part."""
    card, tp = model
    dcp, kept = data.draw(st.sampled_from(legal_context_parallel(card, tp))), card.precision()
    whole, part = (demand_of(card, tp, context, lookahead, kept, dcp=each) for each in (1, dcp))
    token = card.kv_bytes_per_token(tp, kept.kv)
    assert part.weights_bytes == whole.weights_bytes
    assert whole.sequence_bytes <= part.sequence_bytes * dcp <= whole.sequence_bytes + (dcp - 1) * token


@given(MODELS, st.sampled_from([1, 16, 64]), st.sampled_from([1, 4]), st.sampled_from([1024, 65_536, 131_072]))
def test_no_pass_beats_the_bytes_that_it_still_reads_nor_its_own_exchanges(
    model: tuple[Transformer, int], batch: int, queries: int, context: int
) -> None:
    card, _ = model
    for dcp in legal_context_parallel(card, 8):
        ops = shared(card, 8, dcp, batch, queries, context).counted
        bound = sum(op.memory_bytes * times for op, times in ops) / H200.device.memory_bandwidth
        assert cost_of_operations(ops, H200).seconds > bound
    apart, together = (shared(card, 8, legal_context_parallel(card, 8)[at], batch, queries, context) for at in (0, -1))
    if apart is not together:
        priced = cost_of_operations(together.counted, H200).by_kind()
        assert priced["all_gather"] > cost_of_operations(apart.counted, H200).by_kind()["all_gather"]
        assert priced["all_to_all"] > 0.0


def test_alone_nothing_changes_to_the_byte() -> None:
    options = {**LONG, "b": 4, "strategies": ("ar", "sd")}
    plain, said = (predict(**options, **more) for more in ({}, {"dcp": 1}))
    told, of_one = as_json(plain), as_json(said)
    assert [each["scenario"].pop("dcp")["source"] for each in (told, of_one)] == ["default", "given"]
    assert told == of_one
    assert shared(R1, 8, 1) is forward_pass(R1, batch=1, context=1000, tp=8)


def test_prompts_attend_as_before_beside_tokens_that_share() -> None:
    """A chunk's heads stay on their device; the decoded tokens of the pass exchange theirs."""
    of: dict[str, Any] = {"batch": 4, "queries": 3, "context": 4000, "tp": 8}
    plain, together = (mixed_pass(R1, (Chunk(512),), dcp=dcp, **of) for dcp in (1, 8))
    ops = [op for op, _ in together.counted]
    assert set(shared_attention(in_order(plain)[1], 8)) <= set(ops)
    assert [op for op in ops if op.name == "attention" and type(op).__name__ == "PrefillAttention"] == [
        op for op, _ in plain.counted if type(op).__name__ == "PrefillAttention"
    ]


def test_long_contexts_fit_eight_times_as_often_and_are_read_faster() -> None:
    """DeepSeek-R1 on eight H200s at 64k: ten sequences fit without, and the shared cache pays from a few on."""
    with refused("fits is 10", "--dcp 4"):
        predict(b=32, strategies=("ar",), **ALONE)
    many = predict(b=32, dcp=8, strategies=("ar",), **ALONE)
    assert many.configuration.site is not None
    assert many.configuration.site.degrees == "TP 8, DCP 8"
    assert "all_to_all" in many.configuration.provenance[0]["summary"]
    for batch, pays in ((1, False), (8, True)):
        apart, together = (
            predict(b=batch, dcp=dcp, strategies=("ar", "sd"), **LONG).configuration.scenarios for dcp in (1, 8)
        )
        gains = {
            name: together[name].estimate.tokens_per_second / apart[name].estimate.tokens_per_second for name in apart
        }
        assert all((gain > 1.0) is pays for gain in gains.values())
        assert gains["sd"] < gains["ar"]  # the draft reads the whole context, and K + 1 tokens are exchanged


def test_the_draft_and_its_memory_are_not_shared() -> None:
    apart, together = (configure(b=4, dcp=dcp, strategies=("sd",), **LONG).scenarios["sd"] for dcp in (1, 8))
    drafts = [
        [each for step in of.steps.values() for each in step.passes if each.model == "draft"]
        for of in (apart, together)
    ]
    assert drafts[0] == drafts[1]
    with refused("fits is 74"):
        predict(b=1000, dcp=8, strategies=("sd",), **LONG)
    with refused("fits is 86"):
        predict(b=1000, dcp=8, strategies=("ar",), **ALONE)


def test_the_saving_of_a_published_run_is_that_of_the_law() -> None:
    """DeepSeek-V2-Lite, 8 requests on 16 GB200s (vLLM's PR 34883): milliseconds a token without, and with a2a."""
    profile, engine = find_hardware("gb200"), find_runtime("vllm")
    for context, without, with_a2a in ((262_144, 22.29, 14.27), (524_288, 33.77, 15.05)):
        op = LatentAttention("attention", 8, 1, context, 1, 512, 64, "bfloat16")
        own, parts = (
            cost_of_operations([(each, 27) for each in shared_attention(op, n)], profile, engine) for n in (1, 16)
        )
        assert 1e3 * (own.seconds - parts.seconds) == pytest.approx(without - with_a2a, rel=0.25)


def test_a_hybrid_shares_its_attention_and_keeps_its_states() -> None:
    card, options = find_transformer("qwen3.5-397b-a17b"), {"strategies": ("ar",), "hardware": "b200-sxm", "tp": 8}
    assert card.recurrent is not None
    assert legal_context_parallel(card, 8) == (1, 2, 4)
    kept = card.precision()
    caches = [demand_of(card, 8, context, 0, kept, dcp=dcp).sequence_bytes for context, dcp in ((4095, 1), (16_383, 4))]
    assert caches[0] == caches[1]
    fast, slow = (
        predict(target=card.name, engine="vllm", context=131_072, b=16, dcp=dcp, **options).estimates["ar"]
        for dcp in (4, 1)
    )
    assert fast.tokens_per_second > slow.tokens_per_second


def test_a_draft_that_reads_its_targets_cache_has_no_part_of_it() -> None:
    with refused("GliDe", "--dcp 1"):
        predict(
            target="qwen3-235b-a22b", hardware="h200-sxm", tp=8, drafter="glide", alpha=0.8, strategies=("sd",), dcp=2
        )


def test_what_the_page_says_is_so() -> None:
    page = " ".join((PROJECT / "docs/how-to/parallelism.md").read_text(encoding="utf-8").split())

    def speed(name: str, batch: int, **more: Any) -> float:
        return float(predict(b=batch, strategies=("ar", "sd"), **{**LONG, **more}).estimates[name].tokens_per_second)

    ar, sd = (round(100 * (speed(name, 8, dcp=8) / speed(name, 8) - 1)) for name in ("ar", "sd"))
    assert f"decodes eight sequences {ar} % faster, with SD {sd} % faster, and 74 fit where 10 did" in page
    with refused("fits is 10"):
        predict(b=1000, strategies=("sd",), **LONG)
    short, long = {"alpha": 0.8, "context": 32_768}, {"alpha": 0.8}
    apart, together = {"attention": "data-parallel"}, {"dcp": 8}
    few = (speed("sd", 8, **long, **apart), speed("sd", 8, **long, **together))
    many = (speed("sd", 64, **short, **apart), speed("sd", 64, **short, **together))
    assert "{:.0f} tokens/s of all with 8 sequences at 64k, against {:.0f} with".format(*few) in page
    assert "{:,.0f} with 64 at 32k, against {:,.0f}.".format(*many) in page
    with refused("fits is 48"):
        speed("sd", 64, **apart)
    qwen = {"target": "qwen3-235b-a22b", "hardware": "h200-sxm", "tp": 8, "context": 32_768, "strategies": ("ar",)}
    gains = [
        float(predict(**qwen, engine="vllm", b=b, dcp=2).estimates["ar"].tokens_per_second)
        / float(predict(**qwen, engine="vllm", b=b).estimates["ar"].tokens_per_second)
        for b in (1, 32)
    ]
    assert f"AR loses {100 - 100 * gains[0]:.0f} % at one sequence and gains {100 * gains[1] - 100:.0f} % at 32" in page


def test_a_recommendation_keeps_to_it() -> None:
    asked = {name: value for name, value in LONG.items() if name != "tp"}
    found = recommend(gpus=8, b=32, dcp=8, strategies=("ar", "sd"), **asked)
    assert found.focus_answer is not None
    assert found.focus_answer.best is not None
    assert found.focus_answer.best.name == "SD TP 8, EP 8, DCP 8"
    with refused("dcp 2", "llama-3.1-70b"):
        recommend(gpus=8, dcp=2)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("vllm", "--dcp on vLLM: beside it speculation runs on some attention backends, with MTP"),
        ("trtllm", "TensorRT-LLM does not share a cache over devices with AR and SD (--dcp); this prices it as if"),
        ("llama-cpp", "llama.cpp does not share a cache over devices with AR and SD (--dcp); this prices it as if"),
    ],
)
def test_an_engine_that_is_named_says_how_far_it_goes(engine: str, said: str) -> None:
    options: dict[str, Any] = {**LONG, "engine": engine, "b": 4, "strategies": ("ar", "sd")}
    warnings = configure(**options, dcp=8).warnings
    assert any(each.startswith(said) for each in warnings)
    assert any(each.startswith("no row of") and "(--dcp)" in each for each in warnings)
    assert not any("--dcp" in each for each in configure(**options).warnings)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"target": "deepseek-r1", "tp": 8, "dcp": 3}, ("dcp 3", "tp 8", "1, 2, 4, 8")),
        ({"target": "qwen3-235b-a22b", "tp": 8, "dcp": 4}, ("dcp 4", "2 copies", "4 kv heads", "1, 2")),
        ({"dcp": 2}, ("dcp 2", "tp 4", "llama-3.1-70b", "8 kv heads")),
        ({"target": "gpt-oss-120b", "tp": 8, "dcp": 2}, ("gpt-oss-120b", "windows")),
        ({"target": "deepseek-v3.2", "tp": 8, "dcp": 2}, ("deepseek-v3.2", "sparse attention")),
        ({"target": "minimax-m3", "tp": 8, "dcp": 2}, ("minimax-m3", "sparse attention")),
        ({"target": "deepseek-v4-pro", "tp": 8, "dcp": 2}, ("deepseek-v4-pro", "compressed attention")),
        ({"target": "deepseek-r1", "attention": "data-parallel", "dcp": 2}, ("--dcp", "--attention data-parallel")),
        ({"t_sd": 0.2, "dcp": 2}, ("--dcp", "--t-sd")),
        ({"dcp": 0}, ("--dcp", "0")),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused_in_one_line(options: dict[str, Any], names: tuple[str, ...]) -> None:
    with refused(*names):
        configure(**options)
