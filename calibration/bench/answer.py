"""One streamed answer and its times."""

from __future__ import annotations

import time

import numpy as np

from calibration.bench.connection import Connection
from calibration.bench.dialects import Dialect, Prompt, Told
from calibration.bench.server import Server
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.readers.acceptance.fields import JsonObject

_OTHER_MESSAGES = 100  # than those with tokens: a role, a count, what keeps the connection open


class Answer(Record):
    """``sent_s`` and ``came_s`` are moments of one clock: of the request, and of each message with a part of it.

    ``measured``: it began and ended while as many requests were in flight as were asked for. ``own`` is what the engine
    said of it.
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
        """The gaps between messages, each of which is a step's tokens (or several steps', joined by the network)."""
        return np.diff(np.array(self.came_s))


async def answered(
    connection: Connection,
    dialect: Dialect,
    server: Server,
    prompt: Prompt,
    tokens: int,
    temperature: float,
    measured: bool,
) -> Answer:
    """Ask, and read the answer to its end.

    Raises
    ------
    InputError : the server refuses, cuts the answer short, or does not say how many tokens it has.
    """
    told, came = Told(), []
    sent = time.perf_counter()
    messages = 0
    async for moment, message in connection.messages(dialect.path, dialect.body(server, prompt, tokens, temperature)):
        messages += 1
        if messages > tokens + _OTHER_MESSAGES:
            raise InputError(f"{connection.at}: an answer goes on after the {tokens} tokens that were asked for")
        if dialect.read(message, told):
            came.append(moment)
    if not isinstance(told.tokens, int) or not isinstance(told.prompt_tokens, int):
        raise InputError(f"{connection.at}: does not say how many tokens an answer has (stream_options.include_usage)")
    if not came or told.tokens < tokens:
        raise InputError(
            f"{connection.at}: an answer has {told.tokens} of the {tokens} tokens that were asked for: the server does "
            "not know ignore_eos, or the prompt leaves no room for more"
        )
    return Answer(sent, tuple(came), told.tokens, told.prompt_tokens, told.cached_tokens, measured, told.own)
