"""What the engines' dialects share: what each can express, and notes on what it cannot."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from os.path import exists, expanduser, isdir  # they take any text for a path, pathlib's raise at some
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.advise.candidates import Candidates, Chosen
from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.engine_versions import Runs
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.drafting import draft_by_options, drafter_by_options
from ssdsim.question.engines import Engine, titles
from ssdsim.question.options import DEFAULTS
from ssdsim.serving.schedule_file import Cell
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.tokens.rules import RULES
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import DATA_PARALLEL

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
LITTLE = 0.02  # of tokens/s: what a table must bring on average to be worth its trouble

Write = Callable[["Dialect", Candidates, Sequence[str], list[str]], str]
"""The text of an engine: in its dialect, from candidates, names of strategies that it runs, notes to add to."""


class Dialect(Record):
    """An engine's words. ``name`` is the format's, ``runtime`` the bundled card of the engine.

    What the engine runs is that card's to say, or that of another runtime of the same engine which a user names
    (``named``, by :meth:`priced_on`). ``drafters`` are those that the words can say. ``check`` raises
    :class:`InputError` where the engine cannot run what the options ask for, whichever strategy is best. ``one`` is the
    command of a single cell, of an engine that takes nothing over batch sizes. ``staged``: the target is on pipeline
    stages.
    """

    name: str
    runtime: str
    write: Write
    drafters: Sequence[str] = (ModelDrafter.name,)
    check: Callable[[Mapping[str, Any]], None] | None = None
    one: Callable[[Cell, Mapping[str, Any]], str] | None = None
    named: Runs | None = None
    staged: bool = False

    @property
    def runs(self) -> Runs:
        """The strategies and drafters that the engine runs."""
        runs = self.named or find_runtime(self.runtime).runs
        assert runs is not None  # every bundled engine says what it runs
        return runs

    @property
    def title(self) -> str:
        return self.runs.called

    def priced_on(self, options: Mapping[str, Any]) -> Dialect:
        """Copy the words for the engine of the runtime that the options name, where it is the same engine's."""
        named = options.get("engine")
        words = replace(self, staged=(options.get("pp") or 1) > 1)
        other = None if named is None else find_runtime(named)
        if other is None or other.runs is None or other.engine != find_runtime(self.runtime).engine:
            return words
        return replace(words, named=other.runs)

    def fixed(self) -> Mapping[str, tuple[Any, str]]:
        """Options that the engine fixes: the value, and the note where another one was asked for."""
        fixed_options: dict[str, tuple[Any, str]] = {}
        if self.runs.draft_gpus is not None:
            where = "drafts on the target's devices: SD's draft is priced there, not on a device of its own"
            fixed_options["sd_draft"] = ("colocated", f"{self.title} {where}")
        if self.runs.draft_gpus == 1:
            fixed_options["draft_gpus"] = (1, f"{self.title} has one draft GPU: SSD is priced with one")
        return fixed_options

    def drafted_by(self, drafter: str) -> Engine:
        """The engine's abilities with a drafter."""
        return Engine(self.runs, drafter, staged=self.staged)

    def check_tests(self, options: Mapping[str, Any]) -> None:
        """Raise :class:`InputError` where options test drafts as the engine cannot be told to."""
        for said in self.drafted_by(drafter_by_options(options)).lacks_tests(options):
            can = [f"--acceptance-rule {each}" if each in RULES.files else spelled(each) for each in self.runs.tests]
            allowed = ", ".join(can) or "none"
            raise InputError(f"--format {self.name} has no switch for {said}; it has switches for: {allowed}")

    def among(self, names: Sequence[str], drafter: str) -> tuple[str, ...]:
        """The strategies of ``names`` that the engine runs."""
        if drafter not in self.drafters:
            raise InputError(f"--format {self.name} knows no drafter '{drafter}'; allowed: {', '.join(self.drafters)}")
        try:
            return self.drafted_by(drafter).runnable(names)
        except InputError as error:
            raise InputError(f"--format {self.name}: {error}") from None

    def note_missing(self, candidates: Candidates, best: Sequence[Chosen], notes: list[str]) -> None:
        """Note how much faster than ``best``, which is exported, each strategy is that the engine lacks."""
        all_of_them, exported = candidates.best(), {(each.b, each.context): each for each in best}
        engine = self.drafted_by(drafter_of(candidates))
        own = [name for name in candidates.strategies if engine.lacks(name) is None]
        for name in (name for name in candidates.strategies if name not in own):
            cells = [each for each in all_of_them if each.strategy == name]
            both = [(each, at) for each in cells if (at := exported.get((each.b, each.context))) is not None]
            if not both:
                continue
            title = strategies.ALL.named(name).title
            gain = max(each.rate.median / at.rate.median for each, at in both)
            dearer = all(each.deployment.gpus > at.deployment.gpus for each, at in both)
            more = ", with the draft's devices more" if dearer else ""
            over = " over pipeline stages" if self.runs.has(name, engine.drafter) else ""
            notes.append(
                f"{self.title} has no {title}{over}: at {len(cells)} of {len(all_of_them)} cells {title} is best "
                f"(up to {gain:.2f}x what is exported here{more}); "
                f"the best of {titles(own)} is exported"
            )

    def tables(self, candidates: Candidates) -> bool:
        """Say whether K follows the batch size: not where devices have own sequences, which may choose others."""
        return self.runs.k_by_batch and not is_data_parallel(candidates)

    def exported(
        self, candidates: Candidates, names: Sequence[str], notes: list[str], lost: float = 0.0
    ) -> list[Chosen]:
        """The best candidate of each cell, with notes on what they share and what the engine lacks.

        K follows the batch size where it can, and where that gains more than the share that a table makes be ``lost``.
        No engine's table has an axis for the context: a batch size gets the K of the best geometric mean over the
        contexts.
        """
        one = candidates.best(names, by=())
        best = candidates.best(names, by=("b",)) if self.tables(candidates) else one
        is_tabled = best is not one and self._pays(best, one, notes, max(lost, LITTLE))
        best = best if is_tabled else one
        self.note_shared(best, "contexts" if is_tabled else "batch sizes and contexts", notes)
        self.note_missing(candidates, best, notes)
        return best

    def _pays(self, tabled: Sequence[Chosen], one: Sequence[Chosen], notes: list[str], least: float) -> bool:
        """Say whether a K for each batch size gains more than the least over the best single one, with a note on it."""
        alone = {(each.b, each.context): each for each in one}
        both = [(each, alone[each.b, each.context]) for each in tabled if (each.b, each.context) in alone]
        if len(both) < len(tabled) or len({each.lookahead for each in tabled}) < 2:
            return bool(tabled)
        gains = [math.log(each.rate.median / shared.rate.median) for each, shared in both]
        most, k = both[int(np.argmax(gains))][0].b, both[0][1].lookahead
        mean, said = float(np.expm1(np.mean(gains))), f"K {k}" if k else "no speculation"
        if mean < least:
            costs = f", and cost {least:.0%}" if least > LITTLE else ""
            notes.append(f"{said} at all batch sizes: a table over them would gain {max(0.0, mean):.1%}{costs}")
            return False
        top = f"at most {math.expm1(max(gains)):.1%}, at batch {most}"
        notes.append(f"the table over batch sizes is worth {mean:.1%} over {said} at all of them ({top})")
        return True

    def note_shared(self, best: Sequence[Chosen], axes: str, notes: list[str]) -> None:
        """Note the loss of one choice for all cells."""
        worst = max(best, key=lambda each: each.loss)
        if worst.loss > 0.0:
            notes.append(
                f"{self.title} takes one K over {axes}: at most {worst.loss:.1%} of tokens/s lost "
                f"(batch {worst.b}, context {worst.context})"
            )


