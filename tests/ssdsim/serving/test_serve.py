"""The answer: crossings, capacities, comparisons, and what published experiments have seen."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim.base.errors import InputError
from ssdsim.serving.answer import Serving
from ssdsim.serving.batching import Batching
from ssdsim.serving.load import workload_of
from ssdsim.serving.metrics import metrics_of_requests
from ssdsim.serving.replica import simulate
from ssdsim.serving.serve import serve
from tests.ssdsim.serving.sample_runs import ELSEWHERE, SMALL, policy, requests, shared

pytestmark = pytest.mark.long


@cache
def closed(**options: Any) -> Serving:
    """AR, SD, SSD and their schedule by the closed form, prompts apart."""
    return serve(
        workload=requests(100, 8.0, inputs="1024", outputs="256"), solver="closed", prefill="none", k=6, **options
    )


def test_the_crossing_lies_where_runs_change_places() -> None:
    workload = requests(3000, 8.0, inputs="1024", outputs="256")
    batching = Batching(prefill="none")
    serving = serve(workload=workload, solver="closed", prefill="none", strategies="sd,ssd", k=6, engine="kernels")
    (crossing,) = [c for c in serving.crossings if c.basis == "replica"]
    assert crossing.rate is not None
    assert crossing.interval is not None
    assert crossing.interval.low < crossing.rate < crossing.interval.high

    def tpot(name: str, rate: float) -> float:
        run = simulate(serving.policies.by_name[name], workload.at_rate(rate), batching)
        return float(metrics_of_requests(run)["tpot"].mean())

    for share, ahead in ((0.93, "ssd"), (1.07, "sd")):
        behind = {"ssd": "sd", "sd": "ssd"}[ahead]
        assert tpot(ahead, share * crossing.rate) < tpot(behind, share * crossing.rate)


def test_requests_that_no_cache_can_hold_are_counted_without_a_warning() -> None:
    serving = serve(workload=requests(150, 30.0, inputs="1024", outputs="256"), kv_fraction=0.5, tp=2)
    assert any(metrics.rejected == 150 for metrics in serving.points[0].metrics.values())


def test_with_as_many_gpus_the_rival_catches_up_earlier() -> None:
    serving = closed()
    for name in ("sd", "ar"):
        rates = {c.basis: c.rate for c in serving.crossings if c.over.name == name}
        assert rates["gpu"] is not None
        assert rates["replica"] is not None
        assert rates["gpu"] < rates["replica"]
    sentences = serving.verdict.sentence.split(". ")
    assert sentences[0].startswith(
        "SSD takes less time per output token than SD with a replica each (5 GPUs against 4)"
    )
    assert sentences[1].startswith("GPU for GPU below")
    assert max(sentence.count("-") for sentence in sentences) == 1, "an interval a sentence"


def test_a_schedule_without_its_tax_is_hardly_behind_the_best_strategy() -> None:
    """Between two batches of its table, where AR overtakes, it keeps the strategy of the smaller one."""
    serving = closed(alpha=0.8, p_hit=0.8)
    names = [name for name in serving.sharings if name != "auto"]
    most = min(float(serving.capacities[name][0]) for name in ("ar", "sd"))
    for rate in np.linspace(0.5, 0.95 * most, 12):
        fixed = min(float(serving.sharings[name].served(rate).tpot_s) for name in names)
        assert float(serving.sharings["auto"].served(rate).tpot_s) <= 1.07 * fixed


def test_a_schedule_loses_where_speculation_does_not_pay_by_its_tax() -> None:
    """As in vLLM issue 49548: dynamic speculation that is switched off costs 21.6 % a token at 189 in flight."""
    options = {"strategies": "ar,sd,auto", "engine": "vllm", "k": 4, "alpha": 0.1}
    workload = requests(100, 8.0, inputs="1024", outputs="256")
    serving = serve(workload=workload, solver="closed", prefill="none", dynamic_tax=0.2158, **options)
    auto = serving.policies.by_name["auto"]
    assert auto.at(189, workload.context).name == "ar"  # the schedule does what is best there, and pays
    rate = 0.8 * float(serving.capacities["auto"][0])
    ar, taxed = (float(serving.sharings[name].served(rate).tpot_s) for name in ("ar", "auto"))
    assert taxed > 1.1 * ar


def test_speculation_speeds_up_a_quiet_server_and_slows_down_a_full_one_as_vllm_saw() -> None:
    """The vLLM blog of 2024-10-17: 1.5x at one request a second, 1.4x to 1.8x slower at high rates."""
    workload = requests(200, 1.0, inputs="500", outputs="200")
    batching = Batching(prefill="none", max_batch=256)
    options = {"engine": "vllm", "k": 4, "alpha": 0.6}
    sd, ar = (shared(policy(name, workload, batching, **options), workload, batching) for name in ("sd", "ar"))
    quiet = float(ar.served(1.0).tpot_s) / float(sd.served(1.0).tpot_s)
    assert 1.3 <= quiet <= 2.0
    slower = float(ar.tokens_per_s[-1]) / float(sd.tokens_per_s[-1])
    assert 1.4 <= slower <= 1.8


def test_the_law_of_kong_et_al_is_the_mean_field_of_runs_below_70_percent() -> None:
    """L = C1 / (1 - rate C2), from L = C1 + C2 B and Little's law (arXiv 2605.15051)."""
    base = requests(3000, outputs="200")
    ar = policy("ar", base)
    capacity = float(shared(ar, base).capacity)
    rates, times = [], []
    for load in np.linspace(0.1, 0.7, 7):
        run = simulate(ar, base.at_rate(load * capacity), ELSEWHERE)
        rates.append(load * capacity)
        times.append(float((run.requests.last_s - run.requests.first_s).mean()))
    # 1 / L is a straight line of the rate
    inverse = 1.0 / np.array(times)
    slope, start = np.polyfit(rates, inverse, 1)
    left = inverse - (start + slope * np.array(rates))
    assert 1.0 - left.var() / inverse.var() >= 0.99


