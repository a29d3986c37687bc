"""Measured against predicted, over published benchmarks of whole engines: the runtime cards and docs/fidelity.md.

    python docs/fidelity.py ../shared/measurements/end_to_end [--cards]

Reads ``ar_decode.csv`` of the folder, whose README names the sources and their traps. A row counts where its decoding
is ``yes`` or ``approx`` steady and nothing of it is missing or rejected; ``no`` is reported beside. With ``--cards``
the bundled runtimes are fitted anew. No row is written anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import norm
from scipy.stats import t as student

from calibration.bootstrap import significant
from calibration.runtimes.fit import EXPERTS, Fit, fit_runtime
from ssdsim.bundled import models_folder
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.measured.price import seconds_of, work_of
from ssdsim.measured.row import Row
from ssdsim.pricing.between_kernels import cost_of_step, units_of_step
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.runtimes.card import KERNELS, Evidence, Host, Kernels, Launches, Runtime
from ssdsim.runtimes.catalog import find_runtime, save_runtime
from ssdsim.speculation.acceptance import expected_tokens
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.validation.paper import load_published

Array = NDArray[np.float64]

DRAWS = 400
ABOUT = "fitted by docs/fidelity.py to published benchmarks; draft steps and rounds to the SSD paper's sweeps over K"
_LEAST_STEP_S = 2e-4  # a fit to few speeds that says 0 has only moved it elsewhere
_LEAST_LAYER_S = 2.5e-6  # of a round
_STEP_LOG_SD = 0.7  # of an engine with few lines, or lines that say next to nothing: 0.2 to 1 ms over one engine's
_PER_ROUND_LOG_SD = 0.9  # likewise: 0 to 4 ms
_FEW_LINES = 3
_DRAFT, _DRAFT_LAYERS = "llama-3.2-1b", 16
_WITHOUT_GRAPHS = ("vllm-0.16.0",)
"""Whose draft models never run as graphs: the dispatcher's keys are made for heads alone (vLLM pull request 47460)."""
_OF_HEADS = "; of heads: "
_LAUNCHING = "vllm-0.16"
_ROUND_LOG_SD = 0.05  # what the sweeps' shape over K leaves
_BUNDLE_CONTEXT = 600  # tokens: its prompts and answers have a few hundred

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
}
HARDWARE = {
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
    "fp8": "float8",
    "fp8 (block)": "float8-block",
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
_TRTLLM = _OWN.model_copy(update={"one_shot_bytes": 1 << 21})
# Ranks wait for each other there, and the profile's all-reduce is a later engine's.
_EAGER = Kernels(communication=2.7, streaming_attention=True)
_MODERN = Host(per_layer_s=10e-6, per_step_s=1e-3)


_HEAD = """# How well it predicts real engines

Made by `python docs/fidelity.py`, from published end-to-end measurements that are not part of this project. A row is
one autoregressive speed of one engine (speculation is below); prompts that are processed between decoding steps are
priced, not ignored. *Kernels*: the hardware profile alone. *In fit*: the bundled card. *Left out*: every series (one
source, engine version, model, dtype, GPU and tensor-parallel degree, with all its batches and lengths) is predicted
by a card that was fitted to the other series alone, with the error that those give. Columns: mean absolute error,
bias, share of rows inside the 95 % interval, median half-width of that interval. *Unsteady*: rows with queues or
unclear settings, which were never fitted, under the bundled card.

An interval holds three errors. That of the timings of kernels is the profile's. That of the card's numbers is what
its rows leave open of them: a card that was fitted to one model knows how much the host takes there, not how that
splits into layers and steps, which another model finds out. The third is an engine's structure that no number has: a
log-sd of seconds in which no matrices are multiplied, of 0.133 over all cards' unseen series, to which each card's
own is drawn. Beside the others, whole passes have none: rows that are three quarters matrices are missed by 6 %
(root mean square), those that are one quarter by 11 %. One log-sd for whole passes, 0.085, held as many rows only
with intervals a quarter wider: too wide where matrices are most of a pass, too narrow at large batches.

Not left out with a series: the choice of what a card has numbers for (overlap, kernels of its own, which engines'
all-reduces wait), the widths of the priors, and the log-sd of 0.133. So coverage and errors of rows that nobody here
has seen may be somewhat worse. One model was kept until all else was done: the cards without it predicted the 61 rows
of Qwen2-7B on vLLM 0.5 with an error of 6.0 % (95 % inside the interval) and its 48 rows on TensorRT-LLM 0.11 with
11.9 % (75 % inside); now it is among the rows.
"""
_WAYS = ("kernels", "in fit", "left out")
_COLUMNS = ("runtime", "GPU", "rows", "series", *(f"{what}: error | bias | inside | width" for what in _WAYS))

_CARDS = """
## What the cards say

Factors on kernels that were timed alone, and the host's time. *Overlap*: the share of what a kernel takes beyond its
bytes and flops at the device's peaks that its neighbours hide. `vllm`, `trtllm` and `sglang` have kernels of their
own: decode attention is its launch and its bytes at the memory's bandwidth, an all-reduce its latency and every other
rank's message over the link while it is small, times the factor. The older engines' factors are on the profile's
tables. *Told*: numbers that the rows know better than the prior (how far an engine may be from another); the others
stay near it.

| card | versions | overlap | attention | communication | µs a layer | ms a step | µs a sequence | 8-bit cache | told |
|---|---|---|---|---|---|---|---|---|---|"""

_SWEEPS = """
## Draft steps and rounds

Sweeps over K of the SSD paper (Llama-3.1-70B, TP 4, H100): an acceptance rate, a cost a round and a cost a draft step
were fitted to every second K; the others are predicted. A step of a standalone draft is what it costs beyond its
kernels, one of EAGLE-3 holds the head's kernels. Acceptance is fitted, so this shows the shape over K, not the level.
The last line has its acceptance published: a line over K = 3, 5, 7 less the verification as the card prices it.

| engine | alpha | ms a round | µs of it a layer | ms a step | worst of those fitted | others: mean error | worst |
|---|---|---|---|---|---|---|---|"""

_FOOT = """
No cost of a step that is added to a round describes vLLM's standalone draft: the best missed rows that it was fitted
to by 24 %. Until July 2026 (vLLM's pull request 47460) a draft model's graphs were captured but never replayed: the
keys by which a pass finds its graph were made for heads alone. So the host launches the draft's kernels one by one,
and since it waits for nothing, it does so while the target still verifies: a round takes as long as the slower of
host and devices. Its line above is the host's, a round's and a step's of 16 layers. At K = 2 the two take about as
long, from K = 4 on the host is waited for. The card `vllm-0.16` has these two numbers; no other card of this page has
the line. Rounds of vLLM 0.24.0 on another host are within 9 % of it at K = 5 ([measured](validation.md)).

*Eager beyond which batch* is in no card. Graphs are captured up to 512 tokens a pass in vLLM by default, and no row
has a larger one. There the devices are the slower ones: 512 tokens take 34 ms on 8B and one H100, 50 ms on 70B and
four, as the card `vllm` prices them, and the host, at its 0.41 ms a layer, 13 and 33 ms.

A card takes the geometric mean of its engine's lines (of all lines where its engine has
none, as TensorRT-LLM), a round's by the layer: rounds of one engine differ by a factor of four between 8B on one GPU
and 70B on four, and by less than two a layer. The log-sd of another line is that of its lines, widened as Student's,
and at most, and where they are fewer than three or say next to nothing (0.2 ms a step and 2.5 µs a layer are the
least), 0.7 for a step and 0.9 for a round.
"""


@dataclass(frozen=True)
class Group:
    """The rows of one card: those of ``engine`` (in small letters) whose version and source ``holds``."""

    card: str
    engine: str
    versions: str
    holds: Callable[[Any], bool]
    base: Runtime


def _base(kernels: Kernels, host: Host) -> Runtime:
    evidence = Evidence(source="prior")
    return Runtime(name="base", engine="", draft_tp="all", kernels=kernels, host=host, evidence=evidence)


GROUPS = (
    Group("vllm", "vllm", "0.9 and later", lambda row: "LLM-Inf" not in row.source, _base(_OWN, _MODERN)),
    Group("trtllm", "tensorrt-llm", "1.0 and later", lambda row: "LLM-Inf" not in row.source, _base(_TRTLLM, _MODERN)),
    Group("sglang", "sglang", "0.5", lambda row: True, _base(_OWN, _MODERN)),
    Group("vllm-0.5", "vllm", "0.5 and 0.6", lambda row: "LLM-Inf" in row.source, _base(_EAGER, _MODERN)),
    Group("trtllm-0.11", "tensorrt-llm", "0.11", lambda row: "LLM-Inf" in row.source, _base(_EAGER, _MODERN)),
)


def _engine(text: str) -> str:
    text = text.lower()
    return "tensorrt-llm" if text.startswith(("trtllm", "tensorrt-llm")) else text.removesuffix(" v1")


def _tokens(text: str) -> float:
    return SHAREGPT[text] if text in SHAREGPT else float(text)


def rows_of(frame: pd.DataFrame, group: Group, steady: Sequence[str]) -> Iterator[Row]:
    """The rows of a group that are complete."""
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


def fitted(group: Group, rows: Sequence[Row]) -> Fit:
    """The card of a group."""
    source = ", ".join(sorted({row.source for row in rows}))
    return fit_runtime(rows, group.base, group.card, group.engine, source=source)


# How well cards predict rows.


@dataclass(frozen=True)
class Outcome:
    """Of rows: log(predicted / measured), and the lower and upper end of the 95 % interval over the measured value."""

    rows: Sequence[Row]
    errors: Array
    low: Array
    high: Array

    @staticmethod
    def of(rows: Sequence[Row], card: Runtime) -> Outcome:
        errors = TimingErrors(DRAWS, 0)
        made, ends = [], []
        for row in rows:
            cost, seconds = work_of(row, card).cost, seconds_of(row)
            made.append(cost.seconds / seconds - 1.0)
            ends.append(np.quantile(cost.sample(errors), (0.025, 0.975)) / seconds)
        low, high = np.array(ends).T if ends else np.zeros((2, 0))
        return Outcome(rows, np.array(made), low, high)

    @staticmethod
    def together(parts: Sequence[Outcome]) -> Outcome:
        rows = [row for part in parts for row in part.rows]
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("errors", "low", "high"))
        return Outcome(rows, *columns)

    def of_hardware(self, name: str) -> Outcome:
        keep = np.array([row.hardware == name for row in self.rows], dtype=bool)
        rows = [row for row, kept in zip(self.rows, keep, strict=True) if kept]
        return Outcome(rows, self.errors[keep], self.low[keep], self.high[keep])

    @property
    def held(self) -> Array:
        return np.asarray((self.low <= 1.0) & (self.high >= 1.0), dtype=float)

    def cells(self) -> str:
        """Mean absolute error, bias, coverage and the median half-width of the interval."""
        if not self.rows:
            return "| | | "
        half = np.median((self.high - self.low) / 2.0 / (1.0 + self.errors))
        return f"{np.abs(self.errors).mean():.1%} | {self.errors.mean():+.1%} | {self.held.mean():.0%} | ±{half:.0%}"


