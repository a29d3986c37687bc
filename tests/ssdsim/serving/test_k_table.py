"""SD whose K follows the number of requests: vLLM's table, and the table of the most tokens a second."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ssdsim.advise.export.export import export
from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.serving import policy_runs
from ssdsim.serving.batching import Batching, KTable
from ssdsim.serving.load import Load
from ssdsim.serving.policies import AUTO, policies
from ssdsim.serving.policy_runs import RunNeeds
from ssdsim.serving.replica import simulate
from ssdsim.serving.serve import serve, served
from ssdsim.strategies.ar import Autoregressive
from tests.refusals import refused
from tests.ssdsim.serving.sample_runs import SMALL, policies_of, policy, requests

GIVEN: dict[str, Any] = {**SMALL, "alpha": 0.8, "strategies": "sd"}
PROMPT, ANSWER = 400, 101
CONTEXT = PROMPT + (ANSWER - 1) // 2


def _batching(table: Any, **more: Any) -> Batching:
    return Batching(k_table=table, **{"prefill": "none", "max_batch": 64, **more})


def _columns(table: Any, count: int, alpha: float = 0.8, **more: Any) -> np.ndarray:
    """Rounds of so many requests that come at once: a column each of start, end, running, held, bits, variant, ..."""
    workload = requests(count, inputs=str(PROMPT), outputs=str(ANSWER), concurrency=count)
    batching = _batching(table, **more)
    chosen = policies_of(workload, batching, **{**GIVEN, "alpha": alpha})
    return np.asarray(simulate(chosen.by_name[AUTO], workload, batching).columns)


def _round_s(strategy: str, batch: int, context: int, **more: Any) -> float:
    """By predict, which knows no serving."""
    options = {**GIVEN, "strategies": strategy, "b": batch, "context": context, **more}
    return float(configure(**options).scenarios[strategy].estimate.round_s)


@pytest.mark.parametrize("text", ["1-4:5,5-16:3,17-:0", "[[17, 1000000, 0], [1, 4, 5], [5, 16, 3]]"])
def test_a_text_and_vllms_list_say_the_same_table(text: str) -> None:
    table = KTable.parse(text)
    assert table.ranges[:2] == ((1, 4, 5), (5, 16, 3))
    assert (table.firsts, table.ks) == ((1, 5, 17), (5, 3, 0))


@pytest.mark.parametrize(
    "table", ["2-4:5", "1-4:5,4-8:3", "4-1:3", "1-4", "1-4:x", "[[1, 4]]", "[", "", [[1, 4, -1]], [[1, 4, 2.5]], 7, []]
)
def test_what_vllm_refuses_is_refused(table: Any) -> None:
    with refused("--k-table"):
        Batching(k_table=table)


def test_the_list_that_an_export_writes_is_taken() -> None:
    given: dict[str, Any] = {"b": [1, 256], "k": [1, 4], "alpha": 0.2, "drafter": "eagle3"}
    given |= {"target": "llama-3.1-8b", "tp": 1}
    made = json.loads(export("vllm", **given).text)["num_speculative_tokens_per_batch_size"]
    assert Batching(k_table=made).k_table == KTable(tuple(map(tuple, made)))


def test_a_gap_has_the_k_before_and_so_has_what_follows_the_last_range() -> None:
    chosen = policies_of(requests(8), _batching("1-16:3,32-40:2"), **GIVEN).by_name[AUTO]
    labels = {batch: chosen.at(batch, 500.0).label for batch in (1, 16, 17, 31, 32, 40, 41, 64)}
    assert labels == {b: "SD K 3" if b < 32 else "SD K 2" for b in labels}


@pytest.mark.parametrize("prefill", ["none", "chunked"])
def test_a_table_with_one_k_is_that_k(prefill: str) -> None:
    workload = requests(60, rate=8.0, inputs="400", outputs="geometric:80")
    batching, plain = _batching("1-:4", prefill=prefill), Batching(prefill=prefill, max_batch=64)  # type: ignore[arg-type]
    by_table = policies_of(workload, batching, **GIVEN, k=4)
    one, fixed = by_table.by_name[AUTO], policies_of(workload, plain, **GIVEN, sd_k=4).by_name["sd"]
    for other in (fixed, by_table.fixed_k[4]):
        assert np.array_equal(simulate(one, workload, batching).columns, simulate(other, workload, plain).columns)


def test_the_requests_of_the_pass_before_decide_and_rounds_are_priced_as_predict_prices_them() -> None:
    """By hand: with every token accepted 8 requests end together, after a round of K 5 and further ones of K 2."""
    columns = _columns("1-4:5,5-:2", count=8, alpha=1.0)
    lengths = [6, *[3] * -(-(ANSWER - 1 - 6) // 3)]
    assert columns.shape[1] == len(lengths)
    contexts = PROMPT + 1 + np.cumsum([0, *lengths[:-1]])
    by_hand = [_round_s("sd", 8, int(c), sd_k=made - 1, alpha=1.0) for c, made in zip(contexts, lengths, strict=True)]
    assert columns[1] - columns[0] == pytest.approx(by_hand, rel=2e-3)


def test_a_request_whose_prompt_is_processed_counts() -> None:
    """Five prompts of 400 tokens are one pass: five are scheduled, and none of them decodes yet."""
    columns = _columns("1-4:5,5-:2", count=5, prefill="chunked", token_budget=2048)
    assert columns[2, 0] == 0  # a pass of prompts alone
    labels = policies_of(requests(2), _batching("1-4:5,5-:2"), **GIVEN).by_name[AUTO].variants
    assert labels[int(columns[5, 1])].label == "SD K 2"
    alone = _columns("1-4:5,5-:2", count=4, prefill="chunked", token_budget=2048)
    assert labels[int(alone[5, 1])].label == "SD K 5"


def test_requests_that_wait_for_a_pass_of_prompts_still_count() -> None:
    """A prompt alone in its pass was all that the table saw: the others then had the K of one request."""
    workload = requests(60, inputs=str(PROMPT), outputs="geometric:80", concurrency=8)
    batching = _batching("1-4:5,5-:2", prefill="priority")
    chosen = policies_of(workload, batching, **GIVEN).by_name[AUTO]
    columns = simulate(chosen, workload, batching).columns
    assert (columns[7] > 0).any()  # some wait
    labels = [chosen.variants[int(number)].label for number in columns[5, columns[2] >= 6]]
    assert set(labels) == {"SD K 2"}


@pytest.mark.parametrize("batch", [1, 16, 64])
def test_k_0_is_a_step_of_decoding_and_one_pass_of_the_draft(batch: int) -> None:
    chosen = policies_of(requests(8, inputs=str(PROMPT), outputs=str(ANSWER - 1)), _batching("1-:0"), **GIVEN)
    paused = chosen.by_name[AUTO].at(batch, CONTEXT).table.mean(batch, CONTEXT)
    one = configure(**{**GIVEN, "b": batch, "context": CONTEXT, "sd_k": 1}).scenarios["sd"]
    by_hand = _round_s("ar", batch, CONTEXT) + one.seconds["draft"]
    assert float(paused.round_s) == pytest.approx(by_hand, rel=5e-3)
    assert float(paused.tokens_per_round) == 1.0
    (ar,) = chosen.fixed_k.values()  # for good, K 0 needs no draft
    assert float(ar.mean(batch, CONTEXT).round_s) == pytest.approx(_round_s("ar", batch, CONTEXT), rel=5e-3)


def test_what_looks_up_has_no_cache_to_keep_up() -> None:
    chosen = policies_of(requests(8), _batching("1-:0"), **GIVEN, drafter="ngram")
    paused, (ar,) = chosen.by_name[AUTO], chosen.fixed_k.values()
    assert float(paused.mean(8, 500.0).round_s) == pytest.approx(float(ar.mean(8, 500.0).round_s), rel=1e-9)


def test_every_k_leaves_room_for_the_most_tokens() -> None:
    chosen = policies_of(requests(8), _batching("1-4:5,5-16:3,17-:0"), **GIVEN)
    assert len({variant.ledgers for variant in chosen.by_name[AUTO].variants}) == 1
    assert chosen.by_name[AUTO].variants[0].ledgers == chosen.fixed_k[5].variants[0].ledgers


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_by_throughput_no_fixed_k_is_faster_at_any_batch(alpha: float) -> None:
    given = {**GIVEN, "alpha": alpha, "k": 5}
    workload = requests(8, inputs=str(PROMPT), outputs=str(ANSWER - 1))
    chosen = policies_of(workload, _batching("throughput"), **given).by_name[AUTO]
    for batch in (1, 2, 3, 5, 8, 16, 31, 32, 64):
        means = [(1.0 - alpha ** (k + 1)) / (1.0 - alpha) for k in range(1, 6)]
        fixed = [
            batch * mean / _round_s("sd", batch, CONTEXT, sd_k=k, alpha=alpha)
            for k, mean in zip(range(1, 6), means, strict=True)
        ]
        own = float(chosen.mean(batch, CONTEXT).tokens_per_second)
        assert own >= max(fixed) * (1.0 - 5e-3)
        assert own <= max(*fixed, batch / _round_s("ar", batch, CONTEXT)) * (1.0 + 5e-3)


@pytest.mark.long
def test_the_answer_holds_each_k_of_the_table_for_good_beside_it() -> None:
    table = "1-4:5,5-16:3,17-:1"
    closed = serve(rate=4.0, k_table=table, solver="closed", **GIVEN).points[0]
    alone = {k: serve(rate=4.0, solver="closed", **GIVEN, sd_k=k).points[0].closed["sd"] for k in (5, 3, 1)}
    assert {k: each.tpot.value for k, each in closed.fixed_k.items()} == pytest.approx(
        {k: 1e3 * float(each.tpot_s) for k, each in alone.items()}
    )
    assert closed.best_k == min(alone, key=lambda k: float(alone[k].tpot_s))
    assert closed.best_k_e2el == min(alone, key=lambda k: float(alone[k].e2e_s))
    ran = serve(rate=4.0, requests=100, k_table=table, solver="loop", **GIVEN).points[0]
    fixed = serve(rate=4.0, requests=100, solver="loop", **GIVEN, sd_k=3).points[0].metrics["sd"].of_requests["tpot"]
    assert fixed is not None
    assert ran.fixed_k[3].tpot == fixed.mean


@pytest.mark.long
def test_in_a_rush_the_time_to_the_last_token_and_the_time_per_token_judge_unlike() -> None:
    """The answer named the K of the least time per token alone, whose requests wait longest for their first one."""
    given = {**SMALL, "strategies": "sd", "engine": "sglang", "drafter": "eagle3", "k_table": "1-2:7,3-4:6,5-:4"}
    given["prefill"] = "chunked"
    point = serve(concurrency=256, requests=300, input_len="512", output_len="200", solver="loop", **given).points[0]
    assert point.best_k == 7
    assert point.best_k_e2el == 4
    best, least = point.fixed_k[point.best_k_e2el], point.fixed_k[point.best_k]
    assert best.e2el.value < least.e2el.value
    assert best.tpot.value > least.tpot.value


def test_a_schedule_and_a_table_cannot_both_say_k(tmp_path: Any) -> None:
    with refused("--k-table", "--schedule"):
        policies(dict(GIVEN), requests(8), _batching("1-:4"), tmp_path / "plan.json")


def test_an_engine_that_lacks_sd_has_no_table_of_its_k() -> None:
    given = {**GIVEN, "strategies": "ar", "engine": "sglang", "drafter": "medusa"}
    with refused("--k-table", "SGLang"):
        policies_of(requests(8), _batching("1-:4"), **given)


def test_without_a_table_nothing_is_beside() -> None:
    assert policy("sd", requests(8), **SMALL).counts_scheduled is False
    assert serve(rate=4.0, solver="closed", **GIVEN).points[0].best_k is None


def test_ar_is_priced_only_where_k_0_is_among_the_ks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that always drafts was held against nothing of AR's, and yet refused where AR could not be priced."""

    def refuse(*_: Any) -> Any:
        raise InputError("AR is priced")

    monkeypatch.setattr(Autoregressive, "steps", refuse)
    workload = requests(4)
    assert set(policies_of(workload, _batching("1-4:5,5-:2"), **GIVEN).fixed_k) == {5, 2}
    with pytest.raises(InputError, match="AR is priced"):
        policies_of(workload, _batching("1-4:5,5-:0"), **GIVEN)


