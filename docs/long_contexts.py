"""Speculation on models with sparse attention when sequences are long: long_contexts.md and its two figures.

    python docs/long_contexts.py ../shared/measurements/end_to_end ../shared/reference/configs

Reads ``hybrid.csv`` of the first folder for published times of GLM-5, and its config from the second. No row is written
anywhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from fidelity import cells
from fidelity_outcomes import SAMPLED, Outcome, decoding

from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.configuration import Configuration, configure
from ssdsim.readers.row import Row
from ssdsim.transformer.card import Transformer

K, ALPHA = 3, 0.8
TOKENS = sum(ALPHA**n for n in range(K + 1))
MODELS: Mapping[str, tuple[str, str]] = {
    "deepseek-v3.2": ("DeepSeek-V3.2", "mtp"),
    "glm-5.2": ("GLM-5.2", "mtp"),
    "deepseek-v4-pro": ("DeepSeek-V4-Pro", "mtp"),
    "minimax-m3": ("MiniMax-M3", "eagle3"),
    "deepseek-r1": ("DeepSeek-R1, to all tokens", "mtp"),
}
HEADED = "minimax-m3"
"""Whose published draft is an EAGLE-3 head."""
SPARSE = ("deepseek-v3.2", "glm-5.2", "deepseek-v4-pro", "minimax-m3")
ENGINES = {"vllm": "vLLM", "sglang-v2": "SGLang"}
CONTEXTS = {8192: "8k", 32768: "32k", 131072: "128k", 1_000_000: "1M"}
CURVE = (4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1_000_000)
BATCHES: Mapping[int, dict[str, Any]] = {1: {}, 8: {}, 64: {"attention": "data-parallel"}}
COLOURS = {1: "#2b82c9", 8: "#d55e00", 64: "#009e73"}
DASHES = {1: "none", 8: "7 3", 64: "2 3"}
PARTS = {
    "the choice": ("indexer", "block_choice", "compressed_indexer"),
    "attention to what was chosen": ("sparse_attention", "block_attention", "compressed_attention"),
    "all else": (),
}
SHADES = ("#d55e00", "#2b82c9", "#cccccc")
SHARED: Mapping[str, Any] = {"hardware": "b200-sxm", "tp": 8, "kv_dtype": "float8", "k": K, "alpha": ALPHA}


@dataclass(frozen=True)
class Point:
    """A round of SD beside a step of AR, in seconds, with the 95 % interval of the ratio of speeds; why not, if not."""

    round_s: float = math.nan
    step_s: float = math.nan
    low: float = math.nan
    high: float = math.nan
    why: str = ""

    @property
    def ratio(self) -> float:
        return TOKENS * self.step_s / self.round_s

    @property
    def needed(self) -> float:
        """The acceptance rate from which on SD is faster."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(middle**n for n in range(K + 1)) < self.rounds else (low, middle)
        return high

    @property
    def rounds(self) -> float:
        """A round in steps."""
        return self.round_s / self.step_s

    @property
    def told(self) -> str:
        return self.why or f"{self.ratio:.2f} ({self.low:.2f}-{self.high:.2f})"


def asked(model: str, engine: str, batch: int, context: int) -> dict[str, Any]:
    return {
        **SHARED, **BATCHES[batch], "target": model, "drafter": MODELS[model][1], "engine": engine, "b": batch,
        "context": context,
    }  # fmt: skip


@cache
def point(model: str, engine: str, batch: int, context: int) -> Point:
    if context > card(model).max_context:
        return Point(why="beyond the model")
    try:
        answer = predict(strategies="ar,sd", **asked(model, engine, batch, context))
    except InputError:
        return Point(why="no room")
    if "sd" not in answer.estimates:
        return Point(why="no room")
    round_s, step_s = (sum(answer.estimates[each].breakdown_s.values()) for each in ("sd", "ar"))
    over = answer.verdict.over.get("ar")
    low, high = (over.low, over.high) if over else (math.nan, math.nan)
    return Point(round_s, step_s, low, high)


@cache
def card(model: str) -> Transformer:
    site = configured(model, "vllm", 1, 4096).site
    assert site is not None
    return site.target


def configured(model: str, engine: str, batch: int, context: int) -> Configuration:
    return configure(strategies="ar,sd", **asked(model, engine, batch, context))


