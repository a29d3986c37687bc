"""What engines log: every format tells the rates that made it, and what cannot be trusted is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import ENGINES, PairLabels, import_acceptance
from ssdsim.tokens.pair_file import AtTemperature, Pair, load_pair
from tests.refusals import refused
from tests.ssdsim.readers.acceptance import logs

MADE = logs.requests()
ROUNDS, ACCEPTED = sum(map(len, MADE)), sum(map(sum, MADE))
NOBODY = PairLabels()
LENGTH = 1.0 + ACCEPTED / ROUNDS


class Logs:
    """A folder of logs, imported from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pair(self, engine: str, *texts: str, named: PairLabels = NOBODY, **asked: Any) -> Pair:
        paths = []
        for number, text in enumerate(texts):
            paths.append(self.folder / f"log{number}.txt")
            paths[-1].write_text(text)
        pair = import_acceptance(engine, paths, {}, ImportOptions(**asked), named)
        pair.save(self.folder / "pair.json")
        assert load_pair(self.folder / "pair.json") == pair
        return pair

    def findings(self, engine: str, *texts: str, **asked: Any) -> AtTemperature:
        return self.pair(engine, *texts, **asked).by_temperature[0]

    def refused(self, engine: str, *texts: str, **asked: Any) -> str:
        with pytest.raises(InputError) as error:
            self.findings(engine, *texts, **asked)
        assert "\n" not in str(error.value)
        return str(error.value)


