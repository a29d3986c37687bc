"""Stages that share a target's layers: what a pass that crosses them takes, who waits for whom, and what each holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_generator.shown import PROJECT
from ssdsim import configure, predict, recommend, simulate
from ssdsim.advise.export.export import export
from ssdsim.base.errors import CannotRun, DoesNotFit
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.occupancy import demand_of
from ssdsim.pricing.passes import cost_of_message, cost_of_operations
from ssdsim.pricing.site import Site
from ssdsim.pricing.stages import StagedPass, in_stages
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.question.place import find_link
from ssdsim.question.scenario import Scenario
from ssdsim.transformer.cache_memory import PLAIN
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Collective
from tests.refusals import refused

LLAMA = find_transformer("llama-3.1-70b")
H100 = find_hardware("h100-sxm")
ASKED: dict[str, Any] = {"target": "llama-3.1-70b", "hardware": "h100-sxm", "alpha": 0.8, "k": 4, "b": 16}


def scenario(name: str, **options: Any) -> Scenario:
    return configure(**{**ASKED, "strategies": (name,), **options}).scenarios[name]


def site_of(**options: Any) -> Site:
    site = configure(**{**ASKED, "strategies": ("ar",), **options}).site
    assert site is not None
    return site


def round_s(of: Scenario) -> float:
    return float(of.estimate.round_s)


def test_one_stage_is_what_there_was() -> None:
    bare, one = predict(**ASKED, tp=4), predict(**ASKED, tp=4, pp=1)
    assert isinstance(site_of(tp=4).target_pass("verify", 5), Pass)
    assert not isinstance(site_of(tp=4).target_pass("verify", 5), StagedPass)
    assert [one.estimates[name].round_s for name in one.estimates] == [e.round_s for e in bare.estimates.values()]


@pytest.mark.parametrize(("pp", "batch", "queries"), [(2, 16, 1), (4, 6, 5), (4, 2, 3)])
def test_a_pass_crosses_all_stages_and_the_links_between_them(pp: int, batch: int, queries: int) -> None:
    """That of the fullest microbatch, the host's part of a pass once a stage, the states once a link, the ids back."""
    site = site_of(tp=2, pp=pp, b=batch, engine="vllm")
    staged, together = site.target_pass("verify", queries), -(-batch // pp)
    one = site_of(tp=2, b=together, engine="vllm").target_pass("verify", queries)
    assert staged.forward is one.forward
    states = together * queries * LLAMA.hidden_size * 2
    sends = (pp - 1) * cost_of_message(states, H100).seconds + cost_of_message(together * queries * 8, H100).seconds
    host_s = (pp - 1) * site.runtime.said_in_host("per_pass_s")
    assert staged.cost.seconds == pytest.approx(one.cost.seconds + sends + host_s, rel=1e-9)


def test_layers_that_are_left_over_are_before_the_last_stage_which_has_the_head() -> None:
    """80 layers on 3 stages: 27, 27 and 26 with the head; a stage is never faster than it reads its weights."""
    site = site_of(tp=2, pp=3, engine="kernels", hardware="b200-sxm", b=1)
    staged = site.target_pass("verify", 1)
    assert isinstance(staged, StagedPass)
    head_s = cost_of_operations([(op, 1) for op in staged.forward.after], site.profile).seconds
    first_s = cost_of_operations([(op, 1) for op in staged.forward.before], site.profile).seconds
    blocks_s = staged.cost.seconds - staged.sends.seconds - head_s - first_s
    slowest, last = (share * staged.cost.seconds for share in staged.shares)
    assert last == pytest.approx(26 / 80 * blocks_s + head_s)
    assert slowest == pytest.approx(max(27 / 80 * blocks_s + first_s, last))


def closed_loop(stages_s: list[float], away_s: float, jobs: int, rounds: int = 60) -> float:
    """Mean seconds of a round of jobs that go around the stages one after the other, first come first served."""
    ready, free, ended = [0.0] * jobs, [0.0] * len(stages_s), [[0.0] for _ in range(jobs)]
    for _ in range(rounds):
        for job in range(jobs):
            at = ready[job]
            for stage, seconds in enumerate(stages_s):
                free[stage] = at = max(at, free[stage]) + seconds
            ready[job] = at + away_s
            ended[job].append(ready[job])
    half = rounds // 2
    return (ended[0][-1] - ended[0][half]) / (rounds - half)


@given(
    pp=st.integers(2, 4),
    draft_s=st.floats(0.0, 0.02),
    host_s=st.floats(0.0, 0.01),
    beside=st.booleans(),
)
def test_microbatches_wait_as_in_a_closed_loop_of_stages(pp: int, draft_s: float, host_s: float, beside: bool) -> None:
    """The round is that of a replay in which the last stage drafts for each microbatch before it verifies others."""
    staged = site_of(tp=2, pp=pp).target_pass("verify", 5)
    assert isinstance(staged, StagedPass)
    steps = {
        "verify": Step("verify", (Piece("verify", staged.cost, 1, staged),)),
        "draft": Step("draft", (Piece("draft step", Cost.of_units(draft_s)),)),
        "sample": Step("host", (Piece("sample", Cost.of_units(host_s)),)),
    }
    waiting = in_stages(steps, pp, beside)
    found_s = sum(step.seconds for name, step in waiting.items() if beside or name != "draft")
    (slowest, last), crossed = staged.shares, staged.cost.seconds
    others = [(slowest if stage == 0 and slowest > last else 0.0) * crossed for stage in range(pp - 1)]
    drafted_s = draft_s if beside else 0.0
    away_s = crossed - sum(others) - last * crossed + host_s
    looped = closed_loop([*others, last * crossed + drafted_s], away_s, pp)
    assert found_s == pytest.approx(looped, rel=1e-6)


@given(b=st.integers(1, 64), pp=st.sampled_from([2, 3, 4]), tp=st.sampled_from([1, 2]))
def test_a_round_of_all_is_no_shorter_than_a_stage_reads_its_weights_for_each(b: int, pp: int, tp: int) -> None:
    """And one microbatch alone, where there are fewer sequences than stages, waits for nobody."""
    site = site_of(tp=tp, pp=pp, b=b, hardware="b200-sxm", context=256)
    steps = {"verify": site.verify_step("verify", 5), "sample": site.sampling_step()}
    round_s = sum(step.seconds for step in in_stages(steps, site.microbatches, beside=True).values())
    layers_bytes = LLAMA.weight_bytes(tp) - 2 * LLAMA.vocab_size * LLAMA.hidden_size * 2 // tp
    stream_s = layers_bytes / pp / find_hardware("b200-sxm").device.memory_bandwidth
    assert round_s >= min(pp, b) * stream_s
    assert round_s >= site.target_pass("verify", 5).cost.seconds


@given(b=st.sampled_from([1, 2, 5, 8, 16, 64]), pp=st.sampled_from([2, 4, 8]), name=st.sampled_from(["ar", "sd"]))
def test_stages_take_no_less_of_the_gpus_and_are_no_faster_than_as_many_that_share_with_a_free_network(
    b: int, pp: int, name: str
) -> None:
    on = {"hardware": "b200-sxm", "b": b, "drafter": "ngram", "engine": "kernels"}
    one, staged = scenario(name, tp=1, **on), scenario(name, tp=1, pp=pp, **on)
    assert float(staged.estimate.per_gpu) <= 1.0001 * float(one.estimate.per_gpu)
    queries = 1 if name == "ar" else 5
    wide = forward_pass(LLAMA, batch=b, queries=queries, context=1024, tp=pp)
    free = [(op, times) for op, times in wide.counted if not isinstance(op, Collective)]
    assert round_s(staged) >= cost_of_operations(free, find_hardware("b200-sxm")).seconds


@given(b=st.integers(1, 40), pp=st.sampled_from([2, 3, 4]))
def test_microbatches_are_as_even_as_sequences_allow(b: int, pp: int) -> None:
    site = site_of(tp=2, pp=pp, b=b)
    assert site.microbatches == min(pp, b)
    assert (site.in_a_pass - 1) * pp < b <= site.in_a_pass * pp


@pytest.mark.parametrize("pp", [2, 4])
@pytest.mark.parametrize(
    ("name", "apart"),
    [("ar", {}), ("sd", {}), ("sd", {"sd_draft": "separate"}), ("ssd", {}), ("ssd", {"drafter": "ngram"})],
)
def test_closed_form_draws_and_events_agree(name: str, apart: dict[str, Any], pp: int) -> None:
    of = scenario(name, tp=1, pp=pp, b=6, hardware="h200-sxm", **apart)
    rates = [simulate(of, solver=solver, rounds=4000, seed=1).tokens_per_second.value for solver in ("mc", "des")]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)
    assert rates == pytest.approx([float(of.estimate.tokens_per_second)] * 2, rel=0.05)


