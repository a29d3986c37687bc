"""Points of a running server, measured one after the other; each is kept as soon as it is there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibration.bench.answer import Answer, answered
from calibration.bench.connection import Connection, connected, wait_for
from calibration.bench.dialects import Dialect, dialect_of
from calibration.bench.loop import closed_loop
from calibration.bench.points import Point
from calibration.bench.prompts import Prompts, Words, own_prompts
from calibration.bench.rounds import METRICS, Seen, rounds_of
from calibration.bench.rows import described, drafting, row_of, said_of_draft
from calibration.bench.server import Server, asked
from ssdsim.base.files import replaced
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record, replace
from ssdsim.readers.acceptance.counts import Counts
from ssdsim.readers.row import Row, read_rows, write_rows

_PROBE_WORDS, _PROBE_TOKENS = (16, 80), 4
_CACHED = 0.1
"""Share of prompts that a prefix cache may know before it is said: their prefill was no work."""


class Work(Record):
    """Work for a server: ``points`` in their order, after a warm-up at the highest load.

    ``alive`` raises where the server has ended that is waited for.
    """

    url: str
    points: Sequence[Point]
    given: Mapping[str, Any]
    temperature: float = 0.0
    served: str | None = None
    prompts: Path | None = None
    timeout_s: float = 120.0
    wait_s: float = 0.0
    seed: int = 0
    key: str | None = None
    alive: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"Work({self.url!r}, {len(self.points)} points)"  # the key stays secret

    @property
    def most(self) -> int:
        """Requests that are in flight at once, at most."""
        return max(point.concurrency for point in self.points)

    @property
    def warm_up(self) -> Point:
        """An answer in each stream of the highest load."""
        longest = max(self.points, key=lambda point: point.input_tokens + point.output_tokens)
        return replace(longest, concurrency=self.most, requests=1, repeat=1)

    def asked_tokens(self, points: Sequence[Point]) -> tuple[int, int, int]:
        """Requests, output tokens, and about as many input tokens, of some points and the warm-up."""
        every = [*points, self.warm_up]
        inputs = sum(point.answers * point.input_tokens for point in every)
        outputs = sum(point.asked_tokens for point in every)
        probes = 0 if self.prompts else len(_PROBE_WORDS)
        return probes + sum(p.answers for p in every), probes * _PROBE_TOKENS + outputs, inputs


Begins = Callable[[Work, Server, Sequence[Point]], None]
"""Is told who answers, and which points are left, before anything is asked for."""


@dataclass
class Measured:
    """Outcome of a run: ``rows``, those that lay in the file among them, and what must be said of them."""

    server: Server
    rows: list[Row]
    new: int = 0
    warnings: list[str] = field(default_factory=list)


class _Bench(Record):
    """A server that is being measured."""

    work: Work
    connection: Connection
    server: Server
    dialect: Dialect
    prompts: Prompts

    async def ask(self, inputs: int, tokens: int, measured: bool) -> Answer:
        prompt = self.prompts.of(inputs)
        work, server = self.work, self.server
        return await answered(self.connection, self.dialect, server, prompt, tokens, work.temperature, measured)

    async def learn(self) -> None:
        """Learn how many tokens a word of a made-up prompt is, and that the server keeps to what it is asked for."""
        if not isinstance(self.prompts, Words):
            return
        told = []
        for words in _PROBE_WORDS:
            prompt = self.prompts.of_words(words)
            temperature = self.work.temperature
            told.append(
                await answered(self.connection, self.dialect, self.server, prompt, _PROBE_TOKENS, temperature, False)
            )
        fewer, more = (answer.prompt_tokens for answer in told)
        self.prompts.tokens_a_word = max(1.0, (more - fewer) / (_PROBE_WORDS[1] - _PROBE_WORDS[0]))
        self.prompts.beside = fewer - self.prompts.tokens_a_word * _PROBE_WORDS[0]

    async def point(self, point: Point) -> tuple[list[Answer], Counts | None]:
        """Ask the requests of a point: their answers, and the rounds that they took."""
        before = await self.connection.text(METRICS)
        answers = await closed_loop(point, self.ask)
        after = await self.connection.text(METRICS)
        return answers, rounds_of(self.server, Seen(before, after, answers))


def measure(
    work: Work,
    path: Path,
    begins: Begins = lambda work, server, points: None,
    progress: Progress = lambda done, total: None,
) -> Measured:
    """Measure the points that ``path`` has no row of yet, and add each to it when it is done."""
    return asyncio.run(_measure(work, path, begins, progress))


async def _measure(
    work: Work,
    path: Path,
    begins: Begins,
    progress: Progress,
) -> Measured:
    kept = read_rows(path) if path.exists() and path.stat().st_size else []
    async with connected(work.url, work.key, work.timeout_s, work.most) as connection:
        await wait_for(connection, work.wait_s, work.alive)
        server = await asked(connection, work.served)
        setting = described(server, work.given, connection.at) | said_of_draft(work.given)
        results = Measured(server, kept)
        if not (left := left_of(work.points, kept, setting)):
            results.warnings += _of_any_k(path, kept, work.given)
            return results
        begins(work, server, left)
        prompts = own_prompts(work.prompts) if work.prompts else Words(np.random.default_rng(work.seed))
        bench = _Bench(work, connection, server, dialect_of(server), prompts)
        await bench.learn()
        _, counts = await bench.point(work.warm_up)
        setting |= drafting(counts, work.given, connection.at)
        if counts is not None and counts.varied and "k" not in work.given:
            del setting["k"]  # each point has its own
        left = left_of(work.points, kept, setting)
        cached: list[float] = []
        for number, point in enumerate(left, 1):
            answers, counts = await bench.point(point)
            results.rows.append(row_of(point, answers, counts, setting, work.given, connection.at))
            results.new += 1
            with replaced(path) as partial:
                write_rows(results.rows, partial)
            cached.append(sum(each.cached_tokens for each in answers) / sum(each.prompt_tokens for each in answers))
            progress(number, len(left))
        results.warnings += _warnings(cached)
        return results


def left_of(points: Sequence[Point], rows: Sequence[Row], setting: Mapping[str, Any]) -> list[Point]:
    """The points that no row of this setting is of: a server's columns, as far as they are known."""
    own = [row for row in rows if all(getattr(row, name) == value for name, value in setting.items())]
    done = {(row.batch, row.repeat, *_lengths(row, points)) for row in own}
    return [p for p in points if (p.concurrency, p.repeat, p.input_tokens, p.output_tokens) not in done]


def _lengths(row: Row, points: Sequence[Point]) -> tuple[int, int]:
    """Lengths that were asked for: prompts come out a little longer or shorter."""
    inputs, outputs = ({getattr(point, f"{which}_tokens") for point in points} for which in ("input", "output"))
    nearest = min(inputs, key=lambda asked: abs(math.log(max(1.0, row.input_tokens) / asked)))
    return nearest, round(row.output_tokens) if round(row.output_tokens) in outputs else 0


def _of_any_k(path: Path, rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    """Rows are there of some K; how many tokens the server drafts is known only once it has been asked."""
    known = sorted({row.k for row in rows if row.k is not None})
    if "k" in given or not known or not {"draft", "drafter"} & given.keys():
        return []
    told = ", ".join(map(str, known))
    return [
        f"nothing was measured: {path.name} has rows of every point, at K {told}. For a server of another K give --k"
    ]


def _warnings(cached: Sequence[float]) -> list[str]:
    share = max(cached, default=0.0)
    if share <= _CACHED:
        return []
    return [
        f"up to {share:.0%} of the prompts' tokens were cached by the server: TTFT and TPOT have too little prefill"
    ]
