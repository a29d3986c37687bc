"""Runtimes: what a card adds, where it is found, and that prices and fits read it alike."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.runtimes.solution import FIELDS, features, values_of
from calibration.validation.paper import load_paper
from ssdsim import predict, strategies
from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.laws import FixedCosts
from ssdsim.hardware.runtime_card import KERNELS, OF_ENGINE, Evidence, Runtime
from ssdsim.hardware.runtime_catalog import (
    DEFAULT,
    RUNTIMES,
    SUFFIX,
    find_runtime,
    load_runtime,
    runtime_names,
    runtime_of,
    runtime_of_version,
    save_runtime,
)
from ssdsim.hardware.runtime_numbers import CardErrors, Host, Kernels
from ssdsim.pricing.passes import cost_of_pass, cost_of_step, kernel_factor, units_of_step
from ssdsim.question.configuration import configure
from ssdsim.question.engines import Engine
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row
from ssdsim.strategies import drafters
from ssdsim.tokens.acceptance import expected_tokens, rate_of
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import eagle3_head, eagle_head
from ssdsim.transformer.operations import Attention, Collective, LatentAttention
from tests.refusals import refused
from tests.ssdsim.readers.engines import served

PUBLISHED = load_paper("kumar2026").families[0]
PUBLISHED_RATIOS = [a / b for a, b in zip(PUBLISHED.ssd_tokens_per_s, PUBLISHED.sd_tokens_per_s, strict=True)]

factors, seconds = st.floats(1.0, 3.0), st.floats(0.0, 5e-3)
cards = st.builds(
    Runtime,
    name=st.text("abc", min_size=1, max_size=8),
    engine=st.just("made up"),
    kernels=st.builds(
        Kernels,
        gemm=factors,
        attention=factors,
        attention_sharing=st.floats(0.0, 0.5),
        communication=factors,
        elementwise=factors,
        overlap=st.floats(0.0, 0.85),
        prompts=factors,
        streaming_attention=st.booleans(),
        one_shot_bytes=st.sampled_from([0, 1 << 19]),
    ),
    host=st.builds(Host, **dict.fromkeys(Host.__struct_fields__, seconds)),
    evidence=st.just(Evidence(source="made up")),
)
rows = st.builds(
    Row,
    model=st.just("llama-3.1-8b"),
    hardware=st.sampled_from(["h100-sxm", "h200-sxm", "b200-sxm"]),
    tp=st.sampled_from([1, 2, 4]),
    batch=st.integers(1, 64),
    input_tokens=st.sampled_from([0, 128, 1000]),
    output_tokens=st.sampled_from([2, 500]),
    metric=st.sampled_from(["step_ms", "tpot_ms", "latency_s", "tokens_per_s"]),
    value=st.just(1.0),
    dtype=st.sampled_from([None, "float8"]),
    k=st.sampled_from([None, 3]),
    acceptance_length=st.just(2.5),
    draft=st.sampled_from([None, "llama-3.2-1b"]),
)


@pytest.mark.parametrize("name", runtime_names())
def test_every_bundled_card_says_what_it_rests_on(name: str) -> None:
    card = find_runtime(name)
    assert card.name == name
    assert card.evidence.source
    assert name in card.summary
    if card is not KERNELS:
        assert card.evidence.rows > 0 or "nobody timed" in card.evidence.source
        assert card.errors.pass_log_sd + card.errors.beside_log_sd > 0.0
        assert card.errors.draft_step_log_sd > 0.0


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(card=cards, row=rows)
def test_a_row_is_linear_in_its_card(card: Runtime, row: Row) -> None:
    """What the fit solves is what a prediction prices."""
    made = features([row], card)
    assert made.predicted(values_of(card))[0] == pytest.approx(work_of(row, card).cost.seconds, rel=1e-9)


@pytest.mark.parametrize("name", runtime_names())
@pytest.mark.parametrize("draft", ["llama-3.2-1b", None])
def test_a_fit_begins_at_the_price_of_the_card_that_it_is_started_from(name: str, draft: str | None) -> None:
    """Launches of a draft that has no graphs among it, and a head's own step."""
    card = find_runtime(name)
    row = served(batch=2, k=4, draft=draft, acceptance_length=2.5)
    assert features([row], card).predicted(values_of(card))[0] == pytest.approx(work_of(row, card).cost.seconds)


