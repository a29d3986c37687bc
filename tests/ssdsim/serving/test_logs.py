"""Logs of requests: every form by a small file of it, what is dropped, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.request_logs.records import read_log
from ssdsim.serving.load import Load, LogSelection, workload_of
from tests.refusals import refused

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:06.4799600,110,27
"""
BURST_GPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n0.1,396,109\n"
PLAIN = "arrival_s,input_tokens,output_tokens,kind\n0,100,10,chat\n2,200,20,code\n"
OPENAI = "timestamp,model,prompt_tokens,completion_tokens\n7,llama,700,90\n9.5,llama,1200,200\n"
MOONCAKE = [
    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]},
]


def written(folder: Path, text: str) -> Path:
    path = folder / "log"
    path.write_text(text)
    return path


def lines(*records: object) -> str:
    return "\n".join(json.dumps(record) for record in records)


@pytest.mark.parametrize(
    ("text", "form", "arrivals", "inputs", "outputs"),
    [
        (AZURE, "Azure", [0.0, 0.052, 2.5], [4808, 3180, 110], [10, 8, 27]),
        (BURST_GPT, "BurstGPT", [0.0, 113.0], [472, 417], [18, 276]),
        (VIDUR, "Vidur", [0.0, 0.4], [396, 374], [109, 44]),
        (PLAIN, "plain", [0.0, 2.0], [100, 200], [10, 20]),
        (lines(*MOONCAKE), "Mooncake", [0.0, 3.0], [6758, 7322], [500, 490]),
        (
            lines(
                {"created_time": 100, "input_tokens": 5, "output_tokens": 6},
                {"created_time": 1100, "input_tokens": 7, "output_tokens": 8},
            ),
            "Mooncake",
            [0.0, 1.0],
            [5, 7],
            [6, 8],
        ),
        (OPENAI, "plain", [0.0, 2.5], [700, 1200], [90, 200]),
        (OPENAI.replace("7,", "1769000007000,").replace("9.5,", "1769000009500,"), "plain", [0.0, 2.5],
         [700, 1200], [90, 200]),
        (lines({"created": 7, "usage": {"prompt_tokens": 700, "completion_tokens": 90}},
               {"created": 9, "usage": {"prompt_tokens": 1200, "completion_tokens": 200}}),
         "OpenAI's usage", [0.0, 2.0], [700, 1200], [90, 200]),
        (lines({"timestamp": 7, "prompt_tokens": 700, "completion_tokens": 90},
               {"timestamp": 9, "prompt_tokens": 1200, "completion_tokens": 200}),
         "OpenAI's usage", [0.0, 2.0], [700, 1200], [90, 200]),
    ],
)  # fmt: skip
def test_a_trace_is_told_by_what_is_in_it(
    tmp_path: Path, text: str, form: str, arrivals: list[float], inputs: list[int], outputs: list[int]
) -> None:
    workload, log = workload_of(written(tmp_path, text))
    assert log.form == form
    assert np.allclose(workload.arrival_s, arrivals)
    assert workload.input_tokens.tolist() == inputs
    assert workload.output_tokens.tolist() == outputs


def test_what_a_trace_leaves_out_is_said(tmp_path: Path) -> None:
    assert any("1 of 3 requests have no output" in note for note in workload_of(written(tmp_path, BURST_GPT))[0].notes)
    assert any("sorted" in note for note in workload_of(written(tmp_path, VIDUR))[0].notes)
    assert any("upper bound" in note for note in workload_of(written(tmp_path, lines(*MOONCAKE)))[0].notes)


def seconds_as_mooncakes(folder: Path, gap: float) -> Path:
    """A log by Mooncake's names, whose requests come ``gap`` apart."""
    return written(
        folder, lines(*({"timestamp": gap * at, "input_length": 90, "output_length": 9} for at in range(41)))
    )


def test_a_unit_that_nobody_gave_is_doubted_and_one_that_somebody_gave_is_not(tmp_path: Path) -> None:
    workload, _ = workload_of(seconds_as_mooncakes(tmp_path, 0.25))
    assert workload.doubts == ("timestamps read as ms: 4,000 requests/s; in seconds? --time-unit s",)
    given, _ = workload_of(seconds_as_mooncakes(tmp_path, 0.25), time_unit="s")
    assert given.rate == pytest.approx(4.0)
    assert given.doubts == workload_of(seconds_as_mooncakes(tmp_path, 250.0))[0].doubts == ()
    slow = "timestamp,input_tokens,output_tokens\n" + "".join(f"{250 * at},9,9\n" for at in range(41))
    assert workload_of(written(tmp_path, slow))[0].doubts == (
        "timestamps read as s: 0.004 requests/s; in milliseconds? --time-unit ms",
    )
    assert workload_of(written(tmp_path, slow), time_unit="ms")[0].rate == pytest.approx(4.0)