@cache
def parts(model: str, engine: str, context: int) -> dict[str, list[float]]:
    """Seconds of the parts of a decoding pass and of a verification, of one sequence."""
    scenarios = configured(model, engine, 1, context).scenarios
    found = {}
    for strategy, name in (("ar", "decode"), ("sd", "verify")):
        (piece,) = scenarios[strategy].priced.expected[name].pieces
        kinds = piece.cost.by_kind()
        told = [sum(kinds.get(kind, 0.0) for kind in of) for of in PARTS.values()]
        found[name] = [*told[:-1], sum(kinds.values()) - sum(told)]
    return found


# a head that accepts less the longer the context is


def of_the_head(context: int) -> str:
    """A line of the page: what is assumed of MiniMax-M3's EAGLE-3 there, and what its SD then is over AR, on vLLM."""
    given = {name: value for name, value in asked(HEADED, "vllm", 1, context).items() if name != "alpha"}
    answer = predict(strategies="ar,sd", **given)
    (rate,) = (each for each in answer.configuration.inputs if each.name == "alpha")
    over = answer.verdict.over["ar"]
    least, most = (rate.middle, rate.middle) if rate.within is None else rate.within
    cells = f"{rate.middle:.2f} ({least:.2f}-{most:.2f}) | {over.ratio:.2f} ({over.low:.2f}-{over.high:.2f})"
    return f"| {CONTEXTS[context]} | {cells} |"


# published times


def published(folder: Path, configs: Path) -> list[Row]:
    """GLM-5 in 8 bits on eight B200s under SGLang, without a draft; each setting once."""
    table = pd.read_csv(folder / "hybrid.csv")
    table = table[table["model"].eq("zai-org/GLM-5") & table["metric"].eq("TPOT_ms") & table["method"].eq("ar")]
    setting = ["batch_or_concurrency", "input_len", "output_len"]
    return [
        decoding(
            each,
            str(configs / "zai-org--GLM-5-FP8_config.json"),
            SAMPLED,
            engine="sglang",
            engine_version=each.engine_version,
            source="AIC silicon_sample",
            series="GLM-5",
            dtype="float8-block",
            kv_dtype="float8",
        )
        for each in table.drop_duplicates(setting).itertuples()
    ]


def held_against(rows: Sequence[Row]) -> Iterator[str]:
    """Errors by the kernels of the engine, and by another's."""
    card = find_runtime("sglang")
    yield "| kernels | rows | error | bias | inside the 95 % interval | half-width | bias up to 8 sequences | from 64 |"
    yield f"|{'---|' * 8}"
    for said, engine in (("SGLang 0.5.14", "sglang"), ("vLLM 0.24", "vllm")):
        out = Outcome.of(rows, card.changed(engine=engine))
        few, many = (
            out.where(lambda row, few=few: row.batch <= 8 if few else row.batch >= 64) for few in (True, False)
        )
        biases = (f"{100 * each.errors.mean():+.0f}%" for each in (few, many))
        yield f"| {said} | {len(rows)} | {cells(out)} | {' | '.join(biases)} |"


# the page


def main(folder: Path, configs: Path) -> None:
    here = Path(__file__)
    here.with_suffix(".svg").write_text("\n".join(ratios()) + "\n", encoding="utf-8")
    here.with_name("long_contexts_parts.svg").write_text("\n".join(shares()) + "\n", encoding="utf-8")
    points = [point(m, e, b, c) for m in SPARSE for e in ENGINES for b in BATCHES for c in CONTEXTS]
    there = [each for each in points if not each.why]
    at_8k = {(m, e, b): point(m, e, b, 8192) for m in SPARSE for e in ENGINES for b in BATCHES}
    moved = [
        point(*of, context).ratio / short.ratio - 1.0
        for of, short in at_8k.items()
        for context in CONTEXTS
        if not short.why and not point(*of, context).why
    ]
    dense = [point("deepseek-r1", "vllm", 64, context).ratio for context in (8192, 131072)]
    text = _PAGE.format(
        k=K,
        alpha=ALPHA,
        tokens=TOKENS,
        least=min(each.ratio for each in there),
        most=max(each.ratio for each in there),
        falls=-min(moved),
        rises=max(moved),
        needed=max(each.needed for each in there),
        easily=min(each.needed for each in there),
        head="\n".join(map(of_the_head, CONTEXTS)),
        table="\n".join(table()),
        parts="\n".join(table_of_parts()),
        dense_short=dense[0],
        dense_long=dense[1],
        rooms="\n".join(rooms()),
        held="\n".join(held_against(published(folder, configs))),
    )
    here.with_suffix(".md").write_text(text, encoding="utf-8")