@pytest.fixture
def log(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def _as_made(at_temperature: AtTemperature, within: float = 1e-12, made: Sequence[Sequence[int]] = MADE) -> None:
    """By position, as the rounds were."""
    assert at_temperature.alpha_k == pytest.approx(logs.rates(made), abs=within)
    survived = [count / sum(map(len, made)) for count in logs.survival_counts(made)]
    assert at_temperature.survival == pytest.approx(survived, abs=within)
    assert at_temperature.length.pooled == pytest.approx(1 + sum(map(sum, made)) / sum(map(len, made)), abs=4 * within)
    assert at_temperature.length.k == logs.K
    assert at_temperature.hits.rejected is None
    assert at_temperature.alpha_k_bounds is not None
    for bounds, rate in zip(at_temperature.alpha_k_bounds, at_temperature.alpha_k or (), strict=True):
        assert bounds is not None
        assert rate is not None
        assert bounds[0] < rate < bounds[1]


# vLLM


def test_vllm_counters_between_two_snapshots(log: Logs) -> None:
    pair = log.pair("vllm", logs.vllm_metrics([]), logs.vllm_metrics(MADE))
    _as_made(pair.by_temperature[0])
    assert (pair.how, pair.target.id, pair.draft.id) == ("vllm-metrics", "big", None)
    assert pair.by_temperature[0].length.rounds == ROUNDS
    assert pair.by_temperature[0].count is None  # a server's counters know no requests


def test_vllm_counters_of_a_process(log: Logs) -> None:
    """``llm.get_metrics()``: no ``_total``, positions in a vector, printed or saved as JSON."""
    survived = logs.survival_counts(MADE)
    values = {"num_drafts": ROUNDS, "num_draft_tokens": logs.K * ROUNDS, "num_accepted_tokens": ACCEPTED}
    labels = {"model_name": "big", "engine": "0"}
    records: list[dict[str, Any]] = [
        {"name": f"vllm:spec_decode_{name}", "labels": labels, "value": value} for name, value in values.items()
    ]
    records.append({"name": "vllm:spec_decode_num_accepted_tokens_per_pos", "labels": labels, "values": survived})
    printed = ", ".join(
        f"{'Vector' if 'values' in record else 'Counter'}(name={record['name']!r}, labels={labels!r}, "
        f"{'values' if 'values' in record else 'value'}={record.get('values', record.get('value'))})"
        for record in records
    )
    for text in (json.dumps(records, indent=2), f"[{printed}]"):
        assert "one snapshot" in log.refused("vllm", text)
        _as_made(log.findings("vllm", text, since_start=True))


def test_one_snapshot_is_refused(log: Logs) -> None:
    assert "one from before the work and one from after" in log.refused("vllm", logs.vllm_metrics(MADE))


def test_counters_that_fall_are_refused(log: Logs) -> None:
    said = log.refused("vllm", logs.vllm_metrics(MADE), logs.vllm_metrics([]))
    assert "fell from" in said
    assert "restarted" in said


def test_one_engines_counters_that_fall_do_not_hide_behind_anothers(log: Logs) -> None:
    before = logs.vllm_metrics([], base=1000)
    after = logs.vllm_metrics(MADE * 3).replace(
        f'engine="1",model_name="big"}} {1000 + sum(map(len, (MADE * 3)[1::2]))}', 'engine="1",model_name="big"} 10'
    )
    assert "fell from 1000 to 10" in log.refused("vllm", before, after)


def test_a_server_of_two_models_must_be_told_which(log: Logs) -> None:
    before = logs.vllm_metrics([]) + logs.vllm_metrics([], "other")
    after = logs.vllm_metrics(MADE) + logs.vllm_metrics(MADE[:3], "other")
    assert "choose one by --served" in log.refused("vllm", before, after)
    _as_made(log.findings("vllm", before, after, model="big"))
    assert "did you mean 'other'" in log.refused("vllm", before, after, model="othr")


def test_nothing_drafted_between_snapshots(log: Logs) -> None:
    assert "no token was drafted" in log.refused("vllm", logs.vllm_metrics(MADE), logs.vllm_metrics(MADE))


@pytest.mark.parametrize("detailed", [False, True])
def test_vllm_statistics_of_requests(log: Logs, detailed: bool) -> None:
    responses = [logs.vllm_response(request) for request in MADE]
    if detailed:
        for response, request in zip(responses, MADE, strict=True):
            own = response["metrics"]["speculative_decoding"]
            own |= {"per_step_accepted": request, "per_step_drafted": [logs.K] * len(request)}
    findings = log.findings("vllm", logs.lines_of(responses))
    _as_made(findings)
    assert findings.count == len(MADE)
    assert findings.length.mean_of_requests == pytest.approx(1 + sum(sum(r) / len(r) for r in MADE) / len(MADE))
    assert findings.length.histogram == tuple(map(sum, zip(*map(logs.histogram, MADE), strict=True)))
    assert findings.requests.rates is not None
    assert len(findings.requests.rates) == len(MADE)
    assert findings.alpha.low is not None
    assert findings.alpha.mean is not None
    assert findings.alpha.high is not None
    assert findings.alpha.low < findings.alpha.mean < findings.alpha.high


def test_a_log_tells_how_requests_differ(log: Logs) -> None:
    """Of rates with a Beta of concentration 8; those of requests that accept alike have none."""
    rng = np.random.default_rng(3)
    accepted = rng.random((200, 60, logs.K)) < rng.beta(6.0, 2.0, 200)[:, None, None]
    made = [[int(length) for length in request] for request in np.cumprod(accepted, axis=2).sum(axis=2)]
    requests = log.findings("vllm", logs.lines_of([logs.vllm_response(request) for request in made])).requests
    assert requests.alike is False
    assert requests.low is not None
    assert requests.high is not None
    assert requests.low < 8.0 < requests.high
    assert requests.concentration == pytest.approx(8.0, rel=0.3)
    alike = log.findings("vllm", logs.lines_of([logs.vllm_response(request) for request in MADE])).requests
    assert (alike.alike, alike.concentration) == (True, None)


def test_vllm_statistics_in_a_stream_and_null_for_several_answers(log: Logs) -> None:
    chunks = [{"choices": [{"delta": {"content": "x"}}]}, logs.vllm_response(MADE[0])]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    _as_made(log.findings("vllm", stream), made=MADE[:1])
    silent = {"choices": [], "metrics": {"speculative_decoding": None}}
    pair = log.pair("vllm", logs.lines_of([logs.vllm_response(MADE[0]), silent]))
    assert "1 records without statistics" in pair.provenance.notes[0]
    assert "--per-request-spec-decode-metrics" in log.refused("vllm", logs.lines_of([silent, silent]))


def test_a_histogram_that_does_not_add_up_is_refused(log: Logs) -> None:
    response = logs.vllm_response(MADE[0])
    response["metrics"]["speculative_decoding"]["num_spec_steps"] += 1
    assert "the histogram counts 60 rounds, but there were 61" in log.refused("vllm", json.dumps(response))
    response = logs.vllm_response(MADE[0])
    response["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] += 20
    assert "accepted tokens, not" in log.refused("vllm", json.dumps(response))


def test_drafts_of_different_lengths_are_counted_where_each_is_told(log: Logs) -> None:
    """Rounds that drafted 2 tokens rejected no third one."""
    own = {
        "acceptance_histogram": [2, 3, 5, 6],
        "acceptance_histogram_by_draft_length": {"0": [9], "2": [1, 2, 5], "3": [1, 1, 0, 6]},
        "num_spec_steps": 16,
        "num_draft_tokens": 2 * 8 + 3 * 8,
    }
    findings = log.findings("vllm", json.dumps({"metrics": {"speculative_decoding": own}}))
    assert findings.alpha_k == pytest.approx((14 / 16, 11 / 14, 6 / 6))
    assert findings.trials == (16, 14, 6)
    assert findings.length.k == 3
    del own["acceptance_histogram_by_draft_length"]
    blind = log.findings("vllm", json.dumps({"metrics": {"speculative_decoding": own}}))
    assert blind.alpha_k is None  # which round drafted how much is lost
    assert blind.length.pooled == pytest.approx(1 + 31 / 16)


def test_a_cut_last_draft_of_each_answer_is_no_different_lookahead(log: Logs) -> None:
    responses = [logs.vllm_response(request) for request in MADE]
    for response in responses:
        response["metrics"]["speculative_decoding"]["num_draft_tokens"] -= 2
    _as_made(log.findings("vllm", logs.lines_of(responses)))


def test_the_vllm_log_is_weighed_by_what_was_drafted(log: Logs) -> None:
    lines = [logs.vllm_log_line(request) for request in (MADE[0] * 20, [0, 1, 0, 4] * 15)]
    lines.insert(1, logs.vllm_log_line([0]).replace("Drafted: 4", "Drafted: 0"))
    findings = log.findings("vllm", "INFO something else\n" + "\n".join(lines))
    _as_made(findings, within=0.01, made=[*[MADE[0]] * 20, [0, 1, 0, 4] * 15])
    mean_of_lines = (logs.rates([MADE[0]])[0] + 0.5) / 2
    assert findings.alpha_k is not None
    assert findings.alpha_k[0] != pytest.approx(mean_of_lines, abs=0.01)


def test_survival_is_not_a_conditional_rate(log: Logs) -> None:
    """AEON-7 issue 6: 0.600, 0.385, 0.215, 0.108 are not falling rates but 0.60, 0.64, 0.56, 0.50."""
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.37, Accepted throughput: 1 tokens/s, Drafted throughput: 1 "
        "tokens/s, Accepted: 89 tokens, Drafted: 975 tokens, Per-position acceptance rate: 0.600, 0.385, 0.215, 0.108, "
        "0.046, 0.015, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 9.1%"
    )
    findings = log.findings("vllm", line)
    assert findings.rates[:4] == pytest.approx((0.60, 0.64, 0.56, 0.50), abs=0.005)
    assert findings.length.pooled == pytest.approx(2.37, abs=0.005)
    assert findings.length.k == 15


def test_zeros_of_positions_that_were_never_drafted_are_no_rejections(log: Logs) -> None:
    line = logs.vllm_log_line(MADE[0] * 9).replace(", Avg", ", 0.000, 0.000, Avg")
    _as_made(log.findings("vllm", line), within=0.01, made=[MADE[0]])


def test_rates_by_position_that_rise_are_no_survival(log: Logs) -> None:
    line = logs.vllm_log_line(MADE[0] * 9)
    start = line.index("rate: ") + 6
    said = log.refused("vllm", f"{line[:start]}0.300, 0.500, 0.600, 0.400, Avg Draft acceptance rate: 45.0%")
    assert "cannot rise" in said


def test_drafts_of_different_lengths_keep_no_rate_by_position_in_counters(log: Logs) -> None:
    before = logs.vllm_metrics([], engines=1)
    drafted = f"{logs.K * (1000 + ROUNDS)}"
    after = logs.vllm_metrics(MADE, engines=1)
    assert drafted in after
    findings = log.findings("vllm", before, after.replace(drafted, f"{logs.K * 1000 + round(3.4 * ROUNDS)}"))
    assert findings.alpha_k is None
    assert findings.length.pooled == pytest.approx(LENGTH)


def test_the_older_log_of_v1_has_percent_and_no_positions(log: Logs) -> None:
    accepted = sum(MADE[0])
    line = (
        f"SpecDecoding metrics: Draft acceptance rate: {100 * accepted / 240:.1f}%, Mean acceptance length: "
        f"{1 + accepted / 60:.2f}, Accepted: {accepted} tokens, Drafted: 240 tokens"
    )
    findings = log.findings("vllm", line)
    assert findings.length.pooled == pytest.approx(1 + accepted / 60, abs=0.005)
    assert findings.length.k == 4
    assert findings.alpha_k is None
    assert findings.alpha.mean is not None
    assert "say how many tokens a round" in log.refused("vllm", line.replace("Mean acceptance length", "Nothing"))


def test_the_log_of_v0_counts_accepted_tokens_that_were_not_emitted(log: Logs) -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: 0.655, System efficiency: 0.649, Number of speculative tokens: 4, "
        "Number of accepted tokens: {}, Number of draft tokens: {}, Number of emitted tokens: {}."
    )
    findings = log.findings("vllm", f"{line.format(10, 40, 20)}\n{line.format(1735, 2648, 2149)}")
    assert findings.length.pooled == pytest.approx(2149 / 662)  # 1 + 1735 / 662 = 3.62 were never there
    assert findings.length.pooled / 5 == pytest.approx(0.649, abs=5e-4)  # the log's own system efficiency
    assert findings.length.k == 4
    said = log.refused("vllm", f"{line.format(1735, 2648, 2149)}\n{line.format(10, 40, 20)}")
    assert "restarted" in said


