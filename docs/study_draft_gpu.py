"""Is one more GPU that drafts still the best use of a GPU? SSD against the drafters and schedules of 2026.

    python docs/study_draft_gpu.py       (writes study_draft_gpu.md and its pictures; some minutes on two cores)

Three targets on 5 to 20 H100s and H200s. Every contender has its best settings, copies and degrees on the GPUs that
there are. What nobody published is looked at over its plausible range.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import study_pictures
from scipy.optimize import brentq

from ssdsim.answers.grid import Evaluator, PointResult
from ssdsim.base.intervals import bounds_95
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import RateDraws
from ssdsim.question.scenario import Scenario

TARGETS = ("llama-3.1-70b", "qwen3-32b", "qwen3-8b")
HARDWARE = ("h100-sxm", "h200-sxm")
BUDGETS = (5, 8, 10, 20)
BATCHES = (1, 4, 16, 64, 256)
DEGREES = (1, 2, 4, 8)
DRAWS, SEED = 1000, 0

BLOCK = 7
LOOKAHEADS = (2, 4, 7, 11, 16)
"""Of draft models, which have no block and whose rates by position nobody published."""
TEXTS = {"GSM8K": (6.17, 5.30), "MBPP": (5.16, 3.96), "MT-Bench": (3.72, 2.66)}
"""Accepted lengths at K 7, temperature 1, Qwen3-8B: DSpark and EAGLE-3 (DSpark, arXiv 2607.05147, table 1)."""
TEXT = "MBPP"

ALPHA, ALPHAS = 0.8, (0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the small draft model, which nobody published on these texts: the default, and its plausible range."""
HITS, HIT_ENDS = (0.4, 0.7), ((1.0, 0.2), (0.3, 0.9))
"""Of SSD's cache, c and r of 1 - c F^-r: the default, and the ends of their plausible ranges."""
SPREAD, SPREADS = 2.8, (1.8, 5.0)
SURE = 0.99
NOT_REACHED = 1.0

SSD, SD, MINE, FIXED, ADAPTIVE, EAGLE, TREE, AR = (
    "SSD",
    "SD",
    "MineDraft",
    "DSpark",
    "DSpark, adaptive",
    "EAGLE-3",
    "EAGLE-3, tree",
    "AR",
)
SHARED = "SSD, draft shared"
SHARERS = (2, 4, 8)
"""Targets that share a draft GPU."""
FREE = "SSD, its draft GPU for nothing"
"""No contender: what no sharing of the draft GPU can surpass."""
BY_MODEL = (SSD, SHARED, SD, MINE)
WITHOUT_MODEL = (FIXED, ADAPTIVE, EAGLE, TREE, AR)


def alpha_of(length: float) -> float:
    """The one rate by which a chain of 7 has such an accepted length."""
    return float(brentq(lambda alpha: sum(alpha**k for k in range(BLOCK + 1)) - length, 0.0, 1.0))


@dataclass(frozen=True)
class Unknown:
    """A look at what is not known."""

    text: str = TEXT
    alpha: float = ALPHA
    hits: tuple[float, float] = HITS
    spread: float = SPREAD
    choosing_ms: float = 0.0
    runtime: str | None = None


CENTRE = Unknown()
ENDS: Mapping[str, Sequence[Unknown]] = {
    "acceptance of the draft model, 0.5 to 0.9": [Unknown(alpha=alpha) for alpha in (ALPHAS[0], ALPHAS[-1])],
    "hits of SSD's cache, c 1 to 0.3 and r 0.2 to 0.9": [Unknown(hits=hits) for hits in HIT_ENDS],
    "text: MT-Bench to GSM8K": [Unknown(text=text) for text in ("MT-Bench", "GSM8K")],
    "what confidences know, s 5 to 1.8": [Unknown(spread=spread) for spread in SPREADS[::-1]],
    "time to choose rows, 0 to 1 ms": [Unknown(choosing_ms=ms) for ms in (0.0, 1.0)],
    "the engine: vLLM's costs in place of SSD's": [Unknown(runtime="vllm")],
}
BOX = [
    Unknown(text, alpha, hits, spread)
    for text, alpha, hits, spread in itertools.product(TEXTS, ALPHAS, (HITS, *HIT_ENDS), (SPREAD, *SPREADS))
]