def left_out(group: Group, rows: Sequence[Row]) -> Outcome:
    """Every series predicted by the card that the other series give, its errors among them."""
    names = sorted({row.series_name for row in rows})
    parts = []
    for name in names:
        own = [row for row in rows if row.series_name == name]
        parts.append(Outcome.of(own, fitted(group, [row for row in rows if row.series_name != name]).card))
    return Outcome.together(parts)


# Speculation: what the sweeps over K say of a draft's step and of a round.


@dataclass(frozen=True)
class Sweep:
    """An engine's row of speeds over K, fitted to every second K: an acceptance rate, and the engine's two costs."""

    name: str
    alpha: float
    layers: int
    per_round_s: float
    per_draft_step_s: float
    fitted: float
    others: float
    worst: float
    launches: Launches | None = None

    @property
    def per_round_layer_s(self) -> float:
        """Rounds of a large model cost more; by its layers those of one engine are alike (within a factor of two)."""
        return self.per_round_s / self.layers


def sweeps(cards: Mapping[str, Runtime]) -> Iterator[tuple[str, Sweep]]:
    """Every published sweep whose engine has a card, by the card's name; worst errors of the K fitted and of others."""
    paper = load_published("kumar2026")
    profile = find_hardware("h100-sxm")
    for sweep in paper.sweeps:
        card = cards[sweep.engine.split("-")[0]]
        target, ks, seen = find_transformer(sweep.target), np.array(sweep.k), np.array(sweep.tokens_per_s)
        shape = {"context": paper.context, "tp": paper.tp}
        verify_s = verifications_s(target, sweep.k, profile, card, **shape)
        drafts = sweep.method == "standalone"
        draft = forward_pass(find_transformer(_DRAFT), batch=1, **shape)
        draft_s = cost_of_pass(draft, profile, card, "draft").seconds if drafts else 0.0
        name = f"{sweep.engine} {sweep.method}"
        launched = drafts and sweep.engine in _WITHOUT_GRAPHS
        yield sweep.engine.split("-")[0], _swept(name, target.layers, ks, seen, verify_s, draft_s, launched)