def test_vllm_bench_says_percent_and_shares(log: Logs) -> None:
    pair = log.pair("vllm", json.dumps(logs.vllm_bench(MADE)))
    _as_made(pair.by_temperature[0])
    assert pair.target.id == "big"
    percent = logs.vllm_bench(MADE)
    percent["spec_decode_per_position_acceptance_rates"] = [
        100 * share for share in percent["spec_decode_per_position_acceptance_rates"]
    ]
    assert "no percent" in log.refused("vllm", json.dumps(percent))
    wrong = logs.vllm_bench(MADE) | {"spec_decode_acceptance_length": LENGTH - 1.0}
    assert "with the bonus" in log.refused("vllm", json.dumps(wrong))


# SGLang


@pytest.mark.parametrize("names", logs.SGLANG_NAMES)
def test_sglang_answers_under_each_of_their_names(log: Logs, names: Sequence[str]) -> None:
    answers = [logs.sglang_answer(request, names) for request in MADE]
    findings = log.findings("sglang", logs.lines_of(answers))
    _as_made(findings)
    assert findings.count == len(MADE)


def test_the_prefills_token_is_no_round(log: Logs) -> None:
    """``spec_accept_length`` is too long by 1 / rounds; without a histogram an answer's tokens are counted."""
    answers = [logs.sglang_answer(request) for request in MADE]
    for answer in answers:
        own = answer["meta_info"]
        for name in ("spec_num_correct_drafts", "spec_correct_drafts_histogram"):
            del own[name]
    findings = log.findings("sglang", json.dumps(answers))
    assert findings.length.pooled == pytest.approx(LENGTH)
    assert findings.alpha_k is None
    assert answers[0]["meta_info"]["spec_accept_length"] > 1 + sum(MADE[0]) / len(MADE[0])