def test_a_unit_has_no_effect_where_the_file_says_it(tmp_path: Path) -> None:
    with refused("--time-unit"):
        workload_of(written(tmp_path, AZURE), time_unit="ms")


@pytest.mark.parametrize("arrival", [None, 5.0])
def test_a_rate_paces_requests_that_have_no_arrivals(tmp_path: Path, arrival: float | None) -> None:
    """All at once, as they were taken before, the mean wait for the first token is thirty times as long."""
    came = {} if arrival is None else {"arrival_s": [arrival] * 200}
    columns = {**came, "input_tokens": [300] * 200, "output_tokens": [20] * 200}
    rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    path = written(tmp_path, f"{','.join(columns)}\n{rows}\n")
    load = Load(workload=path, rate=4.0).arrives(0).at_rate(4.0)
    assert load.rate == pytest.approx(4.0)
    assert load.dispersion == pytest.approx(1.0, abs=0.6)
    with refused("--rate"):
        Load(workload=path).arrives(0)


def bench(**more: object) -> dict[str, object]:
    return {
        "input_lens": [10, 20, 30],
        "output_lens": [3, 2, 0],
        "ttfts": [0.1, 0.2, 0.0],
        "itls": [[0.01, 0.03], [0.05], []],
        "errors": ["", "", "boom"],
        **more,
    }


def test_a_benchmark_of_vllm_has_its_times_and_counts_its_failures(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, json.dumps(bench(start_times=[7.0, 8.5, 9.0]))))
    assert log.form == "vLLM bench serve"
    assert log.arrival_s is not None
    assert log.arrival_s.tolist() == [7.0, 8.5]
    assert log.notes == ("1 of 3 requests failed: left out",)


def test_a_benchmark_without_starts_has_what_was_in_flight_or_asks(tmp_path: Path) -> None:
    workload, _ = workload_of(written(tmp_path, json.dumps(bench(max_concurrency=2, accept_length=2.5))))
    assert workload.concurrency == 2
    assert workload_of(written(tmp_path, json.dumps(bench())))[0].concurrency is None


def test_a_table_without_arrivals_names_their_column(tmp_path: Path) -> None:
    load = Load(workload=written(tmp_path, "input_tokens,output_tokens\n100,20\n"))
    with pytest.raises(InputError, match="give --rate, or a column arrival_s or timestamp"):
        load.arrives(0)


def test_aiperfs_records(tmp_path: Path) -> None:
    def record(start: int, ttft: float, whole: float) -> dict[str, object]:
        values = {"time_to_first_token": ttft, "request_latency": whole}
        metrics: dict[str, object] = {name: {"value": value, "unit": "ms"} for name, value in values.items()}
        metrics |= {"input_sequence_length": {"value": 50, "unit": "tokens"}}
        metrics |= {"output_sequence_length": {"value": 11, "unit": "tokens"}}
        return {"metadata": {"request_start_ns": start}, "metrics": metrics, "error": None}

    log = read_log(written(tmp_path, lines(record(0, 30.0, 130.0), record(2_000_000_000, 40.0, 240.0))))
    assert log.form == "AIPerf"
    assert log.arrival_s is not None
    assert log.arrival_s.tolist() == [0.0, 2.0]


def test_a_part_of_a_log_at_another_pace(tmp_path: Path) -> None:
    rows = "".join(f"{second},{100 + second},10\n" for second in range(20))
    path = written(tmp_path, "arrival_s,input_tokens,output_tokens\n" + rows)
    workload, _ = workload_of(path, LogSelection(5.0, 15.0, 4, 2.0))
    assert workload.input_tokens.tolist() == [105, 106, 107, 108]
    assert np.allclose(workload.arrival_s, [0.0, 0.5, 1.0, 1.5])