def verifications_s(
    target: Transformer, ks: Sequence[int], profile: HardwareProfile, card: Runtime, **shape: int
) -> Array:
    """A pass over K + 1 tokens with the step after it, for one sequence."""
    passes = (forward_pass(target, batch=1, queries=k + 1, **shape) for k in ks)
    step_s = cost_of_step(card, units_of_step(1)).seconds
    return np.array([cost_of_pass(each, profile, card).seconds + step_s for each in passes])


def _swept(name: str, layers: int, ks: Array, seen: Array, verify_s: Array, draft_s: float, launched: bool) -> Sweep:
    """``launched``: the host launches drafts one by one while the target verifies; the slower of both ends a round."""
    every_second = slice(0, None, 2)

    def errors(free: Array, at: slice) -> Array:
        alpha, round_s, step_s = free[0], 1e-3 * free[1], 1e-3 * free[2]
        if launched:
            rounds = np.maximum(verify_s[at] + ks[at] * draft_s, round_s + ks[at] * step_s)
        else:
            rounds = verify_s[at] + round_s + ks[at] * (draft_s + step_s)
        return np.asarray(expected_tokens(alpha, ks[at]) / rounds / seen[at] - 1.0)

    bounds = ((0.0, 0.0, 0.0), (0.99, 20.0, 20.0))
    starts = (0.6, 0.7, 0.8, 0.9)
    costs = (8.0, 5.0) if launched else (1.0, 0.5)  # where neither side of the maximum is out of sight
    fits = [least_squares(errors, (a, *costs), bounds=bounds, args=(every_second,)) for a in starts]
    best = min(fits, key=lambda fit: fit.cost).x
    worst = (float(np.abs(errors(best, at)).max()) for at in (every_second, slice(1, None, 2)))
    others = errors(best, slice(1, None, 2))
    fitted_worst, others_worst = worst
    round_s, step_s = 1e-3 * best[1:]
    launches = Launches(per_round_s=significant(round_s), per_layer_s=significant(step_s / _DRAFT_LAYERS))
    return Sweep(
        name,
        best[0],
        layers,
        round_s,
        step_s,
        fitted_worst,
        float(np.abs(others).mean()),
        others_worst,
        launches if launched else None,
    )


