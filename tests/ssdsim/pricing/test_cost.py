"""Seconds of passes on the bundled profiles, and what must fit where."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import HARDWARE, find_hardware, find_transformer
from ssdsim.hardware.runtime_card import KERNELS
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.runtime_numbers import Kernels
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.drafter import window_budget
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.pricing.site import Site
from ssdsim.question.configuration import Configuration, configure
from ssdsim.rounds.kernel import Kernel
from ssdsim.transformer.forward import forward_pass
from tests.refusals import refused


@pytest.mark.parametrize("context", [512, 768, 1024])
def test_kernels_of_llama_70b_sum_to_what_another_tool_sums(context: int) -> None:
    """14.9 ms for one token at TP 4; engines add the fixed costs."""
    kernels = find_hardware("h100-sxm")
    forward = forward_pass(find_transformer("llama-3.1-70b"), batch=1, context=context, tp=4)
    assert cost_of_pass(forward, kernels).seconds == pytest.approx(14.9e-3, rel=0.08)


def test_a_runtime_adds_to_layers_passes_and_draft_steps() -> None:
    profile, engine = find_hardware("h100-sxm"), find_runtime("ssd-engine")
    forward = forward_pass(find_transformer("llama-3.2-1b"), batch=1, context=512)
    bare = cost_of_pass(forward, profile).seconds
    layers = 16 * engine.host.per_layer_s
    assert layers > 0
    as_target, as_draft = (cost_of_pass(forward, profile, engine, model).seconds for model in ("target", "draft"))
    assert as_target == pytest.approx(bare + layers + engine.host.per_pass_s)
    assert as_draft == pytest.approx(bare + layers + engine.host.per_draft_step_s)


def test_more_tokens_and_more_context_never_cost_less_by_much() -> None:
    profile, card = find_hardware("h100-sxm"), find_transformer("llama-3.1-70b")
    by_queries = [
        cost_of_pass(forward_pass(card, batch=4, queries=q, context=1024, tp=4), profile).seconds for q in range(1, 33)
    ]
    assert all(b >= 0.97 * a for a, b in itertools.pairwise(by_queries))  # fits wiggle a little
    by_context = [
        cost_of_pass(forward_pass(card, batch=16, context=c, tp=4), profile).seconds for c in (256, 1024, 4096, 16384)
    ]
    assert by_context == sorted(by_context)


def test_a_timings_error_moves_all_its_uses_together() -> None:
    errors = TimingErrors(500, seed=3)
    one, twice = Cost({"gemm:a": (1.0, 0.1)}), Cost({"gemm:a": (2.0, 0.1)})
    assert np.allclose(2.0 * one.sample(errors), twice.sample(errors))
    other = Cost({"gemm:b": (1.0, 0.1)})
    assert abs(np.corrcoef(one.sample(errors), other.sample(errors))[0, 1]) < 0.15
    assert np.log(one.sample(errors)).std() == pytest.approx(0.1, rel=0.1)


def test_what_moves_a_short_step_by_many_times_itself_moves_it_no_farther() -> None:
    errors = TimingErrors(2000, seed=3)
    step = Cost({"fixed:a": (0.0002, 0.0)}, shared={"wander": 0.0012})
    drawn = step.sample(errors)
    moved = 0.0012 * errors.standard_normal("wander")
    assert (drawn > 0.0).all()
    assert (np.abs(drawn - 0.0002) <= 2.0 * np.abs(moved)).all()
    little = Cost({"fixed:a": (1.0, 0.0)}, shared={"wander": 0.05})
    assert np.allclose(little.sample(errors), 1.0 + 0.05 * errors.standard_normal("wander"), atol=0.02)


def test_sums_and_multiples_of_costs_keep_their_terms() -> None:
    a, b = Cost({"x": (1.0, 0.1), "y": (2.0, 0.2)}), Cost({"x": (3.0, 0.1)}, frozenset({"w"}))
    total = a + b * 2
    assert total.terms.timings == {"x": (7.0, 0.1), "y": (2.0, 0.2)}
    assert total.seconds == 9.0
    assert total.warnings == {"w"}


def test_the_window_budget_is_the_largest_that_the_draft_finishes_in_time() -> None:
    configuration = configure(f="window", b=4, k=5)
    ssd, seconds = configuration.scenarios["ssd"], configuration.scenarios["ssd"].seconds
    window = seconds["verify"] + seconds["sample"] + seconds["outcome"]
    budget = configuration.settings["budget"]
    assert budget == window_budget(sited(configuration), ssd.drafter, 5)
    assert seconds["pre-speculate"] <= window
    one_more = configure(budget=budget + 1, b=4, k=5).scenarios["ssd"].seconds
    assert one_more["pre-speculate"] > window


def test_more_draft_devices_share_the_branches_and_shorten_the_draft() -> None:
    one, three = (configure(b=16, f=8, draft_gpus=n).scenarios["ssd"] for n in (1, 3))
    branches_s = [scenario.steps["pre-speculate"].pieces[1].cost.seconds for scenario in (one, three)]
    assert branches_s[1] < branches_s[0]
    assert three.gpus == 7
    assert isinstance(one.tokens, Kernel)
    assert isinstance(three.tokens, Kernel)
    assert three.tokens.transitions[0, 0] == one.tokens.transitions[0, 0] > 0


def test_sampling_sends_logits() -> None:
    greedy, sampling = (configure(b=16, temperature=t).scenarios["ssd"].seconds for t in (0.0, 0.7))
    logits = 16 * 6 * 128_256 * 2
    bandwidth = find_hardware("h100-sxm").link
    assert bandwidth is not None
    more_s = sampling["speculation"] - greedy["speculation"]
    assert more_s == pytest.approx(logits / bandwidth.bandwidth, rel=0.05)


def test_a_separate_draft_of_sd_pays_the_messages() -> None:
    separate = configure(sd_draft="separate").scenarios
    assert separate["sd"].gpus == separate["ssd"].gpus == 5
    for message in ("outcome", "speculation"):
        assert separate["sd"].seconds[message] == separate["ssd"].seconds[message] > 0
    assert configure().scenarios["sd"].seconds["outcome"] == 0
    never = configure(sd_draft="separate", p_hit=0.0, backup="jit").scenarios
    sd, ssd = (never[name].seconds for name in ("sd", "ssd"))
    sd_s = sd["draft"] + sd["verify"] + sd["outcome"] + sd["speculation"]
    ssd_s = ssd["verify"] + ssd["fallback"] + ssd["outcome"] + ssd["speculation"]
    assert ssd_s == pytest.approx(sd_s)  # p_hit = 0 with jit is SD on the same placement


def test_one_rank_that_drafts_tells_the_others_its_tokens() -> None:
    """Colocated SD messages only where the draft is not on every rank; SSD's speculation reaches them all."""
    profile = find_hardware("h100-sxm")
    tokens_s = profile.message_seconds(8 * 8 * 6).seconds
    three_heads = "transformer-shaped-384x2"
    given = {"b": 8, "dtype": "bfloat16", "engine": "kernels"}
    sharded, single = (configure(draft=card, **given) for card in ("llama-3.2-1b", three_heads))
    for configuration, degree, told_s in ((sharded, 4, 0.0), (single, 1, 2 * tokens_s)):
        sd = configuration.scenarios["sd"]
        assert [work.tp for work in sd.steps["draft"].passes] == [degree]
        assert sd.seconds["outcome"] + sd.seconds["speculation"] == pytest.approx(told_s)
    message = sited(sharded).speculation_message(6).message
    assert message
    to_first_s = profile.message_seconds(message.sent_bytes).seconds
    assert sharded.scenarios["ssd"].seconds["speculation"] == pytest.approx(to_first_s + 2 * tokens_s)


