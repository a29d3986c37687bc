"""Dialects of servers: requests and answers in OpenAI's API and in SGLang's own.

SGLang tells a request's rounds in its own API alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibration.bench.server import Server
from ssdsim.readers.acceptance.fields import JsonObject

Prompt = str | Sequence[int]
"""Text, or ids of tokens."""


@dataclass
class Told:
    """Sum of what an answer's messages said until now; ``own`` is the engine's, of its speculation among others."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    own: JsonObject = field(default_factory=dict)


class OpenAI:
    """``/v1/completions``. Beyond the standard: ``ignore_eos``, which vLLM, SGLang, TensorRT-LLM and llama.cpp know.

    ``path`` is where requests go.
    """

    path = "/v1/completions"

    def body(self, server: Server, prompt: Prompt, tokens: int, temperature: float) -> Mapping[str, Any]:
        """A request for exactly ``tokens`` tokens, streamed."""
        return {
            "model": server.served,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": tokens,
            "temperature": temperature,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def read(self, message: JsonObject, told: Told) -> bool:
        """Add to ``told`` what a message says; whether it brought a part of the answer.

        The numbers of tokens come with the last message.
        """
        usage = message.get("usage")
        if isinstance(usage, Mapping):
            told.tokens = usage.get("completion_tokens", told.tokens)
            told.prompt_tokens = usage.get("prompt_tokens", told.prompt_tokens)
            details = usage.get("prompt_tokens_details")
            told.cached_tokens = (details.get("cached_tokens") or 0) if isinstance(details, Mapping) else 0
        if isinstance(message.get("timings"), Mapping):  # llama.cpp
            told.own = message["timings"]
        return bool(message.get("choices"))


class SGLang:
    """``/generate``: each message has the whole of what is known of its request (``meta_info``)."""

    path = "/generate"

    def body(self, server: Server, prompt: Prompt, tokens: int, temperature: float) -> Mapping[str, Any]:
        """A request for exactly ``tokens`` tokens, streamed."""
        said = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        sampling = {"max_new_tokens": tokens, "temperature": temperature, "ignore_eos": True}
        return {**said, "sampling_params": sampling, "stream": True}

    def read(self, message: JsonObject, told: Told) -> bool:
        """As OpenAI's; tokens are counted from the answer's start."""
        own = message.get("meta_info")
        if not isinstance(own, Mapping):
            return False
        more = (own.get("completion_tokens") or 0) > (told.tokens or 0)
        told.tokens = own.get("completion_tokens", told.tokens)
        told.prompt_tokens = own.get("prompt_tokens", told.prompt_tokens)
        told.cached_tokens = own.get("cached_tokens") or 0
        told.own = own
        return more


Dialect = OpenAI | SGLang


def dialect_of(server: Server) -> Dialect:
    """The one that tells most."""
    return SGLang() if server.engine == "sglang" else OpenAI()
