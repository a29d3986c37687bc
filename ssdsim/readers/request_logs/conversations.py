"""Lengths of conversations (ShareGPT), as vLLM's benchmark samples them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, BaseModel, Field, field_validator

from ssdsim.base.documents import as_records, read_json
from ssdsim.base.errors import InputError
from ssdsim.readers.request_logs.log import RequestLog

LEAST, MOST_PROMPT, MOST = 4, 1024, 2048
"""Tokens of a prompt and of an answer at least, of a prompt at most, of both at most: vLLM's filter."""


def read_conversations(records: Sequence[Mapping[str, Any]], where: str, tokenizer: Path | None) -> RequestLog:
    """A request a conversation: its first turn is the prompt, the second one the answer. They have no arrivals."""
    read = as_records(_Conversation, dict(enumerate(records, 1)), where, "conversation")
    texts = [turn.text for each in read if len(each.conversations) == 2 for turn in each.conversations]
    if not texts:
        raise InputError(f"{where}: no conversation of two turns in it")
    lengths = np.array(_counted(texts, where, tokenizer), dtype=float).reshape(-1, 2)
    prompts, answers = lengths.T
    keep = (prompts >= LEAST) & (answers >= LEAST) & (prompts <= MOST_PROMPT) & (prompts + answers <= MOST)
    if not keep.any():
        raise InputError(f"{where}: every conversation is shorter or longer than vLLM's benchmark takes")
    out = len(records) - int(keep.sum())
    notes = [f"{out} of {len(records)} conversations are too short or too long: left out, as vLLM does"] if out else []
    return RequestLog("ShareGPT", None, prompts[keep], answers[keep], notes=tuple(notes))


class _Turn(BaseModel, frozen=True):
    """Turn of one of the two, under one of two names."""

    text: Annotated[str, Field(validation_alias=AliasChoices("value", "content"))]


class _Conversation(BaseModel, frozen=True):
    conversations: tuple[_Turn, ...] = ()

    @field_validator("conversations", mode="before")
    @classmethod
    def _prompt_and_answer(cls, value: Any) -> Any:
        return value[:2] if isinstance(value, list) else value or ()


def _counted(texts: Sequence[str], where: str, tokenizer: Path | None) -> list[int]:
    if tokenizer is None:
        raise InputError(f"{where}: conversations are text; give the model's --tokenizer tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError("--tokenizer needs tokenizers: pip install 'ssdsim[measure]'") from None
    data = read_json(tokenizer, "tokenizer")
    if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
        raise InputError(f"--tokenizer {tokenizer}: no tokenizer.json of Hugging Face (it has no model)")
    try:
        encoder = Tokenizer.from_str(json.dumps(data))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"--tokenizer {tokenizer}: no tokenizer that can be read ({error})") from None
    return [len(each.ids) for each in encoder.encode_batch(list(texts))]