DETAILED = {"input_lens": [1], "output_lens": [2]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no known columns"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request in it"),
        ("arrival_s,input_tokens,output_tokens\n0,1,x\n", "line 2: output_tokens must be a number"),
        ("arrival_s,input_tokens,output_tokens\n0,1,0\n", "no request with input and output"),
        ("arrival_s,input_tokens,output_tokens\n0,1,5\n1e9,1,5\n", "another unit"),
        ('{"x": 1}', "no log of requests that is known"),
        (json.dumps({"input_lens": [1], "output_lens": "x"}), "output_lens: must be a list"),
        (lines({"input_lens": [1], "output_lens": [1, 2]}), "output_lens has 2 requests, input_lens 1"),
        (lines({**DETAILED, "errors": 5}), "errors: must be a list, got 5"),
        (
            '{"input_lens": [1], "output_lens": [1], "max_concurrency": 1e400}',
            "max_concurrency: must be a finite",
        ),
        (lines({"input_lens": [10**400], "output_lens": [1]}), "input_lens.0: must be at most"),
        (lines({"input_lens": [1e300], "output_lens": [1]}), "input_lens.0: must be at most"),
        (lines({"metrics": [], "metadata": {}}), "record 1: metrics: must be"),
        (lines({"metrics": {}, "metadata": 3}), "record 1: metadata: must be"),
        (lines({"conversations": 7}), "record 1: conversations: must be a list, got 7"),
        (lines({"conversations": [7, 8]}), "record 1: conversations.0: must be"),
        (lines({"input_length": "5x", "output_length": 3}), "record 1: input_length: must be a number"),
        ("TIMESTAMP;ContextTokens;GeneratedTokens\n1;2;3\n", "parted by semicolons; write them with commas"),
        ("arrival_s,input_tokens,output_tokens\n0,1e300,5\n", "input tokens must be at most 1e"),
        ("arrival_s,input_tokens,output_tokens\ninf,1,5\n", "arrivals must be at most 1e"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        workload_of(written(tmp_path, text))


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ({"model_id": "llama-3.1-8b"}, "--save-detailed"),
        ({"total_output_tokens_retokenized": 90}, "--output-details"),
        ({"request_latency": {"avg": 1.0}, "output_sequence_length": {"avg": 9.0}}, "--export-level records"),
    ],
)
def test_a_benchmark_of_sums_names_the_flag_that_it_lacks(tmp_path: Path, sums: dict[str, object], said: str) -> None:
    with refused(said):
        workload_of(written(tmp_path, json.dumps({"mean_tpot_ms": 9.0, "total_output_tokens": 90, **sums})))


def test_guidellms_requests_are_a_log(tmp_path: Path) -> None:
    requests = [
        {
            "request_start_time": 100.0 + start,
            "prompt_tokens": 94,
            "output_tokens": 16,
            "time_to_first_token_ms": 50.0,
            "inter_token_latency_ms": 10.0,
            "request_latency": 0.2,
        }
        for start in (0.0, 0.2)
    ]
    report = {
        "metadata": {"guidellm_version": "0.8.1"},
        "config": {"spec": {"backend": {"model": "llama-3.1-8b"}}},
        "benchmarks": [{"requests": {"successful": requests}}],
    }
    workload, _ = workload_of(written(tmp_path, json.dumps(report)))
    assert workload.arrival_s.tolist() == pytest.approx([0.0, 0.2])


CONVERSATIONS = [
    {"id": "a", "conversations": [{"from": "human", "value": "one two three four five"}, {"value": "six " * 30}]},
    {"id": "b", "conversations": [{"from": "human", "value": "too short"}, {"value": "seven " * 9}]},
    {"id": "c", "conversations": [{"from": "human", "value": "one " * 1025}, {"value": "nine " * 9}]},
    {"id": "d", "conversations": [{"from": "human", "value": "nobody answers this one at all"}]},
    {"id": "e", "conversations": [{"from": "human", "value": "one " * 1000}, {"value": "ten " * 1048}, {"value": "x"}]},
]


def words(folder: Path) -> Path:
    """A tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_conversations_have_the_lengths_that_a_tokenizer_counts(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, json.dumps(CONVERSATIONS)), words(tmp_path))
    assert log.form == "ShareGPT"
    assert log.arrival_s is None
    assert log.input_tokens.tolist() == [5, 1000]
    assert log.output_tokens.tolist() == [30, 1048]
    assert log.notes == ("3 of 5 conversations are too short or too long: left out, as vLLM does",)


def test_conversations_need_a_tokenizer(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(CONVERSATIONS))
    with refused("--tokenizer"):
        read_log(path)
    (tmp_path / "other.json").write_text('{"model": {"type": "Unknown"}}')
    with refused("other.json"):
        read_log(path, tmp_path / "other.json")
    (tmp_path / "other.json").write_text("{}")
    with refused("tokenizer.json"):
        read_log(path, tmp_path / "other.json")


def test_answers_in_a_response_are_those_of_their_usage(tmp_path: Path) -> None:
    """As OpenAI's batches and some gateways write them."""
    answers = [{"created": 100 + at, "usage": {"prompt_tokens": 10 + at, "completion_tokens": 5}} for at in range(3)]
    for name, wrapped in (
        ("batch", [{"custom_id": "a", "response": {"status_code": 200, "body": each}} for each in answers]),
        ("gateway", [{"request": {"model": "m"}, "response": each} for each in answers]),
    ):
        path = tmp_path / name
        path.write_text(lines(*wrapped))
        log = read_log(path)
        assert (log.form, log.input_tokens.tolist()) == ("OpenAI's usage", [10.0, 11.0, 12.0])
        assert log.arrival_s is not None
        assert log.arrival_s.tolist() == [100.0, 101.0, 102.0]


def test_a_log_of_another_kind_is_refused_by_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pasted"
    path.write_text("============ Serving Benchmark Result ============\nSuccessful requests:   64\n")
    with pytest.raises(InputError, match="a console report of a serving benchmark: its JSON has more"):
        read_log(path)