def test_a_draft_on_the_last_stage_counts_for_every_microbatch_one_of_its_own_only_where_it_is_too_slow() -> None:
    staged, wide = (scenario("sd", **degrees, hardware="h200-sxm", b=32) for degrees in ({"tp": 1, "pp": 4}, {"tp": 4}))
    drafts = [float(each.estimate.breakdown_s["draft"]) for each in (staged, wide)]
    alone_s = 4 * staged.steps["draft"].pieces[0].cost.seconds  # K of them
    (verify,) = staged.steps["verify"].passes
    assert isinstance(verify, StagedPass)
    assert round_s(staged) == pytest.approx(4 * (verify.shares[1] * verify.cost.seconds + alone_s))
    assert drafts[0] > 2.0 * alone_s
    assert drafts[1] == pytest.approx(wide.seconds["draft"])
    ahead = scenario("ssd", tp=1, pp=4, hardware="h200-sxm", b=32)
    assert float(ahead.estimate.breakdown_s["draft"]) < drafts[0]


def test_a_stage_holds_its_layers_and_one_end_of_the_model() -> None:
    whole, half = (demand_of(LLAMA, 2, 1000, 4, LLAMA.precision(), pp=pp) for pp in (1, 2))
    matrix = LLAMA.vocab_size * LLAMA.hidden_size * 2 // 2
    assert half.weights_bytes == pytest.approx((whole.weights_bytes - 2 * matrix) / 2 + matrix, abs=2)
    assert half.sequence_bytes == pytest.approx(whole.sequence_bytes / 2, abs=2)
    uneven = demand_of(LLAMA, 2, 1000, 4, LLAMA.precision(), pp=3)
    assert uneven.sequence_bytes == pytest.approx(27 / 80 * whole.sequence_bytes, abs=2)
    with refused("2", error=DoesNotFit):
        configure(**ASKED, strategies=("ar",), tp=1)
    assert scenario("ar", tp=1, pp=4).gpus == 4


