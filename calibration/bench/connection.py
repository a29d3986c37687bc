"""One server over HTTP. Every error is one line, and none shows the key."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2

from ssdsim.base.documents import parse_json
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record

_CONNECT_S = 10.0
_PAUSE_S = 0.5
_MOST_BYTES = 64 * 2**20  # of a page
_COMPLAINT_BYTES = 2**12  # of an error page
_LONGEST = 200  # characters of what a server complains
_OTHER_MESSAGES = 100  # than those with tokens: a role, a count, what keeps the connection open
_KEY = re.compile(r"[!-~]+")


class Refused(InputError):
    """Nothing listens at the address (yet)."""


class Connection(Record):
    """A connection; ``at`` is its address for messages, without user name and password.

    It waits ``timeout_s`` for a page, from the request to the last byte, and for each next token of an answer.
    """

    client: httpx2.AsyncClient
    at: str
    key: str | None
    timeout_s: float

    def __repr__(self) -> str:
        return f"Connection({self.at!r})"  # the key stays secret

    async def text(self, path: str) -> str | None:
        """Fetch a page as text; None if the server has none, or refuses it.

        Raises
        ------
        InputError : it does not answer, or does not come to an end.
        """
        async with self._asked("GET", path, "page") as (answer, _):
            content = await _beginning(answer, _MOST_BYTES)
        if len(content) > _MOST_BYTES:
            raise InputError(f"{self.at}{path}: has more than {_MOST_BYTES:,} bytes, which no engine's has")
        if answer.status_code == 401:
            raise InputError(f"{self.at}: {self.denied()}")
        return content.decode(errors="replace") if answer.status_code == 200 else None

    async def json(self, path: str) -> Any:
        """The JSON that the server answers there; None where it has none."""
        text = await self.text(path)
        if text is None or not text.lstrip().startswith(("{", "[")):
            return None
        return parse_json(text, f"{self.at}{path}")

    async def stream(
        self, path: str, body: Mapping[str, Any], tokens: int, read: Callable[[float, Mapping[str, Any]], bool]
    ) -> None:
        """Read a streamed answer of ``tokens`` tokens: each message with its moment; ``read`` says if it brings any.

        Raises
        ------
        InputError : the server refuses, complains, stops in the middle of the answer, or goes on after it.
        """
        done, messages = False, 0
        async with self._asked("POST", path, "token", body) as (answer, deadline):
            if answer.status_code != 200:
                said = (await _beginning(answer, _COMPLAINT_BYTES)).decode(errors="replace")
                raise InputError(f"{self.at}{path}: {self._complaint(answer.status_code, said)}")
            async for event in httpx2.EventSource(answer):
                moment = time.perf_counter()
                messages += 1
                if messages > tokens + _OTHER_MESSAGES:
                    raise InputError(f"{self.at}: an answer goes on after the {tokens} tokens that were asked for")
                if event.data.strip() == "[DONE]":
                    done = True
                    continue
                message = parse_json(event.data, f"{self.at}{path}")
                if not isinstance(message, Mapping) or message.get("error"):
                    raise InputError(f"{self.at}{path}: the server says: {self._short(event.data)}")
                if read(moment, message):
                    deadline.reschedule(asyncio.get_running_loop().time() + self.timeout_s)
        if not done:
            raise InputError(f"{self.at}: the server ended an answer in the middle")

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None
    ) -> AsyncIterator[tuple[httpx2.Response, asyncio.Timeout]]:
        """An answer, which is given up at a deadline, whatever comes until then: headers, comments, a byte a second."""
        with self.network_errors(what):
            async with (
                asyncio.timeout(self.timeout_s) as deadline,
                self.client.stream(method, path, json=body) as answer,
            ):
                answer.encoding = "utf-8"  # which JSON and events are in; a server may name any codec of Python's
                yield answer, deadline

    @contextmanager
    def network_errors(self, what: str) -> Iterator[None]:
        """Turn network errors into one line."""
        try:
            yield
        except httpx2.ConnectError as error:
            raise Refused(f"{self.at}: no server answers ({self._short(str(error)) or 'no connection'})") from None
        except httpx2.ConnectTimeout:
            raise Refused(f"{self.at}: no server answers in {self.client.timeout.connect:g} s") from None
        except (TimeoutError, httpx2.TimeoutException):
            raise InputError(
                f"{self.at}: no {what} came in {self.timeout_s:g} s (--timeout): it hangs, or is slower"
            ) from None
        except httpx2.InvalidURL as error:
            raise InputError(f"{self.at}: no address of a server ({self._short(str(error))})") from None
        except (httpx2.HTTPError, httpx2.StreamError, ExceptionGroup, OSError, UnicodeError) as error:
            raise InputError(f"{self.at}: the server ended an answer in the middle ({type(error).__name__})") from None

    def denied(self) -> str:
        """Message about an answer with the status 401."""
        if self.key is None:
            return "the server asks for a key: name the environment variable that holds it by --api-key"
        return "the server refuses the key"

    def _complaint(self, status: int, said: str) -> str:
        return self.denied() if status == 401 else f"the server answers {status}: {self._short(said)}"

    def _short(self, said: str) -> str:
        """Shorten what a server said, without the key should it repeat it."""
        said = " ".join(said.split())
        said = said.replace(self.key, "...") if self.key else said
        return said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "..."


async def _beginning(answer: httpx2.Response, most: int) -> bytearray:
    """What an answer holds, given up soon after ``most`` bytes."""
    content = bytearray()
    async for part in answer.aiter_bytes():
        content += part
        if len(content) > most:
            break
    return content


@asynccontextmanager
async def connected(url: str, key: str | None, timeout_s: float, most: int) -> AsyncIterator[Connection]:
    """A connection that never has more than ``most`` requests in flight, and is closed in the end.

    It takes no proxy, key or password from the environment: what is sent goes to that address alone.

    Raises
    ------
    InputError : an address of no server, or a key that no request can carry.
    """
    try:
        base = httpx2.URL(url.rstrip("/").removesuffix("/v1"))
    except httpx2.InvalidURL as error:
        raise InputError(f"no address of a server: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise InputError(f"'{base.host or url}' is no address of a server, such as http://127.0.0.1:8000")
    if base.port is not None and not 0 < base.port < 2**16:
        raise InputError(f"{base.host}:{base.port} is no address of a server: ports are 1 to {2**16 - 1}")
    if key is not None and not _KEY.fullmatch(key):
        raise InputError("the key has a blank, a line break or a letter beyond ASCII, which no key has")
    at = str(base.copy_with(username=None, password=None, query=None)).rstrip("/")
    limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most)
    timeout = httpx2.Timeout(None, connect=min(_CONNECT_S, 0.9 * timeout_s))  # it says so before
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(
        base_url=base, headers=headers, timeout=timeout, limits=limits, trust_env=False
    ) as client:
        yield Connection(client, at, key, timeout_s)


async def wait_for(connection: Connection, seconds: float, alive: Callable[[], None]) -> None:
    """Wait until the server lists its models, for at most so long, and as long as it is ``alive``.

    Raises
    ------
    InputError : it does not within that time.
    """
    end = time.monotonic() + seconds
    while True:
        alive()
        try:
            if await connection.text("/v1/models") is not None or time.monotonic() >= end:
                return
        except Refused:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(_PAUSE_S)
