"""Measured against predicted, over published benchmarks of whole engines: the runtime cards and docs/fidelity.md.

    python docs/fidelity.py ../shared/measurements/end_to_end [--cards]

Reads ``ar_decode.csv`` of the folder, whose README names the sources and their traps. A row counts where its decoding
is ``yes`` or ``approx`` steady and nothing of it is missing or rejected; ``no`` is reported beside. With ``--cards``
the bundled runtimes are fitted anew. No row is written anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.runtimes.features import features, values_of
from calibration.runtimes.fit import Fit, fit_runtime
from ssdsim.errors import InputError
from ssdsim.measured.price import seconds_of, work_of
from ssdsim.measured.row import Row
from ssdsim.pricing.cost import TimingErrors
from ssdsim.runtimes.card import KERNELS, Errors, Evidence, Host, Kernels, Runtime
from ssdsim.runtimes.catalog import find_runtime, save_runtime

MODELS = {
    "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Meta-Llama-3-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "Qwen/Qwen3-8B": "qwen3-8b",
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

_OWN = Kernels(streaming_attention=True, one_shot_all_reduce=True)
_EAGER = Kernels(communication=2.7)  # ranks that wait for each other; the profile's all-reduce is of a later engine
_MODERN = Host(per_layer_s=10e-6, per_step_s=1e-3)


@dataclass(frozen=True)
class Group:
    """The rows of one card: those of ``engine`` (in small letters) whose version and source ``holds``."""

    card: str
    engine: str
    versions: str
    holds: Callable[[Any], bool]
    base: Runtime


def _base(kernels: Kernels, host: Host) -> Runtime:
    return Runtime(name="base", engine="", draft_tp="all", kernels=kernels, host=host, evidence=Evidence(source="prior"))


GROUPS = (
    Group("vllm", "vllm", "0.9 and later", lambda row: "LLM-Inf" not in row.source, _base(_OWN, _MODERN)),
    Group("trtllm", "tensorrt-llm", "1.0 and later", lambda row: "LLM-Inf" not in row.source, _base(_OWN, _MODERN)),
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
    """The card of a group; where no row says the cache's dtype, the one that the fit likes better."""
    fits = [fit_runtime(rows, group.base, group.card, group.engine, source=_source(rows))]
    unknown = [row for row in rows if row.dtype == "float8" and row.kv_dtype is None]
    if unknown:
        as_8_bit = [r.model_copy(update={"kv_dtype": "float8"}) if r in unknown else r for r in rows]
        fits.append(fit_runtime(as_8_bit, group.base, group.card, group.engine, source=_source(rows)))
    return min(fits, key=lambda fit: fit.misfit)


def _source(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({row.source for row in rows}))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    frame = pd.read_csv(folder / "ar_decode.csv", dtype=str).assign(value=lambda f: f["value"].astype(float))
    for group in GROUPS:
        rows = list(rows_of(frame, group, ("yes", "approx")))
        fit = fitted(group, rows)
        print(group.card, len(rows), len(set(fit.series)), f"{fit.error:.3f} {fit.left_out_error or 0:.3f}", fit.card.evidence.note)
        print("   ", fit.card.kernels, fit.card.host, fit.told, fit.alike)
        made = features(rows, KERNELS)
        print("    kernels alone", np.abs(made.predicted(values_of(KERNELS)) / made.seconds - 1).mean())
        from calibration.runtimes.fit import by_series
        for line in by_series(fit): print("      ", line)
