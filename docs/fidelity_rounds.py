"""What speculation's rounds cost in whole engines: the cards' numbers for it, and docs/fidelity_rounds.md.

    python docs/fidelity_rounds.py ../shared/measurements/end_to_end [--cards]

Reads ``sd_decode.csv`` and ``ar_decode.csv`` of the folder, whose README names the sources and their traps, and what
the project has of published rounds and sweeps. Run it after docs/fidelity.py and docs/fidelity_mixtures.py: a round is
what the cards of targets alone do not explain. With ``--cards`` the rounds' numbers of the bundled runtimes are fitted
anew; all others stay, but for the factor on experts of 16 bits, which SGLang's rounds alone tell. No row is written
anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from fidelity import ABOUT, DTYPES, GROUPS, HARDWARE, MODELS, OF_ROUNDS, Group, cells, note_beside
from fidelity_outcomes import Outcome, left_out
from fidelity_sweeps import Sweep, sweeps
from scipy.optimize import nnls

from calibration.runtimes.fit import RuntimeFit, fit_runtime
from calibration.runtimes.solution import PRIOR_SD
from calibration.timings.fit import significant
from calibration.validation.paper import load_paper
from calibration.validation.published_drafters import PublishedRounds, PublishedRows
from ssdsim.base.bundled import models_folder
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.readers.priced_row import seconds_of, value_of, work_of
from ssdsim.readers.row import Row

# errors of a card's numbers, as log-sds
_STEP_LOG_SD = 0.7  # of a draft step: 0.1 to 0.8 ms over engines, versions and heads
_PER_ROUND_LOG_SD = 0.9  # of a round: 0 to 0.9 ms over vLLM's versions, 0.9 to 4 over SGLang's hosts
_ROUND_LOG_SD = 0.05  # what the sweeps' shape over K leaves
_TOLD_STEP_LOG_SD = 0.55  # of SGLang, whose series were left out

_LEAST_STEP_S, _LEAST_ROUND_S = 2e-4, 1e-4  # of few speeds: a fit that says 0 has only moved it elsewhere

_BUNDLE = "SpecForge SpecBundle"
_BUNDLE_TOKENS = 1200  # of an answer, which with a short prompt is a context of half of it on average
_BUNDLE_MODELS = {
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b",
}
_CONTROLS = {"qwen3-235b-a22b": "llama-3.1-70b"}
"""Whose own AR is unknown besides: what a record holds beside rounds is told by another model of as many requests."""
_VLLM_AR_MS = 7.07  # a token without speculation, of the issue whose rounds these are
_GPUSTACK = "GPUStack performance lab"

_16_BITS, _16_BITS_SD = "experts_16_bit", 0.08
"""How far the factor may be off: one model tells it, as far as 70B's record holds what 235B's does (5 % of a step)."""

_NO_EXPERTS_SD = 0.25
"""Of an engine no row of which has experts: Mixtral-8x7B, which no fit has seen, took 0.61 (A100) and 0.67 (H100) of
what TensorRT-LLM 0.11's card says, and what vLLM 0.5's says."""

_ROUND = ("per_round_s",)
_OTHERS = ("per_draft_step_s", "per_tree_layer_s", "per_tree_token_s", _16_BITS)
FORMS = {
    "a constant": (*_ROUND, *_OTHERS),
    "and a layer's": (*_ROUND, "per_round_layer_s", *_OTHERS),
    "and a sequence's": (*_ROUND, "per_round_sequence_s", *_OTHERS),
    "a layer's alone": ("per_round_layer_s", *_OTHERS),
}
_FORM = "and a sequence's"

_BEFORE_0_24, _LAUNCHING, _OVERLAPPED = "vllm-0.9", "vllm-0.16", "sglang-v2"
_V1_OVER_V2 = (1162 / 846, 15327 / 11406, (273.43 / 3.01) / (246.80 / 2.99))
"""Of SGLang, one round's seconds over the other's: DFlash on one B200, one sequence and 32 (pull requests 16818 and
20547), and EAGLE on an 8B, K 5 (11398)."""

_HEAD = """# How well it predicts rounds that speculate

For people who speculate on vLLM, TensorRT-LLM or SGLang. This page says how far the time of a round is missed, and what
each card says that a round costs. `python docs/fidelity_rounds.py` makes it, from published measurements of whole
engines that are not part of this project, and from what the project holds of papers.