def test_sglang_answers_whose_lookahead_nobody_says(log: Logs) -> None:
    """Each histogram ends at what its request accepted; the longest is the lookahead."""
    answers = [logs.sglang_answer(request) for request in [*MADE, [1, 0, 1]]]
    for answer in answers:
        del answer["meta_info"]["spec_num_proposed_drafts"]
    _as_made(log.findings("sglang", json.dumps(answers)), made=[*MADE, [1, 0, 1]])


def test_an_adaptive_lookahead_keeps_its_length_and_no_positions(log: Logs) -> None:
    answers = [logs.sglang_answer(request) for request in MADE]
    for number, answer in enumerate(answers):
        answer["meta_info"]["spec_num_proposed_drafts"] += 60 * (number % 3)
    findings = log.findings("sglang", json.dumps(answers))
    assert findings.alpha_k is None
    assert findings.length.pooled == pytest.approx(LENGTH)
    whole = [logs.sglang_answer(request) for request in MADE]
    assert log.findings("sglang", json.dumps(whole), adaptive=True).alpha_k is None


def test_a_tree_of_drafts_is_no_long_chain(log: Logs) -> None:
    answers = [logs.sglang_answer(request) for request in MADE]
    for answer in answers:
        answer["meta_info"]["spec_num_proposed_drafts"] *= 4
    pair = log.pair("sglang", json.dumps(answers))
    _as_made(pair.by_temperature[0])
    assert any("a tree of drafts" in warning for warning in pair.provenance.warnings)