def table() -> Iterator[str]:
    yield f"| model | engine | sequences | {' | '.join(CONTEXTS.values())} |"
    yield f"|{'---|' * (3 + len(CONTEXTS))}"
    for model in MODELS:
        for engine, called in ENGINES.items():
            for batch in BATCHES:
                cells = " | ".join(point(model, engine, batch, context).told for context in CONTEXTS)
                yield f"| {MODELS[model][0]} | {called} | {batch} | {cells} |"


def table_of_parts() -> Iterator[str]:
    yield "| model | engine | context | choice: decode, verify | attention to it | all else |"
    yield "|---|---|---|---|---|---|"
    for model in SPARSE:
        for engine, called in ENGINES.items():
            for context, said in CONTEXTS.items():
                if context <= card(model).max_context:
                    both = parts(model, engine, context)
                    ms = zip(*both.values(), strict=True)
                    cells = " | ".join(f"{1e3 * one:.2f}, {1e3 * more:.2f}" for one, more in ms)
                    yield f"| {MODELS[model][0]} | {called} | {said} | {cells} |"


def rooms() -> Iterator[str]:
    """The largest batches that fit, with one copy of the caches a device and with each sequence on one device."""
    yield f"| model | {' | '.join(CONTEXTS.values())} |"
    yield f"|{'---|' * (1 + len(CONTEXTS))}"
    for model in SPARSE:
        cells = []
        for context in CONTEXTS:
            if context > card(model).max_context:
                cells.append("beyond the model")
                continue
            scenario = configured(model, "vllm", 1, context).scenarios["sd"]
            assert scenario.site is not None
            rooms_of = scenario.strategy.occupancies(scenario.site, scenario.drafter)
            cells.append(str(min(each.largest_batch for each in rooms_of)))
        yield f"| {MODELS[model][0]} | {' | '.join(cells)} |"


# figures

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1040, 300, 52, 12, 34, 60
PANEL = (WIDTH - LEFT - RIGHT) / len(MODELS)
WIDE = (WIDTH - LEFT - RIGHT) / len(SPARSE)
MOST = 3.0


def head(height: int) -> Iterator[str]:
    box = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'


def ratios() -> Iterator[str]:
    """Speed over AR against the context: a panel a model, a colour a batch; vLLM's lines are wide, SGLang's thin."""
    yield from head(HEIGHT)
    for number, model in enumerate(MODELS):
        left = LEFT + number * PANEL
        yield from _axes(left, MODELS[model][0], number == 0)
        for batch in BATCHES:
            for engine in ENGINES:
                yield from _line(left, [(c, point(model, engine, batch, c)) for c in CURVE], batch, engine)
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 24}" text-anchor="middle">context (tokens)</text>'
    turned = f'text-anchor="middle" transform="rotate(-90 14 {(HEIGHT - BOTTOM + TOP) / 2})"'
    yield f'<text x="14" y="{(HEIGHT - BOTTOM + TOP) / 2}" {turned}>tokens/s of SD over AR</text>'
    at, told = LEFT, {1: "1 sequence", 8: "8", 64: "64, data-parallel attention"}
    for batch, said in told.items():
        yield from _key(at, HEIGHT - 10, COLOURS[batch], DASHES[batch], 2.4, said)
        at += 60 + 7 * len(said)
    for engine, said in ENGINES.items():
        yield from _key(at, HEIGHT - 10, "#555", "none", _stroke(engine), said)
        at += 60 + 7 * len(said)
    yield "</svg>"


def _key(x: float, y: float, colour: str, dash: str, width: float, said: str) -> Iterator[str]:
    stroke = f'stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"'
    yield f'<path d="M{x} {y - 4}h28" {stroke}/><text x="{x + 34}" y="{y}" fill="#333">{said}</text>'


def _stroke(engine: str) -> float:
    return 2.6 if engine == "vllm" else 1.0


def _x(left: float, context: float) -> float:
    share = math.log2(context / CURVE[0]) / math.log2(CURVE[-1] / CURVE[0])
    return left + (PANEL - 22) * share