[Another page](fidelity.md) has targets alone. Here is what their cards do not explain. Every row is priced as `predict`
prices it.

## Rounds whose acceptance is published

Where a benchmark says the tokens of a round, the round's time follows. Whole runs also hold prompts, emptier batches
at their end, and what the card misses of the target alone: {ar_bias:+.0%} of 70B's and {mixture_bias:+.0%} of 235B's
steps without speculation. So *in AR steps* a row is divided by the row without speculation of the same data set and
multiplied by what the card has for that (for 235B, whose own experts are in question, by 70B's). *Left out*: predicted
by what the other series say. *As printed*: nothing divided. Columns: mean absolute error, bias, share inside the 95 %
interval, median half-width.

"""
_COLUMNS = (
    *("card", "series", "rows"),
    *(f"{what}: error | bias | inside | width" for what in ("in AR steps", "left out", "as printed")),
)

_FORMS = """
What a round of SGLang costs beside its passes, in four forms, each with the step of a head, a tree's two numbers and
the factor on experts of 16 bits. Errors of series that were left out, in AR steps:

| a round is | {series} | all |
|{dashes}
"""

_SHAPES = """
The first three predict alike. A cost by the layer alone is worst. A constant and a cost per sequence are taken, because
the scheduler of speculation v1 does not overlap with the devices, and goes through its requests one by one. A layer has
no reason to cost more in a round: the verification is a captured graph like any other. With 8B alone one cannot tell a
layer from a constant; with 80 layers one can. By the layer, as the sweeps below had it,
70B's rounds came out 1.40 AR steps long at K 3, now {now_round}; {seen_round} are measured.

A round costs a sequence about {part:.1f} times what a step does on SGLang: as much as if each of its tokens were a
step's. Engines whose rounds were seen with one sequence only take the same part of their own steps' cost a sequence. It
rests on SGLang alone. Rounds of vLLM 0.24 on an H100, whose steps cost nothing a sequence, cost none either.

A tree's verification takes more time per layer. SGLang's attention reads what all nodes see, then the nodes under their
mask, and merges both. A chain's step of 8B costs {step_ms:.2f} ms beyond its kernels, a tree's of four nodes
{tree_ms:.2f}. Rows of SpecForge's issue 339 (Qwen3-30B on two H100s) are in no fit: there a chain of three takes
11.6 ms where a tree of three takes 9.6. All eight are slower than AR; predicted they are 14 % slower to 15 % faster.

The number of experts that a verification touches is unchanged. With bf16 experts' factor at {experts:.2f} in the place
of fp8's {fp8:.2f}, 235B at K 3 and without speculation agree with 70B's record. From K 3 to K 7 its rounds grow by half
of what experts' kernels say. Its rows at K 7 are fitted, too: then series left out are missed by less (8B's trees by
2 % in place of 9). But a head's step and a round's time a sequence may hold what experts are off by. A tree of 235B
takes what its chains take, which is why a layer with experts has no tree's time.
"""

_CARDS = """
## What the cards say

*ms a step* is of a draft model. *A head's*: of a head with the target's LM head; *its own*: of one with an LM head of
its own, where that is not the same.

| card | rests on | ms a round | µs a sequence | log-sd | ms a step | a head's | its own | µs a tree's layer | node |
|---|---|---|---|---|---|---|---|---|---|
"""

_SWEEPS = """
- **Trees.** No other engine's trees are published with their acceptance. Elsewhere a tree has the price of as many rows
  in a chain. That is too little if attention takes the tree in parts.
