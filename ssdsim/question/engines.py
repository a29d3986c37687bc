"""The named engine's abilities: answers rank what it can run, and the rest stands apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.base.record import Record
from ssdsim.base.settings import DEFAULT, Settings
from ssdsim.hardware.catalog import is_gguf
from ssdsim.hardware.engine_versions import Runs
from ssdsim.hardware.runtime_catalog import find_runtime, own_runtime
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.options import ALL
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.rules import TOKEN
from ssdsim.tokens.saguaro import PLAIN

OF_FILE = "what runs GGUF files"
"""The source of an engine that follows from the target."""
_RUNS_GGUF = "llama-cpp"
TESTS = ("acceptance_rule", "acceptance_floor", "draft_p_min")
"""Options of how drafts are tested."""


class Engine(Record):
    """An engine's abilities with a drafter; ``runs`` is None where nobody named one, or nothing is known of it.

    ``staged``: the target is on pipeline stages.
    """

    runs: Runs | None
    drafter: str
    name: str | None = None
    staged: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Engine:
        """The engine whose runtime the options name, or that runs the target's file."""
        named = options.get("engine") or engine_of_file(options)
        runs, pp = None if named is None else find_runtime(named).runs, options.get("pp")
        return cls(runs, drafter_by_options(options), named, isinstance(pp, int) and pp > 1)

    @property
    def called(self) -> str | None:
        return None if self.runs is None else self.runs.called

    def lacks(self, strategy: str) -> str | None:
        """The lack of a strategy, in words that follow its name; None where the engine runs it."""
        if self.runs is None:
            return None
        if self.runs.has(strategy, self.drafter):
            return self._lacks_stages(strategy) if self.staged else None
        if (version := self.runs.comes_with(strategy, self.drafter)) is not None:
            drafting = drafters.ALL.named(self.drafter).title
            return f"which {self.runs.called} has with {drafting} from {version} on"
        if strategy in self.runs.strategies:
            return f"which {self.runs.called} does not draft with {drafters.ALL.named(self.drafter).title}"
        return f"which {self.runs.called} does not have"

    def _lacks_stages(self, strategy: str) -> str | None:
        """The lack of a strategy that it runs on one stage, where the target is on several."""
        drafting, over = strategies.ALL.named(strategy).drafts, self.runs.over_stages if self.runs else ()
        if over is None:
            return f"which {self.called} does not run on pipeline stages"
        if not drafting or self.drafter in over:
            return None
        return f"which {self.called} does not run on pipeline stages with {drafters.ALL.named(self.drafter).title}"

    def lacks_devices(self, draft: int, targets: int = 1) -> str | None:
        """The reason why a draft has too many own devices, or ``targets`` that share them; None where it has not."""
        if self.runs is not None and targets > 1:
            return f"which {self.runs.called} does not have: a draft has one target"
        if self.runs is None or self.runs.draft_gpus is None or draft <= self.runs.draft_gpus:
            return None
        most = self.runs.draft_gpus
        on = "on the target's GPUs" if most == 0 else f"on {most} GPU{'s' if most > 1 else ''} of its own"
        return f"which {self.runs.called} does not have: it drafts {on}"

    def lacks_scale(self, names: Collection[str], c: object) -> str | None:
        """The lack of Saguaro's C where it was given, in a sentence: of those of ``names`` that may sample by it."""
        if self.runs is None or c in (None, PLAIN, ALL[SAGUARO.option].unsaid):
            return None
        own = [each.name for each in strategies.ALL if any(option.name == SAGUARO.option for option in each.options)]
        without = [name for name in own if name in names and name not in self.runs.saguaro]
        said = f"{self.called} does not scale the draft's tokens of"
        return f"{said} {titles(without)} (--saguaro-c)" if without else None

    def said_of_sharing(self, names: Collection[str], dcp: object) -> tuple[str | None, str]:
        """The lack of caches that devices share with some of ``names``, in a sentence; what its card says of them."""
        if self.runs is None or dcp in (None, 1):
            return None, ""
        said = self.runs.since.get("dcp", "")
        without = [name for name in names if self.lacks(name) is None and name not in self.runs.dcp]
        lack = f"{self.called} does not share a cache over devices with {titles(without)} (--dcp)" if without else None
        return lack, said

    def lacks_tests(self, options: Mapping[str, Any]) -> list[str]:
        """The ways to test drafts that are asked for and that it cannot be told, as a user says them."""
        rule, *others = TESTS
        asked = {options.get(rule) or TOKEN: f"{spelled(rule)} {options.get(rule)}"}
        asked |= {name: spelled(name) for name in others if options.get(name) is not None}
        tests = None if self.runs is None else (TOKEN, *self.runs.tests)
        return [said for name, said in asked.items() if tests is not None and name not in tests]

    def runnable(self, names: Sequence[str]) -> tuple[str, ...]:
        """The strategies of ``names`` that the engine runs."""
        runnable = tuple(name for name in names if self.lacks(name) is None)
        if runnable or self.runs is None:
            return runnable
        if self.staged and self.runs.over_stages is None:
            raise InputError(f"{self.runs.called} keeps no batches in flight on pipeline stages: leave --pp out")
        own = [name for name in self.runs.strategies if self.runs.has(name, self.drafter)]
        drafting = f" with {drafters.ALL.named(self.drafter).title}" if self.runs.strategies.keys() & set(names) else ""
        priced = f"ssdsim predict --engine {self.name} --strategies {','.join(dict.fromkeys((*own, *names)))}"
        lacking = f"{self.runs.called} has no {titles(names, 'or')}{drafting}; it has {titles(own)}"
        raise InputError(f"{lacking}; priced as if it had: {priced}" if self.name else lacking)

    def subject(self, names: Sequence[str], asked: str | None) -> str:
        """The strategy that an answer is about, among those of ``names`` that it runs."""
        ranked = self.runnable(names)
        if asked is None or asked not in names or asked in ranked:
            return subject_among(names if asked is not None else ranked, asked)
        own = titles([name for name in names if name in ranked])
        raise InputError(f"--subject {asked}: {self.called} has no {titles([asked])}; of --strategies it has {own}")