@settings(max_examples=20, deadline=None)
@given(row=rows, field=st.sampled_from([name for name in FIELDS if name != "overlap"]))
def test_more_of_anything_is_never_faster(row: Row, field: str) -> None:
    made = features([row], KERNELS)
    more = values_of(KERNELS)
    more[FIELDS.index(field)] += 1e-3
    assert made.predicted(more)[0] >= made.predicted(values_of(KERNELS))[0]


def test_a_card_is_what_it_was_after_a_file(tmp_path: Path) -> None:
    for name in runtime_names():
        save_runtime(find_runtime(name), tmp_path / "x.toml")
        assert load_runtime(tmp_path / "x.toml") == find_runtime(name)


def test_names_are_read_kindly_and_unknown_ones_are_one_line(tmp_path: Path) -> None:
    assert find_runtime("SSD_Engine").name == "ssd-engine"
    with refused("vlm", "vllm"):
        find_runtime("vlm")
    with pytest.raises(InputError, match="no such runtime card"):
        find_runtime(tmp_path / "none.toml")
    right = RUNTIMES.files["ssd-engine"].read_text()
    (tmp_path / "wrong.toml").write_text(right.replace("per_step_s", "per_steps_s"))
    with refused("host", "per_steps_s", "per_step_s"):
        find_runtime(tmp_path / "wrong.toml")


def test_a_profile_has_the_runtime_beside_it_or_its_own_or_the_default(tmp_path: Path) -> None:
    profile = find_hardware("h100-sxm")
    path = tmp_path / "m.json"
    assert runtime_of(profile, path)[0].name == DEFAULT
    old = profile.changed(fixed=FixedCosts(per_pass_s=1e-3, per_layer_s=1e-5, per_round_s=2e-3))
    own, why = runtime_of(old, path)
    assert (own.host.per_pass_s, own.host.per_draft_step_s, own.host.per_step_s) == (1e-3, 1e-3, 2e-3)
    assert "fixed costs" in why
    save_runtime(find_runtime("vllm"), tmp_path / f"m{SUFFIX}")
    assert runtime_of(old, path)[0].name == "vllm"
    profile.save(path)
    assert predict(hardware=str(path)).configuration.settings["engine"] == "vllm"


def test_kernels_add_nothing() -> None:
    prediction = predict(engine="kernels", strategies=("ar",)).estimates["ar"]
    forward = forward_pass(find_transformer("llama-3.1-70b"), batch=1, context=1024, tp=4)
    assert float(prediction.round_s) == pytest.approx(cost_of_pass(forward, find_hardware("h100-sxm")).seconds)


def test_kernels_of_its_own_take_their_bytes() -> None:
    profile = find_hardware("h100-sxm")
    own = Kernels(streaming_attention=True, one_shot_bytes=1 << 20)
    big = Attention("attention", 64, 1, 8192, 8, 8, 128, "bfloat16")
    alone_s = profile.seconds(big).seconds
    bytes_s = big.bytes / profile.reading_bandwidth
    assert alone_s * kernel_factor(big, alone_s, profile, own) == pytest.approx(bytes_s, rel=0.05)
    assert profile.link is not None
    for size in (1 << 10, 1 << 16, 1 << 20):
        message = Collective("all_reduce", "all_reduce", size, 4)
        alone_s = profile.seconds(message).seconds
        latency_s = profile.seconds(Collective("all_reduce", "all_reduce", 1, 4)).seconds
        over_link_s = 3 * size / profile.link.bandwidth
        assert alone_s * kernel_factor(message, alone_s, profile, own) == pytest.approx(latency_s + over_link_s)
    large = Collective("all_reduce", "all_reduce", 1 << 30, 4)
    alone_s = profile.seconds(large).seconds
    two_shots_s = 2 * latency_s + 1.5 * large.message_bytes / profile.link.bandwidth
    assert alone_s * kernel_factor(large, alone_s, profile, own) == pytest.approx(min(alone_s, two_shots_s))
    slower_s = 10 * two_shots_s  # of a library with a worse kernel
    assert slower_s * kernel_factor(large, slower_s, profile, own) == pytest.approx(two_shots_s)


