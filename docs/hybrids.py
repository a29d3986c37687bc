"""Speculation on hybrid models: when MTP pays on Qwen3.5, by what an engine keeps of its states; hybrids.md and .svg.

    python docs/hybrids.py ../shared/measurements/end_to_end

Reads ``hybrid.csv`` of the folder for published speed-ups, against which the page holds the predictions. No row is
written anywhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario

KEPT = {"each": "each token's state (vLLM)", "copied": "copies (SGLang)", "replayed": "inputs, replayed (ReplaySSM)"}
COLOURS = {"each": "#d55e00", "copied": "#808080", "replayed": "#2b82c9"}
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024)
SHOWN = (1, 32, 128, 256, 512)
CONTEXTS = (1024, 16384)
K, ALPHA = 3, 0.8
MODEL, HARDWARE, RUNTIME = "qwen3.5-122b-a10b-nvfp4", "b300-sxm", "vllm"
SETTING: Mapping[str, Any] = {"target": MODEL, "hardware": HARDWARE, "tp": 1, "drafter": "mtp", "engine": RUNTIME}
_CONTEXT_OF_ROWS = 512  # prompts of GSM8K and as many tokens of answers; nobody says it, and it hardly matters
_LEAST_S = 1e-7

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 56, 20, 24, 44
MOST = 3.0


@dataclass(frozen=True)
class Point:
    """SD over AR at a batch, with its 95 % interval."""

    batch: int
    ratio: float
    low: float
    high: float

    @property
    def told(self) -> str:
        return f"{self.ratio:.2f} ({self.low:.2f}-{self.high:.2f})"


def curve(states: str, context: int, batches: Iterable[int]) -> list[Point]:
    """Up to the largest of the batches that has room for AR and SD."""
    points = []
    for batch in batches:
        asked = {**SETTING, "states": states, "context": context, "b": batch, "k": K, "alpha": ALPHA}
        try:
            answer = predict(strategies="ar,sd", **asked)
        except InputError:
            break
        if "sd" not in answer.estimates or "ar" not in answer.estimates:
            break
        over = answer.verdict.over["ar"]
        points.append(Point(batch, over.ratio, over.low, over.high))
    return points


# published speed-ups


@cache
def scenario(strategy: str, states: str, k: int) -> Scenario:
    asked = {**SETTING, "states": states, "k": k, "context": _CONTEXT_OF_ROWS}
    return configure(strategies="ar,sd", b=1, **asked).scenarios[strategy]


@cache
def round_s(strategy: str, states: str, k: int, batch: int) -> float:
    """Of a batch, whether it fits or not."""
    asked = scenario(strategy, states, k)
    assert asked.site is not None
    steps = asked.strategy.steps(asked.site.with_batch(batch), asked.drafter)
    return sum(step.seconds for step in steps.values())


@cache
def room(strategy: str, states: str, k: int) -> int:
    """The largest batch that fits, with the head beside the target where it drafts."""
    asked = scenario(strategy, states, k)
    assert asked.site is not None
    return min(each.largest_batch for each in asked.strategy.occupancies(asked.site, asked.drafter))


def full(states: str, k: int) -> float:
    """Tokens/s with as many sequences as fit over AR's with as many as fit there."""
    ours, theirs = room("sd", states, k), room("ar", states, 1)
    tokens = sum(ALPHA**n for n in range(k + 1))
    ratio: float = ours * tokens / round_s("sd", states, k, ours) / (theirs / round_s("ar", states, 1, theirs))
    return ratio