def bundle(folder: Path, card: Runtime) -> tuple[Sweep, Outcome]:
    """SpecForge's SpecBundle: EAGLE-3 chains of 3, 5 and 7 tokens on SGLang, Llama-3.1-8B on one H200, batch 1.

    Its rows have their acceptance length, so that a round is known: a line over K gives a step and, less the
    verification, a round. They had no part in the card's other numbers.
    """
    frame = pd.read_csv(folder / "sd_decode.csv")
    frame = frame[(frame["source"] == "SpecForge SpecBundle") & frame["notes"].str.contains("chain")]
    frame = frame[frame["model"] == "Llama-3.1-8B-Instruct"]
    lengths = frame["acceptance_length_or_rate"].astype(float)
    rows = [
        Row(
            model="llama-3.1-8b",
            hardware="h200-sxm",
            batch=1,
            input_tokens=0,
            output_tokens=_BUNDLE_CONTEXT,
            metric="tokens_per_s",
            value=value,
            k=k,
            acceptance_length=length,
            source="SpecForge SpecBundle",
        )
        for value, k, length in zip(frame["value"].astype(float), frame["k"].astype(int), lengths, strict=True)
    ]
    rounds = np.array([seconds_of(row) * (row.acceptance_length or 1.0) for row in rows])
    target, ks = find_transformer("llama-3.1-8b"), [row.k or 0 for row in rows]
    verify = verifications_s(target, ks, find_hardware("h200-sxm"), card, context=rows[0].context)
    step_s, round_s = np.polyfit(ks, rounds - verify, 1)
    misses = np.abs((verify + round_s + np.array(ks) * step_s) / rounds - 1.0)
    name = "sglang SpecBundle, eagle-3, 8B on one H200"
    line = Sweep(name, float("nan"), target.layers, round_s, step_s, float(misses.max()), float("nan"), float("nan"))
    return line, Outcome.of(rows, card)


