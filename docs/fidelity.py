"""Measured against predicted, over published benchmarks of whole engines: the runtime cards and docs/fidelity.md.

    python docs/fidelity.py ../shared/measurements/end_to_end [--cards]

Reads ``ar_decode.csv`` of the folder, whose README names the sources and their traps. A row counts where its decoding
is ``yes`` or ``approx`` steady and nothing of it is missing or rejected; ``no`` is reported beside. With ``--cards``
the bundled runtimes are fitted anew. No row is written anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fidelity_generations import GROUPINGS, Generations, fit_generations
from fidelity_outcomes import Outcome, left_out

from calibration.runtimes.fit import DECODING, EXPERTS, MASKS, RuntimeFit
from calibration.runtimes.versions import fitted as fitted_versions
from calibration.timings.fit import significant
from ssdsim.base.bundled import models_folder
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_card import KERNELS, Evidence, Fp4Overrides, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.hardware.runtime_numbers import NUMBERS, CardErrors, Host, Kernels
from ssdsim.readers.row import Row

_ABOUT_COMPILED = "one process a GPU, the whole step compiled and replayed as a graph, batch 1: no server"
ABOUT = "fitted to published benchmarks by docs/fidelity.py, of mixtures and of rounds by the scripts beside it"
OF_HYBRIDS = ("per_recurrent_layer_s",)
OF_ROUNDS = tuple(name for name, number in NUMBERS.items() if number.has_own_error and name not in MASKS)
OF_OTHERS = (*EXPERTS, *OF_HYBRIDS, *OF_ROUNDS, *MASKS)
"""Numbers of a card that are not fitted here, but by the scripts of mixtures, hybrids and rounds; masks by no rows."""
_BESIDE = ("masks: ", "recurrent layers: ")
"""How parts of a card's note begin that neither this script nor docs/fidelity_rounds.py writes."""

MODELS = {
    "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Meta-Llama-3-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "Qwen/Qwen2-7B": "qwen2-7b",
    "Qwen/Qwen3-32B": "qwen3-32b",
}
HARDWARE = {
    "A100-40GB (4-GPU node, Polaris)": "a100-40gb",
    "H100-80GB (4-GPU node, JLSE)": "h100-sxm",
    "H100-SXM": "h100-sxm",
    "H100 SXM": "h100-sxm",
    "H100": "h100-sxm",
    "H200-SXM": "h200-sxm",
    "H200 SXM": "h200-sxm",
    "H200": "h200-sxm",
    "B200-SXM": "b200-sxm",
    "B200 SXM": "b200-sxm",
    "B200": "b200-sxm",
}
DTYPES = {
    "fp16": "bfloat16",
    "bf16": "bfloat16",
    "not stated (bf16)": "bfloat16",
    "unstated (column empty; checkpoint default bf16)": "bfloat16",
    "fp8": "float8",
    "fp8 (block)": "float8-block",
    "nvfp4": "nvfp4",
}
METRICS = {
    "latency_s": ("latency_s", 1.0),
    "latency_ms": ("latency_s", 1e-3),
    "TPOT_ms": ("tpot_ms", 1.0),
    "ITL_ms": ("tpot_ms", 1.0),
    "tok_s_total_output": ("tokens_per_s", 1.0),
    "tok_s_user": ("tokens_per_s", None),  # times the batch
}
SHAREGPT = {"ShareGPT (mean 233)": 233.0, "ShareGPT (mean 221)": 221.0, "MT-Bench": 100.0}

# vLLM and SGLang read small messages in one shot up to 512 KiB on four GPUs; TensorRT-LLM does so for larger ones.
_OWN = Kernels(overlap=0.5, streaming_attention=True, one_shot_bytes=1 << 19)
_TRTLLM = _OWN.changed(one_shot_bytes=1 << 21)
# Ranks wait for each other there, and the profile's all-reduce is a later engine's.
_EAGER = Kernels(communication=2.7, streaming_attention=True)
# No scheduler and no gaps: torch.compile's own kernels, whose products of one token are not cuBLAS's.
_COMPILED = Kernels(one_shot_bytes=1 << 19)
_MODERN = Host(per_layer_s=10e-6, per_step_s=1e-3)
_BY_LAYERS, _BY_STEPS = Host(per_layer_s=10e-6), Host(per_step_s=1e-3)