def _y(ratio: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(ratio, MOST) / MOST


def _axes(left: float, title: str, first: bool) -> Iterator[str]:
    right = left + PANEL - 22
    yield f'<text x="{(left + right) / 2}" y="{TOP - 14}" text-anchor="middle" font-weight="bold">{title}</text>'
    for ratio in (0.0, 1.0, 2.0, 3.0):
        stroke = "#808080" if ratio == 1.0 else "#ddd"
        yield f'<path d="M{left} {_y(ratio):.1f}H{right:.1f}" stroke="{stroke}"/>'
        if first:
            yield f'<text x="{left - 6}" y="{_y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>'
    for context, said in CONTEXTS.items():
        yield f'<text x="{_x(left, context):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{said}</text>'


def _line(left: float, points: Sequence[tuple[int, Point]], batch: int, engine: str) -> Iterator[str]:
    """With a dot where it ends: the memory, or the model's longest context."""
    there = [(_x(left, context), _y(each.ratio)) for context, each in points if not each.why]
    if not there:
        return
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in there)
    drawn = f'stroke="{COLOURS[batch]}" stroke-width="{_stroke(engine)}" stroke-dasharray="{DASHES[batch]}"'
    yield f'<path d="{path}" fill="none" {drawn}/>'
    if len(there) < len(points):
        yield f'<circle cx="{there[-1][0]:.1f}" cy="{there[-1][1]:.1f}" r="3" fill="{COLOURS[batch]}"/>'


BAR, GAP, TALL = 15, 4, 320


def shares() -> Iterator[str]:
    """Milliseconds of a decoding pass (left bar) and of a verification (right bar) by part, SGLang, one sequence."""
    yield from head(TALL)
    of = {
        (model, c): parts(model, "sglang-v2", c) for model in SPARSE for c in CONTEXTS if c <= card(model).max_context
    }
    most = max(sum(each) for both in of.values() for each in both.values())
    top = math.ceil(1e3 * most / 5) * 5
    for ms in range(0, top + 1, 5):
        y = _bar_y(ms, top)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{ms}</text>'
    for number, model in enumerate(SPARSE):
        left = LEFT + number * WIDE
        title = f'x="{left + WIDE / 2:.1f}" y="{TOP - 14}" text-anchor="middle" font-weight="bold"'
        yield f"<text {title}>{MODELS[model][0]}</text>"
        for place, (context, said) in enumerate(CONTEXTS.items()):
            if (model, context) not in of:
                continue
            middle = left + WIDE * (place + 0.5) / len(CONTEXTS)
            yield f'<text x="{middle:.1f}" y="{TALL - BOTTOM + 16}" text-anchor="middle">{said}</text>'
            for side, each in enumerate(of[model, context].values()):
                yield from _bar(middle + (side - 1) * BAR + (GAP / 2 if side else -GAP / 2), each, top)
    said = f"context: a decoding pass, and a verification of {K + 1} tokens"
    yield f'<text x="{WIDTH / 2}" y="{TALL - 26}" text-anchor="middle">{said}</text>'
    turned = f'text-anchor="middle" transform="rotate(-90 14 {TALL / 2})"'
    yield f'<text x="14" y="{TALL / 2}" {turned}>milliseconds</text>'
    at = LEFT
    for said, shade in zip(PARTS, SHADES, strict=True):
        yield f'<rect x="{at}" y="{TALL - 18}" width="12" height="10" fill="{shade}"/>'
        yield f'<text x="{at + 18}" y="{TALL - 9}" fill="#333">{said}</text>'
        at += 44 + 7 * len(said)
    yield "</svg>"


def _bar_y(ms: float, top: float) -> float:
    return TALL - BOTTOM - (TALL - TOP - BOTTOM) * ms / top


def _bar(x: float, seconds: Sequence[float], top: float) -> Iterator[str]:
    """All else at the bottom, the choice on top."""
    under = 0.0
    for each, shade in reversed(list(zip(seconds, SHADES, strict=True))):
        y, base = _bar_y(1e3 * (under + each), top), _bar_y(1e3 * under, top)
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{BAR}" height="{base - y:.1f}" fill="{shade}"/>'
        under += each