def test_what_an_engine_keeps_for_itself_it_keeps_on_every_device_whatever_layers_lie_there() -> None:
    kept, caching = LLAMA.precision(), find_runtime("vllm").caching
    own = caching.kept_bytes(LLAMA, 2, kept)
    assert own > 2**30
    for pp in (1, 2, 4):
        bare, keeping = (demand_of(LLAMA, 2, 1000, 4, kept, pp=pp, caching=each) for each in (PLAIN, caching))
        assert keeping.weights_bytes == bare.weights_bytes + own


@pytest.mark.parametrize(("floor", "as_fast_as"), [(0.0, "sd"), (1.0, "ar")])
def test_below_its_floor_sd_is_ar_over_the_same_stages(floor: float, as_fast_as: str) -> None:
    """Rounds without drafts wait for other microbatches as AR's do."""
    on = {"tp": 2, "pp": 2, "b": 32}
    gated, plain = scenario("sd", acceptance_floor=floor, **on), scenario(as_fast_as, **on)
    assert round_s(gated) == pytest.approx(round_s(plain))
    drawn = simulate(gated, solver="des", rounds=500, seed=1).tokens_per_second.value
    assert drawn == pytest.approx(float(plain.estimate.tokens_per_second), rel=0.05)


def test_gpus_are_those_of_all_stages() -> None:
    assert [scenario(name, tp=2, pp=2).gpus for name in ("ar", "sd", "ssd")] == [4, 4, 5]
    found = recommend(gpus=8, b=[16], pp=2, tp=[4], k=[4], target="llama-3.1-70b", alpha=0.8, hardware="h100-sxm")
    (answer,) = found.answers
    assert answer.best is not None
    assert (answer.best.gpus, answer.best.name) == (8, "SD TP 4, PP 2")
    with refused("8", error=DoesNotFit):
        configure(**ASKED, strategies=("ar",), tp=8, pp=2)