READS: Mapping[str, tuple[str, ...]] = {
    SSD: ("alpha", "hits"),
    SHARED: ("alpha", "hits"),
    FREE: ("alpha", "hits"),
    SD: ("alpha",),
    MINE: ("alpha",),
    FIXED: ("text",),
    ADAPTIVE: ("text", "spread", "choosing_ms"),
    EAGLE: ("text",),
    TREE: ("text", "hits"),
    AR: (),
}
"""What each contender rests on, of what is not known; all rest on the engine."""


def settings_of(name: str, unknown: Unknown) -> Iterator[dict[str, Any]]:
    """A contender's settings, the fastest of which is its best."""
    dspark, eagle = (alpha_of(length) for length in TEXTS[unknown.text])
    beside = {"sd_draft": "colocated"}
    hits = {"hit_c": unknown.hits[0], "hit_r": unknown.hits[1]}
    block = {"drafter": "dspark", "k": BLOCK, "alpha": dspark, **beside}
    head = {"drafter": "eagle3", "alpha": eagle, **beside}
    match name:
        case "AR":
            yield {"strategies": "ar"}
        case "DSpark":
            yield {"strategies": "sd", **block}
        case "DSpark, adaptive":
            chosen = {"confidence_spread": unknown.spread, "adaptive_ms": unknown.choosing_ms}
            yield {"strategies": "adaptive", **block, **chosen}
        case "EAGLE-3":
            yield from ({"strategies": "sd", **head, "k": k} for k in (2, 4, 7))
        case "EAGLE-3, tree":
            for nodes, depth in ((4, 3), (16, 5), (64, 7)):
                yield {"strategies": "tree", **head, **hits, "tree_nodes": nodes, "tree_depth": depth}
        case "SD":
            yield from ({"strategies": "sd", "alpha": unknown.alpha, "k": k, **beside} for k in LOOKAHEADS)
        case "MineDraft":
            yield from ({"strategies": "minedraft", "alpha": unknown.alpha, "k": k} for k in LOOKAHEADS)
        case "SSD, draft shared":
            own = settings_of(SSD, unknown)
            yield from ({**options, "targets": count} for options, count in itertools.product(own, SHARERS))
        case _:
            for k, f in itertools.product(LOOKAHEADS, (1, 2, 4, 8)):
                yield {"strategies": "ssd", "alpha": unknown.alpha, "k": k, "f": f, "backup": "auto", **hits}


@dataclass(frozen=True)
class Best:
    """A contender's fastest deployment: tokens/s of a user, and what its fullest target does."""

    per_user: float
    result: PointResult