def by_batch(best: Sequence[Chosen], engines: int, notes: list[str]) -> dict[int, int]:
    """The K of each batch size of ``best``, in their order.

    Where devices have sequences of their own, each is an engine with its own batch size, a part of ours.
    """
    of_batch = {each.b: each.lookahead for each in sorted(best, key=lambda each: each.b)}
    lookahead_by_batch = {-(-b // engines): k for b, k in of_batch.items()}
    if len(lookahead_by_batch) < len(of_batch):
        notes.append(f"batches that {engines} engines share alike have one row of the table: the largest one's")
    return lookahead_by_batch


def ranges(lookaheads: Mapping[int, int]) -> list[list[int]]:
    """``[first, last, K]`` with both ends included, from 1 to the largest batch size, without gaps.

    Ranges meet half way (in ratio) between two batch sizes.
    """
    batches = sorted(lookaheads)
    ends = [max(low, math.ceil(math.sqrt(low * high)) - 1) for low, high in pairwise(batches)] + [batches[-1]]
    ranges: list[list[int]] = []
    for k, ends_of_k in groupby(zip(batches, ends, strict=True), key=lambda item: lookaheads[item[0]]):
        first = ranges[-1][1] + 1 if ranges else 1
        ranges.append([first, list(ends_of_k)[-1][1], k])
    return ranges


def card(options: Mapping[str, Any], role: str) -> Transformer:
    """The transformer card of the target or the draft."""
    if role == "draft":
        return draft_by_options(options)
    return find_transformer(options.get(role, DEFAULTS[role]))


def drafter_of(candidates: Candidates) -> str:
    """The name of what drafts."""
    return drafter_by_options(candidates.options)


def shared_by(candidates: Candidates) -> int:
    """The number of the target's devices that share each sequence's cache."""
    return int(candidates.options.get("dcp") or DEFAULTS["dcp"])


def is_data_parallel(candidates: Candidates) -> bool:
    """Say whether the target's devices have sequences of their own."""
    return bool(candidates.options.get("attention") == DATA_PARALLEL)


def stages_flags(flag: str, candidates: Candidates) -> list[str]:
    """An engine's ``flag`` for pipeline stages, where there are several."""
    pp = candidates.options.get("pp", DEFAULTS["pp"])
    return [flag, str(pp)] if pp > 1 else []


def here_document(name: str, text: str) -> str:
    """The lines of a shell that write ``text``, of whole lines, to a file: no line of it ends them."""
    end = "END"
    while end in text.splitlines():
        end += "_"
    return f"cat > {shlex.quote(name)} <<'{end}'\n{text}{end}"


def checkpoint(candidates: Candidates, role: str, notes: list[str]) -> str:
    """The checkpoint that the engine loads for a role, as :func:`loaded_name` has it."""
    return loaded_name(str(candidates.options.get(role) or ""), card(candidates.options, role), notes)


def loaded_name(named: str, known: Transformer, notes: list[str]) -> str:
    """The hub's name or the folder that a user gave, else what the card says to serve.

    Where no checkpoint is known a word stands in its place that no engine takes for one, and a note says so.
    """
    path = Path(expanduser(named))
    if named and (isdir(path) or path.suffix == ".json"):
        return str(path if isdir(path) else path.parent)
    if _HUB_NAME.fullmatch(named) and not exists(path):
        return named
    if known.checkpoint:
        return known.checkpoint
    stand_in = f"PATH-OF-{known.name}"
    notes.append(f"no checkpoint of {known.name} is known here: put its path in the place of {stand_in}")
    return stand_in