def with_speculation(card: Runtime, found: Sequence[Sweep]) -> Runtime:
    """The card with what a draft's step and a layer of a round cost as the sweeps have them: geometric means."""
    step_s, step_log_sd = _typical([sweep.per_draft_step_s for sweep in found], _LEAST_STEP_S, _STEP_LOG_SD)
    layer_s, round_log_sd = _typical([sweep.per_round_layer_s for sweep in found], _LEAST_LAYER_S, _PER_ROUND_LOG_SD)
    host = card.host.model_copy(update={"per_draft_step_s": step_s, "per_round_layer_s": layer_s})
    errors = {"draft_step_log_sd": step_log_sd, "per_round_log_sd": round_log_sd, "round_log_sd": _ROUND_LOG_SD}
    return card.model_copy(update={"host": host, "errors": card.errors.model_copy(update=errors)})


def _typical(seconds: Sequence[float], least: float, unknown_log_sd: float) -> tuple[float, float]:
    """The geometric mean, and the log-sd of another line (Student's, as few lines tell their own spread badly)."""
    logs = np.log(np.maximum(seconds, least))
    typical = significant(float(np.exp(logs.mean())))
    if len(logs) < _FEW_LINES or min(seconds) < least:
        return typical, unknown_log_sd
    widened = student.ppf(0.975, len(logs) - 1) / norm.ppf(0.975) * np.sqrt(1.0 + 1.0 / len(logs))
    return typical, min(unknown_log_sd, significant(float(logs.std(ddof=1) * widened)))


# The page and the cards.


def page(
    results: Sequence[tuple[Group, Fit, Outcome, Outcome, Outcome, Outcome]], swept: Sequence[Sweep], bundled: Outcome
) -> str:
    """docs/fidelity.md."""
    lines = [_HEAD, f"| {' | '.join(_COLUMNS)} | unsteady: error |", "|---" * 17 + "|"]
    for group, _, alone, in_fit, out, unsteady in results:
        for name in sorted({row.hardware for row in in_fit.rows}):
            parts = [each.of_hardware(name) for each in (alone, in_fit, out)]
            cells = " | ".join(part.cells() for part in parts)
            no = unsteady.of_hardware(name)
            beside = f"{np.abs(no.errors).mean():.0%} of {len(no.rows)}" if no.rows else ""
            series = len({row.series_name for row in parts[1].rows})
            lines.append(f"| `{group.card}` | {name} | {len(parts[1].rows)} | {series} | {cells} | {beside} |")
    lines.append(_coverage([out for *_, out, _ in results]))
    lines.append(_CARDS)
    for group, fit, *_ in results:
        kernels, host = fit.card.kernels, fit.card.host
        lines.append(
            f"| `{group.card}` | {group.versions} | {kernels.overlap:.2f} | {kernels.attention:.2f} | "
            f"{kernels.communication:.2f} | {1e6 * host.per_layer_s:.0f} | {1e3 * host.per_step_s:.2f} | "
            f"{1e6 * host.per_sequence_s:.0f} | {'yes' if fit.card.cache_dtype else ''} | {', '.join(fit.told)} |"
        )
    lines.append(_SWEEPS)
    lines += [
        f"| {s.name} | {_told(s.alpha, '.3f')} | {1e3 * s.per_round_s:.2f} | "
        f"{1e6 * s.per_round_layer_s:.0f} | {1e3 * s.per_draft_step_s:.2f} | "
        f"{s.fitted:.1%} | {_told(s.others, '.1%')} | {_told(s.worst, '.1%')} |"
        for s in swept
    ]
    lines.append(
        f"\nThe bundled `sglang` card, which takes the mean of its engine's lines, "
        f"misses the {len(bundled.rows)} rows of the last line by {np.abs(bundled.errors).mean():.0%} "
        f"(bias {bundled.errors.mean():+.0%}); {bundled.held.mean():.0%} of them lie inside its 95 % interval."
    )
    return "\n".join(lines) + "\n" + _FOOT


