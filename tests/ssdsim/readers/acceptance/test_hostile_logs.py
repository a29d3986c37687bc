"""Logs that no engine wrote: numbers that would be the lengths of arrays, text in their place, food for a regex."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import PairLabels, import_acceptance

POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos{position="%s"} 1\n'
COUNTERS = (
    "vllm:spec_decode_num_drafts 9\nvllm:spec_decode_num_draft_tokens 9\nvllm:spec_decode_num_accepted_tokens 1\n"
)
LINE = "SpecDecoding metrics: Mean acceptance length: %s, Accepted: 5 tokens, Drafted: %s tokens"
PRINTED = "Counter(name='vllm:spec_decode_num_drafts', labels={}, value=%s)"
SSD = """[metrics] Avg Tokens per step (incl recovery): %s
[metrics] Avg Cache Hits: 0.9
Empirical frequencies of accepted_suffix_lens_on_hit - 1:
  0: 0.5
  %s: 0.5
Speculative(k=%s)
"""
DIGITS = "9" * 5000


def read(engine: str, text: str, folder: Path) -> None:
    path = folder / "log.txt"
    path.write_text(text)
    import_acceptance(engine, [path], {}, ImportOptions(since_start=True, sampled=True), PairLabels())


@pytest.mark.parametrize(
    ("engine", "text", "said"),
    [
        ("transformers", "[1,0,99999999999]", "accepted: 2: must be at most 1000"),
        ("transformers", '{"accepted": [1], "drafted": [99999999999]}', "drafted: 0: must be at most"),
        ("transformers", "accepted\n99999999999\n", "accepted: must be at most 1000"),
        ("transformers", f"accepted\n{DIGITS}\n", "accepted: "),
        ("transformers", "accepted\nx\n", "accepted: must be a whole number"),
        ("ssd", SSD % ("2.0", "999999999999", "6"), "must be at most 1000"),
        ("ssd", SSD % ("2.0", "1", "999999999999"), "k: must be at most 1000"),
        ("ssd", SSD % ("2.0", "1", DIGITS), "k: "),
        ("ssd", SSD % ("1.2.3", "1", "6"), "length: must be a number"),
        ("vllm", COUNTERS + POSITION % "100000000", "position: must be at most 1000"),
        ("vllm", COUNTERS + POSITION % "abc", "position: must be a whole number"),
        ("vllm", PRINTED % "1.2.3", "value: must be a number"),
        ("vllm", PRINTED % "[1, 2.3.4]", "values.1: must be a number"),
        ("vllm", json.dumps({"name": "vllm:spec_decode_num_drafts", "labels": [1], "value": 3}), "labels: "),
        ("vllm", json.dumps({"name": "vllm:spec_decode_num_drafts", "values": [[1]]}), "values.0: must be"),
        ("vllm", json.dumps({"name": "vllm:spec_decode_num_drafts", "values": [1] * 2000}), "at most 1000 items"),
        ("vllm", LINE % ("1.2.3", "9"), "length: must be a number"),
        ("vllm", LINE % ("1.5", DIGITS), "drafted: "),
        ("vllm", LINE % ("1.000000001", "9000000000000"), "at most 1000 are read"),
        ("vllm", "Speculative metrics: speculative tokens: 99999, draft tokens: 9", "k: must"),
        ("sglang", "Decode batch. #running-req: 1, accept len: 1.2.3", "length: must be a number"),
        ("sglang", f"Decode batch. #running-req: {DIGITS}, accept len: 2.3", "running: "),
        ("sglang", '{"spec_accept_histogram": {"99999999": 1}, "spec_verify_ct": 1}', "at most 1000"),
        ("sglang", '{"spec_verify_ct": 1, "spec_num_correct_drafts": 1, "spec_num_proposed_drafts": 9e9}', "most 1000"),
        ("sglang", '{"avg_spec_accept_length": 2.0, "speculative_num_steps": 1e12}', "at most 1000"),
        ("aiperf", '{"spec_decode_acceptance": {"acceptance_histogram_by_draft_length": {"9999999": [1]}}}', "1000"),
        ("aiperf", '{"pooled_spec_decode_acceptance_histogram": {"9999": 1}}', "at most 1000"),
        ("aiperf", '{"spec_decode_acceptance": {"num_spec_steps": 1, "num_spec_tokens": 1e14}}', "at most 1000"),
        ("llama-cpp", "draft acceptance = 1.2 (5 accepted / 9 generated), mean acceptance length = 1.2.3", "length: "),
        ("llama-cpp", f"draft acceptance = 1.2 ({DIGITS} accepted / 9 generated)", "accepted: "),
        ("llama-cpp", f"eval time = 1.0 ms / {DIGITS} tokens\ndraft acceptance = 1 (1 accepted / 2 generated)", "tok"),
        ("llama-cpp", f"n_drafted = 9\nn_accept = {DIGITS}", "n_accept: "),
        ("llama-cpp", "n_drafted = 9\nn_accept = 3\nn_draft = 99999999999", "n_draft: must be at most"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_one_line(engine: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(engine, text, tmp_path)
    assert said in str(error.value)
    assert len(str(error.value)) < 400


SIZE = 300_000
REPEATED = (
    "Counter(name='vllm:spec_decode_num_x', labels={",
    "Counter(name='vllm:spec_decode_num_x', labels={}, values=[",
    "Counter(name='vllm:spec_decode_num_x', labels={'a': '",
    "SpecDecoding metrics: Mean acceptance length: ",
    'vllm:spec_decode_num_drafts{a="',
    "Decode batch",
    "Decode batch #running-req: 1",
    "Decode batch #running-req: 1 accept len: ",
    "Avg Tokens per step (incl recovery): 1.0 Empirical frequencies of accepted_suffix_lens_on_hit - 1:\n",
    "1: 1\n",
    "1: 1 ",
    "Model: \n",
    "\n",
    " \n",
    "a",
    "1",
    " ",
    "draft acceptance = 1 (",
    "eval time =  ",
    "n_drafted ",
    "task ",
    "Speculative(k=",
)


BEFORE = {
    "vllm": COUNTERS + "vllm:spec_decode_num_drafts{",
    "sglang": "Decode batch. ",
    "ssd": SSD % ("2.0", "1", "6"),
    "llama-cpp": "n_drafted = 9\n",
}
"""What has the engine's reader take the rest for its own."""


@pytest.mark.long
@pytest.mark.parametrize("engine", BEFORE)
@pytest.mark.parametrize("repeated", REPEATED)
def test_a_long_text_that_suits_a_regular_expression_ends(repeated: str, engine: str, tmp_path: Path) -> None:
    """Where one of them takes the square of what it reads, this takes hours."""
    text = repeated * (SIZE // len(repeated)) + "x"
    for before in ("", BEFORE[engine]):
        with suppress(InputError):
            read(engine, before + text, tmp_path)