@pytest.mark.parametrize("hardware", ["h100-sxm", "b200-sxm", "b300-sxm"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_byte_beyond_one_shot_is_no_step(hardware: str, ranks: int) -> None:
    """Nobody has measured one: 64 tokens and 65 were 6 and 10.5 us on a B200 at TP 4."""
    profile, own = find_hardware(hardware), Kernels(one_shot_bytes=1 << 19)
    assert profile.link is not None
    taken = []
    for size in (1 << 10, 1 << 18, 1 << 19, (1 << 19) + 1, (1 << 19) + 8192, 1 << 20, 1 << 22, 1 << 24):
        message = Collective("all_reduce", "all_reduce", size, ranks)
        alone_s = profile.seconds(message).seconds
        taken.append(alone_s * kernel_factor(message, alone_s, profile, own))
    assert taken == sorted(taken)
    assert taken[4] - taken[2] <= (ranks - 1) * 8192 / profile.link.bandwidth * (1 + 1e-9)


def test_kernels_that_read_for_each_query_head_take_longer_for_those_that_share() -> None:
    profile = find_hardware("h100-sxm")
    own = Kernels(streaming_attention=True, attention_sharing=0.25)
    for kv_heads, times in ((32, 1.0), (8, 1.75), (4, 2.75)):
        op = Attention("attention", 8, 1, 4096, 32, kv_heads, 128, "bfloat16")
        alone_s = profile.seconds(op).seconds
        packed, each = (kernel_factor(op, alone_s, profile, of) for of in (own.changed(attention_sharing=0.0), own))
        assert each / packed == pytest.approx(times)
    latent = LatentAttention("attention", 8, 1, 4096, 16, 512, 64, "bfloat16")
    alone_s = profile.seconds(latent).seconds
    assert kernel_factor(latent, alone_s, profile, own) == kernel_factor(
        latent, alone_s, profile, own.changed(attention_sharing=0.0)
    )


@given(overlap=st.floats(0.0, 0.9))
def test_hidden_launches_leave_a_part_of_every_kernel(overlap: float) -> None:
    profile = find_hardware("h100-sxm")
    forward = forward_pass(find_transformer("llama-3.2-1b"), batch=1, context=512)
    hides = KERNELS.changed(name="hides", kernels=Kernels(overlap=overlap))
    bare = cost_of_pass(forward, profile).seconds
    assert 0.09 * bare < cost_of_pass(forward, profile, hides).seconds <= bare


def test_structure_moves_all_strategies_together(tmp_path: Path) -> None:
    """A pass error widens every speed, and hardly a ratio."""
    wide = KERNELS.changed(name="wide", errors=CardErrors(pass_log_sd=0.2))
    found, bare = (predict(engine=_saved(card, tmp_path), alpha=0.8, p_hit=0.9, k=6) for card in (wide, KERNELS))
    for name in ("ar", "sd", "ssd"):
        assert _width(found.intervals[name]) > 3 * _width(bare.intervals[name])
    ratio, bare_ratio = (each.verdict.over["sd"].interval for each in (found, bare))
    assert _width(ratio) < 0.35 * _width(found.intervals["ssd"])
    assert _width(ratio) > _width(bare_ratio)


def _saved(card: Runtime, folder: Path) -> str:
    save_runtime(card, folder / f"{card.name}.toml")
    return str(folder / f"{card.name}.toml")


def _width(interval: object) -> float:
    low, high = interval.low, interval.high  # type: ignore[attr-defined]
    return math.log(high / low)


def test_published_speedups_lie_inside_the_default_interval() -> None:
    """SSD paper, table B.3: Llama-3.1-70B, batch 1, K 7, F 3, SD's K 6."""
    of_timings = {"alpha": 0.8, "hit_c": 0.4, "hit_r": 0.7}
    for inputs in ({}, of_timings):
        interval = predict(b=1, k=7, f=3, sd_k=6, **inputs).verdict.over["sd"].interval
        assert interval is not None
        assert interval.low < min(PUBLISHED_RATIOS)
        assert max(PUBLISHED_RATIOS) < interval.high
    assert min(PUBLISHED_RATIOS) > 1.53
    assert interval.high / interval.low < np.exp(2 * np.log(1.2))


def test_a_draft_beside_the_target_runs_where_the_runtime_has_it() -> None:
    degrees = {}
    for name in ("ssd-engine", "vllm"):
        sd = predict(engine=name, strategies=("ar", "sd")).configuration.scenarios["sd"]
        (degrees[name],) = [work.tp for work in sd.steps["draft"].passes]
    assert degrees == {"ssd-engine": 1, "vllm": 4}


def test_a_head_has_the_step_of_its_kind() -> None:
    """EAGLE has the target's LM head, EAGLE-3 one of its own, whose tokens are told in the target's vocabulary."""
    card = find_runtime("vllm-0.9")
    assert card.head_step_s is not None
    assert card.own_lm_head_step_s is not None
    target = find_transformer("llama-3.1-8b")
    heads = {"eagle": eagle_head(target).head, "eagle3": eagle3_head(target).head}
    per_draft_step_s = {name: card.drafting_with(head).host.per_draft_step_s for name, head in heads.items()}
    assert per_draft_step_s == {"eagle": card.head_step_s, "eagle3": card.own_lm_head_step_s}
    assert card.drafting_with(None) is card
    alike = card.changed(own_lm_head_step_s=None)
    assert alike.drafting_with(heads["eagle3"]).host.per_draft_step_s == card.head_step_s


def test_a_round_of_a_deep_target_is_not_charged_by_its_layers() -> None:
    """What it costs beside its passes is the host's, whatever the target: about 1.2 ms of eight sequences."""
    beside = {}
    for target, tp in (("llama-3.1-8b", 1), ("llama-3.1-70b", 4)):
        asked = {"target": target, "tp": tp, "b": 8, "k": 3, "hardware": "h200-sxm", "engine": "sglang"}
        scenarios = predict(**asked, strategies="ar,sd", drafter="eagle3").configuration.scenarios
        beside[target] = scenarios["sd"].seconds["sample"] - scenarios["ar"].seconds["sample"]
    assert beside["llama-3.1-70b"] == pytest.approx(beside["llama-3.1-8b"])
    assert 0.9e-3 < beside["llama-3.1-70b"] < 1.5e-3


def test_an_engine_keeps_the_cache_of_quantised_weights_as_its_card_says() -> None:
    plain, quantised = (predict(engine="trtllm", dtype=d).configuration.settings for d in ("bfloat16", "float8"))
    assert "kv_dtype" not in plain
    assert quantised["kv_dtype"] == "float8"
    given = predict(engine="trtllm", dtype="float8", kv_dtype="bfloat16").configuration.settings
    assert given["kv_dtype"] == "bfloat16"


def test_a_measured_round_is_the_predicted_one() -> None:
    """The draft on all of the target's GPUs, in its format, with the cache of the engine."""
    row = Row(
        model="llama-3.1-70b",
        draft="llama-3.2-1b",
        hardware="h100-sxm",
        tp=4,
        batch=8,
        input_tokens=1024,
        output_tokens=1,
        metric="step_ms",
        value=1.0,
        dtype="float8",
        k=4,
    )
    card = find_runtime("vllm").changed(name="8-bit cache", cache_dtype="float8")
    given = {"engine": "vllm", "dtype": "float8", "kv_dtype": "float8", "b": 8, "context": 1024, "k": 4}
    predicted = predict(strategies=("ar", "sd"), **given).estimates["sd"]
    assert work_of(row, card).cost.seconds == pytest.approx(float(predicted.round_s), rel=1e-9)


def test_a_scaled_profile_keeps_the_runtime_that_lies_beside_it(tmp_path: Path) -> None:
    find_hardware("h100-sxm").save(tmp_path / "m.json")
    save_runtime(find_runtime("vllm"), tmp_path / f"m{SUFFIX}")
    slow = tmp_path / "slow.json"
    done = CliRunner().invoke(cli, ["hardware", "scale", str(tmp_path / "m.json"), "--clock", "0.5", "-o", str(slow)])
    assert done.exit_code == 0
    assert runtime_of(find_hardware(slow), slow)[0].name == "vllm"


def test_a_stray_file_is_no_runtime_of_a_bundled_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_runtime(find_runtime("vllm"), tmp_path / f"h100-sxm{SUFFIX}")
    assert runtime_of(find_hardware("h100-sxm"), "h100-sxm")[0].name == DEFAULT


def test_what_is_left_open_of_numbers_moves_passes_and_steps_together() -> None:
    """A step that is longer by what layers are shorter leaves the sum of one model as it is."""
    target = find_transformer("llama-3.1-8b")
    traded = {"per_layer_s": -1e-4 / target.layers, "per_step_s": 1e-4}
    card = KERNELS.changed(name="traded", wander=(traded,))
    profile, step = find_hardware("h100-sxm"), cost_of_step(card, units_of_step(1))
    whole = cost_of_pass(forward_pass(target, batch=1, context=100), profile, card) + step
    assert whole.terms.shared["wander 0@traded"] == pytest.approx(0.0, abs=1e-12)
    other = find_transformer("llama-3.1-70b")
    longer = cost_of_pass(forward_pass(other, batch=1, context=100), profile, card) + step
    assert longer.terms.shared["wander 0@traded"] == pytest.approx(1e-4 * (1.0 - other.layers / target.layers))


def test_a_direction_names_numbers_of_the_card() -> None:
    with refused("wander.0", "per_stepp_s", error=ValueError):
        Runtime(**{**KERNELS.as_dict(), "wander": ({"per_stepp_s": 1e-4},)})


def test_a_round_waits_for_the_slower_of_host_and_devices() -> None:
    """The speeds over K of the SSD paper's sweep on vLLM 0.16, whose acceptance rate is told by one of them."""
    paper = load_paper("kumar2026")
    (sweep,) = (each for each in paper.sweeps if each.engine.startswith("vllm") and each.method == "standalone")

    def round_s(k: int, runtime: str) -> float:
        options = {"hardware": "h100-sxm", "b": 1, "tp": paper.tp, "context": paper.context, "alpha": 0.5, "sd_k": k}
        return float(predict(strategies=("ar", "sd"), engine=runtime, **options).estimates["sd"].round_s)

    seen = dict(zip(sweep.k, sweep.tokens_per_s, strict=True))
    alpha = rate_of(seen[6] * round_s(6, "vllm-0.16"), 6)
    for k, speed in seen.items():
        assert expected_tokens(alpha, k) / round_s(k, "vllm-0.16") == pytest.approx(speed, rel=0.06), k
    assert round_s(8, "vllm-0.16") > 1.5 * round_s(8, "vllm")


@pytest.mark.parametrize(
    ("drafter", "k", "b", "context", "measured_ms", "most"),
    [
        (None, 5, 1, 1000, 6.53, 0.02),
        (None, 5, 64, 1000, 9.75, 0.02),
        (None, 5, 16, 8000, 12.19, 0.02),
        ("eagle3", 2, 16, 1000, 8.96, 0.02),
        ("eagle3", 5, 16, 8000, 16.97, 0.03),
        ("eagle3", 5, 64, 1000, 18.33, 0.12),  # 384 rows: docs/validation.md
        ("model", 5, 16, 1000, 35.92, 0.02),
    ],
)
def test_the_card_of_vllm_says_what_was_measured(
    drafter: str | None, k: int, b: int, context: int, measured_ms: float, most: float
) -> None:
    """Rounds of Llama-3.1-8B on one H100: alone, with an EAGLE-3 head, with the 1B beside it."""
    prediction = predict(
        target="llama-3.1-8b",
        hardware="h100-sxm",
        engine="vllm-0.24",
        tp=1,
        strategies="ar,sd",
        drafter=drafter or "model",
        k=k,
        b=b,
        context=context,
    )
    assert 1e3 * prediction.estimates["sd" if drafter else "ar"].round_s == pytest.approx(measured_ms, rel=most)


@pytest.mark.parametrize("name", [name for name in runtime_names() if name != KERNELS.name])
def test_cards_say_what_their_engines_run_in_names_that_are_known(name: str) -> None:
    runs = find_runtime(name).runs
    assert runs is not None
    for strategy, drafting in runs.strategies.items():
        assert bool(drafting) == strategies.ALL.named(strategy).drafts
        assert all(drafters.ALL.named(drafter) for drafter in drafting)
        assert all(runs.has(strategy, drafter) for drafter in drafting or drafters.ALL.names)
    own = {"k_by_batch", "over_stages", "tree", "dcp"}
    assert set(runs.since) <= {*runs.strategies, *runs.drafters, *own}
    assert set(runs.dcp) <= runs.strategies.keys()
    assert all(runs.has(each.strategy, drafter) for each in runs.newer for drafter in each.drafters)
    assert not runs.has("pearl", "model")


@pytest.mark.parametrize(
    ("engine", "drafter", "lack"),
    [
        ("vllm", "dspark", None),
        ("vllm", "mtp", None),
        ("vllm-0.28", "dspark", None),
        ("vllm-0.28", "mtp", "which vLLM has with MTP from 0.32 on"),
        ("vllm-0.32.1", "mtp", None),
        ("vllm-0.26", "dspark", "which vLLM has with DSpark from 0.28 on"),
        ("vllm-0.24", "dspark", "which vLLM 0.24 does not have"),
        ("sglang", "dspark", "which SGLang does not have"),
    ],
)
def test_adaptive_verification_is_as_old_as_its_pulls(engine: str, drafter: str, lack: str | None) -> None:
    """Pulls 47808 and 52228; DSpark itself is older: pull 46995."""
    asked = Engine.of({"engine": engine, "drafter": drafter})
    assert asked.lacks("adaptive") == lack
    if engine != "vllm-0.24":
        assert asked.lacks("sd") is None


@pytest.mark.parametrize(
    ("engine", "version", "card"),
    [
        ("vllm", "0.6.1", "vllm-0.5"),
        ("vllm", "0.9.0", "vllm-0.9"),
        ("vllm", "v0.23.4rc1", "vllm-0.9"),
        ("vllm", "0.24.0", "vllm-0.24"),
        ("vllm", "0.32.0", "vllm"),
        ("vllm", "", "vllm-0.9"),
        ("vllm", "nightly-5b8c30d6", "vllm-0.9"),
        ("vllm", "0.3.0", "vllm-0.5"),
        ("tensorrt-llm", "0.11.0", "trtllm-0.11"),
        ("tensorrt-llm", "1.2.0rc2", "trtllm"),
        ("sglang", "0.5.9", "sglang"),
        ("vLLM", "0.9.1", "vllm-0.9"),
        ("trtllm", "0.11.0", "trtllm-0.11"),
    ],
)
def test_an_engines_version_has_the_newest_card_that_is_not_newer(engine: str, version: str, card: str) -> None:
    """Who says no release measured at any time: with the card to which rows of the most versions were fitted."""
    assert runtime_of_version(engine, version).name == card


@pytest.mark.parametrize(
    ("said", "card"),
    [
        ("vllm-0.21", "vllm-0.9"),
        ("vllm==0.21", "vllm-0.9"),
        ("vLLM 0.23.4", "vllm-0.9"),
        ("vllm==v0.24.1rc2", "vllm-0.24"),
        ("vllm-0.31", "vllm"),
        ("vllm-0.16", "vllm-0.16"),
        ("sglang-0.5.9", "sglang"),
        ("sglang-v2", "sglang-v2"),
        ("trtllm-1.2", "trtllm"),
        ("tensorrt-llm==0.11.0", "trtllm-0.11"),
        ("TensorRT_LLM", "trtllm"),
    ],
)
def test_a_runtime_is_found_by_its_engines_version(said: str, card: str) -> None:
    assert find_runtime(said).name == card
    site = configure(engine=said, strategies=["ar"]).site
    assert site is not None
    assert site.runtime.name == card


@pytest.mark.parametrize(
    ("said", "card"), [("vllm-0.7", "vllm-0.5"), ("vllm==0.8.5", "vllm-0.5"), ("trtllm-0.12", "trtllm-0.11")]
)
def test_a_version_that_no_runtime_covers_is_told_of_the_nearest_and_what_that_covers(said: str, card: str) -> None:
    with refused(card, find_runtime(card).versions):
        find_runtime(said)


def test_a_card_covers_its_versions_and_no_two_of_an_engine_the_same() -> None:
    by_version = [card for card in map(find_runtime, runtime_names()) if card.since]
    for card in by_version:
        for version in (card.since, card.until or "99.0"):
            assert find_runtime(f"{card.engine}=={version}") == card.of_version(version)


def test_a_sentence_names_an_engine_with_its_versions() -> None:
    titles = {name: find_runtime(name).title for name in runtime_names()}
    assert titles["vllm"] == "vLLM 0.25 or later"
    assert titles["vllm-0.9"] == "vLLM 0.9 to 0.23"
    assert titles["sglang"] == "SGLang 0.5"
    assert titles["ssd-engine"] == "the SSD engine"


def test_the_command_line_says_which_versions_a_runtime_covers() -> None:
    done = CliRunner().invoke(cli, ["predict", "--engine", "vllm-0.21", "--strategies", "ar"])
    assert "--engine vllm-0.21 is taken for vllm-0.9, of 0.9 to 0.23" in done.stderr


def test_what_an_engine_runs_survives_a_fit(tmp_path: Path) -> None:
    known, path = find_runtime("vllm"), tmp_path / "vllm.toml"
    save_runtime(known, path)
    anew = Runtime(name="vllm", engine="vllm", evidence=Evidence(source="fitted from scratch"))
    save_runtime(anew, path)
    kept = {name: getattr(known, name) for name in OF_ENGINE} | {"since": known.since}
    assert load_runtime(path) == anew.changed(**kept)
    save_runtime(anew, tmp_path / "mine.toml")
    assert load_runtime(tmp_path / "mine.toml").runs is None
    other = anew.changed(engine="sglang")
    save_runtime(other, path)
    assert load_runtime(path) == other  # another engine runs other things


def test_a_card_shows_what_its_engine_runs() -> None:
    shown = CliRunner().invoke(cli, ["runtimes", "show", "vllm-0.16"]).output
    assert "It runs: AR; SD with model, eagle, eagle3" in " ".join(shown.split())
    assert "K by batch" not in shown
