"""The fewest replicas within an SLO, each strategy's own K at a load, and the screens that tell of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim.base.record import replace
from ssdsim.runs.answer_folders import opened_for_serving
from ssdsim.serving.answer import Serving, as_json
from ssdsim.serving.batching import Batching
from ssdsim.serving.degrees import SEARCHED, Degrees
from ssdsim.serving.fleet_size import Need, part_of, peak_of
from ssdsim.serving.load import Load
from ssdsim.serving.policy_runs import How
from ssdsim.serving.serve import serve
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.serving.sample_runs import SMALL, requests

pytestmark = pytest.mark.long

MOST_LINES, MOST_COLUMNS = 15, 80
SHORT = "--model llama-3.1-8b --tp 1 --engine kernels --requests 150 --input-len 300 --output-len 60"
BUSY: dict[str, Any] = {**SMALL, "requests": 300, "input_len": 500, "output_len": 80, "slo": "tpot:8,ttft:300"}


@cache
def planned() -> Serving:
    return serve(rate=90.0, strategies="ar,sd", **BUSY)


def needs() -> dict[str, Need]:
    serving = planned()
    assert serving.plan is not None
    return dict(serving.plan.needs)


@pytest.mark.parametrize("name", ["ar", "sd"])
def test_as_many_replicas_keep_the_slo_and_one_fewer_does_not(name: str) -> None:
    need = needs()[name]
    assert need.replicas is not None
    assert need.replicas > 1
    assert need.metrics is not None
    assert need.metrics.attainment is not None
    assert need.fewer is not None
    assert need.fewer < 0.9 <= need.metrics.attainment.value
    assert 90.0 / need.replicas <= need.holds < 90.0 / (need.replicas - 1)


def test_the_replicas_that_are_found_keep_the_slo_when_all_of_them_run() -> None:
    need = needs()["sd"]
    every = serve(rate=90.0, replicas=need.replicas, strategies="sd", k=need.k, **{**BUSY, "requests": 1500})
    attained = every.points[0].metrics["sd"].attainment
    assert attained is not None
    assert attained.value > 0.85


def test_what_a_sized_plan_tells_of_its_load_is_the_sized_fleets(tmp_path: Path) -> None:
    """A lone replica was run at the whole rate besides, for the JSON and for the requests in the folder alone."""
    sizes, (point,) = needs(), planned().points
    assert {name: point.metrics[name] for name in sizes} == {name: need.metrics for name, need in sizes.items()}
    told = as_json(planned(), 2.0)["points"][0]["strategies"]
    for name, need in sizes.items():
        assert told[name]["gpus"] == need.replicas
        assert told[name]["k"] == (need.k or None)
        assert point.served[name].policy.variants[0].scenario.strategy.name == name
    with opened_for_serving(tmp_path) as folder:
        kept = serve(rate=90.0, strategies="ar", folder=folder, **BUSY)
    assert kept.requests is not None
    measured = kept.points[0].metrics["ar"].of_requests["ttft"]
    assert measured is not None
    assert len(kept.requests) >= measured.count


def test_a_bound_that_nothing_keeps_has_no_number_of_replicas() -> None:
    serving = serve(rate=4.0, strategies="ar", **{**BUSY, "slo": "tpot:0.5"})
    assert serving.plan is not None
    assert serving.plan.needs["ar"].replicas is None
    assert serving.plan.total("ar") is None


def gpus(serving: Serving) -> dict[str, tuple[float | None, int]]:
    assert serving.plan is not None
    return {name: (serving.plan.total(name), need.tp) for name, need in serving.plan.needs.items()}


@pytest.mark.parametrize("slo", ["tpot:8,ttft:300", "tpot:4", "tpot:1.5"])
def test_the_degree_is_that_of_the_fewest_gpus(slo: str) -> None:
    """Pruned by a bound of the closed form, as it is by running every degree."""
    asked: dict[str, Any] = {**BUSY, "requests": 150, "rate": 60.0, "slo": slo, "strategies": "ar,sd"}
    del asked["tp"]
    searched, held = serve(**asked), [gpus(serve(**asked, tp=tp)) for tp in (1, 2, 4, 8)]
    assert searched.plan is not None
    for name, (total, tp) in gpus(searched).items():
        every = [each[name][0] for each in held]
        assert total == min((each for each in every if each is not None), default=None)
        assert total is None or (total, tp) in [each[name] for each in held]
    assert searched.policies.configuration.site is not None
    assert searched.policies.configuration.site.tp == searched.plan.needs[searched.plan.leader].tp


def test_degrees_that_need_more_gpus_are_not_run() -> None:
    asked: dict[str, Any] = {**BUSY, "requests": 150, "rate": 2.0, "slo": "tpot:6", "strategies": "sd"}
    held = {tp: serve(**{**asked, "tp": tp}) for tp in (1, 2)}
    assert {tp: gpus(each)["sd"][0] for tp, each in held.items()} == {1: 1.0, 2: 2.0}
    assert gpus(serve(**{**asked, "tp": [2, 4]}))["sd"] == (2.0, 2)
    searched = serve(**{**asked, "tp": None})
    assert gpus(searched)["sd"] == (1.0, 1)
    assert searched.plan is not None
    assert held[1].plan is not None
    assert searched.plan.needs["sd"].runs == held[1].plan.needs["sd"].runs


def test_the_degree_that_is_chosen_leaves_what_was_made_as_it_was() -> None:
    degrees = Degrees({"strategies": "ar", **SMALL}, requests(20, rate=4.0), Batching(), (1, 2), None, (3,), True, 0)
    made = degrees.policies(2)
    source = made.configuration.settings.source("tp")
    assert degrees.chosen({"ar": 2}, "ar").configuration.settings.source("tp") == SEARCHED != source
    assert made.configuration.settings.source("tp") == source


@pytest.mark.parametrize("rate", [60.0, 140.0])
def test_of_degrees_with_as_few_gpus_the_one_with_the_earliest_answers_is_taken(rate: float) -> None:
    asked: dict[str, Any] = {**BUSY, "requests": 150, "rate": rate, "strategies": "sd", "prefill": "chunked"}
    held = {tp: serve(**{**asked, "tp": tp}) for tp in (1, 2)}
    totals = {tp: gpus(each)["sd"][0] for tp, each in held.items()}
    assert totals[1] == totals[2]  # else there is nothing to choose
    plans = {tp: each.plan for tp, each in held.items() if each.plan is not None}
    runs = {tp: plan.needs["sd"].metrics for tp, plan in plans.items()}
    answered_ms = {
        tp: run.of_requests["e2el"].mean.value for tp, run in runs.items() if run and run.of_requests["e2el"]
    }
    total, chosen = gpus(serve(**{**asked, "tp": (1, 2)}))["sd"]
    assert total == totals[1]
    assert answered_ms[chosen] <= 1.05 * min(answered_ms.values())


@pytest.mark.parametrize(
    "more", [{"rate": [2.0, 4.0]}, {"replicas": 2}, {"capacity": True}, {"slo": None}, {"k_table": "1-8:3,9-:1"}]
)
def test_degrees_are_searched_where_gpus_are(more: dict[str, Any]) -> None:
    with refused("--tp 1,2", "give one"):
        serve(**{**BUSY, "rate": 4.0, "strategies": "sd", "tp": [1, 2], **more})


def test_a_degree_that_does_not_divide_the_model_is_named() -> None:
    with refused("tp 3", "llama-3.1-8b", "1, 2, 4, 8"):
        serve(**{**BUSY, "rate": 4.0, "tp": [1, 3]})


def test_who_needs_the_fewest_gpus_is_named_and_of_equals_the_choice_of_the_one_rule() -> None:
    plan = planned().plan
    assert plan is not None
    assert plan.decision is not None
    fewest = {name for name in plan.needs if plan.total(name) == min(plan.total(each) or 1e9 for each in plan.needs)}
    assert plan.leader == plan.decision.chosen
    assert {*plan.decision.losses} == fewest


def test_each_replica_gets_every_nth_request_of_a_log() -> None:
    workload, how = requests(6000), How(planned().how.batching)
    part, of = part_of(replace(workload, generate=None), 3, how)
    assert of.fleet.replicas == 1
    assert np.array_equal(part.arrival_s, workload.arrival_s[::3])
    few, of = part_of(replace(workload, generate=None), 12, how)
    assert (of.fleet.replicas, few.requests) == (4, 2000)
    more, _ = part_of(workload, 3, how)
    assert more.requests == 6000
    assert more.rate == pytest.approx(workload.rate / 3, rel=0.05)


def test_the_busiest_minute_is_that_of_most_requests(tmp_path: Path) -> None:
    rows = "".join(f"{at},9,9\n" for at in [*range(0, 300, 10), *np.arange(120.0, 170.0, 0.5)])
    path = tmp_path / "log.csv"
    path.write_text(f"arrival_s,input_tokens,output_tokens\n{rows}")
    peak = peak_of(Load(workload=path).arrives(0))
    assert peak is not None
    assert peak.rate == pytest.approx(106 / 60)
    assert 110.0 <= peak.at_s <= 120.0


@cache
def closed() -> Serving:
    return serve(rate=[0.5, 8.0, 30.0], strategies="sd,ssd", solver="closed", **SMALL)


def test_k_follows_the_load_where_nobody_gives_it() -> None:
    ks = [point.lookaheads["sd"].chosen for point in closed().points]
    assert ks[0] > ks[-1]
    for point in closed().points:
        losses = point.lookaheads["sd"].losses
        assert losses[point.lookaheads["sd"].chosen] <= min(losses.values()) + 0.02


@pytest.mark.parametrize("given", [{"k": 3}, {"k_table": "1-8:3,9-:1"}])
def test_k_stays_what_is_given(given: dict[str, Any]) -> None:
    serving = serve(rate=4.0, strategies="sd", solver="closed", **SMALL, **given)
    assert serving.points[0].lookaheads == {}


def test_a_replica_is_full_later_with_its_own_k_than_with_any_k_for_good() -> None:
    own = closed().capacities["sd"][0]
    for k in (1, 3, 6):
        fixed = serve(rate=4.0, strategies="sd", solver="closed", k=k, **SMALL)
        assert fixed.capacities["sd"][0] <= own * (1.0 + 1e-9)
        for rate in (1.0, 8.0, 20.0):
            assert closed().sharings["sd"].tpot_s(rate) <= fixed.sharings["sd"].tpot_s(rate) * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "words",
    [
        f"plan --rate 4 {SHORT}",
        f"plan --rate 4 {SHORT} --replicas 2 --slo ttft:300,tpot:8 --gpu-hour 2.5",
        f"plan --rate 1,2,4,8,16,32 --solver closed {SHORT}",
        f"plan --rate 60 {SHORT} --slo ttft:300,tpot:8 --gpu-hour 2.5",
        f"plan --rate 60 {SHORT} --slo tpot:0.1",
        f"plan --rate 90 {SHORT.replace('--tp 1', '')} --slo tpot:2 --gpu-hour 2.5",
        f"plan --rate 60 {SHORT} --slo ttft:300,tpot:8 --k-table 1-16:3,17-:1 --strategies sd",
        f"plan --capacity --slo ttft:300,tpot:8 {SHORT} --gpu-hour 2.5",
        f"plan --concurrency 8 {SHORT}",
        f"plan --rate inf {SHORT} --strategies sd",
        f"plan --rate 4000 {SHORT}",
        f"plan --rate 4 {SHORT} --engine vllm --drafter eagle3 --strategies ar,sd",
    ],
)
def test_a_first_screen_has_fifteen_lines(words: str) -> None:
    done = asked(*words.split())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.rstrip("\n").split("\n")
    assert len(lines) <= MOST_LINES, done.stdout
    assert max(map(len, lines)) <= MOST_COLUMNS, done.stdout


def test_gpus_are_those_of_all_replicas() -> None:
    """They were those of one."""
    done = asked(*f"plan --rate 4 --replicas 2 --strategies ar --solver closed {SHORT} --tp 4".split())
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("AR (no drafts)")]
    assert row.split()[3] == "8"
    told = json.loads(
        asked(*f"plan --rate 4 --replicas 2 --strategies ar --solver closed {SHORT} --json".split()).stdout
    )
    assert told["points"][0]["strategies"]["ar"]["gpus"] == 2


def test_a_doubtful_unit_is_on_the_first_screen(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"timestamp": at / 8, "input_length": 90, "output_length": 9} for at in range(100)]
    log.write_text("\n".join(map(json.dumps, lines)))
    words = f"plan --workload {log} --solver closed --strategies ar --model llama-3.1-8b --tp 1"
    said = " ".join(asked(*words.split()).stdout.split())
    assert "timestamps read as ms: 8,000 requests/s; in seconds? --time-unit s" in said
    assert "Doubt" not in asked(*f"{words} --time-unit s".split()).stdout


def _sized(*more: str) -> str:
    done = asked(*f"plan --rate 60 {SHORT} --slo ttft:300,tpot:8 --gpu-hour 2.5 --strategies ar,sd".split(), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_names_its_models_its_engine_and_the_share_that_it_is_for() -> None:
    title, *rest = _sized().splitlines()
    assert title == "llama-3.1-8b + llama-3.2-1b on h100-sxm with kernels"
    said = " ".join(" ".join(rest).split())
    assert "90 % of requests within TTFT 300 ms and TPOT 8 ms" in said
    assert "--attainment 0.99" in said
    assert "keep 95 % of requests" in " ".join(_sized("--attainment", "0.95").split())


def test_what_explains_a_plan_is_of_the_replicas_that_it_needs() -> None:
    """It was of one replica at the whole rate."""
    said = _sized("--explain")
    told = json.loads(_sized("--json"))["plan"]["needs"]
    rows = {line[:17].strip(): line.split() for line in said.splitlines() if line}
    assert [float(each) for each in rows["GPUs"][-2:]] == [told[name]["gpus"] for name in ("ar", "sd")]
    assert all(float(each.rstrip("%")) >= 90.0 for each in rows["in SLO"][-4::2])
    assert [float(each) for each in rows["requests done/s"][-2:]] == pytest.approx([60.0, 60.0], rel=0.1)
    cost = [told[name]["measured"]["cost_per_million_tokens"] for name in ("ar", "sd")]
    assert [float(each) for each in rows["per 1M tok"][-2:]] == pytest.approx(cost, rel=0.01)
    assert "Above that run" not in said


@pytest.mark.parametrize(("strategies", "searched"), [("ar,ssd", False), ("ar,sd,ssd", True)])
def test_what_an_engine_has_not_is_explained_with_the_rest(strategies: str, searched: bool) -> None:
    """Its own K was looked for among the strategies that are ranked."""
    load = "--rate 2 --requests 40 --model llama-3.1-8b --tp 1 --engine vllm --explain --quiet"
    done = asked("plan", *load.split(), "--strategies", strategies)
    assert done.returncode == 0, done.stderr
    assert ("Searched K 1, 2" in done.stdout) == searched


@cache
def _log() -> str:
    """100 requests in 18 seconds."""
    rng = np.random.default_rng(1)
    at, inputs = np.cumsum(rng.exponential(0.2, 300)) / 1.13, rng.integers(200, 2800, 300)
    rows = (f"{t:.3f},{i},{o}" for t, i, o in zip(at, inputs, rng.integers(20, 480, 300), strict=True))
    return "\n".join(["arrival_s,input_tokens,output_tokens", *list(rows)[:100], ""])


_OF_LOG = "--strategies ar --model llama-3.1-70b --quiet --tp 4"


def test_a_short_log_needs_as_many_gpus_as_a_long_one_and_says_so(tmp_path: Path) -> None:
    """It was over before its queue was there: 4 GPUs, and 8 of the same log repeated."""
    header, *rows = _log().splitlines()
    first, last = (float(row.split(",")[0]) for row in (rows[0], rows[-1]))
    logs: dict[str, list[str]] = {"short": rows, "long": []}
    for again in range(20):
        after_s = again * (last - first) * 100.0 / 99.0
        logs["long"] += [f"{float(t) + after_s},{rest}" for t, rest in (row.split(",", 1) for row in rows)]
    said = {}
    for name, lines in logs.items():
        (tmp_path / name).write_text("\n".join([header, *lines, ""]))
        done = asked(*f"plan --log {tmp_path / name} {_OF_LOG} --slo ttft:1s,tpot:50ms --json".split())
        said[name] = json.loads(done.stdout)["plan"]
    assert said["short"]["needs"]["ar"]["gpus"] == said["long"]["needs"]["ar"]["gpus"] == 8
    assert "too short for queues to build" in said["short"]["doubts"][0]
    assert not said["long"]["doubts"]


def test_replicas_that_are_full_are_not_enough_however_short_the_load_is() -> None:
    """An SLO that lets a short load pile up was kept by one replica."""
    options = {**SMALL, "requests": 30, "input_len": 500, "output_len": 80, "slo": "e2el:100s"}
    for rate in (100.0, 300.0):
        serving = serve(rate=rate, strategies="ar", **options)
        assert serving.plan is not None
        assert rate / (serving.plan.needs["ar"].replicas or 1) < serving.capacities["ar"][0]


def test_a_bound_below_an_idle_pass_hints_at_its_unit() -> None:
    """ttft:1 was meant as a second."""
    words = f"plan --rate 4 {SHORT} --strategies ar --quiet --slo"
    said = " ".join(asked(*words.split(), "ttft:1,tpot:0.05").stdout.split())
    assert "an idle replica takes TTFT" in said
    assert "a plain number is ms, so did you mean ttft:1s,tpot:0.05s?" in said
    assert "did you mean" not in asked(*words.split(), "tpot:0.05ms").stdout
    assert "an idle" not in asked(*words.split(), "ttft:1s").stdout


def test_next_neither_repeats_nor_shrinks_what_was_given(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(_log())
    words = f"plan --log {tmp_path / 'log.csv'} {_OF_LOG} --slo ttft:1s,tpot:50ms"
    assert "--scale-rate 0.4: what if load doubles;" in asked(*words.split(), "--scale-rate", "0.2").stdout
    said = asked(*f"plan --rate 60 {SHORT} --slo ttft:300,tpot:8 --strategies ar --attainment 0.999".split()).stdout
    assert "Next" in said
    assert "--attainment" not in said


def test_the_headline_says_the_range_of_its_gpus_and_whether_they_are_surely_saved() -> None:
    """It named one number where 'How sure' had from 3 to 6."""
    said = " ".join(_sized().split())
    told = json.loads(_sized("--json"))["plan"]
    low, high = told["needs"][told["decision"]["chosen"]]["gpus_likely"]
    assert low < high
    assert f"({low}-{high} likely)" in said.split(" to keep ")[0]
    assert " may save " in said or " may take " in said or "saves none" in said


def test_help_of_a_plan_has_what_planners_ask_next() -> None:
    said = asked("plan", "--help").stdout
    assert all(option in said for option in ("--attainment", "--scale-rate", "--gpu-hour"))
    assert "what if load doubles: 2" in " ".join(said.split())