def strategies_by_options(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Whom the options that were given alone compare: those named, or of the default ones what the engine runs."""
    if (named := given.get("strategies")) is not None:
        return tuple(ALL["strategies"].checked(named))
    engine = engine_by_options(given)
    runs = None if engine is None else find_runtime(engine).runs
    return tuple(name for name in strategies.DEFAULT if runs is None or name in runs.strategies)


def engine_of_file(given: Mapping[str, Any]) -> str | None:
    """The engine of a target that is a GGUF file, where nobody names one and none lies beside the profile."""
    target, hardware = (given.get(name) for name in ("target", "hardware"))
    if given.get("engine") is not None or not isinstance(target, str) or not is_gguf(target):
        return None
    own = own_runtime(hardware) if isinstance(hardware, str) else None
    return _RUNS_GGUF if own is None else None


def engine_by_options(given: Mapping[str, Any]) -> str | None:
    """The engine that is named, that runs the target's file, or that lies beside the profile; None where none is so."""
    engine, hardware = given.get("engine"), given.get("hardware")
    if engine is not None:
        return engine if isinstance(engine, str) else None  # a grid may have several
    own = own_runtime(hardware) if isinstance(hardware, str) and given.get("t_sd") is None else None
    return engine_of_file(given) if own is None else str(own)


def settle_engine(settings: Settings) -> None:
    """Derive the engine of a file that one engine runs, and who is compared where an engine says it and nobody else."""
    if (of_file := engine_of_file(settings)) is not None:
        settings.settle("engine", of_file, OF_FILE)
    engine = engine_by_options(settings) if settings.source("strategies") == DEFAULT else None
    if engine is not None:
        names = strategies_by_options({"engine": engine})
        if names and names != settings["strategies"]:
            settings.settle("strategies", names, f"what {find_runtime(engine).engine} runs")


def subject_among(names: Sequence[str], asked: str | None) -> str:
    """The strategy that an answer is about: the one asked for, else the default one if among ``names``, else the last.

    Raises
    ------
    InputError : the one asked for is not among them.
    """
    if asked is not None:
        strategies.ALL.named(asked)
        if asked not in names:
            raise InputError(f"--subject {asked} is not among --strategies {','.join(names)}")
        return asked
    return strategies.SUBJECT if strategies.SUBJECT in names else names[-1]


def engine_warnings(targets: Mapping[str, int], options: Mapping[str, Any]) -> Iterator[str]:
    """Warnings of strategies, whose drafts have so many targets, priced on a named engine that cannot run them so."""
    engine = Engine.of(options)
    if (said := engine.lacks_scale(targets, options.get(SAGUARO.option))) is not None:
        yield f"{said}; this prices it as if it did"
    lack, how_far = engine.said_of_sharing(targets, options.get("dcp"))
    if lack is not None:
        yield f"{lack}; this prices it as if it did{f': it has {how_far}' if how_far else ''}"
    elif how_far:
        yield f"--dcp on {engine.called}: {how_far}"
    for said in engine.lacks_tests(options):
        yield f"{engine.called} has no switch for {said}; this prices it as if it did"
    for name, sharing in targets.items():
        lacking = engine.lacks(name) or engine.lacks_devices(0, sharing)
        if lacking is None:
            continue
        title = strategies.ALL.named(name).title
        not_there = lacking == f"which {engine.called} does not have"
        said = f"{engine.called} does not implement {title}" if not_there else f"{title}, {lacking}"
        yield f"{said}; this prices it as if it did"


def titles(names: Sequence[str], joined: str = "and") -> str:
    """``AR, SD and SSD``."""
    *others, last = (strategies.ALL.named(name).title for name in names)
    return f"{', '.join(others)} {joined} {last}" if others else last
