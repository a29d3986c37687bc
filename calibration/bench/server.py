"""A server as it describes itself, the API that it is asked in, and a streamed answer with its times.

SGLang states a request's rounds only in its own API, so it is asked in that; other engines in OpenAI's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibration.bench.connection import Connection
from ssdsim.base.documents import within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.readers.acceptance.fields import JsonObject, text_in

ENGINES: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "tensorrt-llm",
}
"""Engines by what their servers say who owns the models."""

_INFO = ("/server_info", "/get_server_info")  # SGLang's, under its new and its old name
_PROPS = "/props"  # llama.cpp's
Prompt = str | Sequence[int]
"""Text, or ids of tokens."""
_OTHER_MESSAGES = 100  # than those with tokens: a role, a count, what keeps the connection open


class Server(Record):
    """``served`` is the model's name in requests, ``loaded`` its origin if the server states one.

    ``settings`` are empty but for SGLang, which lists them.
    """

    engine: str
    version: str
    served: str
    loaded: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


async def discover(connection: Connection, served: str | None) -> Server:
    """The server at the address, with the model called ``served`` (its only one by default).

    Raises
    ------
    InputError : it lists no models, or several of which none is named, or not that one.
    """
    listed = within(await connection.json("/v1/models"), "data")
    models = [each for each in listed if within(each, "id")] if isinstance(listed, list) else []
    if not models:
        raise InputError(f"{connection.at}: lists no models at /v1/models: not a server with OpenAI's API")
    model = _chosen(models, served, connection.at)
    engine = ENGINES.get(str(model.get("owned_by")), str(model.get("owned_by") or ""))
    settings = await _settings(connection) if engine == "sglang" else {}
    version = await _version(connection, engine, settings)
    loaded = text_in(settings.get("model_path")) or text_in(model.get("root"))
    return Server(engine, version, str(model["id"]), loaded, settings)


def _chosen(models: list[Mapping[str, Any]], served: str | None, at: str) -> Mapping[str, Any]:
    by_name = {str(each["id"]): each for each in models}
    if served is None and len(by_name) > 1:
        raise InputError(f"{at}: serves {len(by_name)} models; choose one by --served: {', '.join(by_name)}")
    if served is not None and served not in by_name:
        raise InputError(f"{at}: serves no '{served}'{nearest(served, by_name)} Allowed: {', '.join(by_name)}")
    return by_name[served] if served is not None else models[0]


async def _settings(connection: Connection) -> Mapping[str, Any]:
    for path in _INFO:
        settings = await connection.json(path)
        if isinstance(settings, Mapping):
            return settings
    return {}


async def _version(connection: Connection, engine: str, settings: Mapping[str, Any]) -> str:
    said = text_in(settings.get("version"))
    if said is None and engine == "llama.cpp":
        said = text_in(within(await connection.json(_PROPS), "build_info"))
    if said is None:
        said = text_in(within(await connection.json("/version"), "version"))
    return said or ""


class StreamTotals(MutableRecord):
    """Token counts of an answer up to now; ``own`` is the engine's part, with its rounds."""

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

    def read(self, message: JsonObject, totals: StreamTotals) -> bool:
        """Add a message's counts to ``totals``; returns whether it brought a part of the answer.

        Token counts come with the last message.
        """
        usage = message.get("usage")
        if isinstance(usage, Mapping):
            totals.tokens = usage.get("completion_tokens", totals.tokens)
            totals.prompt_tokens = usage.get("prompt_tokens", totals.prompt_tokens)
            details = usage.get("prompt_tokens_details")
            totals.cached_tokens = (details.get("cached_tokens") or 0) if isinstance(details, Mapping) else 0
        if isinstance(message.get("timings"), Mapping):  # llama.cpp
            totals.own = message["timings"]
        return bool(message.get("choices"))


class SGLang:
    """``/generate``: each message has the whole of what is known of its request (``meta_info``)."""

    path = "/generate"

    def body(self, server: Server, prompt: Prompt, tokens: int, temperature: float) -> Mapping[str, Any]:
        """A request for exactly ``tokens`` tokens, streamed."""
        said = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        sampling = {"max_new_tokens": tokens, "temperature": temperature, "ignore_eos": True}
        return {**said, "sampling_params": sampling, "stream": True}

    def read(self, message: JsonObject, totals: StreamTotals) -> bool:
        """As OpenAI's; tokens are counted from the answer's start."""
        own = message.get("meta_info")
        if not isinstance(own, Mapping):
            return False
        more = (own.get("completion_tokens") or 0) > (totals.tokens or 0)
        totals.tokens = own.get("completion_tokens", totals.tokens)
        totals.prompt_tokens = own.get("prompt_tokens", totals.prompt_tokens)
        totals.cached_tokens = own.get("cached_tokens") or 0
        totals.own = own
        return more


Dialect = OpenAI | SGLang


def dialect_of(server: Server) -> Dialect:
    """The API in which the server states most."""
    return SGLang() if server.engine == "sglang" else OpenAI()


class TimedAnswer(Record):
    """A streamed answer: ``sent_s`` and ``came_s`` are times of the request and of each message with a part of it.

    ``measured``: the point's number of requests was in flight from its start to its end. ``own`` is the engine's part.
    """

    sent_s: float
    came_s: tuple[float, ...]
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    measured: bool
    own: JsonObject

    @property
    def tpot_s(self) -> float:
        """Seconds a token after the first one."""
        return (self.came_s[-1] - self.came_s[0]) / (self.tokens - 1)

    @property
    def ttft_s(self) -> float:
        return self.came_s[0] - self.sent_s

    @property
    def whole_s(self) -> float:
        return self.came_s[-1] - self.sent_s

    @property
    def gaps_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Gaps between messages; each message has the tokens of a step, or of several that the network joined."""
        return np.diff(np.array(self.came_s))


async def timed_answer(
    connection: Connection,
    dialect: Dialect,
    server: Server,
    prompt: Prompt,
    tokens: int,
    temperature: float,
    measured: bool,
) -> TimedAnswer:
    """Send a request and read the answer to its end.

    Raises
    ------
    InputError : the server refuses, cuts the answer short, or does not say how many tokens it has.
    """
    totals, came = StreamTotals(), []
    sent = time.perf_counter()
    messages = 0
    async for moment, message in connection.messages(dialect.path, dialect.body(server, prompt, tokens, temperature)):
        messages += 1
        if messages > tokens + _OTHER_MESSAGES:
            raise InputError(f"{connection.at}: an answer goes on after the {tokens} tokens that were asked for")
        if dialect.read(message, totals):
            came.append(moment)
    if not isinstance(totals.tokens, int) or not isinstance(totals.prompt_tokens, int):
        raise InputError(f"{connection.at}: does not say how many tokens an answer has (stream_options.include_usage)")
    if not came or totals.tokens < tokens:
        raise InputError(
            f"{connection.at}: an answer has {totals.tokens} of the {tokens} tokens that were asked for: the server "
            "does not know ignore_eos, or the prompt leaves no room for more"
        )
    return TimedAnswer(
        sent, tuple(came), totals.tokens, totals.prompt_tokens, totals.cached_tokens, measured, totals.own
    )