def test_what_an_engine_does_not_run_on_stages_is_priced_with_a_warning_and_ranked_apart() -> None:
    on = {**ASKED, "tp": 2, "pp": 2, "strategies": ("ar", "sd")}
    assert any("pipeline stages" in each for each in configure(**on, engine="sglang").warnings)
    assert any("pipeline stages" in each for each in configure(**on, engine="vllm").warnings)
    on |= {"drafter": "eagle3"}
    assert not any("pipeline stages" in each for each in configure(**on, engine="vllm").warnings)
    assert any("pipeline stages" in each for each in configure(**on, engine="trtllm").warnings)
    asked = {"gpus": 4, "b": [4], "k": [4], "pp": 2, "target": "llama-3.1-70b", "alpha": 0.8}
    (answer,) = recommend(**asked, engine="trtllm").answers
    assert answer.best is not None
    assert answer.best.shape.strategy == "ar"
    with refused("--pp"):
        recommend(**asked, engine="ssd-engine")


@pytest.mark.parametrize(
    ("format", "said"),
    [("vllm-serve", "--pipeline-parallel-size 2"), ("sglang", "--pp-size 2"), ("trtllm", "--pp_size 2")],
)
def test_a_command_says_the_stages(format: str, said: str) -> None:
    options = {"target": "llama-3.1-70b", "drafter": "eagle3", "tp": 2, "b": [4], "k": [4], "alpha": 0.8}
    assert said in export(format, pp=2, **options).text
    assert said.split()[0] not in export(format, **options).text
    assert any("--pipeline-parallel-size 2" in note for note in export("vllm", pp=2, **options).notes)
    if format != "vllm-serve":
        assert "pecul" not in export(format, pp=2, **options).text


def test_what_is_not_described_on_stages_is_refused_in_one_line() -> None:
    with refused("--pp", "100", "80"):
        configure(**ASKED, pp=100)
    with refused("--pp", "--t-sd"):
        configure(t_sd=0.2, alpha=0.8, k=4, pp=2)
    for name in ("pearl", "adaptive", "minedraft"):
        with refused("--pp", error=CannotRun):
            configure(**ASKED, tp=2, pp=2, strategies=(name,))
    with refused("--pp", error=CannotRun):
        configure(**ASKED, tp=2, pp=2, strategies=("sd",), drafter="self")
    with refused("--pp", error=CannotRun):
        configure(**ASKED, tp=2, pp=2, strategies=("ssd",), targets=2)
    with refused("--draft-p-min", "--pp", error=CannotRun):
        configure(**ASKED, tp=2, pp=2, strategies=("sd",), draft_p_min=0.5)


