"""What the engines' dialects share: what each can say, and the notes on what it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssdsim import strategies
from ssdsim.answers.schedule.candidates import Candidates
from ssdsim.drafters.model import ModelDrafter
from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.scenario.drafting import draft_by_options
from ssdsim.scenario.options import DEFAULTS
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import DATA_PARALLEL

if TYPE_CHECKING:
    import pandas as pd

_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?: config\.json)?")

Write = Callable[[Candidates, Sequence[str], list[str], int], str]
"""The text of an engine, from candidates, names of strategies that it has, notes to add to, and a seed."""


@dataclass(frozen=True)
class Dialect:
    """An engine's words. ``name`` is the format's, ``title`` is what notes call the engine.

    ``expresses`` are the names of the strategies that it has a way to say, ``drafters`` what may draft for them.
    ``fixed`` are options that the engine fixes: the value, and the note where another one was asked for. ``check``
    raises :class:`InputError` where the engine cannot run what the options ask for, whichever strategy is best.
    ``runtime`` is the bundled card that it is priced with where neither a user nor the profile has another one.
    """

    name: str
    title: str
    expresses: Sequence[str]
    write: Write
    drafters: Sequence[str] = (ModelDrafter.name,)
    fixed: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] | None = None
    runtime: str | None = None

    def among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of ``names`` that it can say.

        Raises
        ------
        InputError : it can say none of them.
        """
        found = tuple(name for name in names if name in self.expresses)
        if not found:
            raise InputError(
                f"--format {self.name}: {self.title} has no {titles(names, 'or')}; it has {titles(self.expresses)}"
            )
        return found

    def check_drafter(self, name: str) -> None:
        """Raise :class:`InputError` where the engine's words know no such drafter."""
        if name not in self.drafters:
            allowed = ", ".join(self.drafters)
            raise InputError(f"--format {self.name} knows no drafter '{name}'; allowed: {allowed}")

    def note_missing(self, found: Candidates, best: pd.DataFrame, notes: list[str]) -> None:
        """What each strategy that the engine lacks would have brought over ``best``, which is exported."""
        all_of_them = found.best()
        for name in (name for name in found.strategies if name not in self.expresses):
            cells = all_of_them[all_of_them["strategy"] == name]
            if cells.empty:
                continue
            title = strategies.ALL.named(name).title
            both = cells.merge(best, on=["b", "context"], suffixes=("", "_without"))
            gain = (both["tokens_per_second"] / both["tokens_per_second_without"]).max()
            more = ", with the draft's devices more" if (both["gpus"] > both["gpus_without"]).all() else ""
            notes.append(
                f"{self.title} has no {title}: at {len(cells)} of {len(all_of_them)} cells {title} is best "
                f"(up to {gain:.2f}x what is exported here{more}); "
                f"the best of {titles(self.among(found.strategies))} is exported"
            )

    def note_shared(self, best: pd.DataFrame, axes: str, notes: list[str]) -> None:
        """What it costs that cells share one choice."""
        worst = best.sort_values("loss").to_dict("records")[-1]
        if worst["loss"] > 0.0:
            notes.append(
                f"{self.title} takes one K over {axes}: at most {worst['loss']:.1%} of tokens/s lost "
                f"(batch {worst['b']}, context {worst['context']})"
            )


def drafts_beside(engine: str) -> Mapping[str, tuple[Any, str]]:
    """What is fixed where an engine has no device for SD's draft."""
    where = "drafts on the target's devices: SD's draft is priced there, not on a device of its own"
    return {"sd_draft": ("colocated", f"{engine} {where}")}


def titles(names: Sequence[str], joined: str = "and") -> str:
    """``AR, SD and SSD``."""
    *others, last = (strategies.ALL.named(name).title for name in names)
    return f"{', '.join(others)} {joined} {last}" if others else last


def card(found: Candidates, role: str) -> Transformer:
    """The target's or the draft's."""
    if role == "draft":
        return draft_by_options(found.options)
    return find_transformer(found.options.get(role, DEFAULTS[role]))


def drafter_of(found: Candidates) -> str:
    """The name of what drafts."""
    return str(found.options.get("drafter") or DEFAULTS["drafter"])


def is_data_parallel(found: Candidates) -> bool:
    """Whether the target's devices have sequences of their own."""
    return bool(found.options.get("attention") == DATA_PARALLEL)


def hub_name(card: Transformer, notes: list[str]) -> str:
    """The Hugging Face name that the card was made from, or else the card's own."""
    match = _HUB_NAME.fullmatch(card.source)
    if match:
        return match[1]
    notes.append(f"{card.name} is not a Hugging Face name: put the model's path in its place")
    return card.name
