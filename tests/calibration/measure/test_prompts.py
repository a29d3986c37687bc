"""Prompts as data sets and engines write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration.pairs.measure.prompts import read_prompts
from ssdsim.base.errors import InputError
from tests.refusals import refused

SPOKEN = ({"role": "user", "content": "Hello"},)
KINDS: list[tuple[dict[str, Any], str | None, Any]] = [
    ({"prompt": "def f("}, "def f(", None),
    ({"text": "Once"}, "Once", None),
    ({"question": "2 + 2?", "answer": "4"}, "2 + 2?", None),
    ({"turns": ["Hello", "And then?"]}, None, SPOKEN),
    ({"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]}, None, SPOKEN),
    ({"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]}, None, SPOKEN),
]


@pytest.mark.parametrize(("record", "text", "messages"), KINDS, ids=lambda v: next(iter(v)) if type(v) is dict else "")
def test_a_line_of_each_kind(record: dict[str, Any], text: str | None, messages: Any, tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(json.dumps({**record, "category": "chat", "question_id": 81}) + "\n\n")
    (found,) = read_prompts(file, None)
    assert (found.text, found.messages, found.data_set, found.name) == (text, messages, "chat", "81")
    assert read_prompts(file, "mine")[0].data_set == "mine"


def test_parquet_and_token_ids(tmp_path: Path) -> None:
    file = tmp_path / "speed.parquet"
    pq.write_table(pa.table({"question_id": ["a", "b"], "category": ["qa", "code"], "turns": [["One"], ["Two"]]}), file)
    assert [(p.name, p.data_set) for p in read_prompts(file, None)] == [("a", "qa"), ("b", "code")]
    ids = tmp_path / "ids.jsonl"
    ids.write_text(json.dumps({"prompt": [1, 2, 3], "output_ids": [4, 5]}))
    (found,) = read_prompts(ids, None, answers=True)
    assert (found.ids, found.answer_ids, found.data_set) == ((1, 2, 3), (4, 5), "ids")


@pytest.mark.parametrize(
    "answered",
    [
        {"response": "there"},
        {"choices": [{"text": "there"}]},
        {"choices": [{"message": {"content": "there"}}]},
    ],
)
def test_answers_as_engines_save_them(answered: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"prompt": "Hello", **answered}))
    assert read_prompts(file, None, answers=True)[0].answer == "there"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no prompts"),
        ("{", "line 1"),
        ("[1]", "must be a JSON object"),
        ('{"id": 3}', "no prompt: needs one of prompt, text"),
        ('{"prompt_ids": [1, "x"]}', "token ids must be whole numbers"),
        ('{"turns": [["x"]]}', "objects with a role and a content"),
        ('{"messages": [{"role": "user"}]}', "a message without text"),
    ],
)
def test_what_is_no_prompt_is_told(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_prompts(file, None)


def test_an_answer_that_is_missing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('{"prompt": "Hello"}')
    with refused("line 1", "output_ids"):
        read_prompts(file, None, answers=True)


def test_a_table_without_prompts_or_with_too_many_is_one_line(tmp_path: Path) -> None:
    """A small file of one text that comes again became gigabytes."""
    file = tmp_path / "asked.parquet"
    pq.write_table(pa.table({"said": ["x"]}), file)
    with refused("asked.parquet", "prompt"):
        read_prompts(file, None)
    pq.write_table(pa.table({"prompt": pa.repeat("x", 1_000_001)}), file)
    with refused("asked.parquet", "1,000,000"):
        read_prompts(file, None)
    pq.write_table(pa.table({"prompt": pa.repeat("x", 3_000), "image": pa.repeat(b"y" * 100_000, 3_000)}), file)
    assert len(read_prompts(file, None)) == 3_000
