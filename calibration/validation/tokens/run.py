"""Time a pair's models on real ranks, predict, run, compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from calibration.machine.ranks import Ranks
from calibration.pairs.measure.models import check_tokens
from calibration.pairs.measure.prompts import Prompt
from calibration.validation.tokens.calibration import Size, TimedSteps, taking_in_s, under_way_s
from calibration.validation.tokens.comparison import (
    Seconds,
    Spoken,
    TokenComparison,
    TokenRun,
    mean_of,
    predicted,
    scenarios_of,
)
from calibration.validation.tokens.ranks import DRAFT, TARGET, Loaded
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record, replace
from ssdsim.rounds.round import Estimate
from ssdsim.tokens.pair_choice import chosen
from ssdsim.tokens.pair_file import Pair, Participant

HANDLER = "calibration.validation.tokens.ranks:make_rank"
RUNS = ("ar", "sd", "ssd")
"""Strategies whose steps real models have."""

_ANSWER_S = 600.0
Prompts = Sequence[tuple[int, ...]]


class TokenBench(Record):
    """Plan of what runs where; ``models`` are the target and the draft as transformers takes them."""

    pair: Path
    models: tuple[str, str]
    devices: tuple[str, str]
    dtype: str
    template: str
    strategies: tuple[str, ...]
    size: Size
    repeats: int


def run_tokens(
    bench: TokenBench, timed: Sequence[Prompt], asked: Sequence[Prompt], calibration: Path, progress: Progress
) -> list[TokenComparison]:
    """Steps are timed on the prompts ``timed`` and kept in ``calibration`` before the first run, which is on others."""
    pair, visits = chosen(str(bench.pair), 0.0, None), bench.size.visits
    scenarios = scenarios_of(bench.pair, bench.strategies, bench.size)
    with Ranks(bench.devices, HANDLER, {"models": bench.models, "dtype": bench.dtype}, _ANSWER_S) as ranks:
        at = _Ranks(ranks, bench)
        end = at.load(pair.pair)
        answered = at.answer(at.ids(timed))
        prompts = at.ids(asked)
        before = {name: at.time(name, answered, 2 * visits) for name in scenarios}
        _keep(calibration, bench, before, len(timed))
        runs: dict[str, list[TokenRun]] = {name: [] for name in scenarios}
        beside: dict[str, list[Estimate]] = {name: [] for name in scenarios}
        for repeat in range(bench.repeats):
            progress(repeat, bench.repeats)
            for name, scenario in scenarios.items():
                around = [at.time(name, answered, visits)]
                runs[name].append(at.run(name, prompts, end))
                around.append(at.time(name, answered, visits))
                beside[name].append(predicted(scenario, mean_of(around)))
        progress(bench.repeats, bench.repeats)
        own = runs["ar"][0].answers
        alpha = pair.findings.alpha.mean
        return [
            TokenComparison.of(
                runs[name],
                predicted(scenario, before[name]),
                beside[name],
                alpha,
                at.compare(prompts, own, runs[name]),
            )
            for name, scenario in scenarios.items()
        ]


class _Ranks:
    """Questions to the two ranks."""

    def __init__(self, ranks: Ranks, bench: TokenBench) -> None:
        self._ranks, self._bench = ranks, bench

    def _ask(self, method: str, **arguments: Any) -> list[Any]:
        return self._ranks.ask({"do": method, **arguments}, _ANSWER_S)

    def load(self, pair: Pair) -> frozenset[int]:
        """The tokens that end an answer."""
        loaded: list[Loaded] = self._ask("load")
        for name, model, measured in zip(self._bench.models, loaded, (pair.target, pair.draft), strict=True):
            _check_measured(name, model.participant, measured, self._bench.pair)
        check_tokens(*((name, each.tokens) for name, each in zip(self._bench.models, loaded, strict=True)))
        return frozenset(self._ask("agree", vocabulary=min(each.logits for each in loaded))[TARGET])

    def ids(self, prompts: Sequence[Prompt]) -> Prompts:
        room = self._bench.size.new_tokens + self._bench.size.k
        return list(self._ask("ask", prompts=prompts, template=self._bench.template, room=room)[TARGET])

    def answer(self, prompts: Prompts) -> Mapping[tuple[int, ...], Sequence[int]]:
        """Long enough for a round that begins in the last place."""
        length = self._bench.size.new_tokens + self._bench.size.k
        return dict(self._ask("write", prompts=prompts, new_tokens=length)[TARGET])

    def time(self, strategy: str, answered: Mapping[tuple[int, ...], Sequence[int]], visits: int) -> Seconds:
        """Mean seconds of a strategy's steps."""
        size = self._bench.size
        size = replace(size, visits=visits * (size.k + 1 if strategy == "ar" else 1))  # about as many tokens
        timed: list[TimedSteps | None] = self._ask("time", strategy=strategy, answered=answered, size=size)
        target, draft = timed[TARGET], timed[DRAFT]
        assert target is not None
        if draft is None:
            return target.seconds
        sent = {"outcome": under_way_s(target, draft), "speculation": under_way_s(draft, target)}
        time = {**target.seconds, **draft.seconds, **sent}
        if "look up" in time:
            time["look up"] += taking_in_s(target, draft)
        return time

    def run(self, strategy: str, prompts: Prompts, end: frozenset[int]) -> TokenRun:
        spoken: list[list[Spoken] | None] = self._ask(
            "play", strategy=strategy, prompts=prompts, size=self._bench.size, end=end
        )
        return TokenRun.of(spoken[TARGET] or [], spoken[DRAFT])

    def compare(self, prompts: Prompts, own: Sequence[Sequence[int]], runs: Sequence[TokenRun]) -> Any:
        """All repeats of a strategy against AR's first answers."""
        every = [list(answer) for run in runs for answer in run.answers]
        again = len(runs)
        request = {"prompts": [*prompts] * again, "own": [list(answer) for answer in own] * again, "spoken": every}
        return self._ask("compare", **request, k=self._bench.size.k)[TARGET]


def _check_measured(name: str, participant: Participant, measured: Participant, pair: Path) -> None:
    """Raise :class:`InputError` for a model that is another than the pair's."""
    for what in ("config_sha256", "tokenizer_sha256", "parameters"):
        ours, theirs = getattr(participant, what), getattr(measured, what)
        if theirs is not None and ours != theirs:
            says = what.removesuffix("_sha256")
            raise InputError(
                f"{name} is not the model that {pair.name} was measured with ({measured.id}): other {says}"
            )


def _keep(path: Path, bench: TokenBench, seconds: Mapping[str, Seconds], prompts: int) -> None:
    document = {
        "schema": 1,
        "kind": "token-steps",
        "target": bench.models[TARGET],
        "draft": bench.models[DRAFT],
        "devices": bench.devices,
        "dtype": bench.dtype,
        "size": {**asdict(bench.size), "visits": 2 * bench.size.visits},
        "prompts": prompts,
        "seconds": seconds,
    }
    write_whole(path, json.dumps(document, indent=1) + "\n")
