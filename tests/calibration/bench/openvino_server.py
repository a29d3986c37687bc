"""A real engine behind the sockets of :mod:`.server`: openvino-genai decodes, on this machine's cores.

Run by the Python of an environment that has openvino-genai, and with this project on its path:
``python -m tests.calibration.bench.openvino_server MODEL.gguf [--k 5]``. With ``--k`` it looks prompts up: what
followed the last n-grams before is proposed. It counts no drafts, so they are counted here: its rule is repeated, its
steps are its own.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.calibration.bench.server import Law, Request, Server

NGRAM = 3


class OpenVINO(Server):
    """Its steps take as long as the engine does; rounds are what the engine put out."""

    def __init__(self, model: str, k: int | None, cache_gib: int = 1):
        import openvino_genai as genai

        super().__init__("vllm", Law(rates=(0.0,) * (k or 0)), name="smollm2-135m")
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size, scheduler.enable_prefix_caching = cache_gib, False
        self.genai, self.k = genai, k
        self.engine_is = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"prompt_lookup": True} if k else {})
        self.tokenizer = self.engine_is.get_tokenizer()
        self.handles: dict[int, Any] = {}
        self.ids: dict[int, list[int]] = {}
        self.waiting: list[tuple[Request, str]] = []
        self.thread = ThreadPoolExecutor(1)

    def begins(self, request: Request, text: str) -> None:
        """Told in the thread of the sockets, added before the next step."""
        self.waiting.append((request, text))

    def add(self) -> None:
        while self.waiting:
            request, text = self.waiting.pop(0)
            own = self.genai.GenerationConfig()
            own.max_new_tokens, own.ignore_eos, own.do_sample = request.wanted, True, False
            if self.k:
                own.num_assistant_tokens, own.max_ngram_size = self.k, NGRAM
            ids = self.tokenizer.encode(text).input_ids
            self.ids[id(request)] = ids.data[0].tolist()
            request.prompt_tokens = len(self.ids[id(request)])
            self.handles[id(request)] = self.engine_is.add_request(id(request), ids, own)

    def step(self) -> list[tuple[Request, list[int]]]:
        """One step of the engine, in a thread of its own; what it put out."""
        self.add()
        self.engine_is.step()
        step = []
        for request in list(self.running):
            handle = self.handles.get(id(request))
            if handle is not None and handle.can_read():
                (put_out,) = handle.read().values()
                step.append((request, list(put_out.generated_ids)))
        return step

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self.running:
                await asyncio.sleep(0.0005)
                continue
            for request, tokens in await loop.run_in_executor(self.thread, self.step):
                if tokens:
                    self.came(request, tokens)

    def came(self, request: Request, tokens: list[int]) -> None:
        known = self.ids[id(request)]
        if request.tokens:
            drafted = looked_up(known, self.k or 0)
            request.rounds.append((max(drafted, len(tokens) - 1), len(tokens) - 1))
        known += tokens
        request.tokens += len(tokens)
        request.came_s.append(time.perf_counter())
        if request.tokens >= request.wanted:
            self.running.remove(request)
            del self.handles[id(request)]
        request.queue.put_nowait(None)


def looked_up(ids: list[int], k: int) -> int:
    """How many tokens are proposed: what followed the first place that ends as the text does, by the longest n-gram."""
    for length in range(NGRAM, 0, -1):
        tail = ids[-length:]
        for start in range(len(ids) - length):
            if ids[start : start + length] == tail:
                return min(k, len(ids) - start - length)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--k", type=int)
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    server = OpenVINO(asked.model, asked.k)
    server.port = asked.port
    server.run(lambda: print(server.url, flush=True))


if __name__ == "__main__":
    main()