_HEAD = """# How well it predicts real engines

For people who rely on a runtime card of vLLM, TensorRT-LLM or SGLang. This page says how far autoregressive speeds are
missed, on rows that the card was fitted to and on rows that it never saw. `python docs/fidelity.py` makes it, from
published end-to-end measurements that are not part of this project.

A row is one speed of one engine. Prompts that are processed between decoding steps are priced, too.
[Rounds that speculate](fidelity_rounds.md) have a page of their own. The columns are:

- *Kernels*: the hardware profile alone.
- *In fit*: the bundled card.
- *Left out*: every series is predicted by a card that was fitted to the other series only, with the error that those
  give. A series is one source, engine version, model, dtype, GPU and tensor-parallel degree, with all its batches and
  lengths.
- *Unsteady*: rows with queues or unclear settings, which were never fitted, under the bundled card.
- Each has the mean absolute error, the bias, the share of rows inside the 95 % interval, and the interval's median
  half-width.

An interval holds three errors:

1. The error of kernels' timings. It is the profile's.
2. The error of the card's numbers. It is what the card's rows leave open. A card that was fitted to one model knows how
   much time the host takes there. It does not know how that splits into layers and steps; another model shows it.
3. The engine's structure that no number describes. It grows with the distance from the rows behind a card, by one law
   for all cards ([widths](fidelity_widths.md)). Near those rows it concerns the seconds in which no matrices are
   multiplied. Rows that are three quarters matrices are missed by 6 % (root mean square), those that are one quarter by
   11 %.

Some choices were not left out with a series: what a card has numbers for (overlap, kernels of its own, which engines'
all-reduces wait), the widths of the priors, and the law of the third error. So rows that nobody here has seen may be
missed by somewhat more. One model was kept until all else was done. The cards without it predicted the 61 rows of
Qwen2-7B on vLLM 0.5 with an error of 6.0 % (95 % inside the interval), and its 48 rows on TensorRT-LLM 0.11 with 11.9 %
(75 % inside). Now it is among the rows.
"""
_WAYS = ("kernels", "in fit", "left out")
_COLUMNS = ("runtime", "GPU", "rows", "series", *(f"{what}: error | bias | inside | width" for what in _WAYS))
_LEFT_COLUMNS = tuple(f"{name}: error | bias | inside | width" for name in GROUPINGS)

_LEFT_OUT = """
## Left out by more than a series

These are the same rows. The cards that predict them had no row of their series, their tensor-parallel degree, their
engine's version, or their generation of GPUs (Blackwell, which multiplies 4-bit numbers, or before). A cell is empty
where all rows of a card are of one kind. A generation without rows takes the numbers of the other's rows.

"""

_CARDS = """
## What the cards say

A card has factors on kernels that were timed alone, and the host's time.

- *Overlap*: a kernel takes longer than its bytes and flops at the device's peaks. This is the share of that excess that
  neighbouring kernels hide. 4-bit products hide nothing.
- *Attention*: engines that serve have kernels of their own, which take their launch and their bytes, as fast as the
  profile's tables read long contexts at best, and at most at 94 % of the memory's bandwidth. What they take besides is
  of each layer. *Sharing*: those of 2024 read keys and values for each query head; one head more that shares them adds
  this part of attention's time.
- *Communication*: a small all-reduce of `vllm-0.9`, `trtllm` and `sglang` takes its latency, and every other rank's
  message over the link, times the factor (`compiled` has that, too). Other factors are on the profile's tables.
- `compiled` has a factor on matrices: torch.compile's kernels for one token are not cuBLAS's.
- *Prompts*: the share of other requests' prompts that a token waits for.
- *Told*: numbers that the rows know better than the prior, which says how far one engine may be from another. The other
  numbers stay near the prior.
- *4 bits*: on Blackwell, drawn towards what the engine does before it.

"""
_NUMBERS = (
    *("card", "versions", "GPUs", "overlap", "sharing", "communication", "µs a layer", "ms a step"),
    *("µs a sequence", "prompts", "8-bit cache", "told"),
)


@dataclass(frozen=True)
class Group:
    """The rows of one card: those of ``engine`` (in small letters) whose version and source ``holds``."""

    card: str
    engine: str
    versions: str
    holds: Callable[[Any], bool]
    base: Runtime
    fields: Sequence[str] = DECODING
    published: Sequence[Row] = ()
    """Rows that are not in the folder."""


def _gpt_fast(model: str, tp: int, tokens_per_s: float) -> Row:
    return Row(
        model=model,
        hardware="a100-sxm",
        tp=tp,
        batch=1,
        input_tokens=5,
        output_tokens=200,
        metric="step_ms",
        value=1e3 / tokens_per_s,
        engine="gpt-fast",
        engine_version="2023-12",
        dtype="bfloat16",
        source="gpt-fast's README",
    )


