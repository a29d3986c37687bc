"""Fit what is supposed of acceptance where nobody measured it: by kind of drafter and of text, from what was published.

All is in logits of the one rate that yields a set's mean tokens. A unit is a drafter's card, or a pair whose rows
``ssdsim validate paper`` fits; its number is the median of its sets at temperature 0. A kind's value is the median of
its units. Its spread is theirs, drawn towards that of all kinds (as much as ``SHRUNK`` more units would), with what a
unit's texts differ by where the text is mixed, or what two reports of one head and text differ by where it is named.
Ends are ``BELOW`` and ``ABOVE`` spreads away: what is published are drafters that worked.

Run: python -m benchmarks.acceptance_priors   writes models/priors/acceptance.toml
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from calibration.validation.paper import PublishedSpeeds, load_paper, replay_families
from ssdsim.base.record import Record
from ssdsim.strategies import drafters
from ssdsim.strategies.drafters.model import ModelDrafter
from ssdsim.tokens.drafter_card import drafters_of
from ssdsim.tokens.priors import ABOVE, BELOW, MIXED, TEXTS, logit, share_of

HEAD = """# Made by `python -m benchmarks.acceptance_priors`, which says how. Rates are [low, median, high].
name = "acceptance"
source = """
OF = (
    "the bundled drafter cards (models/drafters); for draft models the rates that ssdsim validate paper fits to the SD "
    "rows of arXiv:2603.03251"
)
LEAST = (
    "users' reports of 0.0 to 0.4: drafts of another family, or far smaller than those that are published; MTP modules "
    "quantised to four bits"
)
CONTEXT = """
[context]
kinds = ["dflash", "dflash2", "domino", "dspark", "eagle", "eagle3", "glide", "medusa", "p-eagle", "pard"]
trained = 2048
longest = 20480
per_1024 = -0.22
source = """
OF_CONTEXT = (
    "holds the four lengths that are published of one EAGLE-3 head of Qwen3-8B, speculators PR 684: 2.295 tokens a "
    "round of K 3 at 2k, 1.687 at 8k, 1.090 at 16k, 1.084 at 20k; least squares has -0.18, with errors up to 0.42"
)
FILE = Path(__file__).parents[1] / "models/priors/acceptance.toml"
PAPER, HARDWARE = "kumar2026", "h100-sxm"
TEXT_OF = {"HumanEval": "code", "UltraFeedback": "chat", "Alpaca": "chat", "GSM8k": "maths"}
SHRUNK = 3
LIKE = {
    "p-eagle": ("eagle3", "pard"),
    "dflash2": ("dflash", "dspark"),
    "domino": ("dflash", "dspark"),
    "glide": ("eagle", "eagle3"),
    "longspec": ("eagle", "eagle3"),
}
"""Kinds without a card, and those of which the one with the widest range stands for them."""
LOOKED_UP = ("ngram", "suffix")
"""Kinds that repeat what was there: how texts differ for them says nothing of how they do for a model."""


class Seen(Record):
    """A set of published acceptance: of which unit, on which text (mixed where it is of no kind), and its logit."""

    kind: str
    unit: str
    text: str
    temperature: float
    data: str
    logit: float


def seen() -> Iterator[Seen]:
    """All sets that are bundled."""
    for card in drafters_of():
        for each in card.acceptance:
            yield Seen(card.drafter, card.name, each.text, each.temperature or 0.0, each.data, logit(each.one_rate))
    paper = load_paper(PAPER)
    assert isinstance(paper, PublishedSpeeds)
    for replay in replay_families(paper, HARDWARE):
        family = replay.family
        for data, alpha in zip(family.datasets, replay.alpha.tolist(), strict=True):
            yield Seen(ModelDrafter.name, family.draft, TEXT_OF[data], 0.0, data, logit(alpha))


class Fit:
    """All that is fitted to sets at temperature 0; temperature's own move to those that have both."""

    def __init__(self, sets: Sequence[Seen]) -> None:
        self.all = sets
        self.sets = [each for each in sets if each.temperature == 0.0]
        self.texts, self.spread_of_sets = self._texts()
        self.heads = self._heads()

    def _texts(self) -> tuple[Mapping[str, float], float]:
        """What each kind of text adds to a drafter's mean over all three, and the spread of its sets about that."""
        told = [each for each in self.sets if each.text != MIXED and each.kind not in LOOKED_UP]
        units = sorted(
            {one.unit for one, other in combinations(told, 2) if one.unit == other.unit and one.text != other.text}
        )
        rows = [each for each in told if each.unit in units]
        kinds = [text for text in TEXTS if text != MIXED]
        made = np.zeros((len(rows) + 1, len(units) + len(kinds)))
        for row, each in zip(made, rows, strict=False):
            row[[units.index(each.unit), len(units) + kinds.index(each.text)]] = 1.0
        made[-1, len(units) :] = 1.0  # the texts' moves sum to 0
        logits = np.array([*(each.logit for each in rows), 0.0])
        found = np.linalg.lstsq(made, logits)[0]
        spread = np.linalg.norm(made @ found - logits) / np.sqrt(len(rows) + 1 - len(found))
        return dict(zip(kinds, found[len(units) :].tolist(), strict=True)), float(spread)

    def units(self, kind: str) -> Mapping[str, list[Seen]]:
        own: dict[str, list[Seen]] = {}
        for each in self.sets:
            if each.kind == kind:
                own.setdefault(each.unit, []).append(each)
        return own

    def _heads(self) -> float:
        """The spread of drafters of one kind, over all kinds of which there are several."""
        squares, free = 0.0, 0
        for kind in {each.kind for each in self.sets}:
            middles = [float(np.median([each.logit for each in unit])) for unit in self.units(kind).values()]
            squares, free = squares + float(np.var(middles)) * len(middles), free + len(middles) - 1
        return float(np.sqrt(squares / free))

    @property
    def per_temperature(self) -> float:
        pairs = [
            (hot.logit - cold.logit) / (hot.temperature - cold.temperature)
            for cold in self.sets
            for hot in self.all
            if hot.unit == cold.unit and hot.temperature > cold.temperature
        ]
        return float(np.mean(pairs))

    @property
    def spread_of_texts(self) -> float:
        """The spread of one look-up's sets over all texts."""
        units = [[each.logit for each in unit] for kind in LOOKED_UP for unit in self.units(kind).values()]
        squares = sum(float(np.var(unit)) * len(unit) for unit in units)
        return float(np.sqrt(squares / sum(len(unit) - 1 for unit in units)))

    def kind(self, kind: str) -> dict[str, tuple[float, float, float]]:
        """Low, median and high by text."""
        units = self.units(kind)
        middles = [float(np.median([each.logit for each in unit])) for unit in units.values()]
        n = len(middles)
        of_units = (SHRUNK * self.heads**2 + float(np.var(middles)) * n) / (SHRUNK + n - 1.0) * (1.0 + 1.0 / n)
        of_texts = self.spread_of_texts**2 if kind in LOOKED_UP else float(np.var(list(self.texts.values())))
        made = {}
        for text in TEXTS:
            value = _median([self._on(unit, kind, text) for unit in units.values()])
            own = any(each.text == text for unit in units.values() for each in unit)
            unseen = text == MIXED or (kind in LOOKED_UP and not own)
            spread = np.sqrt(of_units + (of_texts if unseen else self.spread_of_sets**2))
            low, high = value - BELOW * spread, value + ABOVE * spread
            made[text] = tuple(round(share_of(float(each)), 2) for each in (low, value, high))
        return made

    def _on(self, unit: Sequence[Seen], kind: str, text: str) -> list[float]:
        """A unit's logits on a kind of text: of its sets of that kind, or else of all, moved there."""
        if text == MIXED:
            return [each.logit for each in unit]
        own = [each.logit for each in unit if each.text == text]
        moves = {} if kind in LOOKED_UP else self.texts
        return own or [each.logit + moves.get(text, 0.0) - moves.get(each.text, 0.0) for each in unit]