def test_a_pass_drifts_by_its_name_and_tokens() -> None:
    """SD's drafting beside the target or apart; SSD's fallback drafts the same steps, its verification does not."""
    one_token = "draft step", 1
    for sd_draft in ("colocated", "separate"):
        configuration = configure(sd_draft=sd_draft)
        site = sited(configuration)
        steady, drifted = (
            {name: seconds_at(configuration, name, one) for name in ("sd", "ssd")}
            for one in (site, replace(site, drift={one_token: 2.0, ("verify", 1): 3.0}))
        )
        assert drifted["sd"]["draft"] == pytest.approx(2.0 * steady["sd"]["draft"])
        assert drifted["ssd"]["fallback"] == pytest.approx(2.0 * steady["ssd"]["fallback"])
        for name in ("verify", "pre-speculate", "outcome", "speculation", "sample"):
            assert drifted["ssd"][name] == steady["ssd"][name]


def sited(configuration: Configuration) -> Site:
    """Where the models run, with the settings in which everything is derived."""
    assert configuration.site is not None
    return replace(configuration.site, options=configuration.settings)


def seconds_at(configuration: Configuration, name: str, site: Site) -> Mapping[str, float]:
    scenario = configuration.scenarios[name]
    steps = scenario.strategy.steps(replace(site, options=scenario.settings), scenario.drafter)
    return {step: priced.seconds for step, priced in steps.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 1}, r"at tp 1 needs .* not even one sequence fits; there is room with 2 h100-sxm \(tp 2\)"),
        ({"hardware": "v100-sxm2-16gb"}, r"with 16 v100-sxm2-16gb \(tp 16, a node has 8\) or --dtype int4"),
        ({"b": 4000, "context": 8192}, "the largest batch that fits is [0-9]+"),
        ({"k": 2, "fl": [0, 0, 0]}, "--fl caches no outcome: at least one fan-out must be above 0"),
    ],
)
def test_what_cannot_run_is_refused_with_the_nearest_that_fits(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        configure(**options)


NAMED = r"(?P<target>(?<=--target )\S+$)|(?P<dtype>(?<=--dtype )\S+$)|(?P<tp>((?<=\(tp )\d+(?=\)))|(?<=is tp )\d+$)"


@pytest.mark.parametrize("hardware", HARDWARE.names())
def test_on_every_device_the_first_command_or_the_one_that_its_refusal_names_works(hardware: str) -> None:
    given: dict[str, Any] = {}
    for _ in range(3):  # too few devices for the degree, then too little memory for the model
        try:
            asked = configure(hardware=hardware, strategies=["ar"], **given)
        except InputError as error:
            named = re.search(NAMED, str(error))
            if named is None:
                assert "torch" in hardware  # one GPU's own kernels: no collectives
                return
            given |= {name: int(said) if name == "tp" else said for name, said in named.groupdict().items() if said}
        else:
            break
    own = "bfloat16" if "v100" not in hardware else "float16"
    assert asked.settings["dtype"] == given.get("dtype", own)
    said = f"{hardware} has no bfloat16 timings: priced in --dtype float16"
    assert (said in asked.warnings) is (own == "float16" and "dtype" not in given)


@pytest.mark.parametrize("b", [19, 26])
def test_the_largest_batch_that_fits_fits(b: int) -> None:
    """Of all devices that are short: the target alone has room for 25, with the draft beside it for 18."""
    setting = {"strategies": "sd", "target": "llama-3.1-8b", "hardware": "l40s", "tp": 1, "context": 8192}
    with refused("18", "--sd-draft separate"):
        configure(b=b, **setting)
    assert configure(b=18, **setting).scenarios


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("ssd", {"tp": 8}, "SSD needs 8 target and 1 draft devices, h100-sxm has 8; the nearest that fits is tp 4"),
        ("ssd", {"tp": 4, "draft_gpus": 5}, "the nearest that fits is tp 2"),
        ("sd", {"tp": 2, "draft": "llama-3.1-8b"}, r"with llama-3.1-8b beside it .* --sd-draft separate needs less"),
    ],
)
def test_what_cannot_run_says_why_and_leaves_the_others(strategy: str, options: dict[str, Any], message: str) -> None:
    configuration = configure(**options)
    assert list(configuration.refused) == [strategy]
    assert re.search(message, configuration.refused[strategy])
    assert set(configuration.scenarios) == {"ar", "sd", "ssd"} - {strategy}
    with pytest.raises(InputError, match=message):
        configure(**options, strategies=strategy)