@dataclass(frozen=True)
class Fitted:
    """Rates of acceptance, and what a round takes for each of its sequences beside the card's numbers."""

    rates: tuple[float, ...]
    sequence_s: float

    def tokens(self, k: int) -> float:
        return 1.0 + float(np.cumprod(self.rates[:k]).sum())

    def rounds_s(self, states: str, k: int, batch: int) -> float:
        """One round of every sequence: of a batch that does not fit, in waves of the largest that does."""
        largest = room("sd", states, k)
        waves = [largest] * (batch // largest) + [batch % largest]
        return sum(round_s("sd", states, k, wave) + self.sequence_s * wave for wave in waves if wave)

    def speed_ups(self, rows: pd.DataFrame, states: str) -> NDArray[np.float64]:
        """Of each row, over AR that writes its states, as the rows count it."""
        found = (
            self.tokens(row.k) * round_s("ar", "each", 1, row.batch) / self.rounds_s(states, row.k, row.batch)
            for row in rows.itertuples()
        )
        return np.array(list(found))

    def errors(self, rows: pd.DataFrame, states: str) -> NDArray[np.float64]:
        """Relative."""
        return self.speed_ups(rows, states) / rows["seen"].to_numpy() - 1.0


def fitted(rows: pd.DataFrame, with_sequences: bool) -> Fitted:
    """To speed-ups with replayed states: one rate for each drafted token, and the time of a sequence in a round."""

    def made(values: NDArray[np.float64]) -> Fitted:
        sequence_s = float(np.exp(values[-1])) if with_sequences else 0.0
        return Fitted(tuple(1.0 / (1.0 + np.exp(-values[:-1]))), sequence_s)

    start = np.array([1.0] * 7 + [math.log(1e-5)])
    bounds = ([-4.0] * 7 + [math.log(_LEAST_S)], [6.0] * 7 + [math.log(1e-3)])
    fit = least_squares(lambda values: np.log1p(made(values).errors(rows, "replayed")), start, bounds=bounds)
    return made(fit.x)


def speed_ups(folder: Path) -> dict[str, pd.DataFrame]:
    """The rows of Qwen3.5-122B on one B300 with MTP, by what was kept: k, batch, seen."""
    table = pd.read_csv(folder / "hybrid.csv")
    table = table[table["model"].str.contains("Qwen3.5-122B") & (table["metric"] == "speedup")]
    whole = {"k": table["k"].astype(int), "batch": table["batch_or_concurrency"].astype(int)}
    table = table.assign(**whole, seen=table["value"].astype(float))
    kept = {"each": table["method"].str.contains("states written"), "replayed": table["method"].eq("mtp (ReplaySSM)")}
    return {states: table[chosen][["k", "batch", "seen"]] for states, chosen in kept.items()}


# the page


def main(folder: Path) -> None:
    """Predict, hold against the rows, and write page and figure."""
    here = Path(__file__)
    curves = {(states, context): curve(states, context, BATCHES) for states in KEPT for context in CONTEXTS}
    here.with_suffix(".svg").write_text("\n".join(drawn(curves)) + "\n", encoding="utf-8")
    rows = speed_ups(folder)
    text = _HEAD.format(k=K, alpha=ALPHA, tokens=sum(ALPHA**n for n in range(K + 1)))
    text += "\n".join(_ratios(curves)) + _ROOM + "\n".join(_rooms()) + _SEEN.format(**_held_against(rows))
    here.with_suffix(".md").write_text(text, encoding="utf-8")


def _ratios(curves: Mapping[tuple[str, int], Sequence[Point]]) -> Iterable[str]:
    yield f"| context | kept | {' | '.join(f'b {batch}' for batch in SHOWN)} |"
    yield f"|{'---|' * (2 + len(SHOWN))}"
    for (states, context), points in sorted(curves.items(), key=lambda each: each[0][1]):
        told = {point.batch: point.told for point in points}
        yield f"| {context} | {KEPT[states]} | {' | '.join(told.get(batch, 'no room') for batch in SHOWN)} |"


def _rooms() -> Iterable[str]:
    ks = (1, 3, 5, 7)
    yield f"| kept | AR | {' | '.join(f'K {k}' for k in ks)} |"
    yield f"|{'---|' * (2 + len(ks))}"
    for states, told in KEPT.items():
        cells = (f"{room('sd', states, k)} ({full(states, k):.2f})" for k in ks)
        yield f"| {told} | {room('ar', states, 1)} | {' | '.join(cells)} |"


def _held_against(rows: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """What the page says of the published speed-ups: errors alone."""
    said = {"replayed": str(len(rows["replayed"])), "each": str(len(rows["each"]))}
    card, more = (fitted(rows["replayed"], with_sequences) for with_sequences in (False, True))
    for name, found in (("card", card), ("more", more)):
        for states, of in rows.items():
            said[f"{name}_{states}"] = f"{np.abs(found.errors(of, states)).mean():.0%}"
        said[f"{name}_tokens"] = ", ".join(f"{found.tokens(k):.2f}" for k in (1, 3, 5, 7))
        said[f"{name}_us"] = f"{1e6 * found.sequence_s:.0f}"
        errors, batches = found.errors(rows["each"], "each"), rows["each"]["batch"].to_numpy()
        by_batch = (f"{np.mean(errors[batches == batch]):+.0%} at {batch}" for batch in np.unique(batches))
        said[f"{name}_by_batch"] = ", ".join(by_batch)
        said[f"{name}_slower"] = _slower(rows["each"], found.speed_ups(rows["each"], "each"))
    return said | {"slower": _slower(rows["each"], rows["each"]["seen"].to_numpy())}


def _slower(rows: pd.DataFrame, speed_ups: NDArray[np.float64]) -> str:
    """The settings in which speculation is slower than AR."""
    slower = [f"K {row.k} at {row.batch}" for row, ratio in zip(rows.itertuples(), speed_ups, strict=True) if ratio < 1]
    return ", ".join(slower) or "none"


# the figure


def x(batch: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(batch) / math.log2(BATCHES[-1])


def y(ratio: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(ratio, MOST) / MOST


def drawn(curves: Mapping[tuple[str, int], Sequence[Point]]) -> Iterable[str]:
    """The lines of the drawing: a band and a line for each way at the short context, dashed ones at the long one."""
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    for ratio in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        stroke = "#808080" if ratio == 1.0 else "#ddd"
        yield f'<path d="M{LEFT} {y(ratio):.1f}H{WIDTH - RIGHT}" stroke="{stroke}"/>'
        yield f'<text x="{LEFT - 6}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>'
    for batch in (1, 4, 16, 64, 256, 1024):
        yield f'<text x="{x(batch):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{batch}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">sequences decoded together</text>'
    turned = f'text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})"'
    yield f'<text x="14" y="{HEIGHT / 2}" {turned}>tokens/s of MTP over AR</text>'
    for number, (states, told) in enumerate(KEPT.items()):
        yield from _line(curves[states, CONTEXTS[0]], COLOURS[states], "")
        yield from _line(curves[states, CONTEXTS[1]], COLOURS[states], "6 4")
        at = f'x="{LEFT + 12}" y="{HEIGHT - BOTTOM - 46 + 16 * number}"'
        yield f'<text {at} fill="{COLOURS[states]}">{told}</text>'
    yield "</svg>"


def _line(points: Sequence[Point], colour: str, dash: str) -> Iterable[str]:
    """With its interval where it is not dashed, and a dot where memory ends it."""
    if not dash:
        edge = [(point.batch, point.high) for point in points] + [(p.batch, p.low) for p in reversed(points)]
        yield f'<path d="{_path(edge)}Z" fill="{colour}" fill-opacity="0.12"/>'
    path = _path([(point.batch, point.ratio) for point in points])
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash or "none"}"/>'
    if points[-1].batch < BATCHES[-1]:
        yield f'<circle cx="{x(points[-1].batch):.1f}" cy="{y(points[-1].ratio):.1f}" r="4" fill="{colour}"/>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x(batch):.1f} {y(ratio):.1f}" for batch, ratio in points)


_HEAD = """# Speculation on hybrid models

For people who run Qwen3.5, Nemotron 3 or Kimi Linear. This page says when MTP pays there, and what decides it. It is
made by `python docs/hybrids.py`.

Most layers of these models have no keys and values. They have one state per sequence, and every token changes it. A
rejected token has changed it, too. So an engine that verifies K + 1 tokens must keep something to go back to. What it
keeps decides whether MTP pays at large batches.

![MTP over AR against the batch, by what is kept of the states](hybrids.svg)

Qwen3.5-122B-A10B in NVFP4 runs on one B300 with vLLM and its own MTP head, K {k}. Each token is accepted with
probability {alpha:g} if those before it were: {tokens:.2f} tokens a round. Values are tokens/s over those of AR on the
same engine, with the 95 % interval. Dashed lines are at a context of 16k. A line ends with a dot where memory ends.

"""

_ROOM = """

- **At one sequence it does not matter what is kept.** A pass spends most of its time on weights, not on states.
- **Each token's state** (`--states each`) is written K + 1 times where decoding writes once. A step moves (2 + K) / 2
  times AR's states, and the share of states in a pass grows with the batch.
- **Copies** (`copied`) move the accepted state twice more.
- **Replayed inputs** (`replayed`) leave one state to read. It is written once the inputs of sixteen tokens are there.
  AR gains as well.
- **Context hardly matters for speed**: only one layer in four has keys and values. It costs room.

Without `--states` the runtime's way is taken (`ssdsim runtimes show sglang`). `--state-dtype bfloat16` halves the
traffic and the memory.

## What fits

Every token that may be the last accepted one has a state in memory. vLLM keeps states, keys and values in pages of one
size. Here one state of a layer takes as much as 4,176 tokens of a layer. An MTP head makes groups of 13 layers, so 36
recurrent layers take three groups of 13.

These are the largest batches on one B300, at a context of 512 tokens, with a tenth of the memory kept free. In brackets
are tokens/s at that batch over AR's at AR's own largest batch, with the acceptance above:

"""

_SEEN = """

**Memory ends the large batches.** An engine runs what fits and lets the others wait. If nothing else limits the batch,
this turns MTP with each token's state into a loss, more than a round's time does. `predict` refuses a batch without
room, and names the largest.

## Compared with published speed-ups

Somebody measured {replayed} speed-ups with ReplaySSM and {each} with each token's state on just this machine (vLLM,
August 2026; ratios repeat to about 13 %). No acceptance was printed. So acceptance by position is fitted to the rows
with ReplaySSM. The other rows are predicted with it. A batch that does not fit runs in waves of the largest that does.
Mean absolute errors:

| | fitted: ReplaySSM | predicted: each token's state | tokens a round at K 1, 3, 5, 7 |
|---|---|---|---|
| the card's round | {card_replayed} | {card_each} | {card_tokens} |
| and {more_us} µs a sequence and round | {more_replayed} | {more_each} | {more_tokens} |

The second row also fits a round's time per sequence to the rows with ReplaySSM. The card has no such time: its rounds
were measured at small batches of an 8B model. SGLang's card has 48 µs. The card is left as it is, because the same rows
could not say how wrong a new number would be.

- Slower than AR were {slower} sequences; predicted so are {card_slower} (first row).
- The first row's predictions are off by {card_by_batch} sequences, the mean over K. They are
  too slow at 32, where more and more of the experts are read, and too fast from 128 on.
- The figure is too fast. The first row asks for fewer tokens a round than such heads have: a public benchmark says 3.4
  at K 3 for a sibling. The cost of a round at large batches is the least known number here.
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]))
