"""Prompts in the passes that decode: their expected price is that of Poisson arrivals, drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.mixed import PASS_TOKENS, with_prompts
from ssdsim.pricing.passes import cost_of_mixed_pass
from ssdsim.readers.priced_row import work_of
from ssdsim.transformer.prefill import Chunk, mixed_pass
from tests.ssdsim.readers.engines import served

CARD = find_runtime("vllm-0.9").changed(mixes_prompts=True)
APART = CARD.changed(mixes_prompts=False)
MIXTURE = {"model": "gpt-oss-120b", "tp": 2}


def test_a_token_waits_for_the_pass_that_poisson_arrivals_make() -> None:
    """512 sequences of 1024 tokens each: 0.5 prompts come to a pass; a pass that ends up with several holds them."""
    row = served(**MIXTURE, batch=512, output_tokens=1024.0)
    work = work_of(row, CARD)
    site, rate, rng = work.site, 511 / 1024, np.random.default_rng(0)
    shape = {"tp": 2, "dtype": site.dtype, "kv_dtype": site.kv_dtype, "states": site.runtime.states}
    of = {"batch": 512, "context": site.context, **shape}

    def seconds(prompts: int) -> float:
        forward = mixed_pass(site.target, (Chunk(1024),) * prompts, **of)
        return cost_of_mixed_pass(forward, 512, site.profile, site.local_runtime).seconds

    alone = work_of(row.changed(metric="step_ms"), CARD).cost.seconds
    bare = site.target_pass("decode", 1).cost.seconds
    by_count = [bare, *(seconds(count) for count in range(1, 7))]
    drawn = np.minimum(rng.poisson(rate, 20_000), 6)
    assert work.cost.seconds == pytest.approx(alone - bare + float(np.mean(np.array(by_count)[drawn])), rel=0.01)


def test_weights_are_read_once_where_prompts_join_a_pass() -> None:
    row = served(**MIXTURE, batch=512, output_tokens=1024.0)
    mixed, apart, steady = (
        work_of(each, card).cost.seconds
        for each, card in ((row, CARD), (row, APART), (row.changed(metric="step_ms"), APART))
    )
    assert steady < mixed < 0.95 * apart


@settings(max_examples=25, deadline=None)
@given(tokens=st.integers(1, 40_000), a_pass=st.floats(1e-4, 3.0), batch=st.sampled_from([1, 8, 64, 512]))
def test_passes_hold_all_prompts_that_come_unless_all_of_them_hold_some(tokens: int, a_pass: float, batch: int) -> None:
    site = work_of(served("llama-3.1-8b", batch), CARD).site
    verified = site.target_pass("decode", 1)
    passes = with_prompts(site, verified, tokens, a_pass)
    shares = [share for _, share in passes]
    assert sum(shares) <= 1.0 + 1e-9
    assert all(each.forward.tokens <= max(PASS_TOKENS, batch + tokens) and each.decoded == batch for each, _ in passes)
    held = sum(share * (each.forward.tokens - batch) for each, share in passes)
    if sum(shares) < 1.0 - 1e-9:
        assert held == pytest.approx(a_pass * tokens, rel=5e-3)


def test_a_static_batch_and_a_prompt_of_no_tokens_are_priced_as_before() -> None:
    for row in (served(batch=8, metric="latency_s"), served(batch=8, input_tokens=0.0), served(batch=1)):
        assert work_of(row, CARD).cost.seconds == work_of(row, APART).cost.seconds
