"""A server as it describes itself, the API that it is asked in, and a streamed answer with its times.

SGLang states a request's rounds only in its own API, so it is asked in that; other engines in OpenAI's.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from calibration.bench.connection import Connection
from ssdsim.base.card import Excerpt, OneLine
from ssdsim.base.documents import as_record, within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import MutableRecord, Record, field
from ssdsim.readers.acceptance.fields import JsonObject, count

ENGINES: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "tensorrt-llm",
}
"""Engines by what their servers say who owns the models."""

_INFO = ("/server_info", "/get_server_info")  # SGLang's, under its new and its old name
_PROPS = "/props"  # llama.cpp's
_VERSION = "/version"
_LISTED = 20  # models of a complaint
_CACHED = ("cached_tokens",)
Name = Annotated[OneLine, Meta(max_length=500)]
Prompt = str | Sequence[int]
"""Text, or ids of tokens."""


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
    where = f"{connection.at}/v1/models"
    model = _chosen([as_record(_Model, each, where, "model") for each in models], served, connection.at)
    engine = ENGINES.get(model.owned_by or "", model.owned_by or "")
    settings = await _settings(connection) if engine == "sglang" else {}
    said = as_record(_Settings, settings, f"{connection.at}{_INFO[0]}", "server")
    version = said.version or await _version(connection, engine)
    return Server(engine, version, model.id, said.model_path or model.root, settings)


class _Model(Excerpt):
    """A model that a server lists."""

    id: Name
    owned_by: Name | None = None
    root: Name | None = None


class _Settings(Excerpt):
    """What a server says of itself, under the names of SGLang's settings or llama.cpp's properties."""

    version: Name | None = None
    build_info: Name | None = None
    model_path: Name | None = None


def _chosen(models: list[_Model], served: str | None, at: str) -> _Model:
    by_name = {each.id: each for each in models}
    if served is None and len(by_name) > 1:
        raise InputError(f"{at}: serves {len(by_name)} models; choose one by --served: {_some(by_name)}")
    if served is not None and served not in by_name:
        raise InputError(f"{at}: serves no '{served}'{nearest(served, by_name)} Allowed: {_some(by_name)}")
    return by_name[served] if served is not None else models[0]


def _some(names: Collection[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join([*islice(names, _LISTED), *([f"... ({more} more)"] if more > 0 else [])])


async def _settings(connection: Connection) -> Mapping[str, Any]:
    for path in _INFO:
        settings = await connection.json(path)
        if isinstance(settings, Mapping):
            return settings
    return {}


async def _version(connection: Connection, engine: str) -> str:
    for path in (_PROPS, _VERSION) if engine == "llama.cpp" else (_VERSION,):
        page = await connection.json(path)
        if isinstance(page, Mapping):
            said = as_record(_Settings, page, f"{connection.at}{path}", "server")
            if version := said.build_info or said.version:
                return version
    return ""


class StreamTotals(MutableRecord):
    """Token counts of an answer up to now; ``own`` is the engine's part, with its rounds."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    own: JsonObject = field(default_factory=dict)

    def add(self, said: JsonObject, where: str) -> None:
        """Keep the counts that a message has; earlier ones stay where it has none."""
        tokens, prompt_tokens = (count(said, (name,), where) for name in ("completion_tokens", "prompt_tokens"))
        self.tokens = self.tokens if tokens is None else tokens
        self.prompt_tokens = self.prompt_tokens if prompt_tokens is None else prompt_tokens


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

    def read(self, message: JsonObject, totals: StreamTotals, where: str) -> bool:
        """Add a message's counts to ``totals``; returns whether it brought a part of the answer.

        Token counts come with the last message.
        """
        usage = message.get("usage")
        if isinstance(usage, Mapping):
            totals.add(usage, where)
            details = usage.get("prompt_tokens_details")
            totals.cached_tokens = (count(details, _CACHED, where) or 0) if isinstance(details, Mapping) else 0
        if isinstance(message.get("timings"), Mapping):  # llama.cpp
            totals.own = message["timings"]
        choices = message.get("choices")
        return isinstance(choices, list) and bool(choices)


class SGLang:
    """``/generate``: each message has the whole of what is known of its request (``meta_info``)."""

    path = "/generate"

    def body(self, server: Server, prompt: Prompt, tokens: int, temperature: float) -> Mapping[str, Any]:
        """A request for exactly ``tokens`` tokens, streamed."""
        said = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        sampling = {"max_new_tokens": tokens, "temperature": temperature, "ignore_eos": True}
        return {**said, "sampling_params": sampling, "stream": True}

    def read(self, message: JsonObject, totals: StreamTotals, where: str) -> bool:
        """As OpenAI's; tokens are counted from the answer's start."""
        own = message.get("meta_info")
        if not isinstance(own, Mapping):
            return False
        before = totals.tokens or 0
        totals.add(own, where)
        totals.cached_tokens = count(own, _CACHED, where) or 0
        totals.own = own
        return (totals.tokens or 0) > before


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
    totals = StreamTotals()
    came: list[float] = []

    def read(moment: float, message: JsonObject) -> bool:
        if more := dialect.read(message, totals, f"{connection.at}{dialect.path}"):
            came.append(moment)
        return more

    sent = time.perf_counter()
    await connection.stream(dialect.path, dialect.body(server, prompt, tokens, temperature), tokens, read)
    if totals.tokens is None or not totals.prompt_tokens:
        raise InputError(
            f"{connection.at}: does not say how many tokens a prompt and an answer have (stream_options.include_usage)"
        )
    if not came or totals.tokens < tokens:
        raise InputError(
            f"{connection.at}: an answer has {totals.tokens} of the {tokens} tokens that were asked for: the server "
            "does not know ignore_eos, or the prompt leaves no room for more"
        )
    return TimedAnswer(
        sent, tuple(came), totals.tokens, totals.prompt_tokens, totals.cached_tokens, measured, totals.own
    )