@dataclass
class Place:
    """A target on GPUs of a kind; every scenario is priced once."""

    target: str
    hardware: str
    _evaluator: Evaluator = field(default_factory=Evaluator)
    _found: dict[Any, dict[tuple[int, int], Best]] = field(default_factory=dict)

    def best(self, name: str, unknown: Unknown) -> dict[tuple[int, int], Best]:
        """A contender's best by GPUs and batch."""
        key = name, unknown.runtime, *(getattr(unknown, each) for each in READS[name])
        if key not in self._found:
            self._found[key] = self._searched(name, unknown)
        return self._found[key]

    def _searched(self, name: str, unknown: Unknown) -> dict[tuple[int, int], Best]:
        site = {"target": self.target, "hardware": self.hardware}
        site |= {"engine": unknown.runtime} if unknown.runtime else {}
        apart = int(name in (SSD, SHARED, MINE))

        def groups(options: Mapping[str, Any], budget: int, batch: int) -> dict[int, int]:
            """How many sequences each target has, by how many draft GPUs there are with their targets."""
            targets = options.get("targets", 1)
            most = min(budget // (targets * options["tp"] + apart), batch // targets)
            return {count: -(-batch // (count * targets)) for count in range(1, most + 1)}

        points = [
            {**site, **options, "tp": tp, "b": size}
            for options, tp in itertools.product(settings_of(name, unknown), DEGREES)
            for size in sorted({n for b in BATCHES for n in groups({**options, "tp": tp}, max(BUDGETS), b).values()})
        ]
        table = self._evaluator.fastest(points)
        best: dict[tuple[int, int], Best] = {}
        for point, result, rate in zip(points, table.results, table.tokens_per_second, strict=True):
            if isinstance(result, str):  # no room
                continue
            size = point["b"]
            for cell in itertools.product(BUDGETS, BATCHES):
                fits = size in groups(point, *cell).values()
                if fits and (cell not in best or rate / size > best[cell].per_user):
                    best[cell] = Best(rate / size, result)
        return best

    def rates(self, unknown: Unknown, budget: int, batch: int) -> dict[str, float]:
        """Tokens/s of a user by contender."""
        found = ((name, self.best(name, unknown).get((budget, batch))) for name in (*BY_MODEL, *WITHOUT_MODEL))
        return {name: best.per_user for name, best in found if best is not None}

    def over(self, unknown: Unknown, budget: int, batch: int, name: str = SSD) -> float:
        """SSD over the fastest of those whose acceptance is published, and AR."""
        rates = self.rates(unknown, budget, batch)
        ssd = self.best(name, unknown)[budget, batch].per_user
        return ssd / max(rates[other] for other in WITHOUT_MODEL if other in rates)

    def break_even(self, budget: int, batch: int, text: str, hits: tuple[float, float]) -> float:
        """The draft model's acceptance from which SSD is the faster; 1 where it is not up to 0.99."""
        alphas = (*ALPHAS, 0.95, SURE)
        ratios = [self.over(Unknown(text, alpha, hits), budget, batch) for alpha in alphas]
        if ratios[-1] < 1.0:
            return NOT_REACHED
        above = next(number for number, ratio in enumerate(ratios) if ratio >= 1.0)
        if above == 0:
            return alphas[0]
        return float(np.interp(1.0, ratios[above - 1 : above + 1], alphas[above - 1 : above + 1]))

    def interval(self, budget: int, batch: int) -> tuple[float, float]:
        """Of SSD over its fastest rival at the centre: 95 % under timings' errors and the ranges of acceptance."""
        rates = self.rates(CENTRE, budget, batch)
        rival = max((name for name in WITHOUT_MODEL if name in rates), key=lambda name: rates[name])
        ssd, other = (self.best(name, CENTRE)[budget, batch].result.scenario for name in (SSD, rival))
        errors = TimingErrors(DRAWS, SEED)
        mine, theirs = (RateDraws.of(each, errors).joint / each.batch for each in (self._with_ranges(ssd), other))
        low, high = bounds_95(mine / theirs)
        return float(low), float(high)

    def _with_ranges(self, scenario: Scenario) -> Scenario:
        """The same deployment, whose acceptance and hits may lie anywhere in their plausible ranges."""
        ranges = (("alpha", ALPHAS[0], ALPHAS[-1]), ("hit_c", 0.3, 1.0), ("hit_r", 0.2, 0.9))
        options = {name: scenario.settings[name] for name in ("target", "hardware", "tp", "b", "k", "f", "backup")}
        given = {**options, "alpha": ALPHA, "hit_c": HITS[0], "hit_r": HITS[1], "ranges": ranges}
        (found,) = Evaluator().fastest([{**given, "strategies": ("ssd",)}]).results
        assert isinstance(found, PointResult)
        return found.scenario


Cell = tuple[Place, int, int]


@dataclass
class Study:
    """All places, budgets and batches."""

    places: Sequence[Place]

    @property
    def cells(self) -> Iterator[Cell]:
        yield from itertools.product(self.places, BUDGETS, BATCHES)

    @cached_property
    def fits(self) -> list[Cell]:
        """Where SSD has room."""
        return [cell for cell in self.cells if SSD in cell[0].rates(CENTRE, *cell[1:])]

    def winner(self, cell: Cell, unknown: Unknown, without: Sequence[str] = ()) -> str:
        """The fastest; DSpark with all rows is no contender beside adaptive verification, which may verify all."""
        place, *at = cell
        rates = place.rates(unknown, *at)
        return max((name for name in rates if name not in (FIXED, *without)), key=lambda name: rates[name])

    @cached_property
    def possible(self) -> dict[tuple[str, str, int, int], Counter[str]]:
        """How often each contender is the fastest of a cell, over all looks at what is not known."""
        counters: dict[tuple[str, str, int, int], Counter[str]] = {}
        for cell in self.cells:
            place, budget, batch = cell
            counters[place.target, place.hardware, budget, batch] = Counter(self.winner(cell, look) for look in BOX)
        return counters

    def needed(self, target: str) -> list[float]:
        """The acceptance from which SSD wins in each case of a target."""
        return [place.break_even(*at, TEXT, HITS) for place, *at in self.fits if place.target == target]

    def swing(self, looks: Sequence[Unknown]) -> tuple[float, float]:
        """SSD over its rival at the looks, over what it is at the centre: medians over the cells."""
        each = [[p.over(look, g, b) / p.over(CENTRE, g, b) for look in looks] for p, g, b in self.fits]
        middle = np.median(each, axis=0)
        return float(middle[0]), float(middle[-1])


def main() -> None:
    study = Study([Place(target, hardware) for target in TARGETS for hardware in HARDWARE])
    here = Path(__file__)
    here.with_suffix(".md").write_text(page(study), encoding="utf-8")
    for name, drawing in pictures(study).items():
        here.with_name(f"study-{name}.svg").write_text(drawing, encoding="utf-8")


# the page


def page(study: Study) -> str:
    cells, looks = len(study.possible), len(BOX)
    centre = Counter(study.winner(cell, CENTRE) for cell in study.cells)
    others = Counter(study.winner(cell, CENTRE, without=(ADAPTIVE,)) for cell in study.cells)
    chains = Counter(study.winner(cell, CENTRE, without=(ADAPTIVE, TREE)) for cell in study.cells)
    sure = Counter(next(iter(c)) for c in study.possible.values() if len(c) == 1)
    share = Counter[str]()
    for counter in study.possible.values():
        share.update({name: count / cells / looks for name, count in counter.items()})
    (first, first_cells), *_ = centre.most_common(1)
    large = [each for each in study.fits if each[0].target == "llama-3.1-70b" and each[1] == 5 and each[2] <= 16]
    free = [place.over(CENTRE, *at, name=FREE) for place, *at in study.fits]
    sharing = [(p, *at) for p, *at in study.fits if SHARED in p.rates(CENTRE, *at)]
    gained = [rates[SHARED] / rates[SSD] for rates in (p.rates(CENTRE, *at) for p, *at in sharing)]
    gains = [rates[ADAPTIVE] / rates[FIXED] - 1.0 for rates in (p.rates(CENTRE, *at) for p, *at in study.cells)]
    return _PAGE.format(
        cells=cells,
        looks=looks,
        first=first,
        first_cells=first_cells,
        ssd_centre=centre[SSD] + centre[SHARED],
        ssd_others=others[SSD] + others[SHARED],
        eagle_others=others[EAGLE] + others[TREE],
        ssd_chains=chains[SSD] + chains[SHARED],
        mine_ever=sum(MINE in counter for counter in study.possible.values()),
        mine_share=f"{max(c[MINE] / looks for c in study.possible.values()):.0%}",
        ratios=f"{_median(study, CENTRE):.2f}",
        best_ratio=f"{max(place.over(CENTRE, *at) for place, *at in study.fits):.2f}",
        large=_span([place.over(CENTRE, *at) for place, *at in large]),
        large_needed=_span([place.break_even(*at, TEXT, HITS) for place, *at in large]),
        large_cells=len(large),
        holding=sum(low < 1.0 < high for low, high in (place.interval(*at) for place, *at in large)),
        sibling=f"DSpark keeps {alpha_of(TEXTS[TEXT][0]):.2f} a token on that text ({TEXT}).",
        middle_needed=_span([each for each in study.needed("qwen3-32b") if each < NOT_REACHED]),
        small_helped=sum(each < NOT_REACHED for each in study.needed("qwen3-8b")),
        small=f"{max(place.over(CENTRE, *at) for place, *at in study.fits if place.target == 'qwen3-8b'):.2f}",
        shared_own=_span(gained),
        shared_median=f"{np.median(gained):.2f}",
        shared_fits=len(sharing),
        shared_first=sum(place.over(CENTRE, *at, name=SHARED) > 1.0 for place, *at in sharing),
        free_first=sum(ratio > 1.0 for ratio in free),
        free_ratio=f"{np.median(free):.2f}",
        adaptive_gain=max(gains),
        adaptive_small=sum(gain < 0.01 for gain in gains),
        needed="; ".join(f"{text} {_told(_needed(study, text))}" for text in TEXTS),
        contenders="\n".join(_contender_row(name, centre, sure, share) for name in _order(share)),
        ratio_table=_ratio_table(study),
        needed_table=_needed_table(study),
        swings=_swing_table(study),
        lengths="; ".join(f"{text} {a:g} and {b:g}" for text, (a, b) in TEXTS.items()),
        text=TEXT,
        header=" | ".join(f"b {b}" for b in BATCHES),
        rule="|".join(["---"] * len(BATCHES)),
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _order(share: Mapping[str, float]) -> list[str]:
    return sorted({*BY_MODEL, *WITHOUT_MODEL} - {FIXED}, key=lambda name: -share.get(name, 0.0))


def _contender_row(name: str, centre: Mapping[str, int], sure: Mapping[str, int], share: Mapping[str, float]) -> str:
    return f"| {name} | {centre.get(name, 0)} | {share.get(name, 0.0):.0%} | {sure.get(name, 0)} |"


def _median(study: Study, unknown: Unknown) -> float:
    return float(np.median([place.over(unknown, *at) for place, *at in study.fits]))


def _needed(study: Study, text: str) -> float:
    return float(np.median([place.break_even(*at, text, HITS) for place, *at in study.fits]))


def _told(alpha: float) -> str:
    if alpha >= NOT_REACHED:
        return "never"
    return f"≤ {ALPHAS[0]}" if alpha <= ALPHAS[0] else f"{alpha:.2f}"


def _rows(study: Study) -> Iterator[tuple[str, list[Cell]]]:
    for place, budget in itertools.product(study.places, BUDGETS):
        gpu = place.hardware.split("-")[0].upper()
        yield f"| {place.target} | {budget} {gpu} |", [(place, budget, batch) for batch in BATCHES]


def _ratio_table(study: Study) -> str:
    def cell(place: Place, budget: int, batch: int) -> str:
        if SSD not in place.rates(CENTRE, budget, batch):
            return "no room"
        low, high = place.interval(budget, batch)
        return f"{place.over(CENTRE, budget, batch):.2f} ({low:.2f}-{high:.2f})"

    return "\n".join(f"{head} {' | '.join(cell(*each) for each in cells)} |" for head, cells in _rows(study))


def _needed_table(study: Study) -> str:
    def cell(place: Place, budget: int, batch: int) -> str:
        if SSD not in place.rates(CENTRE, budget, batch):
            return "no room"
        worst, best = (place.break_even(budget, batch, TEXT, hits) for hits in HIT_ENDS)
        return f"{_told(place.break_even(budget, batch, TEXT, HITS))} ({_told(best)}, {_told(worst)})"

    return "\n".join(f"{head} {' | '.join(cell(*each) for each in cells)} |" for head, cells in _rows(study))


def _swing_table(study: Study) -> str:
    swings = {what: study.swing(looks) for what, looks in ENDS.items()}
    order = sorted(swings, key=lambda what: -abs(np.log(swings[what])).max())
    return "\n".join(f"| {what} | {_ends(swings[what])} |" for what in order)


def _ends(swing: tuple[float, float]) -> str:
    low, high = swing
    return f"x {high:.2f}" if low == high else f"x {low:.2f} to x {high:.2f}"


def pictures(study: Study) -> dict[str, str]:
    winners = {
        key: (study.winner(cell, CENTRE), len(study.possible[key]) == 1)
        for cell in study.cells
        for key in [(cell[0].target, cell[0].hardware, cell[1], cell[2])]
    }
    place = next(p for p in study.places if (p.target, p.hardware) == ("llama-3.1-70b", "h100-sxm"))
    bands = {name: [_band(place, name, batch) for batch in BATCHES] for name in (SSD, MINE, ADAPTIVE, EAGLE, TREE, AR)}
    needed = {
        (p.target, p.hardware, budget): [
            p.break_even(budget, b, TEXT, HITS) if (p, budget, b) in study.fits else np.nan for b in BATCHES
        ]
        for p, budget in itertools.product(study.places, BUDGETS)
    }
    return {
        "winners": study_pictures.winners(winners, BATCHES),
        "speeds": study_pictures.speeds(bands, BATCHES, "Llama-3.1-70B on 5 H100s", (SSD, ADAPTIVE)),
        "needed": study_pictures.needed(needed, BATCHES, (ALPHAS[0], ALPHAS[-1])),
    }


def _band(place: Place, name: str, batch: int, budget: int = 5) -> tuple[float, float, float]:
    """Tokens/s of a user at the centre, and the least and the most over the looks."""
    each = [place.rates(look, budget, batch).get(name, np.nan) for look in BOX]
    return place.rates(CENTRE, budget, batch).get(name, np.nan), min(each), max(each)


_PAGE = """# Is a draft GPU still the best use of a GPU?

For people who decide what one more GPU should do. This page says when it should draft for SSD.
`python docs/study_draft_gpu.py` makes it, with its pictures, in five minutes on a core.

## In short

- **Mostly not, where a block drafter such as DSpark exists for the target.** At the centre of what is known
  "{first}" is the fastest in {first_cells} of {cells} cases (three targets, 5 to 20 H100s or H200s, batch 1 to 256),
  SSD in {ssd_centre}. SSD has {ratios} times the speed of its fastest rival in the median case, {best_ratio} at best.
- **It is open for the large target on five GPUs.** Llama-3.1-70B on four and a fifth that drafts has {large} times the
  speed of the fastest rival at batch 1 to 16; {holding} of the {large_cells} intervals hold 1. SSD wins there if the
  draft model is accepted with {large_needed} or more. {sibling}
- **Qwen3-32B asks for more than is plausible.** SSD wins from {middle_needed} on, if at all.
- **It is settled for the small target.** For Qwen3-8B SSD has at most {small} times its rival's speed. An acceptance
  of up to 0.99 helps in {small_helped} of its cases: the draft model is slow beside so small a target, and more copies
  of that are the better use.
- **Without a block drafter the rival is EAGLE-3.** Of all others SSD is the fastest in {ssd_others} of {cells} cases
  and EAGLE-3 in {eagle_others}, mostly as a tree, which the model flatters; without trees SSD is in {ssd_chains}.
- **Sharing the draft GPU does not turn this.** Where 2, 4 or 8 targets share one, SSD has {shared_own} times the speed
  that it has with a draft GPU for each target ({shared_fits} cases have room for both, the median is {shared_median}),
  and is faster than the rival in {shared_first} of them. If the draft GPU cost nothing, which bounds what any sharing
  can gain, SSD would be faster in {free_first} of {cells} cases, and have {free_ratio} times the rival's speed in the
  median one.
- **MineDraft needs large batches of a large target.** It is the fastest at some look in {mine_ever} cases, at most at
  {mine_share} of a case's looks.
- **Confidence pays at load alone.** Adaptive verification gains at most {adaptive_gain:.0%} over DSpark with all rows,
  and less than 1 % in {adaptive_small} of {cells} cases.
- **Measure first** how often your draft model is accepted on your text, and DSpark likewise.

![Who is the fastest where](study-winners.svg)

## What is compared

Tokens/s of a user, with as many sequences in flight over all GPUs. Every contender has its best degree of parallelism
(1, 2, 4, 8), number of copies and settings: K of 2 to 16 for draft models and of 2 to 7 for EAGLE-3, SSD's fan-out of 1
to 8 and its better fallback, trees of 4 to 64 nodes. Nobody has to use all GPUs. Weights are of 16 bits, contexts of
1,024 tokens.

| contender | drafts with | where | its acceptance |
|---|---|---|---|
| DSpark, adaptive | DSpark, 7 tokens in one pass | on the target's GPUs | published, of Qwen3-8B |
| DSpark | the same, all 7 verified | on the target's GPUs | published, of Qwen3-8B |
| EAGLE-3, chain or tree | EAGLE-3 | on the target's GPUs | published, of Qwen3-8B; a tree's other ranks a placeholder |
| SSD | Llama-3.2-1B, Qwen3-0.6B | on a GPU of its own | a placeholder, 0.8 (0.5 to 0.9); hits likewise |
| SSD, draft shared | the same models | on a GPU of 2, 4 or 8 targets, in turn or together | the same placeholder |
| MineDraft, two halves | the same models | on a GPU of its own | the same placeholder |
| SD | the same models | on the target's GPUs | the same placeholder |

Published lengths of DSpark and EAGLE-3 at K 7 and temperature 1 (arXiv 2607.05147, table 1):
{lengths}. One rate stands for each.
They are of Qwen3-8B. **Nobody published DSpark's for the larger two targets**, where the study takes them to be the
same, as Qwen3-14B's nearly are; nor was a DSpark head for Llama found. The text is {text} where nothing is said. Prices
are those of the default engine, SSD's own, for all alike.

## How often each is the fastest

Of {cells} cases; a look is one of {looks} choices of what is not known: the text, the draft model's acceptance, hits of
the cache, what confidences know.

| contender | cases, at the centre | share of all looks | cases, at every look |
|---|---|---|---|
{contenders}

![Speeds over the batch](study-speeds.svg)

Lines are the centre. Bands are what is not known, of SSD and of DSpark.

## SSD over its fastest rival

The rival is the fastest of DSpark, EAGLE-3 and AR at the centre. In brackets 95 %: errors of the timings, and the
ranges of the draft model's acceptance and of hits, drawn together.

| target | GPUs | {header} |
|---|---|{rule}|
{ratio_table}

## From which acceptance of the draft model SSD wins

On {text}; in brackets where hits are best and worst. *Never*: not at 0.99.

| target | GPUs | {header} |
|---|---|{rule}|
{needed_table}

In the median case: {needed}.
The harder the text, the less the block drafter is worth, and the more a draft model that keeps its acceptance there.

![Acceptance that SSD needs](study-needed.svg)

## What to measure

SSD over its fastest rival, at the ends of each unknown, over what it is at the centre; medians over the cases.

| what is not known | moves it by |
|---|---|
{swings}

1. **The draft model's acceptance on your text** (`ssdsim measure`, or the counters of a running engine: `ssdsim import
   acceptance`). If it is below the table's number, SSD is out.
2. **The block drafter's acceptance on the same text.** What is published differs by a factor of 1.7 between texts.
3. **Hits of the cache** (`ssdsim measure` has them beside acceptance).
4. **A round of your engine**: `ssdsim bench` against one that serves DSpark at your batch.

## What this does not say

- DSpark on a GPU of its own, for SSD: the states of five layers of each verified row would have to travel. Nobody has
  measured it.
- AMD's loss of 5 to 8 % with adaptive verification up to 32 sequences is in no model. Choosing rows costs 0 here, 1 ms
  at the end of its range.
- Trees' ranks are one vector for all tokens, which flatters deep trees ([limits](limits.md)).
- All passes lie in the tables of one kind of GPU, links of eight GPUs in one machine: [profiles](profiles.md).
"""


if __name__ == "__main__":
    main()