_GPT_FAST = (
    *(_gpt_fast("llama-2-7b", tp, speed) for tp, speed in ((1, 104.9), (2, 168.84), (4, 254.02), (8, 328.43))),
    *(_gpt_fast("llama-2-70b", tp, speed) for tp, speed in ((2, 21.32), (4, 38.01), (8, 62.5))),
)
"""github.com/pytorch-labs/gpt-fast, at 0f925b5d4c: bfloat16, prompts of 5 tokens, A100-80GB limited to 330 W."""


def _base(kernels: Kernels, host: Host) -> Runtime:
    evidence = Evidence(source="prior")
    return Runtime(name="base", engine="", draft_tp="all", kernels=kernels, host=host, evidence=evidence)


def _published(row: Any) -> bool:
    return "LLM-Inf" in row.source


def _later(row: Any) -> bool:
    return not _published(row)


_STREAMING = tuple(field for field in DECODING if field != "attention")
"""Of engines whose attention is that of its bytes: what it takes besides is of each layer."""
_OF_2024 = (*_STREAMING, "attention_sharing")
_OF_VLLM = tuple(field for field in _STREAMING if field != "per_step_s")
_OF_V1 = "0.5, speculation v1 (to June 2026)"
_OF_SGLANG = (*_STREAMING, "prompts")
GROUPS = (
    Group("vllm-0.9", "vllm", "0.9 to 0.23", _later, _base(_OWN, _BY_LAYERS), _OF_VLLM),
    Group("trtllm", "tensorrt-llm", "1.0 and later", _later, _base(_TRTLLM, _MODERN), _STREAMING),
    Group("sglang", "sglang", _OF_V1, lambda row: True, _base(_OWN, _BY_STEPS), _OF_SGLANG),
    Group("vllm-0.5", "vllm", "0.5 and 0.6", _published, _base(_EAGER, _MODERN), _OF_2024),
    Group("trtllm-0.11", "tensorrt-llm", "0.11", _published, _base(_EAGER, _MODERN), _OF_2024),
)
"""Engines that serve; their rounds are in docs/fidelity_rounds.py."""

_UNTOLD = CardErrors(draft_step_log_sd=0.7, per_round_log_sd=0.9, round_log_sd=0.05)
_LIKE_SSD = _base(_COMPILED, Host(per_draft_step_s=3e-4)).changed(errors=_UNTOLD)
ALONE = Group("compiled", "gpt-fast", "2023-12", _later, _LIKE_SSD, ("gemm", "communication"), _GPT_FAST)
"""Its rounds were published with one speed, without its acceptance: a draft's step is the SSD paper's engine's."""


def _engine(text: str) -> str:
    text = text.lower()
    return "tensorrt-llm" if text.startswith(("trtllm", "tensorrt-llm")) else text.removesuffix(" v1")


def _tokens(text: str) -> float:
    return SHAREGPT[text] if text in SHAREGPT else float(text)


def rows_of(frame: pd.DataFrame, group: Group, steady: Sequence[str]) -> Iterator[Row]:
    """The rows of a group that are complete."""
    if "yes" in steady:
        yield from group.published
    for each in frame.itertuples():
        if _engine(each.engine) != group.engine or not group.holds(each) or each.steady_decode not in steady:
            continue
        if "REJECT" in str(each.notes) or each.metric not in METRICS:
            continue
        try:
            batch, tp = int(each.batch_or_concurrency), int(each.tp)
            prompt, output = _tokens(each.input_len), _tokens(each.output_len)
        except ValueError:
            continue
        weights, kv = each.dtype, None
        if "KV Cache = " in str(each.notes):
            weights, kv = (part.split("=")[1].strip() for part in each.notes.split(";")[0].split(","))
        if each.model not in MODELS or each.gpu not in HARDWARE or weights not in DTYPES:
            continue
        metric, factor = METRICS[each.metric]
        yield Row(
            model=MODELS[each.model],
            hardware=HARDWARE[each.gpu],
            tp=tp,
            batch=batch,
            input_tokens=prompt,
            output_tokens=output,
            metric=metric,
            value=each.value * (batch if factor is None else factor),
            engine=each.engine,
            engine_version=each.engine_version,
            dtype=DTYPES[weights],
            kv_dtype=DTYPES[kv] if kv else None,
            source=each.source,
        )