_PAGE = """# Where speculation pays when sequences are long

**With a draft that accepts as often at a long context as at a short one, as a model's own MTP layers do, speculation
pays at every context that fits**, on models with sparse attention. At an acceptance rate of {alpha:g} SD is
{least:.1f} to {most:.1f} times as fast as AR from 8k to 1M tokens, and memory ends the batch before the context ends
the gain. It turns at a rate of {easily:.2f} to {needed:.2f}. Heads like EAGLE-3 are trained at 2k tokens and
[accept less beyond](#heads-that-were-trained-at-short-contexts): there it may not pay. DeepSeek-V4's cache is the
smallest by far.

For people who serve DeepSeek-V3.2 or V4, GLM-5.x or MiniMax-M3 with long prompts. This page is made by `python
docs/long_contexts.py`. All of it is predicted; [importers](importers.md#sparse-attention) says how well the kernels
behind it are known.

![SD over AR against the context, for five models, two engines and three batches](long_contexts.svg)

The models run on eight B200s (TP 8) with an 8-bit cache. DeepSeek and GLM draft with their own MTP layer,
MiniMax-M3 with EAGLE-3, K {k}. Each token is accepted with probability {alpha:g} if those before it were:
{tokens:.2f} tokens a round (a public benchmark of coding says 2.99 for GLM-5.2 and 2.83 for MiniMax-M3). 64
sequences have data-parallel attention, eight a device. A line ends with a dot where memory or the model ends.
DeepSeek-R1, of the shape of V3.2, attends to all tokens.

## Why

Each layer does two things with what is cached:

- **The choice reads everything.** An indexer scores all index keys of a sequence, so it grows with the context. But
  the K + 1 tokens of a verification read the keys together, and a GPU sorts their scores at once.
- **Attention reads the same everywhere.** Each token attends to 2048 others, at 8k as at 1M. K + 1 tokens choose
  their own and share nothing, which costs as much at 1M as at 8k.

DeepSeek-V4 keeps entries in place of tokens. Half of its layers choose among entries of four tokens, the others attend
to all entries of 128. So both parts grow, by little. Its kernels are vLLM's on both engines here.

So what grows with the context is what a verification shares. Milliseconds of one sequence's decoding pass and of
its verification on SGLang:

![Parts of a decoding pass and of a verification, for four models](long_contexts_parts.svg)

## Numbers

Tokens/s of SD over AR, with the 95 % interval. SGLang's is wide because no published row tells what a round takes
with speculation v2.

{table}

- **From 8k on the ratio moves by {falls:.0%} down and {rises:.0%} up at most.** It rises for one sequence: the
  choice is more of a pass, and it is shared. It falls where scores of many tokens are multiplied (DeepSeek's 64
  heads, eight sequences, vLLM).
- **It turns at an acceptance rate of {easily:.2f} to {needed:.2f}**, by the point: with {needed:.2f} SD is no slower at
  any of them.
- **Attention to all tokens is another matter.** DeepSeek-R1 multiplies each of the K + 1 queries with the whole
  cache. With 64 sequences and data-parallel attention on vLLM its gain falls from {dense_short:.2f} at 8k to
  {dense_long:.2f} at 128k.
- **EAGLE-3's head attends to all tokens**, but in one layer. A step of it grows by less than a pass of MiniMax-M3
  does.

## Heads that were trained at short contexts

Each number above holds an acceptance rate of {alpha:g} at all contexts, of MiniMax-M3's EAGLE-3, too. Such a head
accepts less beyond the 2k tokens that it was trained at ([how much](how-to/acceptance.md)). With what is published of
this one, moved so, one sequence on vLLM:

| context | acceptance rate | SD over AR |
|---|---|---|
{head}

Nobody published the acceptance of such a head beyond 20k tokens, so nothing falls any more there. Measure yours at your
context.

## What fits

The largest batch of SD with shared attention (TP 8), where every device holds all of a latent cache:

{rooms}

With data-parallel attention a sequence lies on one device: eight times as many fit, less the weights of attention.

## Parts

Milliseconds of a pass with one sequence, decoding and verifying:

{parts}

- **SGLang's choice is slower at long contexts.** It goes through the scores of a query in turn: 55 us a layer at
  128k, 420 us at 1M. GLM-5.2 does so in 21 of its 78 layers, GLM-5 and 5.1 in all of them, DeepSeek-V3.2 in all 61.
- **Beyond 131k tokens (vLLM) and 203k (SGLang) nobody timed the choice.** 1M is extrapolated along its law.
- **Prompts are not in it.** They come before, and no draft shortens them.

## Compared with published times

GLM-5 in 8 bits on eight B200s, as a build of SGLang of March 2026 served it, without a draft. Of
DeepSeek-V4-Pro [limits](limits.md#models) tells. Nobody published times of the others with MTP that say what was
accepted. Nothing is fitted to these rows:

{held}

The measured times lie between the two. The rows are older than the kernels of SGLang that were timed (0.5.14).
Small batches are the most too fast, by 4 ms of a step, which is 55 us a layer.
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
