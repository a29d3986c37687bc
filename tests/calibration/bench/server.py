"""A server that speaks the engines' APIs over real sockets, and draws its rounds from a law that is known.

``python -m tests.calibration.bench.server --engine vllm ...`` runs one in a process of its own, which can be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

OWNERS = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "tensorrt-llm": "tensorrt_llm"}


@dataclass
class Law:
    """A round drafts with probability ``found``; position i is accepted with ``rates[i]`` after those before it.

    A step of the batch takes ``step_s``, and ``per_sequence_s`` more for each sequence. With no ``rates`` it decodes.
    """

    rates: tuple[float, ...] = ()
    found: float = 1.0
    step_s: float = 0.004
    per_sequence_s: float = 0.0


@dataclass
class Misdeeds:
    """What goes wrong: after so many messages in all, or always."""

    die_after: int | None = None
    cut_after: int | None = None
    hang_after: int | None = None
    complain_after: int | None = None
    status: int | None = None
    key: str | None = None
    stops_early: bool = False
    says_no_usage: bool = False
    never_ends: bool = False
    large_page: bool = False
    lists: object = None
    """What stands at /v1/models in place of the model."""


@dataclass(eq=False)
class Request:
    """One answer, and what was put out of it when."""

    wanted: int
    prompt_tokens: int
    came_s: list[float] = field(default_factory=list)
    tokens: int = 0
    rounds: list[tuple[int, int]] = field(default_factory=list)
    queue: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    @property
    def tpot_s(self) -> float:
        return (self.came_s[-1] - self.came_s[0]) / (self.tokens - 1)


class Server:
    """``requests`` are all that were answered, in the order in which they came: the truth."""

    def __init__(self, engine: str = "vllm", law: Law | None = None, wrong: Misdeeds | None = None, name: str = "m"):
        self.engine, self.law, self.wrong, self.name = engine, law or Law(), wrong or Misdeeds(), name
        self.requests: list[Request] = []
        self.running: list[Request] = []
        self.most = self.messages = 0
        self.counters: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.random = random.Random(0)

    # its engine

    async def work(self) -> None:
        """Steps of the batch, one after the other."""
        while True:
            batch = list(self.running)
            if not batch:
                await asyncio.sleep(0.0005)
                continue
            await asyncio.sleep(self.law.step_s + self.law.per_sequence_s * len(batch))
            for request in batch:
                self.round(request)

    def begins(self, request: Request, text: str) -> None:
        """For those whose engine is a real one."""

    def round(self, request: Request) -> None:
        """The prompt's token, or what a round yields; tokens beyond the end are counted and cut, as engines do."""
        drafted = accepted = 0
        if request.tokens > 0 and self.law.rates and self.random.random() < self.law.found:
            drafted = len(self.law.rates)
            while accepted < drafted and self.random.random() < self.law.rates[accepted]:
                accepted += 1
        if request.tokens > 0:
            request.rounds.append((drafted, accepted))
        put_out = min(accepted + 1, request.wanted - request.tokens)
        request.tokens += put_out
        request.came_s.append(time.perf_counter())
        if request.tokens >= request.wanted:
            self.running.remove(request)
        request.queue.put_nowait(None)

    def total(self, requests: list[Request] | None = None) -> Counter[str]:
        """What it counted of all rounds until now."""
        counter: Counter[str] = Counter()
        for request in self.requests if requests is None else requests:
            counter["generated"] += request.tokens
            counter["steps"] += len(request.rounds)
            counter["finished"] += request.tokens >= request.wanted
            for drafted, accepted in request.rounds:
                counter["drafts"] += drafted > 0
                counter["drafted"] += drafted
                counter["accepted"] += accepted
                for place in range(accepted):
                    counter[f"at {place}"] += 1
        return counter

    # its pages

    def metrics(self) -> str:
        total, labels = self.total(), f'engine="0",model_name="{self.name}"'
        if self.engine == "tensorrt-llm":
            return self.iterations(total)
        lines = {
            f"vllm:generation_tokens_total{{{labels}}}": total["generated"],
            f'vllm:request_success_total{{{labels},finished_reason="length"}}': total["finished"],
            f"vllm:inter_token_latency_seconds_count{{{labels}}}": total["steps"],
        }
        if self.law.rates:
            prefix = "vllm:spec_decode_num"
            lines |= {
                f"{prefix}_drafts_total{{{labels}}}": total["drafts"],
                f"{prefix}_draft_tokens_total{{{labels}}}": total["drafted"],
                f"{prefix}_accepted_tokens_total{{{labels}}}": total["accepted"],
            }
            for place in range(len(self.law.rates)):
                name = f'{prefix}_accepted_tokens_per_pos_total{{{labels},position="{place}"}}'
                lines[name] = total[f"at {place}"]
        return "# HELP all\n" + "".join(f"{name} {value}.0\n" for name, value in lines.items())

    def iterations(self, total: Counter[str]) -> str:
        """Since it was asked before."""
        new = {name: total[name] - self.counters[name] for name in ("drafts", "drafted", "accepted")}
        self.counters = total
        stats = {
            "numDraftTokens": new["drafted"],
            "numAcceptedTokens": new["accepted"],
            "numRequestsWithDraftTokens": new["drafts"],
        }
        return json.dumps([{"iter": 1, "specDecodingStats": stats}])

    def pages(self, path: str) -> Mapping[str, Any]:
        model = {"id": self.name, "object": "model", "owned_by": OWNERS[self.engine], "root": self.name}
        pages: dict[str, Any] = {"/v1/models": self.wrong.lists or {"data": [model]}}
        if self.engine in ("vllm", "tensorrt-llm"):
            pages["/version"] = {"version": "0.99.0"}
            pages["/metrics"] = self.metrics() if path == "/metrics" else ""
        if self.engine == "sglang":
            steps = len(self.law.rates) or None
            pages["/server_info"] = {"version": "0.9.9", "model_path": self.name, "tp_size": 2}
            pages["/server_info"] |= {"speculative_num_steps": steps}
        if self.engine == "llama.cpp":
            pages["/props"] = {"build_info": "b11434-abc"}
        return pages

    # its sockets

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and await self.answer(head.decode(), reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request of a connection; whether another may follow."""
        method, path, _ = head.split(" ", 2)
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        key = headers.get("authorization", "").removeprefix("Bearer ")
        self.keys.add(key)
        if self.wrong.key is not None and key != self.wrong.key:
            return await self.whole(writer, 401, {"error": f"no such key: {key}"})
        if method == "POST":
            return await self.stream(json.loads(body), path, writer)
        if self.wrong.large_page and path == "/metrics":
            return await self.whole(writer, 200, " " * (64 * 2**20 + 1))
        if path not in (pages := self.pages(path)):
            return await self.whole(writer, 404, {"error": "no such page"})
        return await self.whole(writer, 200, pages[path])

    async def whole(self, writer: asyncio.StreamWriter, status: int, page: Any) -> bool:
        text = (page if isinstance(page, str) else json.dumps(page)).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()
        return True

    async def stream(self, body: dict[str, Any], path: str, writer: asyncio.StreamWriter) -> bool:
        if self.wrong.status is not None:
            said = {"error": f"too many requests, {next(iter(self.keys))}"}
            return await self.whole(writer, self.wrong.status, said)
        sampling = body.get("sampling_params", {})
        wanted = sampling.get("max_new_tokens", body.get("max_tokens"))
        assert sampling.get("ignore_eos", body.get("ignore_eos")), "answers must not end before"
        text = body.get("text", body.get("prompt"))
        prompt = len(text) if isinstance(text, list) else round(1.25 * len(text.split())) + 3
        request = Request(max(1, wanted // 2) if self.wrong.stops_early else wanted, prompt)
        self.requests.append(request)
        self.begins(request, text)
        self.running.append(request)
        self.most = max(self.most, len(self.running))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        while sent < len(request.came_s) or request.tokens < request.wanted:
            await request.queue.get()
            sent += 1
            if not await self.goes_well(writer):
                return False
            await self.event(writer, self.message(request, path, last=False))
        while self.wrong.never_ends:
            await self.event(writer, self.message(request, path, last=False))
        for message in self.last(request, path):
            await self.event(writer, message)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def goes_well(self, writer: asyncio.StreamWriter) -> bool:
        self.messages += 1
        wrong, count = self.wrong, self.messages
        if wrong.die_after is not None and count > wrong.die_after:
            os._exit(9)
        if wrong.hang_after is not None and count > wrong.hang_after:
            await asyncio.sleep(60)
        if wrong.complain_after is not None and count > wrong.complain_after:
            await self.event(writer, json.dumps({"error": {"message": "out of memory"}}))
        return wrong.cut_after is None or count <= wrong.cut_after

    async def event(self, writer: asyncio.StreamWriter, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await writer.drain()

    def message(self, request: Request, path: str, last: bool) -> str:
        if path == "/generate":
            total = self.total([request])
            meta = {"completion_tokens": request.tokens, "prompt_tokens": request.prompt_tokens}
            if self.law.rates:
                lengths = Counter(accepted for _, accepted in request.rounds)
                meta |= {"spec_verify_ct": total["steps"], "spec_accept_token_num": total["accepted"]}
                meta["spec_draft_token_num"] = total["drafted"]
                meta["spec_accept_histogram"] = [lengths[j] for j in range(len(self.law.rates) + 1)]
            return json.dumps({"text": "word", "meta_info": meta})
        return json.dumps({"choices": [{"text": "word", "finish_reason": "length" if last else None}]})

    def last(self, request: Request, path: str) -> Iterator[str]:
        if path != "/generate" and not self.wrong.says_no_usage:
            message: dict[str, Any] = {
                "choices": [],
                "usage": {"completion_tokens": request.tokens, "prompt_tokens": request.prompt_tokens},
            }
            if self.engine == "llama.cpp":
                total = self.total([request])
                drafts = {"draft_n": total["drafted"], "draft_n_accepted": self.kept(request)} if self.law.rates else {}
                message["timings"] = {"predicted_n": request.tokens, **drafts}
            yield json.dumps(message)
        yield "[DONE]"

    @staticmethod
    def kept(request: Request) -> int:
        """Accepted tokens that were not cut: llama.cpp drafts no further than an answer goes."""
        return request.tokens - 1 - len(request.rounds)

    async def forever(self, ready: Any) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        working = asyncio.create_task(self.work())
        ready()
        async with server:
            await self.until.wait()
        working.cancel()

    port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, ready: Any = lambda: None) -> None:
        """In this thread, until :meth:`stop`."""

        async def main() -> None:
            self.until, self.loop = asyncio.Event(), asyncio.get_running_loop()
            await self.forever(ready)

        asyncio.run(main())

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.until.set)


@contextmanager
def serving(
    engine: str = "vllm", law: Law | None = None, wrong: Misdeeds | None = None, **others: Any
) -> Iterator[Server]:
    """A server in a thread."""
    server, there = Server(engine, law, wrong, **others), threading.Event()
    thread = threading.Thread(target=server.run, args=(there.set,), daemon=True)
    thread.start()
    assert there.wait(10.0)
    try:
        yield server
    finally:
        server.stop()
        thread.join(10.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="vllm")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rates", default="")
    parser.add_argument("--step-s", type=float, default=0.002)
    parser.add_argument("--die-after", type=int)
    asked = parser.parse_args()
    rates = tuple(float(rate) for rate in asked.rates.split(",") if rate)
    server = Server(asked.engine, Law(rates, step_s=asked.step_s), Misdeeds(die_after=asked.die_after))
    server.port = asked.port
    server.run(lambda: print(server.url, flush=True))


if __name__ == "__main__":
    main()