@pytest.mark.parametrize("disaggregated", [False, True])
def test_sglang_server_info_knows_a_mean_and_its_steps(log: Logs, disaggregated: bool) -> None:
    state: dict[str, Any] = {"internal_states": [{"avg_spec_accept_length": 2.5}]}
    if disaggregated:
        state = {"internal_states": [], "decode": [{**state, "speculative_num_steps": 4}]}
    settings = {"model_path": "big", "speculative_draft_model_path": "small", "speculative_num_draft_tokens": 5}
    pair = log.pair("sglang", json.dumps({**state, **({} if disaggregated else settings)}))
    found = pair.by_temperature[0]
    assert (found.length.pooled, found.length.k, found.alpha_k) == (2.5, 4, None)
    if not disaggregated:
        assert (pair.target.id, pair.draft.id) == ("big", "small")
    assert any("i.i.d." in warning for warning in pair.provenance.warnings)
    nothing = {"internal_states": [{"avg_spec_accept_length": None}]}
    assert "is null" in log.refused("sglang", json.dumps(nothing))
    adaptive = {**state, "speculative_adaptive": True, "speculative_num_steps": 4}
    if not disaggregated:
        assert "adaptive" in log.refused("sglang", json.dumps(adaptive))


def test_one_rate_yields_the_length_that_it_came_from(log: Logs) -> None:
    from ssdsim.tokens.acceptance import expected_tokens

    findings = log.findings("sglang", json.dumps({"accept_length": 3.1}), k=5)
    assert findings.alpha.mean is not None
    assert expected_tokens(findings.alpha.mean, 5) == pytest.approx(3.1)
    assert "give them by --k" in log.refused("sglang", json.dumps({"accept_length": 3.1}))


def test_sglang_windows_are_refused_unless_they_are_samples(log: Logs) -> None:
    metrics = 'sglang:spec_accept_length{model_name="big"} 2.92\n'
    line = "[2026] Decode batch. #running-req: {}, #token: 9, accept len: {}, accept rate: 0.58, gen throughput: 9\n"
    for text in (metrics, line.format(3, 2.92), line.format(1, 2.0) * 30):
        assert "last window only" in log.refused("sglang", text)
    sampled = log.findings("sglang", line.format(3, 3.0) + line.format(1, 2.0), sampled=True, k=4)
    assert sampled.length.pooled == pytest.approx(2.75)


