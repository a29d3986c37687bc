"""The tables of mixed passes against the one description of a pass."""

import numpy as np
import pytest

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.passes import Model, cost_of_mixed_pass, cost_of_pass
from ssdsim.question.configuration import configure
from ssdsim.serving.batching import Batching
from ssdsim.serving.passes import Place, PromptTable
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.prefill import Chunk, mixed_pass, prefill_pass
from tests.ssdsim.serving.sample_runs import policy, requests


def place(card: str = "llama-3.1-70b", tp: int = 4, runtime: str = "ssd-engine", model: Model = "target") -> Place:
    return Place(find_transformer(card), model, tp, None, None, find_hardware("h100-sxm"), find_runtime(runtime))


@pytest.mark.long
@pytest.mark.parametrize(
    "where",
    [
        place(),
        place("llama-3.2-1b", 1, model="draft"),
        place("llama-3.1-8b", 1, "kernels"),
        place("gpt-oss-120b", 2, "vllm"),  # a mixture: what its experts take depends on the tokens of the whole pass
    ],
)
def test_tables_are_within_half_a_percent_of_the_pricing(where: Place) -> None:
    table, rng = PromptTable(where), np.random.default_rng(5)
    most = 8 if where.card.experts is None else 2  # decoded tokens of a sequence share experts, in the tables only
    errors = []
    for _ in range(250):  # of each place: 1,000 compositions in all
        batch, queries, context = int(rng.integers(1, 65)), int(rng.integers(1, most)), int(rng.integers(64, 4096))
        chunks = tuple(
            Chunk(int(np.exp(rng.uniform(0, np.log(1500)))), int(rng.integers(0, 3000)) * int(rng.integers(0, 2)))
            for _ in range(int(rng.integers(1, 4)))
        )
        shape = {"batch": batch, "queries": queries, "context": context}
        mixed = mixed_pass(where.card, chunks, tp=where.tp, **shape)
        priced = cost_of_mixed_pass(mixed, batch * queries, where.profile, where.runtime, where.model).seconds
        decoding = cost_of_pass(
            forward_pass(where.card, tp=where.tp, **shape), where.profile, where.runtime, where.model
        ).seconds
        errors.append((decoding + table.added_s(batch * queries, chunks)) / priced - 1.0)
        alone = cost_of_mixed_pass(
            mixed_pass(where.card, chunks, tp=where.tp), 0, where.profile, where.runtime, where.model
        )
        errors.append(table.alone_s(chunks) / alone.seconds - 1.0)
    assert np.abs(errors).max() < 0.005


@pytest.mark.long
@pytest.mark.parametrize("chunk", [16, 256, 2000])
def test_a_mixtures_prompts_add_to_what_its_decoding_shares(chunk: int) -> None:
    """Verified tokens of a sequence share experts; a mixed pass in which each chose for itself takes longer.

    What they save is still counted where a prompt has every expert read anyway: up to 4 % too little here.
    """
    where = place("gpt-oss-120b", 2, "vllm")
    shape = {"batch": 8, "queries": 7, "context": 1024}
    priced = (where.profile, where.runtime, where.model)
    decoding = cost_of_pass(forward_pass(where.card, tp=2, **shape), *priced).seconds
    alone = cost_of_mixed_pass(mixed_pass(where.card, (Chunk(chunk),), tp=2), 0, *priced).seconds
    for_itself = cost_of_mixed_pass(mixed_pass(where.card, (Chunk(chunk),), tp=2, **shape), 56, *priced).seconds
    together = decoding + PromptTable(where).added_s(56, (Chunk(chunk),))
    assert max(decoding, 0.96 * alone) <= together <= 1.005 * for_itself


@pytest.mark.long
@pytest.mark.parametrize("name", ["ar", "sd", "ssd"])
def test_rounds_are_within_half_a_percent_of_the_pricing_wherever_they_are_asked_for(name: str) -> None:
    options = {"backup": "fast"} if name == "ssd" else {}
    of = policy(name, requests(2, inputs="1024", outputs="256"), Batching(), **options)
    table, rng = of.variants[0].table, np.random.default_rng(1)
    errors = []
    for _ in range(25):
        b, context = (int(np.exp(rng.uniform(np.log(low), np.log(high)))) for low, high in ((1, 140), (200, 6000)))
        predicted = configure(b=b, context=context, strategies=name, **options).scenarios[name].estimate
        errors.append(float(table.mean(b, context).round_s) / float(predicted.round_s) - 1.0)
    assert np.abs(errors).max() < 0.005


def test_a_pass_over_a_whole_prompt_is_the_prefill_pass() -> None:
    card, profile = find_transformer("llama-3.1-8b"), find_hardware("h100-sxm")
    kernels = find_runtime("kernels")
    mixed = cost_of_mixed_pass(mixed_pass(card, (Chunk(700),)), 0, profile, kernels).seconds
    assert mixed == pytest.approx(cost_of_pass(prefill_pass(card, batch=1, tokens=700), profile, kernels).seconds)


def test_parts_of_a_prompt_do_the_work_of_the_whole_and_no_part_is_faster_than_its_share() -> None:
    profile, card = find_hardware("h100-sxm"), find_transformer("llama-3.1-8b")

    def attention(chunk: Chunk) -> tuple[float, float]:
        over = [(op, times) for op, times in mixed_pass(card, (chunk,)).counted if op.name == "attention"]
        return sum(op.flops * n for op, n in over), sum(profile.seconds(op).seconds * n for op, n in over)

    parts = [attention(chunk) for chunk in (Chunk(400), Chunk(600, 400), Chunk(1000, 1000))]
    flops, seconds = attention(Chunk(2000))
    assert sum(part[0] for part in parts) == pytest.approx(flops)
    assert parts[-1][1] == pytest.approx(seconds * parts[-1][0] / flops)
    assert sum(part[1] for part in parts) >= seconds  # shorter prompts are less efficient