def _told(value: float, how: str) -> str:
    return "" if np.isnan(value) else format(value, how)


def _coverage(outcomes: Sequence[Outcome]) -> str:
    """Over all rows left out, every source weighing the same."""
    everything = Outcome.together(outcomes)
    sources = np.array([row.source for row in everything.rows])
    covered = [everything.held[sources == name].mean() for name in sorted(set(sources))]
    half = np.median((everything.high - everything.low) / 2.0 / (1.0 + everything.errors))
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
    for group in GROUPS:
        rows = list(rows_of(frame, group, ("yes", "approx")))
        fit = fitted(group, rows)
        out = left_out(group, rows)
        fit = replace(fit, card=_with_errors(fit.card, out))
        unsteady = Outcome.of(list(rows_of(frame, group, ("no",))), fit.card)
        results.append((group, fit, Outcome.of(rows, KERNELS), Outcome.of(rows, fit.card), out, unsteady))
        print(group.card, len(rows), "rows:", results[-1][3].cells(), "; left out", out.cells(), file=sys.stderr)
    cards = {group.card: fit.card for group, fit, *_ in results}
    swept = [*sweeps(cards), ("sglang", bundle(folder, cards["sglang"])[0])]
    captured = [(engine, s) for engine, s in swept if s.launches is None]
    finished = {}
    for group, fit, *_ in results:
        own = [s for engine, s in captured if engine == group.card.split("-")[0]]
        card = with_speculation(fit.card, own or [s for _, s in captured])
        whose = "its engine's" if own else "other engines'"
        note = f"cost of a draft step and of a round: {whose} sweeps over K"
        evidence = card.evidence.model_copy(update={"note": note})
        finished[group.card] = card.model_copy(
            update={"versions": group.versions, "about": ABOUT, "evidence": evidence}
        )
    (launches,) = (s.launches for _, s in swept if s.launches is not None)
    finished[_LAUNCHING] = _launching(finished["vllm"], launches)
    speculated = bundle(folder, _with_experts(finished["sglang"]))[1]  # as it is bundled, with its step of heads
    text = page(results, [s for _, s in swept], speculated)
    (Path(__file__).parent / "fidelity.md").write_text(text, encoding="utf-8")
    if write_cards:
        for name, card in finished.items():
            save_runtime(
                card if name == _LAUNCHING else _with_experts(card), models_folder() / "runtimes" / f"{name}.toml"
            )


def _launching(card: Runtime, launches: Launches) -> Runtime:
    """The card of versions in which a draft model has no graphs; else they are as the card says."""
    versions = "0.16 to July 2026 (PR 47460)"
    note = "as vllm, whose note holds; launches of a draft model: one sweep over K"
    evidence = card.evidence.model_copy(update={"note": note})
    card = _with_experts(card)
    host = card.host.model_copy(update={"per_draft_step_s": 0.0})  # what the host adds to a step is its launches
    named = {"name": _LAUNCHING, "versions": versions, "host": host, "launches": launches, "evidence": evidence}
    return card.model_copy(update=named)


def _with_experts(card: Runtime) -> Runtime:
    """What the bundled card of this name says of mixtures of experts, which docs/fidelity_mixtures.py fits.

    And of a step of draft heads, which was fitted to what was published of drafters.
    """
    before = find_runtime(card.name)
    numbers = {name: before.numbers[name] for name in EXPERTS}
    wander = tuple(way for way in before.wander if set(way) & set(EXPERTS))
    heads = before.evidence.note.partition(_OF_HEADS)[1:]
    evidence = card.evidence.model_copy(update={"note": card.evidence.note + "".join(heads)})
    return card.with_numbers(numbers).model_copy(
        update={
            "head_step_s": before.head_step_s,
            "wander": card.wander + wander,
            "evidence": evidence,
            "errors": card.errors.model_copy(update={"experts_log_sd": before.errors.experts_log_sd}),
        }
    )


def _with_errors(card: Runtime, out: Outcome) -> Runtime:
    """The left-out error in the card is that of this script, which chooses the cache's dtype anew each time."""
    error = significant(float(np.abs(out.errors).mean()))
    return card.model_copy(update={"evidence": card.evidence.model_copy(update={"left_out_error": error})})


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--cards" in sys.argv)
