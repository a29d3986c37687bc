"""Prompts and answers as data sets, engines and benchmarks write them: JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.base.documents import parse_json, read_text
from ssdsim.base.errors import InputError
from ssdsim.base.parquet import read_table
from ssdsim.base.record import Record

Message = Mapping[str, str]

_TEXTS = ("prompt", "text", "question")
_FIELDS = (*_TEXTS, "turns", "messages", "conversations", "prompt_ids", "prompt_token_ids")
_SETS = ("category", "dataset")
_NAMES = ("question_id", "task_id", "id")
_ANSWER_IDS = ("output_ids", "token_ids", "output_token_ids")
_ANSWER_TEXTS = ("response", "output", "answer_text", "generated_text")
_KNOWN = (*_FIELDS, *_SETS, *_NAMES, *_ANSWER_IDS, *_ANSWER_TEXTS, "choices")
_MOST_ROWS, _ROWS_AT_ONCE = 1_000_000, 1_024
_ROLES = {"human": "user", "gpt": "assistant"}


class Prompt(Record):
    """A request: token ids, a text or messages to make them of, and the answer where there is one."""

    name: str
    data_set: str
    text: str | None = None
    messages: tuple[Message, ...] | None = None
    ids: tuple[int, ...] | None = None
    answer_ids: tuple[int, ...] | None = None
    answer: str | None = None


def read_prompts(path: Path, data_set: str | None, answers: bool = False) -> list[Prompt]:
    """The prompts of a file; ``data_set`` names them all, else their own category or the file does.

    A line has one of ``prompt`` (vLLM, HumanEval), ``text``, ``question`` (GSM8K), ``turns`` (MT-Bench, Spec-Bench,
    SPEED-Bench: the first one), ``messages`` (OpenAI), ``conversations`` (ShareGPT). With ``answers`` also
    ``output_ids`` or ``response``.
    """
    prompts = [
        _prompt(record, f"{path}: line {number}", data_set, path.stem, number, answers)
        for number, record in _records(path)
    ]
    if not prompts:
        raise InputError(f"{path}: no prompts")
    return prompts


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if path.suffix == ".parquet":
        table = read_table(path, _KNOWN, _MOST_ROWS)
        if not {*_FIELDS} & {*table.column_names}:
            raise InputError(f"{path}: no prompts: needs a column {', '.join(_FIELDS)}")
        yield from enumerate((row for some in table.to_batches(_ROWS_AT_ONCE) for row in some.to_pylist()), start=1)
        return
    for number, line in enumerate(read_text(path, "file of prompts").splitlines(), start=1):
        if line.strip():
            record = parse_json(line, f"{path}: line {number}")
            if not isinstance(record, dict):
                raise InputError(f"{path}: line {number}: must be a JSON object")
            yield number, record


def _prompt(
    record: Mapping[str, Any], where: str, data_set: str | None, stem: str, number: int, answers: bool
) -> Prompt:
    field = next((name for name in _FIELDS if record.get(name)), None)
    if field is None:
        raise InputError(f"{where}: no prompt: needs one of {', '.join(_FIELDS)}")
    own = next((str(record[name]) for name in _SETS if record.get(name)), stem)
    name = next((str(record[name]) for name in _NAMES if record.get(name) is not None), str(number))
    answer_ids, answer = _answer(record, where) if answers else (None, None)
    about: dict[str, Any] = {"name": name, "data_set": data_set or own, "answer_ids": answer_ids, "answer": answer}
    value = record[field]
    if field in ("prompt_ids", "prompt_token_ids"):
        return Prompt(ids=_ids(value, where), **about)
    if isinstance(value, str):
        return Prompt(text=value, **about)
    if field == "prompt" and isinstance(value, list) and all(type(each) is int for each in value):
        return Prompt(ids=_ids(value, where), **about)
    return Prompt(messages=_messages(field, value, where), **about)


def _messages(field: str, value: Any, where: str) -> tuple[Message, ...]:
    """The messages until the first that the model itself wrote."""
    if not isinstance(value, list | tuple):
        raise InputError(f"{where}: {field} must be a text or a list")
    if field == "turns" and isinstance(value[0], str):
        return ({"role": "user", "content": value[0]},)
    messages: list[Message] = []
    for each in value:
        if not isinstance(each, Mapping):
            raise InputError(f"{where}: {field} must hold objects with a role and a content")
        role = str(each.get("role", each.get("from", "user")))
        content = each.get("content", each.get("value"))
        if not isinstance(content, str):
            raise InputError(f"{where}: {field}: a message without text")
        role = _ROLES.get(role, role)
        if role == "assistant" and any(message["role"] == "user" for message in messages):
            break
        messages.append({"role": role, "content": content})
    if not messages:
        raise InputError(f"{where}: {field} holds no message of a user")
    return tuple(messages)


def _answer(record: Mapping[str, Any], where: str) -> tuple[tuple[int, ...] | None, str | None]:
    for name in _ANSWER_IDS:
        if record.get(name) is not None:
            return _ids(record[name], where), None
    for name in _ANSWER_TEXTS:
        if isinstance(record.get(name), str):
            return None, record[name]
    choices = record.get("choices")  # of OpenAI's API, as vLLM and SGLang save it
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        first = choices[0]
        if first.get("token_ids"):
            return _ids(first["token_ids"], where), None
        message = first.get("message")
        text = message.get("content") if isinstance(message, Mapping) else first.get("text")
        if isinstance(text, str):
            return None, text
    raise InputError(f"{where}: no answer: needs output_ids (token ids) or response (text)")


def _ids(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or not all(type(each) is int and each >= 0 for each in value):
        raise InputError(f"{where}: token ids must be whole numbers")
    return tuple(value)
