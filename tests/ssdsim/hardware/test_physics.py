"""No bundled law outruns its device, and no time falls as work grows.

A grid over all bundled profiles and the shapes of models that there are: heads with keys and values of their own,
shared ones, shards of them, latent ones, chosen ones, compressed ones, windows and mixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.collectives import CollectiveLaw
from ssdsim.hardware.experts import FEW_TOKENS
from ssdsim.hardware.gemm import SHARED_ROWS, GemmLaw
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_names
from ssdsim.pricing.passes import cost_of_operations, kernel_factor
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Attention, Collective, ExpertMlp, Gemm, Operation
from tests.refusals import refused

PROFILES = sorted(path.stem for path in (models_folder() / "hardware").glob("*.json"))
SHAPES = (
    ("llama-2-7b", 1),
    ("llama-3.1-8b", 1),
    ("llama-3.1-70b", 4),
    ("qwen3-32b", 2),
    ("deepseek-r1", 8),
    ("glm-5.2", 8),
    ("minimax-m3", 8),
    ("deepseek-v4-pro", 8),
    ("gpt-oss-120b", 1),
    ("qwen3.5-122b-a10b", 2),
    ("nemotron-3-super", 4),
)
CONTEXTS = (128, 1024, 4096, 16384, 131072)
BATCHES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 47, 48, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512)
ROWS = (1, 2, 3, 4, 5, 8, 9)
ROUNDING = 1e-9

Shape = tuple[int, int, int]


class Grid(NamedTuple):
    """Operations of passes of all shapes, each once, and places of pairs among them."""

    ops: list[Operation]
    grown: set[tuple[int, int]]  # of a shape, and of the next larger one along an axis
    batched: set[tuple[int, int, float]]  # of a batch, of the next larger one, and by how much that is larger


@cache
def grid(model: str, degree: int, dtype: str | None) -> Grid:
    card, places = find_transformer(model), dict[Operation, int]()
    of: dict[Shape, list[int]] = {}
    for context, batch, rows in product(CONTEXTS, BATCHES, ROWS):
        work = forward_pass(card, batch=batch, queries=rows, context=context, tp=degree, dtype=dtype, logits=rows)
        of[context, batch, rows] = [places.setdefault(op, len(places)) for op, _ in work.counted]
    grown = {pair for shape, ops in of.items() for larger in next_larger(shape) for pair in paired(ops, of[larger])}
    batched = {
        (*pair, batch / fewer)
        for context, rows in product(CONTEXTS, ROWS)
        for fewer, batch in pairwise(BATCHES)
        for pair in paired(of[context, fewer, rows], of[context, batch, rows])
    }
    return Grid(list(places), grown, batched)


def next_larger(shape: Shape) -> Iterator[Shape]:
    """The next larger shapes, one for each axis."""
    for axis, sizes in enumerate((CONTEXTS, BATCHES, ROWS)):
        at = sizes.index(shape[axis])
        if at + 1 < len(sizes):
            yield (*shape[:axis], sizes[at + 1], *shape[axis + 1 :])  # type: ignore[misc]


def paired(ops: list[int], others: list[int]) -> Iterator[tuple[int, int]]:
    return zip(ops, others, strict=True)


@cache
def priced(name: str, model: str, degree: int) -> tuple[HardwareProfile, Grid, list[float]]:
    """Seconds of each operation of the grid on a profile."""
    profile = find_hardware(name)
    plain = find_transformer(model).precision().activations
    dtype = None if profile.prices(plain) else next(iter(profile.gemm))
    of = grid(model, min(degree, profile.device.count), dtype)
    return profile, of, [profile.seconds(op).seconds for op in of.ops]


every_case = pytest.mark.parametrize(
    ("name", "model", "degree"),
    [
        pytest.param(name, *shape, marks=() if name == "h100-sxm" else pytest.mark.long)
        for name in PROFILES
        for shape in SHAPES
    ],
)


@every_case
def test_no_operation_outruns_memory_or_arithmetic(name: str, model: str, degree: int) -> None:
    profile, of, seconds = priced(name, model, degree)
    for op, taken_s in zip(of.ops, seconds, strict=True):
        assert taken_s * (1 + ROUNDING) >= op.streamed_bytes / profile.device.memory_bandwidth, op
        assert taken_s * (1 + ROUNDING) >= profile.device.compute_s(op), op


@every_case
def test_no_time_falls_as_work_grows(name: str, model: str, degree: int) -> None:
    _, of, seconds = priced(name, model, degree)
    for less, more in of.grown:
        assert seconds[more] >= seconds[less] * (1 - ROUNDING), (of.ops[less], of.ops[more])


@every_case
def test_no_time_outgrows_the_batch_but_at_named_steps(name: str, model: str, degree: int) -> None:
    """So a pass takes at most (b + 1) / b of what it took, but for what :func:`steps` names."""
    profile, of, seconds = priced(name, model, degree)
    for fewer, more, growth in of.batched:
        ops = of.ops[fewer], of.ops[more]
        assert seconds[more] <= seconds[fewer] * growth * (1 + ROUNDING) or steps(profile, *ops), ops


def steps(profile: HardwareProfile, op: Operation, more: Operation) -> bool:
    """Whether a kernel begins something in between: a tile, experts' larger tiles, a protocol, to spill a cache."""
    law = profile.law(more)
    if isinstance(op, Gemm) and isinstance(more, Gemm) and isinstance(law, GemmLaw):
        tiled = any(model.tiled for model in profile.gemm.values())
        return (tiled and -(-op.m // 16) != -(-more.m // 16)) or more.m > SHARED_ROWS
    if isinstance(op, ExpertMlp) and isinstance(more, ExpertMlp):
        return any(op.tokens <= most < more.tokens for most in (op.count, FEW_TOKENS))
    if isinstance(op, Collective) and isinstance(more, Collective) and isinstance(law, CollectiveLaw):
        regimes = law.model(op.kind, op.ranks).regimes
        ends = ((before.to_bytes, after.from_bytes) for before, after in pairwise(regimes))
        return any(op.message_bytes < start and more.message_bytes > end for end, start in ends)
    return profile.seconds(more).seconds == law.least_s(more)


@pytest.mark.parametrize("name", PROFILES)
def test_attention_takes_no_less_for_more_heads(name: str) -> None:
    """More kv heads of as many query heads each, and more query heads on as many kv heads that they share."""
    profile = find_hardware(name)
    dtype = next(iter(profile.attention))
    for batch, context, group in product((1, 8, 64), (128, 4096, 65536), (1, 2, 4, 8, 16)):
        heads = [(group * kv_heads, kv_heads) for kv_heads in (1, 2, 3, 4, 8, 12, 16, 32, 40)]
        shared = [(heads * 4, 4) for heads in range(2, 17)]
        for of in (heads, shared):
            times = [profile.seconds(Attention("a", batch, 1, context, *each, 128, dtype)).seconds for each in of]
            assert all(more >= less * (1 - ROUNDING) for less, more in pairwise(times)), (batch, context, group)


@pytest.mark.parametrize("engine", [name for name in runtime_names() if find_runtime(name).kernels.streaming_attention])
def test_no_engine_reads_caches_faster_than_memory_gives_them(engine: str) -> None:
    """Factors on bytes had read 2.6 to 3.3 TB/s over 32k tokens of 16 sequences on an H100; measured 3.1 to 3.2."""
    for name, batch, context, dtype in product(PROFILES, (1, 16), (1024, 32768), ("bfloat16", "float8")):
        profile = find_hardware(name)
        if not profile.prices("bfloat16") or dtype not in profile.attention:
            continue
        kernels = find_runtime(engine).on(profile.device).kernels
        op = Attention("a", batch, 1, context, 32, 8, 128, "bfloat16", kv_dtype=dtype)
        alone_s = profile.seconds(op).seconds
        taken_s = alone_s * kernel_factor(op, alone_s, profile, kernels)
        assert op.streamed_bytes / taken_s <= profile.reading_bandwidth
        assert profile.reading_bandwidth <= 0.94 * profile.device.memory_bandwidth or "torch" in name
    h100 = find_hardware("h100-sxm")
    assert 3.0e12 < h100.reading_bandwidth < 3.2e12


MIXTURES = ("gpt-oss-120b", "deepseek-r1", "minimax-m2.5", "qwen3-235b-a22b", "llama-4-scout", "nemotron-3-super")


@settings(max_examples=150)
@given(
    engine=st.sampled_from(sorted(runtime_names())),
    name=st.sampled_from([name for name in PROFILES if find_hardware(name).prices("bfloat16")]),
    model=st.sampled_from((*MIXTURES, "llama-3.1-8b")),
    dtype=st.sampled_from((None, "float8", "nvfp4")),
    degree=st.sampled_from((1, 2, 4, 8)),
    batch=st.integers(1, 300),
    rows=st.integers(1, 9),
    masked=st.booleans(),
)
@example("vllm", "rtx-pro-6000", "gpt-oss-120b", None, 1, 1, 1, False)  # 0.52 of what its experts take to be read
@example("trtllm", "b200-sxm", "deepseek-r1", "nvfp4", 8, 4, 1, False)  # 0.49
def test_no_engine_outruns_memory_or_arithmetic(
    engine: str, name: str, model: str, dtype: str | None, degree: int, batch: int, rows: int, masked: bool
) -> None:
    """However small its factors: experts had been read at up to twice the bandwidth."""
    profile = find_hardware(name)
    kernels = find_runtime(engine).on(profile.device).kernels
    shape = {"batch": batch, "queries": rows, "context": 1024, "tp": min(degree, profile.device.count)}
    for op, _ in forward_pass(find_transformer(model), **shape, masked=masked, dtype=dtype).counted:
        alone_s = profile.seconds(op).seconds
        taken_s = alone_s * kernel_factor(op, alone_s, profile, kernels) * (1 + ROUNDING)
        assert taken_s >= op.streamed_bytes / profile.device.memory_bandwidth, op
        assert taken_s >= profile.device.compute_s(op), op


def test_the_worst_cases_of_before_are_possible() -> None:
    """What was said of them: 7.2 s a verification, 4.3 times faster than memory, 14.85 ms for one and 11.05 for two."""
    l40s, a100, b200 = map(find_hardware, ("l40s", "a100-sxm", "b200-sxm"))
    llama, old, deepseek = map(find_transformer, ("llama-3.1-8b", "llama-2-7b", "deepseek-r1"))

    def pass_s(profile: HardwareProfile, work: ForwardPass) -> float:
        return cost_of_operations(work.counted, profile).seconds

    one, seven = (pass_s(l40s, forward_pass(llama, batch=48, queries=q, context=4096)) for q in (1, 7))
    assert one < seven < 2 * one
    read = forward_pass(old, batch=32, context=2048, dtype="bfloat16")
    assert pass_s(a100, read) > read.moved_bytes / a100.device.memory_bandwidth
    alone, two = (pass_s(b200, forward_pass(deepseek, batch=b, context=1024, tp=8)) for b in (1, 2))
    assert alone <= two < 1.1 * alone


def test_where_a_bound_was_needed_the_error_widens_and_one_warning_says_so() -> None:
    profile = find_hardware("h100-sxm")
    law = profile.attention["bfloat16"]
    impossible = law.roofline.changed(bandwidth=100 * law.roofline.bandwidth)
    fast = law.changed(roofline=impossible, streaming=None)
    profile = profile.changed(attention={"bfloat16": fast})
    ops = [Attention("a", batch, 1, 65536, 32, 8, 128, "bfloat16") for batch in (4, 8)]
    timings = [profile.seconds(op) for op in ops]
    assert [timing.seconds for timing in timings] == [op.streamed_bytes / 3.35e12 for op in ops]
    assert {timing.warning for timing in timings} == {
        "h100-sxm: attention is priced at what memory and arithmetic take at their best, since its fit is below that"
    }
    assert all(timing.log_sd > fast.log_sd for timing in timings)
    masked = Attention("a", 4, 6, 65536, 32, 8, 128, "bfloat16", masked=True)
    before, after = profile.law(masked).timing(masked), profile.seconds(masked)
    assert after.seconds > before.seconds
    assert after.warnings[:-1] == before.warnings
    assert any("branch masks were not timed" in each for each in after.warnings)
    assert after.log_sd == before.log_sd


def test_a_dtype_that_was_not_timed_takes_what_an_equally_fast_one_does() -> None:
    profile = find_hardware("a100-sxm")
    half, brain = (profile.seconds(Gemm("up", 8, 8192, 8192, dtype)) for dtype in ("float16", "bfloat16"))
    assert half.seconds == brain.seconds
    assert half.log_sd == brain.log_sd
    assert half.warning == "a100-sxm: no float16 was timed: bfloat16's kernels, which are as fast there"
    with refused("bfloat16 gemm"):
        find_hardware("v100-sxm2-32gb").seconds(Gemm("up", 8, 8192, 8192, "bfloat16"))