- **Engines without rows of their own** have the geometric mean of those that have.
- **vLLM.** `vllm-0.9` has the rounds of its rows of July 2025, and the cost per sequence that SGLang's rounds show.
  Rounds have become shorter since then: `vllm-0.16` is from the sweeps below, and `vllm-0.24` and `vllm` were
  [measured](validation.md#the-loop-on-one-h200). There a sequence of a batch adds only its kernels to a round.

`{overlapped}` is `sglang` with speculation v2, which overlaps the host with the devices: an option since October 2025
(`SGLANG_ENABLE_SPEC_V2`, pull request 11398) and all there is since June 2026 (27964, 27977). No row of it is fitted.
So it has v1's numbers, and a log-sd of {v2:.2f} for every round: in three published pairs v1's rounds took {v1_over_v2}
times as long as v2's (pull requests 16818 and 20547: DFlash at one and 32 sequences; 11398: EAGLE at one). Rounds of
DFlash were never fitted, and hold prompts: `sglang` is off by {v1_errors} (v1), `{overlapped}` by {v2_errors} (v2).

## Sweeps over K

These are the SSD paper's sweeps over K (Llama-3.1-70B, TP 4, H100). A cost per round and a cost per draft step beyond
its kernels were fitted to every second K. The others are predicted. What is accepted of SGLang's draft model is known:
the paper's own engine ran the same pair on the same data ([its numbers](paper.md)). The other rates were fitted with
the costs. They agree: vLLM's row asks for as much of the draft model, and both engines for as much of the head. On this
host a round of SGLang takes 3 ms more than in the rows above. Those are more, and of three models, so the card's rounds
are theirs. Its draft model's step is the sweep's, as no other row has one.

| engine | alpha | ms a round | ms a step | worst of those fitted | others: mean error | worst |
|---|---|---|---|---|---|---|
"""

_FOOT = """
No cost of a step that is added to a round describes vLLM's standalone draft: the best missed rows that it was fitted
to by 24 %. Until July 2026 (vLLM's pull request 47460) a draft model's graphs were captured but never replayed: the
keys by which a pass finds its graph were made for heads alone. So the host launches the draft's kernels one by one. It
waits for nothing, so it does this while the target still verifies. A round takes as long as the slower of host and
devices. Its line above is the host's: a round's time, and that of a step of 16 layers. At K = 2 host and devices take
about as long. From K = 4 on the devices wait for the host. The card `vllm-0.16` has these two numbers; no other card of
this page has the line. Rounds of vLLM 0.24.0 on another host are within 9 % of it at K = 5 ([measured](validation.md)).

No card says beyond which batch passes run without graphs. By default vLLM captures graphs up to 512 tokens a pass, and
no row has a larger pass. There the devices are the slower ones: 512 tokens take 34 ms on 8B and one H100, 50 ms on 70B
and four, as the card `vllm-0.9` prices them, and the host, at its 0.41 ms a layer, 13 and 33 ms.

The log-sd of a round's cost is 0.9. SpecBundle's rounds of one GPU and of four agree within a tenth of a millisecond,
but GPUStack's host takes 2 ms where the card has 1, the sweeps' 3 to 4, and rounds of SpecForge's issue 339 are 1 to
7 ms longer than predicted; vLLM's have come down from 0.8 ms to none. That of a draft step is 0.7; on SGLang,
where series were left out, 0.55. Those are of one host but for two rows, and would do with 0.3 for a round, too. With
0.5 SGLang's card would hold 86 of the SSD paper's 109 numbers, whose host is another one, in the place of 104.
"""


# Rounds whose acceptance is published, in steps of the same benchmark's AR.


def corrected(row: Row, control: Row, card: Runtime) -> Row:
    """The row as it were if its benchmark had ``control``, a row without speculation, where the card has it.

    A whole run holds prompts, the last requests' emptier batches, and what the card misses of the target alone. All
    of these are in AR's row, too; what is left is the round's own.
    """
    factor = work_of(control, card).cost.seconds / seconds_of(control)
    return row.changed(value=value_of(row, factor * seconds_of(row)))


@dataclass(frozen=True)
class Record:
    """A row and the row without speculation of its benchmark (or, of a target alone, of another model's)."""

    row: Row
    control: Row

    def under(self, card: Runtime) -> Row:
        return corrected(self.row, self.control, card)


def bundle(frame: pd.DataFrame) -> Iterator[Record]:
    """SpecForge's SpecBundle: EAGLE-3 on SGLang and H200s, several data sets and heads; and its AR of a mixture."""
    frame = frame[(frame["source"] == _BUNDLE) & frame["model"].isin(_BUNDLE_MODELS)]
    beam, tokens = (
        frame["notes"].str.extract(f"{name}=(\\d+)")[0].astype(int) for name in ("topk", "num_draft_tokens")
    )
    frame = frame.assign(model=frame["model"].map(_BUNDLE_MODELS), beam=beam, nodes=tokens - 1)
    decoding = {(each.model, each.dataset): _bundled(each, decodes=True) for each in frame.itertuples()}
    for each in frame.itertuples():
        control = decoding[_CONTROLS.get(each.model, each.model), each.dataset]
        yield Record(_bundled(each), control)
    for (model, dataset), row in decoding.items():
        if model in _CONTROLS:
            yield Record(row, decoding[_CONTROLS[model], dataset])


def _bundled(each: pd.Series, decodes: bool = False) -> Row:
    tree = {} if each.beam == 1 else {"tree_nodes": each.nodes, "tree_beam": each.beam}
    speculates = {"k": int(each.k), "drafter": "eagle3", "acceptance_length": float(each.acceptance_length_or_rate)}
    shape = "AR" if decodes else "chains" if each.beam == 1 else "trees"
    return Row(
        model=each.model,
        hardware=HARDWARE[each.gpu],
        tp=int(each.tp),
        batch=int(each.batch_or_concurrency),
        input_tokens=0,
        output_tokens=_BUNDLE_TOKENS,
        metric="tokens_per_s",
        value=float(each.value) / (float(each.speedup_over_ar) if decodes else 1.0),
        source=_BUNDLE,
        series=f"{_BUNDLE}, {each.model}, {shape}",
        **({} if decodes else {**speculates, **tree}),
    )


def gpustack(speculating: pd.DataFrame, decoding: pd.DataFrame) -> Iterator[Record]:
    """GPUStack's chain and tree of Qwen3-8B: a round's tokens are the time between outputs over a token's."""
    frame = decoding[(decoding["source"] == _GPUSTACK) & (decoding["engine"] == "SGLang")]
    (control, *_) = (
        _served(each) for each in frame.itertuples() if each.dtype == "fp8 (block)" and "attention" not in each.notes
    )
    for each in speculating[speculating["source"] == _GPUSTACK].itertuples():
        yield Record(_served(each), control)


def _served(each: pd.Series) -> Row:
    known = {}
    if "topk" in each.notes:
        between_ms, beam, tokens = (
            float(each.notes.split(before)[1].split()[0].rstrip(";"))
            for before in ("mean ITL ", "topk=", "num_draft_tokens=")
        )
        known = {"k": int(each.k), "drafter": "eagle3", "acceptance_length": between_ms / float(each.value)}
        if beam > 1:
            known |= {"tree_nodes": int(tokens) - 1, "tree_beam": int(beam)}
    prompt, output = (float(text.split("mean ")[1].rstrip(")")) for text in (each.input_len, each.output_len))
    return Row(
        model=MODELS[each.model],
        hardware=HARDWARE[each.gpu],
        batch=int(each.batch_or_concurrency),
        input_tokens=prompt,
        output_tokens=output,
        metric="tpot_ms",
        value=float(each.value),
        dtype=DTYPES[each.dtype],
        source=_GPUSTACK,
        series=f"{_GPUSTACK}, {'tree' if 'tree_beam' in known else 'chain'}",
        **known,
    )


def published(name: str, ar_ms: float | None = None) -> Iterator[Record]:
    """Rounds over K of one of the project's cards of published rows; AR is their K of 0 where it is not given."""
    paper = load_paper(name)
    assert isinstance(paper, PublishedRows)
    for rounds in paper.rows:
        assert isinstance(rounds, PublishedRounds)
        rows = {
            k: _replayed(rounds, k, tokens * ms)
            for k, tokens, ms in zip(rounds.k, rounds.tokens, rounds.ms, strict=True)
        }
        control = rows.pop(0) if ar_ms is None else _replayed(rounds, 0, ar_ms)
        yield from (Record(row, control) for row in rows.values())


def _replayed(rounds: PublishedRounds, k: int, ms: float) -> Row:
    return Row(
        model=rounds.target,
        hardware=rounds.hardware,
        tp=rounds.tp,
        batch=1,
        input_tokens=rounds.context,
        output_tokens=1,
        metric="step_ms",
        value=ms,
        dtype=rounds.dtype,
        series=rounds.about,
        **({"k": k, "drafter": rounds.drafter, "draft_dtype": rounds.draft_dtype} if k else {}),
    )


# What they say.


def without_rounds(card: Runtime) -> Runtime:
    """The card as targets alone gave it."""
    nothing = {"head_step_s": None, "own_lm_head_step_s": None, "launches": None}
    return card.with_numbers(dict.fromkeys(OF_ROUNDS, 0.0)).changed(**nothing)


def with_16_bits(card: Runtime, factor: float, sd: float) -> Runtime:
    """The card with its factor on experts of 16 bits, and how far that may be off, on all devices."""

    def open_too(ways: Sequence[dict[str, float]]) -> tuple[dict[str, float], ...]:
        return (*(way for way in ways if _16_BITS not in way), {_16_BITS: sd})

    there = card.four_bits
    there = None if there is None else there.changed(wander=open_too(there.wander))
    known = {"wander": open_too(card.wander), "four_bits": there}
    return card.with_numbers({_16_BITS: factor}).changed(**known)


def with_errors(card: Runtime, **log_sds: float) -> Runtime:
    """The card with how wrong its numbers of rounds may be."""
    known = {"draft_step_log_sd": _STEP_LOG_SD, "per_round_log_sd": _PER_ROUND_LOG_SD, "round_log_sd": _ROUND_LOG_SD}
    return card.changed(errors=card.errors.changed(**(known | log_sds)))


def fitted(rows: Sequence[Row], bare: Runtime, fields: Sequence[str]) -> RuntimeFit:
    """SGLang's numbers of rounds of heads, which its card has for heads alone."""
    return fit_runtime(rows, bare, bare.name, fields=fields)


def as_heads(fit: RuntimeFit, bare: Runtime) -> Runtime:
    """The card to start from with what a fit says of rounds, a draft step as that of heads."""
    numbers = {name: significant(fit.card.numbers[name]) for name in (*OF_ROUNDS, _16_BITS)}
    step_s, factor = (numbers.pop(name) for name in ("per_draft_step_s", _16_BITS))
    card = with_16_bits(bare.with_numbers(numbers), factor, _16_BITS_SD)
    return with_errors(card.changed(head_step_s=step_s), draft_step_log_sd=_TOLD_STEP_LOG_SD)


def told(rows: Sequence[Row], bare: Runtime) -> tuple[float, Mapping[str, float]]:
    """A round's cost and a draft step's of each series, of an engine of one sequence: least squares of relative errors.

    A round is the same for all series, as its host is.
    """
    names = sorted({row.series_name for row in rows})
    seen = np.array([seconds_of(row) for row in rows])
    left = seen - np.array([work_of(row, bare).cost.seconds for row in rows])
    terms = np.zeros((len(rows), 1 + len(names)))
    terms[:, 0] = 1.0
    for at, row in enumerate(rows):
        terms[at, 1 + names.index(row.series_name)] = row.k or 0
    (round_s, *steps), _ = nnls(terms / seen[:, None], left / seen)
    return significant(float(round_s)), {name: significant(float(s)) for name, s in zip(names, steps, strict=True)}


def typical(seconds: Sequence[float], least_s: float) -> float:
    """The geometric mean."""
    return significant(float(np.exp(np.log(np.maximum(seconds, least_s)).mean())))


@dataclass(frozen=True)
class Told:
    """Rows of an engine, and its card: in fit, and (where it has several series) each predicted by the others."""

    card: Runtime
    records: Sequence[Record]
    rows: Sequence[Row]
    fit: Outcome
    out: Outcome | None


def of_sglang(speculating: pd.DataFrame, decoding: pd.DataFrame, bare: Runtime) -> tuple[Told, Mapping[str, Outcome]]:
    """Its card of the form that is shipped, and how well each form predicts series that it did not see."""
    records = [*bundle(speculating), *gpustack(speculating, decoding)]
    rows = [record.under(bare) for record in records]
    names = [row.series_name for row in rows]

    def card(fields: Sequence[str]) -> Callable[[Sequence[Row]], Runtime]:
        return lambda some: as_heads(fitted(some, bare, fields), bare)

    forms = {form: left_out(rows, names, card(fields)) for form, fields in FORMS.items()}
    made = card(FORMS[_FORM])(rows)
    return Told(made, records, rows, Outcome.of(rows, made), forms[_FORM]), forms


def of_vllm(bare: Runtime) -> Told:
    """The vLLM of 2025: steps of a head with the target's LM head (EAGLE-1) and with one of its own (EAGLE-3)."""
    records = list(published("vllm-eagle", _VLLM_AR_MS))
    rows = [record.under(bare) for record in records]
    round_s, steps = told(rows, bare)
    first, third = sorted(steps)  # EAGLE-1, EAGLE-3
    numbers = {"head_step_s": steps[first], "own_lm_head_step_s": steps[third]}
    card = with_errors(bare.with_numbers({"per_round_s": round_s}).changed(**numbers))
    return Told(card, records, rows, Outcome.of(rows, card), None)


def of_trtllm(bare: Runtime) -> Told:
    """TensorRT-LLM: DeepSeek-R1's own MTP layer."""
    records = list(published("tensorrt-llm-r1"))
    rows = [record.under(bare) for record in records]
    round_s, steps = told(rows, bare)
    (step_s,) = steps.values()
    numbers = bare.with_numbers({"per_round_s": max(round_s, _LEAST_ROUND_S)})
    card = with_errors(numbers.changed(head_step_s=step_s))
    return Told(card, records, rows, Outcome.of(rows, card), None)


# The page and the cards.


def finished(
    before: Mapping[str, Runtime], own: Mapping[str, Told], swept: Sequence[Sweep]
) -> Iterator[tuple[Runtime, str]]:
    """Every card with its rounds, and what they rest on, in short."""
    cards = {name: each.card for name, each in own.items()}
    rounds_s = [card.host.per_round_s for card in cards.values()]
    heads_s = [step_s for card in cards.values() for step_s in (card.head_step_s, card.own_lm_head_step_s) if step_s]
    others_s = {"per_round_s": typical(rounds_s, _LEAST_ROUND_S), "per_draft_step_s": typical(heads_s, _LEAST_STEP_S)}
    others = "other engines' rows"
    loop = cards["sglang"].host
    part = loop.per_round_sequence_s / loop.per_sequence_s
    for group in GROUPS:
        name = group.card
        if name not in own:
            card = with_errors(_in_batches(without_rounds(before[name]).with_numbers(others_s), part))
            yield _noted(card.changed(head_step_s=others_s["per_draft_step_s"]), group, others)
            continue
        swept_too = [s for s in swept if s.engine.split("-")[0] == name.split("-")[0] and s.launches is None]
        of_models = [s.per_draft_step_s for s in swept_too if s.method == "standalone"]
        heads = [step_s for step_s in (cards[name].head_step_s, cards[name].own_lm_head_step_s) if step_s]
        step_s = typical(of_models or [*(s.per_draft_step_s for s in swept_too), *heads], _LEAST_STEP_S)
        card = cards[name].with_numbers({"per_draft_step_s": step_s})
        if name != "sglang":
            card = _in_batches(card, part)
        card, rests = _noted(card, group, f"{len(own[name].rows)} rows of its own", _besides(own[name].rows))
        yield card, rests
        if name == _BEFORE_0_24:
            yield _launching(card, swept)
        if name == "sglang":
            yield _overlapped(card)


def _in_batches(card: Runtime, part: float) -> Runtime:
    """Of an engine whose rounds were seen with one sequence only: a sequence's part, that of its steps times ``part``.

    A round of one sequence stays as long as it is.
    """
    sequence_s = significant(part * card.host.per_sequence_s)
    round_s = significant(max(0.0, card.host.per_round_s - sequence_s))
    return card.with_numbers({"per_round_sequence_s": sequence_s, "per_round_s": round_s})


def _besides(rows: Sequence[Row]) -> str:
    told_by = sum(row.model in _CONTROLS for row in rows)
    return f", {told_by} of them for the factor on experts of 16 bits" if told_by else ""


def _noted(card: Runtime, group: Group, rows: str, besides: str = "") -> tuple[Runtime, str]:
    note = f"rounds and draft steps: {rows}{besides} (docs/fidelity_rounds.py)"
    known = {
        "versions": group.versions,
        "about": ABOUT,
        "evidence": card.evidence.changed(note=note_beside(card, note)),
    }
    if not any(_16_BITS in way for way in card.wander):  # no row of such experts was fitted
        knows = any(each.experts for each in card.covered)
        card = with_16_bits(card, card.numbers[_16_BITS], PRIOR_SD[_16_BITS] if knows else _NO_EXPERTS_SD)
    return card.changed(**known), rows


def _launching(card: Runtime, swept: Sequence[Sweep]) -> tuple[Runtime, str]:
    """The card of versions in which a draft model has no graphs; else they are as the card says."""
    of_version = [s for s in swept if s.engine.startswith(f"{_LAUNCHING}.")]
    (launches,) = (s.launches for s in of_version if s.launches is not None)
    (heads,) = (s for s in of_version if s.launches is None)
    # what the host adds to a step of a model is its launches
    numbers = {"per_draft_step_s": 0.0, "per_round_s": significant(heads.per_round_s)}
    named = {"name": _LAUNCHING, "versions": "0.16 to July 2026 (PR 47460)", "launches": launches}
    steps = {"head_step_s": significant(heads.per_draft_step_s), "own_lm_head_step_s": None}
    of_sweeps = "rounds of heads, and launches of a draft model: two sweeps over K (docs/fidelity_rounds.py)"
    note = f"as {_BEFORE_0_24}; {of_sweeps}"
    evidence = card.evidence.changed(note=note_beside(card, note))
    card = card.with_numbers(numbers).changed(**named, **steps, evidence=evidence)
    return card, "two sweeps over K"


def _overlapped(card: Runtime) -> tuple[Runtime, str]:
    """The card of SGLang's speculation v2: v1's numbers, as wrong as they may be of it."""
    note = "v1's rounds (sglang), of which v2's differ as three published pairs do: no row of v2 is fitted"
    evidence = card.evidence.changed(note=note_beside(card, note))
    versions = "0.5, speculation v2 (all there is from June 2026)"
    named = {"name": _OVERLAPPED, "versions": versions, "evidence": evidence}
    wide = card.errors.changed(round_log_sd=significant(_v2_log_sd()))
    return card.changed(**named, errors=wide), "`sglang`'s"


def _v2_log_sd() -> float:
    return float(np.sqrt(np.mean(np.square(np.log(_V1_OVER_V2)))))


def page(
    own: Mapping[str, Told],
    forms: Mapping[str, Outcome],
    cards: Sequence[tuple[Runtime, str]],
    swept: Sequence[Sweep],
) -> str:
    """docs/fidelity_rounds.md."""
    sglang = own["sglang"]
    biases = {model: _ar_bias(sglang, model) for model in ("llama-3.1-70b", "qwen3-235b-a22b")}
    lines = [_HEAD.format(ar_bias=biases["llama-3.1-70b"], mixture_bias=biases["qwen3-235b-a22b"])]
    lines += [f"| {' | '.join(_COLUMNS)} |", "|---" * 15 + "|"]
    lines += [line for name, each in own.items() for line in _series_lines(name, each)]
    names = sorted({row.series_name for row in sglang.rows})
    short = [name.removeprefix(f"{_BUNDLE}, ").replace(_GPUSTACK, "GPUStack") for name in names]
    lines.append(_FORMS.format(series=" | ".join(short), dashes="---|" * (len(names) + 2)).rstrip())
    for form, found in forms.items():
        parts = [found.where(lambda row, name=name: row.series_name == name) for name in names]
        lines.append(f"| {form} | {' | '.join(f'{np.abs(each.errors).mean():.1%}' for each in (*parts, found))} |")
    lines += [_shapes(sglang), _CARDS.rstrip(), *(_card_line(*each) for each in cards)]
    lines.append(_SWEEPS.format(**_overlap_words({card.name: card for card, _ in cards})).rstrip())
    lines += [
        f"| {s.engine} {s.method} | {s.alpha:.3f} | {1e3 * s.per_round_s:.2f} | {1e3 * s.per_draft_step_s:.2f} | "
        f"{s.fitted:.1%} | {s.others:.1%} | {s.worst:.1%} |"
        for s in swept
    ]
    return "\n".join(lines) + "\n" + _FOOT


def _series_lines(name: str, each: Told) -> Iterator[str]:
    printed = Outcome.of([record.row for record in each.records], each.card)
    for series in dict.fromkeys(row.series_name for row in each.rows):
        in_fit, out, raw = (
            None if found is None else found.where(lambda row, series=series: row.series_name == series)
            for found in (each.fit, each.out, printed)
        )
        assert in_fit is not None
        assert raw is not None
        left = "| | | " if out is None else cells(out)
        yield f"| `{name}` | {series} | {len(in_fit.rows)} | {cells(in_fit)} | {left} | {cells(raw)} |"


def _ar_bias(told_of: Told, model: str) -> float:
    """Of steps without speculation as they are printed, by the card."""
    rows = [record.control for record in told_of.records if record.control.model == model]
    rows += [record.row for record in told_of.records if record.row.model == model and record.row.k is None]
    return float(np.mean([work_of(row, told_of.card).cost.seconds / seconds_of(row) - 1.0 for row in rows]))


def _shapes(sglang: Told) -> str:
    seventy = [record for record in sglang.records if record.row.model == "llama-3.1-70b"]
    eight = next(record.row for record in sglang.records if record.row.tree_beam == 4)
    card = sglang.card
    assert card.head_step_s is not None
    tree_s = card.head_step_s + card.host.per_tree_layer_s + (eight.tree_beam or 0) * card.host.per_tree_token_s
    return _SHAPES.format(
        now_round=f"{_in_steps(seventy, card):.2f}",
        seen_round=f"{np.median([_round_s(each.row) / _round_s(each.control) for each in seventy]):.2f}",
        step_ms=1e3 * card.head_step_s,
        tree_ms=1e3 * tree_s,
        experts=card.kernels.experts_16_bit,
        fp8=card.kernels.experts,
        part=card.host.per_round_sequence_s / card.host.per_sequence_s,
    )


def _round_s(row: Row) -> float:
    return seconds_of(row) * (row.acceptance_length or 1.0)


def _in_steps(records: Sequence[Record], card: Runtime) -> float:
    """A round in steps without speculation, both as the card has them."""
    row, control = records[0].row, records[0].control
    return work_of(row, card).cost.seconds * (row.acceptance_length or 1.0) / work_of(control, card).cost.seconds


def _card_line(card: Runtime, rests: str) -> str:
    host, errors = card.host, card.errors
    heads = (host.per_draft_step_s, card.head_step_s, card.own_lm_head_step_s)
    steps = " | ".join("" if step_s is None else f"{1e3 * step_s:.2f}" for step_s in heads)
    return (
        f"| `{card.name}` | {rests} | {1e3 * host.per_round_s:.2f} | {1e6 * host.per_round_sequence_s:.0f} | "
        f"{errors.per_round_log_sd:.2f} | {steps} | {1e6 * host.per_tree_layer_s:.0f} | "
        f"{1e6 * host.per_tree_token_s:.1f} |"
    )


_DFLASH = ((1, 6.35, 846.0, 1162.0), (32, 6.48, 11406.0, 15327.0))
"""Of Qwen3-8B on one B200, K 15: sequences, tokens a round, tokens/s by speculation v1 and by v2."""


def _overlap_words(cards: Mapping[str, Runtime]) -> dict[str, object]:
    errors: dict[str, list[str]] = {"sglang": [], _OVERLAPPED: []}
    for batch, tokens, *speeds in _DFLASH:
        for name, speed in zip(errors, speeds, strict=True):
            row = Row(
                model="qwen3-8b",
                hardware="b200-sxm",
                batch=batch,
                input_tokens=0,
                output_tokens=_BUNDLE_TOKENS,
                metric="tokens_per_s",
                value=speed,
                k=15,
                drafter="dflash",
                acceptance_length=tokens,
            )
            outcome = Outcome.of([row], cards[name])
            errors[name].append(f"{outcome.errors[0]:+.0%} ({'inside' if outcome.held[0] else 'outside'} the interval)")
    return {
        "overlapped": _OVERLAPPED,
        "v2": _v2_log_sd(),
        "v1_over_v2": ", ".join(f"{ratio:.2f}" for ratio in _V1_OVER_V2),
        "v1_errors": " and ".join(errors["sglang"]),
        "v2_errors": " and ".join(errors[_OVERLAPPED]),
    }


def main(folder: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    speculating, decoding = (pd.read_csv(folder / f"{name}_decode.csv", dtype=str) for name in ("sd", "ar"))
    before = {group.card: find_runtime(group.card) for group in GROUPS}
    bare = {name: without_rounds(card) for name, card in before.items()}
    sglang, forms = of_sglang(speculating, decoding, with_16_bits(bare["sglang"], 1.0, PRIOR_SD[_16_BITS]))
    own = {"sglang": sglang, _BEFORE_0_24: of_vllm(bare[_BEFORE_0_24]), "trtllm": of_trtllm(bare["trtllm"])}
    swept = list(sweeps(bare))
    cards = list(finished(before, own, swept))
    text = page(own, forms, cards, swept)
    (Path(__file__).parent / "fidelity_rounds.md").write_text(text, encoding="utf-8")
    if write_cards:
        for card, _ in cards:
            save_runtime(card, models_folder() / "runtimes" / f"{card.name}.toml")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--cards" in sys.argv)
