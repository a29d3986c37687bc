"""``ssdsim validate pair`` but for printing: its options, and its answer. It loads torch only when models run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.pairs.measure.prompts import Prompt, read_prompts
from ssdsim.base.checks import text
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.base.files import write_whole
from ssdsim.base.kinds import OneOf, Text, Whole
from ssdsim.base.option import OptionRecord, option_field, options_of
from ssdsim.base.plain import document, picked
from ssdsim.base.progress import ProgressFactory, nobody
from ssdsim.base.record import Record
from ssdsim.question.options import ALL, refuse_others
from ssdsim.runs.layout import locked
from ssdsim.tokens.pair_file import Participant, load_pair
from ssdsim.transformer.operations import DTYPES

if TYPE_CHECKING:
    from calibration.validation.tokens.comparison import TokenComparison
    from calibration.validation.tokens.run import TokenBench

_CALIBRATION, _RESULT = "steps.json", "tokens.json"
_FOR_STEPS = 4  # prompts
_STRATEGIES = ALL["strategies"]


class RealPair(OptionRecord):
    """Work of the pair's real models, and where they do it."""

    requests: int = option_field(Whole(), "answered", 16)
    max_new_tokens: int = option_field(Whole(), "of an answer", 64)
    k: int = option_field(Whole(), "drafted tokens a round", 4)
    f: int = option_field(Whole(), "bonus tokens guessed for each outcome", 3)
    visits: int = option_field(
        Whole(8), "rounds whose steps are timed right before and right after each run; fewer for large models", 60
    )
    target: str | None = option_field(Text(), "the target's model", default_note="the pair's", spellings=("--model",))
    draft: str | None = option_field(Text(), "the draft's", default_note="the pair's")
    target_device: str = option_field(Text(), "cpu:0 or cuda:0", "cpu:0")
    draft_device: str | None = option_field(Text(), "the draft's own", default_note="the one after the target's")
    dtype: str | None = option_field(OneOf(DTYPES), "of weights", default_note="the pair's")
    strategies: Sequence[str] = option_field(
        _STRATEGIES.kind, _STRATEGIES.about, _STRATEGIES.default, spellings=_STRATEGIES.spellings
    )
    repeats: int = option_field(Whole(2), "runs of each strategy", 5)

    def bench(self, path: Path) -> TokenBench:
        """Bench of this pair."""
        from calibration.machine.devices import draft_devices, parse_devices
        from calibration.validation.tokens.calibration import Size
        from calibration.validation.tokens.run import RUNS, TokenBench

        pair = load_pair(path)
        for name in self.strategies:
            if name not in RUNS:
                raise InputError(f"--strategies: {name} has no steps of real tokens; allowed: {', '.join(RUNS)}")
        if "ar" not in self.strategies:
            raise InputError("--strategies: ar must be among them: its tokens are what the others' are compared with")
        target = parse_devices(self.target_device)
        devices = [target, draft_devices(self.draft_device, target)]
        for role, on in zip(("target", "draft"), devices, strict=True):
            if len(on) != 1:
                raise InputError(f"--{role}-device: one device for each model here, got {len(on) or 'none'}")
        if self.max_new_tokens < 2 * (self.k + 1):
            least = 2 * (self.k + 1)
            raise InputError(f"--max-new-tokens must be at least 2 (K + 1) = {least}, got {self.max_new_tokens}")
        return TokenBench(
            pair=path,
            models=(
                self.target or _model(pair.target, path, "target"),
                self.draft or _model(pair.draft, path, "draft"),
            ),
            devices=(devices[0][0], devices[1][0]),
            dtype=self.dtype or pair.target.dtype or pair.settings.dtype or "float32",
            template=pair.settings.chat_template or "auto",
            strategies=tuple(name for name in RUNS if name in self.strategies),
            size=Size(self.k, self.f, self.max_new_tokens, self.visits),
            repeats=self.repeats,
        )


def _model(named: Participant, path: Path, role: str) -> str:
    """The model that the file names: a folder beside it, or what transformers finds by that name."""
    if named.id is None:
        raise InputError(f"{path}: does not name its {role}: give --{role}")
    beside = path.parent / named.id
    return str(beside) if beside.exists() else named.id


def _prompts(path: Path, requests: int) -> tuple[list[Prompt], list[Prompt]]:
    """Choose prompts that steps are timed on, and others that are answered: never the same."""
    prompts = read_prompts(path, None)
    if len(prompts) < 2:
        raise InputError(f"{path}: one prompt; some are needed to time steps on, others to answer")
    for_steps = min(_FOR_STEPS, len(prompts) // 2)
    return prompts[:for_steps], prompts[for_steps:][:requests]


class ValidatedPair(Record):
    """Run of a pair and its comparisons, one a strategy."""

    bench: TokenBench
    comparisons: Sequence[TokenComparison]
    requests: int

    @property
    def worst_error(self) -> float:
        return max(each.worst_error for each in self.comparisons)

    @property
    def bugs(self) -> int:
        """Answers that are not the target's, but for near ties."""
        return sum(each.greedy.bugs for each in self.comparisons)

    def as_json(self) -> dict[str, Any]:
        """Record that is printed and kept."""
        parts = {
            "schema": 1,
            **picked(self.bench, "pair"),
            **dict(zip(("target", "draft"), self.bench.models, strict=True)),
            **picked(self.bench.size, "k", "new_tokens"),
            "f": self.bench.size.fan_out,
            "requests": self.requests,
            "comparisons": [each.shown() for each in self.comparisons],
            "worst_median_error": max(each.median_error for each in self.comparisons),
            "worst_error": self.worst_error,
        }
        return document(parts)


def validate_pair(
    pair: str | Path,
    prompts: str | Path,
    *,
    output: str | Path = "validation",
    told: ProgressFactory = nobody,
    **options: Any,
) -> ValidatedPair:
    """Run the models of a measured pair greedily, one request at a time, and compare with what its file predicts.

    Parameters
    ----------
    pair : a ``pair.json`` of ``ssdsim measure``.
    prompts : a file of prompts that the pair was not measured on.
    output : a folder that keeps the steps' timings and the answer.
    told : who hears how far it is.
    options : those of ``ssdsim validate pair``: ``requests``, ``k``, ``strategies``, ...

    Raises
    ------
    InputError : an option or a file that is none, libraries that are missing, or ranks that died.
    """
    refuse_others("validate pair", options, options_of(RealPair))
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise InputError(f"validate pair needs {name}: {install('measure')}")
    from calibration.machine.ranks import RankError
    from calibration.validation.tokens.run import run_tokens

    folder, real = Path(text("-o", output)), RealPair(**options)
    if folder.suffix in (".json", ".jsonl"):
        raise InputError(f"-o '{folder}' must be a folder, such as {folder.stem}")
    bench = real.bench(Path(text("a pair", pair)))
    timed, answered = _prompts(Path(text("a file of prompts", prompts)), real.requests)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (
            locked(folder / ".tokens.lock", folder, "validation"),
            told("validate", "runs of every strategy") as progress,
        ):
            comparisons = run_tokens(bench, timed, answered, folder / _CALIBRATION, progress)
    except RankError as error:
        raise InputError(str(error)) from None
    validated_pair = ValidatedPair(bench, comparisons, len(answered))
    write_whole(folder / _RESULT, json.dumps(validated_pair.as_json(), indent=1) + "\n")
    return validated_pair