def test_the_search_for_a_capacity_ends_where_the_attainment_is_lost() -> None:
    workload = requests(800, 1.0, inputs="512", outputs="100")
    slo = "tpot:12"
    serving = serve(workload=workload, slo=slo, capacity=True, strategies="sd", **SMALL)
    capacity = serving.within_slo["sd"]
    assert capacity.metrics is not None
    assert capacity.metrics.attainment is not None
    assert capacity.metrics.attainment.value >= 0.9
    beyond = (
        serve(workload=workload, rate=[2.2 * capacity.too_much], slo=slo, replicas=2, strategies="sd", **SMALL)
        .points[0]
        .metrics["sd"]
    )
    assert beyond.attainment is not None
    assert beyond.attainment.value < 0.9


def test_runs_get_longer_until_their_pace_is_known() -> None:
    options = {"strategies": "sd", **SMALL}
    workload = requests(60, 1.0, inputs="300", outputs="geometric:40")
    short, long = (
        serve(workload=workload, rate=[8.0], precision=p, **options).points[0].metrics["sd"] for p in (None, 0.02)
    )
    before, after = (each.of_requests["tpot"] for each in (short, long))
    assert before is not None
    assert after is not None
    assert before.mean.high - before.mean.low > 2.0 * 0.02 * before.mean.value
    assert after.mean.high - after.mean.low <= 2.0 * 0.02 * after.mean.value
    assert long.offered > short.offered == 60
    assert workload.of(300).at_rate(8.0).rate == pytest.approx(8.0)
    assert np.array_equal(workload.of(300).output_tokens[:60], workload.output_tokens)


def benchmark(path: Path) -> None:
    """A result of vLLM's benchmark, of a run here."""
    workload = requests(120, 3.0, inputs="uniform:100,500", outputs="uniform:20,80")
    run = simulate(policy("sd", workload, Batching(), **SMALL), workload, Batching())
    each = metrics_of_requests(run)
    gaps = [[tpot / 1e3] * (out - 1) for tpot, out in zip(each["tpot"], workload.output_tokens.tolist(), strict=True)]
    result: dict[str, Any] = {
        "model_id": "meta-llama/Llama-3.1-8B",
        "start_times": (100.0 + workload.arrival_s).tolist(),
        "input_lens": workload.input_tokens.tolist(),
        "output_lens": workload.output_tokens.tolist(),
        "ttfts": (each["ttft"] / 1e3).tolist(),
        "itls": gaps,
        "errors": [""] * workload.requests,
    }
    path.write_text(json.dumps(result))