def test_stages_in_nodes_of_their_own_send_over_the_link_that_is_named() -> None:
    """Each node has the devices of a stage, and the time grows by what the link takes beyond the node's own."""
    link, others = {"pp_link": "tcp"}, find_link("tcp")
    inside, apart = (scenario("ar", tp=4, pp=2, b=8, **given) for given in ({}, link))
    by_link = [
        sum(cost_of_message(sent, on).seconds for sent in (4 * LLAMA.hidden_size * 2, 4 * 8)) for on in (H100, others)
    ]
    assert round_s(apart) - round_s(inside) == pytest.approx(by_link[1] - by_link[0])
    assert scenario("ssd", tp=4, pp=2, **link).gpus == 9
    assert scenario("ar", tp=8, pp=4, **link).gpus == 32
    told = {each["profile"] for each in configure(**ASKED, tp=4, pp=2, **link).provenance}
    assert "tcp" in told
    assert round_s(scenario("ar", tp=4, pp=1, **link)) == round_s(scenario("ar", tp=4))  # one of several points
    with refused("--pp-link", "needs --pp"):
        configure(**ASKED, tp=2, **link)
    with refused("--pp-link", "no effect"):
        predict(**ASKED, tp=4, pp=1, **link)
    with refused("--pp-link", "tpc", "tcp"):
        configure(**ASKED, tp=2, pp=2, pp_link="tpc")


def test_what_the_page_says_is_so() -> None:
    page = " ".join((PROJECT / "docs/how-to/parallelism.md").read_text(encoding="utf-8").split())

    def speeds(*names: str, **more: Any) -> list[float]:
        options = {**ASKED, "k": None, "engine": "vllm", "strategies": names, **more}
        return [float(predict(**options).estimates[name].per_user) for name in names]

    stages, four = ({"tp": 4, "pp": 2, "k": 4}, {"tp": 4, "k": 4})
    gains = [sd / ar for ar, sd in (speeds("ar", "sd", **stages), speeds("ar", "sd", **four))]
    assert "makes {:.2f} times AR's tokens with SD, on four H100s {:.2f} times".format(*gains) in page
    link = {"pp_link": "rdma"}
    places: list[dict[str, Any]] = [{"tp": 4}, {"tp": 4, "pp": 2, **link}]
    best = [predict(**{**ASKED, "k": None}, engine="vllm", strategies=("ssd",), **place) for place in places]
    ks = [each.configuration.scenarios["ssd"].settings["k"] for each in best]
    assert "SSD's best K falls from {} to {} here".format(*ks) in page
    (near,), (far,) = (speeds("ar", tp=4, pp=2, alpha=None, **more) for more in ({}, {"pp_link": "tcp"}))
    assert f"`tcp` costs AR {100 * (1 - far / near):.0f} % here" in page
    l40s = {"hardware": "l40s"}
    wide, staged = speeds("ar", "sd", **l40s, tp=8), speeds("ar", "sd", **l40s, tp=4, pp=2)
    told = [f"{wide[1] / wide[0]:.2f}", f"{staged[1] / staged[0]:.2f}", f"{wide[1]:.0f}", f"{staged[1]:.0f}"]
    said = "make {} times AR's tokens with SD at TP 8, {} times at TP 4 with two stages (but {} and {} tokens/s a user)"
    assert said.format(*told) in page


@pytest.mark.parametrize(("engine", "told"), [("vllm", True), ("kernels", True), ("ssd-engine", False)])
def test_a_model_too_large_for_a_node_is_told_the_stages_that_have_room(engine: str, told: bool) -> None:
    at: dict[str, Any] = {"target": "deepseek-r1", "hardware": "h100-sxm", "tp": 8, "b": 4, "strategies": ("ar",)}
    with pytest.raises(DoesNotFit) as refusal:
        configure(**at, engine=engine)
    assert ("--pp 2 --pp-link rdma" in str(refusal.value)) is told
    assert configure(**at, engine=engine, pp=2, pp_link="rdma").scenarios["ar"].gpus == 16