def fitted(group: Group, rows: Sequence[Row]) -> Generations:
    """The card of a group."""
    source = ", ".join(sorted({row.source for row in rows}))
    base = with_law_of(find_runtime(group.card), group.base)
    return fit_generations(rows, base, group.card, group.engine, group.fields, source)


def with_law_of(bundled: Runtime, card: Runtime) -> Runtime:
    """A card with the errors of a bundled one, which docs/fidelity_widths.py fits, and its way with prompts."""
    return card.changed(errors=bundled.errors, away=bundled.away, mixes_prompts=bundled.mixes_prompts)


def cells(outcome: Outcome) -> str:
    """Mean absolute error, bias, coverage and the median half-width of the interval."""
    if not outcome.rows:
        return "| | | "
    errors, half = outcome.errors, np.median(outcome.half_widths)
    return f"{np.abs(errors).mean():.1%} | {errors.mean():+.1%} | {outcome.held.mean():.0%} | ±{half:.0%}"


# The page and the cards.


@dataclass(frozen=True)
class Result:
    """A group's fit, and how well rows are predicted: by kernels alone, in fit, left out by each of GROUPINGS."""

    group: Group
    fit: Generations
    alone: Outcome
    in_fit: Outcome
    out: Mapping[str, Outcome]
    unsteady: Outcome

    @staticmethod
    def of(group: Group, frame: pd.DataFrame) -> Result:
        rows = list(rows_of(frame, group, ("yes", "approx")))
        fit = fitted(group, rows)
        out = {
            name: left_out(rows, [named(row) for row in rows], lambda kept: fitted(group, kept).card)
            for name, named in GROUPINGS.items()
        }
        fit = replace(fit, card=_with_errors(fit.card, out["series"]))
        unsteady = Outcome.of(list(rows_of(frame, group, ("no",))), fit.card)
        return Result(group, fit, Outcome.of(rows, KERNELS), Outcome.of(rows, fit.card), out, unsteady)


def page(results: Sequence[Result]) -> str:
    """docs/fidelity.md."""
    lines = [_HEAD, f"| {' | '.join(_COLUMNS)} | unsteady: error |", "|---" * 17 + "|"]
    for result in results:
        for name in sorted({row.hardware for row in result.in_fit.rows}):
            parts = [_on(each, name) for each in (result.alone, result.in_fit, result.out["series"])]
            no = _on(result.unsteady, name)
            beside = f"{np.abs(no.errors).mean():.0%} of {len(no.rows)}" if no.rows else ""
            series, shown = len({row.series_name for row in parts[1].rows}), " | ".join(map(cells, parts))
            counted = f"{find_hardware(name).name} | {len(parts[1].rows)} | {series}"
            lines.append(f"| `{result.group.card}` | {counted} | {shown} | {beside} |")
    lines.append(_coverage([result.out["series"] for result in results]))
    lines.append(_LEFT_OUT + f"| card | {' | '.join(_LEFT_COLUMNS)} |\n|{'---|' * 17}")
    lines += [f"| `{r.group.card}` | {' | '.join(_or_nothing(each) for each in r.out.values())} |" for r in results]
    everything = [Outcome.together([r.out[name] for r in results if _told(r.out[name])]) for name in GROUPINGS]
    lines.append(f"| all that have them | {' | '.join(map(cells, everything))} |")
    lines.append(_CARDS + f"| {' | '.join(_NUMBERS)} |\n|{'---|' * len(_NUMBERS)}")
    for result in results:
        lines += [_numbers(result, fit) for fit in result.fit.fits]
    return "\n".join(lines) + "\n"


def _on(outcome: Outcome, hardware: str) -> Outcome:
    return outcome.where(lambda row: row.hardware == hardware)


def _told(outcome: Outcome) -> bool:
    return not np.isnan(outcome.errors).any()


def _or_nothing(outcome: Outcome) -> str:
    return cells(outcome) if _told(outcome) else "| | | "


def _numbers(result: Result, fit: RuntimeFit) -> str:
    card = fit.card
    kernels, host = card.kernels, card.host
    where = "4 bits" if fit is result.fit.four_bits else "before"
    return (
        f"| `{result.group.card}` | {result.group.versions} | {where} | {kernels.overlap:.2f} | "
        f"{kernels.attention_sharing:.2f} | {kernels.communication:.2f} | {1e6 * host.per_layer_s:.0f} | "
        f"{1e3 * host.per_step_s:.2f} | {1e6 * host.per_sequence_s:.0f} | {kernels.prompts:.2f} | "
        f"{'yes' if card.cache_dtype else ''} | {', '.join(fit.identified)} |"
    )