def test_a_log_keeps_its_pattern_at_another_rate(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    benchmark(path)
    workload, _ = workload_of(path)
    serving = serve(workload=workload, rate=[1.0, 2.0], strategies="ar", solver="loop", **SMALL)
    assert [point.rate for point in serving.points] == pytest.approx([1.0, 2.0])
    gaps = [np.diff(point.workload.arrival_s) for point in serving.points]
    assert np.allclose(gaps[0], 2.0 * gaps[1])


@pytest.mark.parametrize(("prefill", "told"), [("chunked", True), ("none", False)])
def test_prompts_longer_than_what_was_timed_are_told(prefill: Any, told: bool) -> None:
    """The profile has products of up to 520 tokens and no attention of prompts."""
    place = {"target": "llama-3.1-8b", "hardware": "h100-sxm-torch", "tp": 1, "strategies": "ar,sd"}
    serving = serve(workload=requests(4, 1.0, inputs="1024"), prefill=prefill, solver="closed", **place)
    assert any("m above the largest timed, 520" in warning for warning in serving.warnings) is told
    assert any("prefill attention of bfloat16 was not timed" in warning for warning in serving.warnings) is told


def test_runs_are_the_same_for_a_seed_and_in_other_processes() -> None:
    workload = requests(60, 2.0, inputs="300", outputs="40")
    one, two = (serve(workload=workload, rate=[2.0, 4.0], strategies="sd,ssd", jobs=jobs, **SMALL) for jobs in (1, 2))
    for a, b in zip(one.points, two.points, strict=True):
        assert a.metrics == b.metrics


def test_common_requests_tighten_the_difference_of_strategies() -> None:
    """More than twofold, against runs that each have requests of their own."""
    base = requests(500, 1.0, inputs="512", outputs="geometric:200")
    rate = 0.5 * float(shared(policy("sd", base), base).capacity)

    def tpot(name: str, seed: int) -> float:
        workload = requests(500, 1.0, inputs="512", outputs="geometric:200", seed=seed).at_rate(rate)
        run = simulate(policy(name, base), workload, ELSEWHERE, seed)
        return float((run.requests.last_s - run.requests.first_s).mean())

    seeds = range(12)
    sd, ssd = (np.array([tpot(name, seed) for seed in seeds]) for name in ("sd", "ssd"))
    common, own = (sd - ssd).std(), (sd - np.roll(ssd, 1)).std()
    assert own / common > 2.0


@pytest.mark.parametrize("concurrency", [None, 3])
def test_requests_that_have_their_only_token_elsewhere_end_without_a_round(concurrency: int | None) -> None:
    """A replica with nothing else to decode ended in a traceback."""
    workload = requests(60, outputs="geometric:1.2", concurrency=concurrency)
    serving = serve(workload=workload, prefill="none", max_batch=2, strategies="ar", seed=0)
    assert serving.points[0].metrics["ar"].completed == 60


def test_a_draft_pool_is_targets_that_share_a_draft() -> None:
    """GPUs and capacities are those of a shared draft, whichever of the two says so."""
    load = requests(40, 8.0, outputs="20")
    asked: dict[str, Any] = {"replicas": 2, "strategies": "ar,ssd", "draft_serves": "in-turn", "solver": "closed"}
    pool, targets, own = (
        serve(workload=load, **asked, **SMALL, **given) for given in ({"draft_pool": 1}, {"targets": 2}, {"targets": 1})
    )
    assert pool.policies.by_name["ssd"].gpus == targets.policies.by_name["ssd"].gpus == 1.5
    assert pool.policies.by_name["ar"].gpus == 1
    assert pool.draft_pool == targets.draft_pool == 1
    assert pool.capacities["ssd"][0] == targets.capacities["ssd"][0] < own.capacities["ssd"][0]
    assert pool.capacities["ar"][0] == own.capacities["ar"][0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"b": 4}, "plan has no option 'b'"),
        ({"t_sd": 0.2}, "plan has no option 't_sd'"),
        ({"strategies": "amusd"}, "serving needs strategies that take a batch"),
        ({"slo": "tpto:5"}, "did you mean 'tpot'"),
        ({"capacity": True}, "needs an --slo"),
        ({"attainment": 0.9}, "--attainment needs an --slo"),
        ({"workload": requests(20, outputs="1")}, "no answer has a second token, so nothing is decoded"),
        ({"precision": 0.02, "solver": "closed"}, "--precision has no effect with --solver closed"),
        ({"workload": None, "rate": 0.0}, "--rate must be at least 1e-06 and at most 1e.15, or inf, got 0.0"),
        ({"seed": -1}, "--seed must be at least 0"),
        ({"router": "least-load"}, "did you mean 'least-loaded'"),
        ({"draft_pool": 1}, "--draft-pool has no effect with one replica"),
        ({"draft_pool": 2, "replicas": 3}, "3 replicas cannot share 2 drafts evenly"),
        ({"draft_pool": 1, "replicas": 2, "targets": 2}, "--draft-pool has no effect with --targets"),
        ({"targets": 2, "replicas": 3}, "give --replicas 2, or a multiple, not 3"),
        ({"draft_pool": 1, "replicas": 2, "strategies": "ar,pearl"}, "2 replicas cannot share a draft of AR, PEARL"),
        ({"jobs": 2, "cluster": "tcp://a:1"}, "--jobs has no effect with --cluster"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        serve(**{"workload": requests(5), **options})
