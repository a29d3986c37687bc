"""A server that wants to do harm: it answers each path with bytes that never come to an end, or that are no answer."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

LASTS_S = 20.0
"""Seconds after which it ends what has no end, so that a client that waits for ever fails instead."""
MODELS = {"data": [{"id": "llama-3.1-8b", "owned_by": "vllm"}]}
Parts = Iterator[bytes | float]
"""What is sent: bytes, and seconds of silence."""


def head(status: str = "200 OK", kind: str = "application/json", *more: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more, "", ""]).encode()


def page(value: object, status: str = "200 OK", kind: str = "application/json") -> Parts:
    body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    yield head(status, kind, f"Content-Length: {len(body)}") + body


def events(*values: object, kind: str = "text/event-stream") -> Parts:
    yield head(kind=kind)
    for value in values:
        yield f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def again_and_again(part: bytes, *first: bytes, pause_s: float = 0.0) -> Parts:
    yield from first
    while True:
        yield part
        yield pause_s


def unpacks() -> Parts:
    """Zeros without end that are packed a thousandfold."""
    yield head("500 X", "text/plain", "Content-Encoding: gzip")
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    while True:
        yield packed.compress(bytes(2**20))
        yield 0.0


class Hostile(ThreadingTCPServer):
    """``answers`` are those of each path; ``sent`` counts bytes that it got rid of, ``asked`` are all paths."""

    daemon_threads = False

    def __init__(self, answers: Mapping[str, Callable[[], Parts]]) -> None:
        self.answers = {"/v1/models": lambda: page(MODELS)} | dict(answers)
        self.sent = 0
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Connection)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Connection(StreamRequestHandler):
    """One request and its answer."""

    server: Hostile

    def handle(self) -> None:
        with suppress(ConnectionError):
            self.answer()

    def answer(self) -> None:
        path, length = (self.rfile.readline().decode().split() or ["", ""])[1], 0
        self.server.asked.append(path)
        while line := self.rfile.readline().strip().lower():
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self.rfile.read(length)
        ends = time.monotonic() + LASTS_S
        for part in self.server.answers.get(path, lambda: page({}, "404 Not Found"))():
            if isinstance(part, bytes):
                self.wfile.write(part)
                self.server.sent += len(part)
            else:
                time.sleep(part)
            if time.monotonic() > ends:
                break


@contextmanager
def hostile(**answers: Callable[[], Parts]) -> Iterator[Hostile]:
    """A server in a thread; ``completions`` is what it answers at ``/v1/completions``, and so on."""
    paths = {"models": "/v1/models", "completions": "/v1/completions", "metrics": "/metrics"}
    with Hostile({paths[name]: answer for name, answer in answers.items()}) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10.0)