def _coverage(outcomes: Sequence[Outcome]) -> str:
    """Over all rows left out, every source weighing the same."""
    everything = Outcome.together(outcomes)
    sources = np.array([row.source for row in everything.rows])
    covered = [everything.held[sources == name].mean() for name in sorted(set(sources))]
    half = np.median(everything.half_widths)
    return (
        f"\nOf {len(everything.rows)} rows, each predicted by a card that its series had no part in, "
        f"{np.mean(covered):.0%} lie inside the 95 % interval where every source weighs the same "
        f"({everything.held.mean():.0%} of the rows); the median half-width is {half:.1%}, the mean absolute error "
        f"{np.abs(everything.errors).mean():.1%}.\n"
    )


def main(folder: Path, write_cards: bool) -> None:
    """Fit, predict, and write the page (and the cards)."""
    frame = pd.read_csv(folder / "ar_decode.csv", dtype=str).assign(value=lambda f: f["value"].astype(float))
    results = []
    for group in (*GROUPS, ALONE):
        result = Result.of(group, frame)
        results.append(result)
        shown = [f"{name} {cells(each)}" for name, each in [("in fit", result.in_fit), *result.out.items()]]
        print(group.card, len(result.in_fit.rows), "rows:", "; ".join(shown), file=sys.stderr)
    (Path(__file__).parent / "fidelity.md").write_text(page(results), encoding="utf-8")
    if write_cards:
        for result in results:
            group, card = result.group, with_other_fits(result.fit.card)
            about = _ABOUT_COMPILED if group.published else ABOUT
            card = card.changed(versions=group.versions, about=about)
            save_runtime(card, models_folder() / "runtimes" / f"{group.card}.toml")


def with_other_fits(card: Runtime) -> Runtime:
    """With what other scripts say of the bundled card of this name.

    Those are numbers of experts (docs/fidelity_mixtures.py), of recurrent layers (docs/fidelity_hybrids.py), what a
    round costs that speculates (docs/fidelity_rounds.py), and how wide intervals are (docs/fidelity_widths.py).
    """
    before = find_runtime(card.name)
    if card.name == ALONE.card:
        note = "a draft's step: as ssd-engine's; of what its rounds cost besides nothing is known"
        card = card.with_numbers({name: before.numbers[name] for name in MASKS})
        return card.changed(evidence=card.evidence.changed(note=note_beside(before, note)))
    evidence = card.evidence.changed(note=before.evidence.note)
    return card.with_numbers({name: before.numbers[name] for name in OF_OTHERS}).changed(
        head_step_s=before.head_step_s,
        own_lm_head_step_s=before.own_lm_head_step_s,
        wander=(*card.wander, *_of_others(before.wander)),
        four_bits=_elsewhere(card, before.four_bits),
        evidence=evidence,
        errors=before.errors,
        away=before.away,
        covered=(*card.covered, *(each for each in before.covered if each.experts)),
        by_version=fitted_versions(before.by_version, card.by_version, DECODING),
    )


def _elsewhere(card: Runtime, before: Fp4Overrides | None) -> Fp4Overrides | None:
    """What ``card`` has elsewhere, with the numbers of ``before`` that are not fitted here."""
    if before is None:
        return card.four_bits
    dense = card.four_bits or Fp4Overrides(cache_dtype=before.cache_dtype, wander=card.wander)
    others = {name: value for name, value in before.numbers.items() if name in OF_OTHERS}
    numbers = {**dense.numbers, **others}
    versions = fitted_versions(before.by_version, dense.by_version, DECODING)
    wander = (*dense.wander, *_of_others(before.wander))
    in_order = {name: numbers[name] for name in NUMBERS if name in numbers}
    return dense.changed(numbers=in_order, wander=wander, by_version=versions)


def _of_others(wander: Sequence[Mapping[str, float]]) -> tuple[Mapping[str, float], ...]:
    return tuple(way for way in wander if set(way) & set(OF_OTHERS))


def note_beside(before: Runtime, note: str) -> str:
    """A card's note with the parts of its note ``before`` that others wrote."""
    return "; ".join((note, *(part for part in before.evidence.note.split("; ") if part.startswith(_BESIDE))))


def _with_errors(card: Runtime, out: Outcome) -> Runtime:
    """The left-out error in the card is that of this script, which chooses the cache's dtype anew each time."""
    error = significant(float(np.abs(out.errors).mean()))
    return card.changed(evidence=card.evidence.changed(left_out_error=error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--cards" in sys.argv)
