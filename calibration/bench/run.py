"""Measure the points of a running server one after the other; each row is stored at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibration.bench.connection import Connection, connected, wait_for
from calibration.bench.load import LoadPoint, Prompts, SyntheticPrompts, closed_loop, own_prompts
from calibration.bench.rows import METRICS, CounterSnapshots, described, drafting, rounds_of, row_of, said_of_draft
from calibration.bench.server import Dialect, Prompt, Server, TimedAnswer, dialect_of, discover, timed_answer
from ssdsim.base.files import replaced
from ssdsim.base.progress import Progress
from ssdsim.base.record import MutableRecord, Record, field, replace
from ssdsim.readers.acceptance.counts import Counts
from ssdsim.readers.row import Row, read_rows, write_rows
from ssdsim.runs.layout import locked

_PROBE_WORDS, _PROBE_TOKENS = (16, 80), 4
_CACHED = 0.1
"""Share of cached prompt tokens from which on a warning is due: their prefill took no time."""


class BenchJob(Record):
    """Points to measure at a server, in their order, after a warm-up at the highest load.

    ``row_columns`` are columns of the rows that the server does not state. ``alive`` raises if the server has ended.
    """

    url: str
    points: Sequence[LoadPoint]
    row_columns: Mapping[str, Any]
    temperature: float = 0.0
    served: str | None = None
    prompts: Path | None = None
    timeout_s: float = 120.0
    wait_s: float = 0.0
    seed: int = 0
    key: str | None = None
    alive: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"BenchJob({self.url!r}, {len(self.points)} points)"  # the key stays secret

    @property
    def most(self) -> int:
        """Most requests in flight at once."""
        return max(point.concurrency for point in self.points)

    @property
    def warm_up(self) -> LoadPoint:
        """The warm-up: one answer in each stream of the highest load."""
        longest = max(self.points, key=lambda point: point.input_tokens + point.output_tokens)
        return replace(longest, concurrency=self.most, requests=1, repeat=1)

    def asked_tokens(self, points: Sequence[LoadPoint]) -> tuple[int, int, int]:
        """Numbers of requests, output tokens and (about) input tokens of some points and the warm-up."""
        every = [*points, self.warm_up]
        inputs = sum(point.answers * point.input_tokens for point in every)
        outputs = sum(point.asked_tokens for point in every)
        probes = 0 if self.prompts else len(_PROBE_WORDS)
        return probes + sum(p.answers for p in every), probes * _PROBE_TOKENS + outputs, inputs


Begins = Callable[[BenchJob, Server, Sequence[LoadPoint]], None]
"""Called before the first request, with the server and the points that are left."""


class BenchResult(MutableRecord):
    """Outcome of a run: all ``rows`` of the file, how many are new, and warnings."""

    server: Server
    rows: list[Row]
    new: int = 0
    warnings: list[str] = field(default_factory=list)


class _Bench(Record):
    """A server under measurement."""

    work: BenchJob
    connection: Connection
    server: Server
    dialect: Dialect
    prompts: Prompts

    async def ask(self, inputs: int, tokens: int, measured: bool) -> TimedAnswer:
        return await self._answer(self.prompts.of(inputs), tokens, measured)

    async def _answer(self, prompt: Prompt, tokens: int, measured: bool) -> TimedAnswer:
        temperature = self.work.temperature
        return await timed_answer(self.connection, self.dialect, self.server, prompt, tokens, temperature, measured)

    async def learn(self) -> None:
        """Learn the tokens of a word of a made-up prompt, and check that the server answers as it is asked to."""
        if not isinstance(self.prompts, SyntheticPrompts):
            return
        few, many = _PROBE_WORDS
        fewer, more = [
            (await self._answer(self.prompts.of_words(words), _PROBE_TOKENS, measured=False)).prompt_tokens
            for words in _PROBE_WORDS
        ]
        self.prompts.tokens_a_word = max(1.0, (more - fewer) / (many - few))
        self.prompts.overhead_tokens = fewer - self.prompts.tokens_a_word * few

    async def point(self, point: LoadPoint) -> tuple[list[TimedAnswer], Counts | None]:
        """Send the requests of a point; returns the answers, and the rounds that they took."""
        before = await self.connection.text(METRICS)
        answers = await closed_loop(point, self.ask)
        after = await self.connection.text(METRICS)
        return answers, rounds_of(self.server, CounterSnapshots(before, after, answers))


def measure(
    work: BenchJob,
    path: Path,
    begins: Begins = lambda work, server, points: None,
    progress: Progress = lambda done, total: None,
) -> BenchResult:
    """Measure the points that ``path`` has no row of yet, and add each to it when it is done.

    Raises
    ------
    InputError : another one is at work at ``path``, whose load would be measured here, or what the server does.
    """
    with locked(path.with_name(f".{path.name}.lock"), path, "bench"):
        return asyncio.run(_measure(work, path, begins, progress))


async def _measure(
    work: BenchJob,
    path: Path,
    begins: Begins,
    progress: Progress,
) -> BenchResult:
    kept = read_rows(path, work.row_columns) if path.exists() and path.stat().st_size else []
    async with connected(work.url, work.key, work.timeout_s, work.most) as connection:
        await wait_for(connection, work.wait_s, work.alive)
        server = await discover(connection, work.served)
        setting = described(server, work.row_columns, connection.at) | said_of_draft(work.row_columns)
        results = BenchResult(server, kept)
        if not (left := left_of(work.points, kept, setting)):
            results.warnings += _of_any_k(path, kept, work.row_columns)
            return results
        begins(work, server, left)
        prompts = own_prompts(work.prompts) if work.prompts else SyntheticPrompts(np.random.default_rng(work.seed))
        bench = _Bench(work, connection, server, dialect_of(server), prompts)
        await bench.learn()
        _, counts = await bench.point(work.warm_up)
        setting |= drafting(counts, work.row_columns, connection.at)
        if counts is not None and counts.varied and "k" not in work.row_columns:
            del setting["k"]  # each point has its own
        left = left_of(work.points, kept, setting)
        cached: list[float] = []
        for number, point in enumerate(left, 1):
            answers, counts = await bench.point(point)
            results.rows.append(row_of(point, answers, counts, setting, work.row_columns, connection.at))
            results.new += 1
            with replaced(path) as partial:
                write_rows(results.rows, partial)
            cached.append(sum(each.cached_tokens for each in answers) / sum(each.prompt_tokens for each in answers))
            progress(number, len(left))
        results.warnings += _warnings(cached)
        return results


def left_of(points: Sequence[LoadPoint], rows: Sequence[Row], setting: Mapping[str, Any]) -> list[LoadPoint]:
    """The points without a row of this setting (the known columns of a server)."""
    own = [row for row in rows if all(getattr(row, name) == value for name, value in setting.items())]
    done = {(row.batch, row.repeat, *_lengths(row, points)) for row in own}
    return [p for p in points if (p.concurrency, p.repeat, p.input_tokens, p.output_tokens) not in done]


def _lengths(row: Row, points: Sequence[LoadPoint]) -> tuple[int, int]:
    """The requested lengths of a row, whose prompts came out a little longer or shorter."""
    inputs, outputs = ({getattr(point, f"{which}_tokens") for point in points} for which in ("input", "output"))
    nearest = min(inputs, key=lambda asked: abs(math.log(max(1.0, row.input_tokens) / asked)))
    return nearest, round(row.output_tokens) if round(row.output_tokens) in outputs else 0


def _of_any_k(path: Path, rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    """A warning if rows of another K may stand for this server's: its K is known only after a request."""
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