@pytest.mark.parametrize(
    ("dtype", "factor"), [("mxfp4", "experts_4_bit"), ("float8", "experts"), ("bfloat16", "experts_16_bit")]
)
def test_experts_have_the_factor_of_their_format(dtype: str, factor: str) -> None:
    """What kernels of 8 bits take in an engine says nothing of those of 16."""
    forward = forward_pass(find_transformer("qwen3-235b-a22b"), batch=8, context=512, tp=8, dtype=dtype)
    bare, twice = (
        cost_of_pass(forward, find_hardware("h200-sxm"), KERNELS.changed(name=f"x{by}", kernels=kernels))
        for by, kernels in ((1, Kernels()), (2, Kernels(**{factor: 2.0})))
    )
    assert twice.by_kind()["experts"] == pytest.approx(2.0 * bare.by_kind()["experts"])


def test_passes_of_one_name_drift_apart_where_rounds_differ_in_their_rows() -> None:
    """Confidences of two values: a round verifies one to six tokens, of which three drift."""
    configuration = configure(strategies="adaptive", adaptive_k=5, b=1, confidence_spread=0.0)
    steady, drifted = (
        site.ragged_step("verify", {3.0: 1.0}, 6).by_rows
        for site in (sited(configuration), replace(sited(configuration), drift={("verify", 3): 2.0}))
    )
    assert steady is not None
    assert drifted is not None
    slower = dict(zip(steady.rows.tolist(), (drifted.seconds / steady.seconds).tolist(), strict=True))
    assert slower == pytest.approx({rows: 2.0 if rows == 3 else 1.0 for rows in range(1, 7)})


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_draft_model_over_several_devices_is_known_as_its_step_is(engine: str) -> None:
    """No row has one; the one that was published took four times as long over two devices as on one."""
    given: dict[str, Any] = {"target": "llama-3.1-70b", "tp": 4, "engine": engine, "strategies": "sd"}

    def log_sd(**more: Any) -> float:
        drafts = configure(**given, **more).scenarios["sd"].steps["draft"]
        return float(np.log(drafts.sample(TimingErrors(4_000, 3))).std())

    one, over_all, head = (log_sd(draft_tp="one"), log_sd(draft_tp="all"), log_sd(drafter="eagle3"))
    assert over_all > 0.4
    assert over_all > 1.2 * max(one, head)
