"""Verification of models with states: what engines write, what that takes in memory, and which option says so."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.runtime_card import KERNELS
from ssdsim.hardware.runtime_catalog import find_runtime, load_runtime, save_runtime
from ssdsim.pricing.occupancy import demand_of, draft_on, target_on
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import Configuration, configure
from ssdsim.strategies.drafters.mtp import MTP
from ssdsim.transformer.cache_memory import CacheMemory, Caching, paged_bytes, state_bytes
from ssdsim.transformer.recurrences import KEEPINGS

QWEN: dict[str, Any] = {"target": "qwen3.5-122b-a10b", "hardware": "b200-sxm", "tp": 4, "drafter": "mtp"}


def site_of(**options: Any) -> Site:
    configuration: Configuration = configure(strategies="ar,sd", **QWEN | options)
    assert configuration.site is not None
    return configuration.site


def test_sglang_sets_aside_what_its_message_says() -> None:
    """Pull request 23643: 64 requests, 5 tokens each, 36 layers, states of 1.05 MB on a device: 12 GB."""
    card = find_transformer("qwen3.5-122b-a10b")
    assert card.recurrent is not None
    assert card.recurrent.state_bytes(tp=4) == pytest.approx(1.05e6, rel=0.01)
    kept = card.precision()
    alone, copied = (state_bytes(card, CacheMemory(1000, k), "copied", 4, kept) for k in (0, 4))
    assert 64 * (copied - alone) == pytest.approx(12e9, rel=0.03)
    assert copied == 6 * alone


def test_vllm_keeps_states_and_tokens_in_pages_of_one_size() -> None:
    """As its log says of Qwen3.5-27B: pages of 784 tokens in 16 bits; 13 layers a group where an MTP head drafts."""
    card, whole = find_transformer("qwen3.5-27b"), find_transformer("qwen3.5-122b-a10b-nvfp4")
    kept = card.precision()
    token_bytes = card.kv_bytes_per_token(1) // card.attention_layers
    one, more = (
        paged_bytes(card, CacheMemory(tokens, 0), Caching(pages_of_states=True), 1, kept) for tokens in (784, 785)
    )
    assert one == (1 + 3) * 16 * 784 * token_bytes
    assert more - one == 16 * 784 * token_bytes
    page = 4176 * whole.kv_bytes_per_token(1) // 12
    with_head = Caching(pages_of_states=True, head_layers=1)
    listed = [paged_bytes(whole, CacheMemory(512 + k + 1, k), with_head, 1, whole.precision()) for k in (1, 3, 7)]
    assert listed == [(1 + 3 * (k + 1)) * 13 * page for k in (1, 3, 7)]
    room = configure(strategies="ar,sd", **QWEN, engine="vllm-0.24", k=3).site
    assert room is not None
    beside = target_on(room, 3, beside=True).sequence_bytes
    assert beside > 1.05 * target_on(replace(room, runtime=KERNELS), 3).sequence_bytes
    assert beside > target_on(room, 3).sequence_bytes  # the head is in its pages
    assert draft_on(room, 1, 3, 0, beside=True).sequence_bytes == 0  # and nowhere else
    assert draft_on(replace(room, runtime=KERNELS), 1, 3, 0, beside=True).sequence_bytes > 0


@pytest.mark.parametrize(("runtime", "states"), [("kernels", 4), ("sglang", 5), ("trtllm", 1.13)])
def test_a_sequence_takes_what_its_engine_keeps(runtime: str, states: float) -> None:
    """Of K 3: a state a token, one more in SGLang, one and inputs in TensorRT-LLM."""
    site = site_of(engine=runtime, k=3)
    without = target_on(site, 0), target_on(site, 3)
    kv = 4 * site.target.kv_bytes_per_token(4, site.precision_of("target").kv)
    one = site.target.state_bytes(4)
    more = without[1].sequence_bytes - site.target.cache_bytes(1024, 4, 4, site.precision_of("target").kv)
    assert more / one == pytest.approx(states, abs=0.1)
    assert kv < one / 100


def test_the_largest_batch_falls_with_the_states_that_are_kept() -> None:
    room = {}
    for states in KEEPINGS:
        with pytest.raises(InputError, match="the largest batch that fits is") as refused:
            configure(strategies="sd", **QWEN, states=states, b=100_000, k=7)
        room[states] = int(str(refused.value).split("fits is ")[1].split(";")[0])
    assert room["copied"] < room["each"] < room["replayed"] / 3


def test_a_branch_has_a_state_of_its_own() -> None:
    card = find_transformer("qwen3.5-35b-a3b")
    kept = card.precision()
    none, some = (demand_of(card, 1, 1000, 4, kept, branches=branches).sequence_bytes for branches in (0, 7))
    cache = 7 * 4 * card.kv_bytes_per_token()
    assert some - none == 7 * card.state_bytes() + cache
    plain = find_transformer("qwen3-8b")
    assert demand_of(plain, 1, 1000, 4, plain.precision()).sequence_bytes == plain.cache_bytes(1000, 5)


def test_at_large_batches_mtp_pays_where_states_are_replayed() -> None:
    """Qwen3.5-122B at a large batch: vLLM, and with what its ReplaySSM leaves unwritten."""
    options = QWEN | {"engine": "vllm-0.24", "b": 512, "k": 5, "alpha": 0.7, "tp": 8}
    estimates = {s: predict(strategies="ar,sd", states=s, **options).estimates for s in ("each", "replayed")}
    speeds = {states: {name: each.tokens_per_second for name, each in of.items()} for states, of in estimates.items()}
    assert speeds["replayed"]["sd"] > 1.15 * speeds["each"]["sd"]
    assert 1.0 < speeds["replayed"]["ar"] / speeds["each"]["ar"] < 1.3


def test_states_of_16_bits_are_half_of_the_stream_and_of_the_memory() -> None:
    wide, narrow = (site_of(state_dtype=dtype, b=128) for dtype in ("float32", "bfloat16"))
    assert wide.options["states"] == "each"
    assert narrow.target.state_bytes() == pytest.approx(wide.target.state_bytes() / 2, rel=0.03)
    times = [site.target_pass("verify", 4).cost.by_kind()["recurrence"] for site in (wide, narrow)]
    assert times[1] < 0.7 * times[0]


@pytest.mark.parametrize("options", [{"states": "copied"}, {"state_dtype": "bfloat16"}])
def test_a_model_without_states_refuses_their_options(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="has no effect: neither model has recurrent layers"):
        configure(**options)


def test_drafts_from_a_sparse_cache_would_overwrite_the_states() -> None:
    with pytest.raises(InputError, match="recurrent states, which its own drafts would overwrite"):
        configure(strategies="sd", **QWEN | {"drafter": "self"})


def test_a_fit_leaves_what_the_engine_keeps(tmp_path: Any) -> None:
    path = tmp_path / "sglang.toml"
    save_runtime(find_runtime("sglang"), path)
    save_runtime(find_runtime("sglang").changed(states="each", runs=None), path)
    kept = load_runtime(path)
    assert kept.states == "copied"
    assert kept.runs is not None


def test_the_lm_head_is_most_of_a_step_of_the_mtp_head_which_is_used_for_every_token() -> None:
    """One layer with attention, and 248,320 tokens to choose from: of a device's bytes more than half are there."""
    site = site_of(target="qwen3.5-397b-a17b", hardware="b300-sxm", tp=8, k=4)
    catch_up, step = MTP().speculate(site, 4, beside=True)
    assert (catch_up.times, step.times) == (1, 3)
    assert isinstance(step.work, Pass)
    moved = {op.name: op.streamed_bytes * times for op, times in step.work.forward.counted}
    assert moved["lm_head"] > 0.5 * sum(moved.values())
    assert site.draft.state_bytes() == 0