def _median(units: Iterable[Sequence[float]]) -> float:
    """The median of all units' numbers, where each unit weighs as much as another."""
    weighed = sorted((each, 1.0 / len(unit)) for unit in units for each in unit)
    below = np.cumsum([weight for _, weight in weighed]) / sum(weight for _, weight in weighed)
    first, last = (int(np.searchsorted(below, 0.5 + by)) for by in (-1e-9, 1e-9))
    return (weighed[first][0] + weighed[last][0]) / 2.0


def written() -> str:
    """The file's text."""
    fit = Fit(list(seen()))
    kinds = {kind: fit.kind(kind) for kind in drafters.ALL.names if fit.units(kind)}
    spreads = {"heads": fit.heads, "sets": fit.spread_of_sets, "per_temperature": fit.per_temperature}
    lines = [f'{HEAD}"{OF}"', *(f"{name} = {value:.2f}" for name, value in spreads.items())]
    lines += ["least = 0.1", f'least_source = "{LEAST}"', f'{CONTEXT}"{OF_CONTEXT}"', ""]
    for kind in drafters.ALL.names:
        of = kind if kind in kinds else max(LIKE[kind], key=lambda each: kinds[each][MIXED][2] - kinds[each][MIXED][0])
        lines += ["[[kinds]]", f'drafter = "{kind}"', f"cards = {len(fit.units(of))}"]
        lines += [f"sets = {sum(map(len, fit.units(of).values()))}", *([f'like = "{of}"'] if of != kind else [])]
        lines += [f"texts = {fit.spread_of_texts:.2f}"] if kind in LOOKED_UP else []
        lines += [f"{text} = {list(kinds[of][text])}" for text in TEXTS]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