def test_sglang_bench_serving(log: Logs) -> None:
    runs = [{"accept_length": 2.0, "concurrency": 1}, {"accept_length": 2.5, "concurrency": 8}]
    findings = log.findings("sglang", logs.lines_of(runs), k=4)
    assert findings.length.pooled == 2.5  # counted since the start, so the last has it all
    assert "accept_length is null" in log.refused("sglang", json.dumps({"accept_length": None}), k=4)


# the others


def test_aiperf_records(log: Logs) -> None:
    records = [*map(logs.aiperf_record, MADE), {"metadata": {}, "metrics": {}}]
    pair = log.pair("aiperf", logs.lines_of(records))
    _as_made(pair.by_temperature[0])
    assert pair.requests == len(MADE)
    assert "1 records without statistics are left out" in pair.provenance.notes
    assert "--export-level records" in log.refused("aiperf", logs.lines_of(records[-1:] * 2))


def test_aiperf_summary_has_the_pooled_histogram(log: Logs) -> None:
    pooled = list(map(sum, zip(*map(logs.histogram, MADE), strict=True)))
    summary = {"pooled_spec_decode_acceptance_histogram": {str(j): n for j, n in enumerate(pooled)}}
    findings = log.findings("aiperf", json.dumps(summary))
    _as_made(findings)
    assert findings.count is None


SSD = """\
F=3, fan_out_list=[3, 3, 3, 3, 3, 3, 3], fan_out_list_miss=[3, 3, 3, 3, 3, 3, 3], MQ_LEN=21
SWEEP [1/1] temp=0.7 b=1
Final Prefill Throughput: 46tok/s
Final Decode Throughput: 250tok/s
[metrics] Avg Tokens per step (incl recovery): 3.78
[metrics] Avg Fraction of Speculated Tokens Accepted: 0.46
[metrics] Avg target time per full step (ms): 262.44
[metrics] Avg target verify time (ms): 15.29
[metrics] Avg Cache Hits: 0.79
[metrics] Avg Tokens per step on Cache Hit: 4.50
[metrics] Empirical frequencies of accepted_suffix_lens_on_hit - 1:
  0: 0.213
  1: 0.148
  2: 0.056
  3: 0.046
  4: 0.037
  5: 0.046
  6: 0.454
[metrics] Avg Tokens per step on Cache Miss: 1.07
[metrics] Avg draft step time (ms): 12.00
Model: Llama-3.2-1B-Instruct, Mode: CUDA Graphs + Speculative(k=6) + Async, Total: 512tok, Time: 35.96s
"""


def test_the_ssd_engines_output_has_hits(log: Logs) -> None:
    pair = log.pair("ssd", SSD)
    found = pair.by_temperature[0]
    assert found.temperature == 0.7
    assert pair.target.id == "Llama-3.2-1B-Instruct"
    assert found.cache is not None
    assert (found.cache.p_hit, found.cache.length, found.cache.length_on_hit, found.cache.length_on_miss) == (
        0.79,
        3.78,
        4.50,
        1.07,
    )
    assert found.cache.f == 3
    assert found.alpha_k is not None
    assert found.alpha_k[0] == pytest.approx(1 - 0.213)
    assert found.alpha_k[5] == pytest.approx(0.454 / 0.5)
    assert found.length.pooled == pytest.approx(4.50, abs=0.01)  # the primary's: steps after a hit
    assert found.alpha_k_bounds is None  # frequencies without their number
    assert found.hits.after_backup == {}  # not identified
    assert any("after each is not in it" in warning for warning in pair.provenance.warnings)


def test_the_ssd_engines_output_without_misses_and_without_a_cache(log: Logs) -> None:
    no_miss = SSD.replace("Hits: 0.79", "Hits: 1.00").replace("Cache Hit: 4.50", "Cache Hit: N/A")
    no_miss = no_miss[: no_miss.index("[metrics] Empirical")]
    findings = log.findings("ssd", no_miss, k=6)
    assert findings.length.pooled == pytest.approx(3.78)
    plain = SSD[: SSD.index("[metrics] Avg Cache Hits")]
    findings = log.findings("ssd", plain)
    assert (findings.length.k, findings.cache) == (6, None)  # 2.78 accepted are 0.46 of 6
    assert "frequencies" in log.refused("ssd", SSD.replace("6: 0.454", "6: 0.254"))
    assert "no output of bench.py" in log.refused("ssd", "Final Decode Throughput: 54tok/s\n")


