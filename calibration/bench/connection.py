"""One server over HTTP. Every error is one line, and none shows the key."""

from __future__ import annotations

import asyncio
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
_LONGEST = 200  # characters of what a server complains


class Refused(InputError):
    """Nothing listens at the address (yet)."""


class Connection(Record):
    """A connection; ``at`` is its address for messages, without user name and password."""

    client: httpx2.AsyncClient
    at: str
    key: str | None

    def __repr__(self) -> str:
        return f"Connection({self.at!r})"  # the key stays secret

    async def text(self, path: str) -> str | None:
        """Fetch a page as text; None if the server has none, or refuses it.

        Raises
        ------
        InputError : it does not answer, or does not come to an end.
        """
        content = bytearray()
        with self.network_errors():
            async with self.client.stream("GET", path) as answer:
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise InputError(f"{self.at}{path}: has more than {_MOST_BYTES:,} bytes, which no engine's has")
        if answer.status_code == 401:
            raise InputError(f"{self.at}: {self.denied()}")
        return content.decode(answer.encoding or "utf-8", errors="replace") if answer.status_code == 200 else None

    async def json(self, path: str) -> Any:
        """The JSON that the server answers there; None where it has none."""
        text = await self.text(path)
        if text is None or not text.lstrip().startswith(("{", "[")):
            return None
        return parse_json(text, f"{self.at}{path}")

    async def messages(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[tuple[float, Mapping[str, Any]]]:
        """Each message of a streamed answer, with the moment at which it came.

        Raises
        ------
        InputError : the server refuses, complains, or ends in the middle of the answer.
        """
        done = False
        with self.network_errors():
            async with self.client.stream("POST", path, json=body) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise InputError(f"{self.at}{path}: {self._complaint(answer)}")
                async for event in httpx2.EventSource(answer):
                    moment = time.perf_counter()
                    if event.data.strip() == "[DONE]":
                        done = True
                        continue
                    message = parse_json(event.data, f"{self.at}{path}")
                    if not isinstance(message, Mapping) or message.get("error"):
                        raise InputError(f"{self.at}{path}: the server says: {self._short(event.data)}")
                    yield moment, message
        if not done:
            raise InputError(f"{self.at}: the server ended an answer in the middle")

    @contextmanager
    def network_errors(self) -> Iterator[None]:
        """Turn network errors into one line."""
        try:
            yield
        except httpx2.ConnectError as error:
            raise Refused(f"{self.at}: no server answers ({self._short(str(error)) or 'no connection'})") from None
        except httpx2.ConnectTimeout:
            raise Refused(f"{self.at}: no server answers in {_CONNECT_S:g} s") from None
        except httpx2.TimeoutException:
            waited = self.client.timeout.read
            raise InputError(f"{self.at}: nothing came for {waited:g} s (--timeout): it hangs, or is slower") from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise InputError(f"{self.at}: the server ended an answer in the middle ({type(error).__name__})") from None
        except httpx2.InvalidURL as error:
            raise InputError(f"{self.at}: no address of a server ({self._short(str(error))})") from None

    def denied(self) -> str:
        """Message about an answer with the status 401."""
        if self.key is None:
            return "the server asks for a key: name the environment variable that holds it by --api-key"
        return "the server refuses the key"

    def _complaint(self, answer: httpx2.Response) -> str:
        if answer.status_code == 401:
            return self.denied()
        return f"the server answers {answer.status_code}: {self._short(answer.text)}"

    def _short(self, said: str) -> str:
        """Shorten what a server said, without the key should it repeat it."""
        said = " ".join(said.split())
        said = said.replace(self.key, "...") if self.key else said
        return said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "..."


@asynccontextmanager
async def connected(url: str, key: str | None, timeout_s: float, most: int) -> AsyncIterator[Connection]:
    """A connection that never has more than ``most`` requests in flight, and is closed in the end.

    Raises
    ------
    InputError : an address of no server.
    """
    try:
        base = httpx2.URL(url.rstrip("/").removesuffix("/v1"))
    except httpx2.InvalidURL as error:
        raise InputError(f"no address of a server: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise InputError(f"'{base.host or url}' is no address of a server, such as http://127.0.0.1:8000")
    at = str(base.copy_with(username=None, password=None, query=None)).rstrip("/")
    limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most)
    timeout = httpx2.Timeout(timeout_s, connect=_CONNECT_S)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=timeout, limits=limits) as client:
        yield Connection(client, at, key)


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