def test_a_choice_of_how_a_draft_is_shared_is_not_left_to_a_table() -> None:
    given = {**GIVEN, "sd_draft": "separate", "targets": 2}
    with refused("--k-table", "--draft-serves"):
        policies_of(requests(4), _batching("1-:4"), **given)
    chosen = policies_of(requests(4), _batching("1-:4"), **given, draft_serves="in-turn").by_name[AUTO]
    assert chosen.devices.targets == 2


@pytest.mark.long
@pytest.mark.parametrize(("table", "ks"), [("1-4:5,5-:0", 2), ("throughput", 4), ("ema", 5), (None, 0)])
def test_the_cost_that_is_said_before_long_work_counts_the_ks_that_run_for_good(
    table: Any, ks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were left out."""
    monkeypatch.setattr(policy_runs, "_LONG", 0)
    monkeypatch.setattr(policy_runs, "_FIRST", 10)
    monkeypatch.setattr("ssdsim.answers.workers.Workers.each", lambda *arguments, **room: {})
    heard: list[RunNeeds] = []
    load, batching = Load(rate=[1.0, 2.0], requests=40), Batching(k_table=table)
    served(load, batching=batching, hears_needs=heard.append, **{**SMALL, "strategies": "ar,sd", "k": 5, "alpha": 0.8})
    policies_run = 2 if table is None else 3
    assert heard[0].runs == 2 * (policies_run + ks)