def test_tensorrt_iterations_are_pooled_by_counts_of_the_first_rank(log: Logs) -> None:
    steps = [[4, 0], [1, 2, 3], [4]]
    records = [logs.trtllm_iteration(step, rank) for step in steps for rank in (0, 1)]
    records.append({"iter": 9, "specDecodingStats": {"numDraftTokens": 0, "numRequestsWithDraftTokens": 0}})
    findings = log.findings("trtllm", logs.lines_of(records))
    assert findings.length.pooled == pytest.approx((14 + 6) / 6)
    assert (findings.length.rounds, findings.length.k) == (6, 4)
    snake = {"spec_decoding_stats": {"num_draft_tokens": 8, "num_accepted_tokens": 3}}
    snake["spec_decoding_stats"]["num_requests_with_draft_tokens"] = 2
    assert log.findings("trtllm", json.dumps([snake])).length.pooled == pytest.approx(2.5)
    per_request = [{"avg_decoded_tokens_per_iter": 2.5, "decoding_iter": 10}]
    assert log.findings("trtllm", json.dumps(per_request), k=4).length.pooled == pytest.approx(2.5)
    assert "enable_iter_perf_stats" in log.refused("trtllm", "{}")


def test_llama_cpp_timings_count_rounds_by_tokens(log: Logs) -> None:
    answers = [
        {"timings": {"predicted_n": 1 + sum(r) + len(r), "draft_n": logs.K * len(r), "draft_n_accepted": sum(r)}}
        for r in MADE
    ]
    findings = log.findings("llama-cpp", logs.lines_of(answers))
    assert findings.length.pooled == pytest.approx(LENGTH)
    assert (findings.length.rounds, findings.length.k, findings.alpha_k) == (ROUNDS, logs.K, None)
    assert "drafted nothing" in log.refused("llama-cpp", json.dumps({"timings": {"predicted_n": 9}}))


def test_llama_cpp_log_new_and_old(log: Logs) -> None:
    new = "\n".join(logs.llama_cpp_line(task, request) for task, request in enumerate(MADE))
    _as_made(log.findings("llama-cpp", new), within=0.01)
    old = "\n".join(logs.old_llama_cpp_lines(task, request) for task, request in enumerate(MADE))
    findings = log.findings("llama-cpp", old)
    assert findings.length.pooled == pytest.approx(LENGTH)
    alone = "draft acceptance rate = 0.58824 (   10 accepted /    17 generated)"
    assert "give" in log.refused("llama-cpp", alone)


def test_llama_cpps_published_line(log: Logs) -> None:
    """ggml-org/llama.cpp#24536: 1 + 0.805 + 0.632 + 0.483 = 2.92, of 87 drafts with 259 tokens."""
    line = (
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, "
        "acceptance rate per position = (0.805, 0.632, 0.483)"
    )
    findings = log.findings("llama-cpp", line)
    assert findings.length.rounds == 87
    assert findings.survival == pytest.approx((0.805, 0.632, 0.483), abs=5e-4)
    assert findings.rates == pytest.approx((0.805, 0.785, 0.764), abs=1e-3)


def test_traces_of_transformers(log: Logs) -> None:
    for text in (logs.lines_of(MADE), logs.lines_of({"num_matches": request} for request in MADE)):
        _as_made(log.findings("transformers", text))
    drafted = [{"accepted": [2, 0, 1], "drafted": [2, 2, 3]}, {"accepted": [3], "drafted": [3]}]
    findings = log.findings("transformers", logs.lines_of(drafted))
    assert findings.alpha_k == pytest.approx((3 / 4, 2 / 3, 1.0))
    rows = "".join(f"{n},{length}\n" for n, request in enumerate(MADE) for length in request)
    _as_made(log.findings("transformers", "request,accepted\n" + rows))


# all


def test_several_files_are_several_sets(tmp_path: Path) -> None:
    code, prose = MADE[:20], logs.requests(seed=2)
    for name, made in (("code", code), ("prose", prose)):
        (tmp_path / f"{name}.jsonl").write_text(logs.lines_of(map(logs.vllm_response, made)))
    files = [tmp_path / "code.jsonl", tmp_path / "prose.jsonl"]
    findings = import_acceptance("vllm", files, {}, ImportOptions(), PairLabels()).by_temperature[0]
    assert set(findings.sets) == {"code", "prose"}
    assert findings.sets["code"].alpha_k == pytest.approx(logs.rates(code))
    assert findings.alpha_k == pytest.approx(logs.rates([*code, *prose]))
    named = import_acceptance("vllm", [], {"a": files[:1], "b": files[1:]}, ImportOptions(), PairLabels())
    assert set(named.by_temperature[0].sets) == {"a", "b"}


def test_a_chain_is_cut_to_a_smaller_lookahead_and_never_made_longer(log: Logs) -> None:
    text = logs.lines_of(map(logs.vllm_response, MADE))
    cut = log.findings("vllm", text, k=2)
    shorter = [[min(length, 2) for length in request] for request in MADE]
    assert cut.alpha_k == pytest.approx(logs.rates(MADE)[:2])
    assert cut.length.pooled == pytest.approx(1 + sum(map(sum, shorter)) / ROUNDS)
    assert cut.length.histogram == tuple(map(sum, zip(*(logs.histogram(r, 2) for r in shorter), strict=True)))
    assert "says nothing of --k 5" in log.refused("vllm", text, k=5)


def test_pooled_and_request_mean_lengths_that_differ_are_said(log: Logs) -> None:
    made = [[0] * 90, [4] * 10, [4] * 10]
    pair = log.pair("vllm", logs.lines_of(map(logs.vllm_response, made)))
    length = pair.by_temperature[0].length
    assert (length.pooled, length.mean_of_requests) == pytest.approx((1 + 80 / 110, 1 + 8 / 3))
    assert any("as the mean of requests" in warning for warning in pair.provenance.warnings)


def test_what_no_file_says_stays_unknown_and_can_be_given(log: Logs) -> None:
    text = logs.lines_of(map(logs.vllm_response, MADE))
    pair = log.pair("vllm", text)
    assert (pair.settings.temperature, pair.by_temperature[0].temperature, pair.draft.id) == (None, None, None)
    assert any("temperature" in warning for warning in pair.provenance.warnings)
    given = log.pair("vllm", text, named=PairLabels("t", "d", 0.7))
    assert (given.target.id, given.draft.id, given.temperatures) == ("t", "d", (0.7,))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_of_another_kind_is_refused_in_one_line(log: Logs, engine: str) -> None:
    for text in ("hello\nworld\n", "", "{}", "[]", '{"a": 1}\n{"b": 2}\n', "{"):
        assert "log0.txt" in log.refused(engine, text)


def test_an_unknown_engine_and_a_missing_file(tmp_path: Path) -> None:
    with refused("vlm", "vllm"):
        import_acceptance("vlm", [tmp_path / "a"], {}, ImportOptions(), PairLabels())
    with pytest.raises(InputError, match="not a readable log"):
        import_acceptance("vllm", [tmp_path / "a"], {}, ImportOptions(), PairLabels())
    with pytest.raises(InputError, match="nothing to import"):
        import_acceptance("vllm", [], {}, ImportOptions(), PairLabels())


def test_a_pair_does_not_say_where_its_logs_lay(log: Logs) -> None:
    """Not in its list of files, nor in a warning about one of them."""
    for engine, text in (
        ("ssd", "[metrics] Avg Tokens per step (incl recovery): 2.5\n"),
        ("sglang", '{"accept_length": 2.5}'),
    ):
        pair = log.pair(engine, text, k=4)
        assert pair.provenance.files == ("log0.txt",)
        assert pair.provenance.warnings
        assert str(log.folder) not in (log.folder / "pair.json").read_text()
