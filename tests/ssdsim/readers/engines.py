"""An engine whose card nobody was told, and the result files of its benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.hardware.runtime_card import Evidence, Runtime
from ssdsim.hardware.runtime_numbers import Host, Kernels
from ssdsim.readers.priced_row import value_of, work_of
from ssdsim.readers.row import Row

HIDDEN = Runtime(
    name="hidden",
    engine="vllm",
    kernels=Kernels(gemm=1.1, attention=1.2, communication=0.8),
    host=Host(per_layer_s=6e-6, per_step_s=4e-3, per_sequence_s=3e-5, per_draft_step_s=1e-3, per_round_layer_s=3e-5),
    evidence=Evidence(source="made by the tests"),
)
MODEL_IDS = {
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
}
BATCHES = (1, 4, 16, 64, 128)


def measured(row: Row, runtime: Runtime = HIDDEN, off_by: float = 1.0) -> Row:
    """The row with the value that the runtime makes, times ``off_by``."""
    value = off_by * value_of(row, work_of(row, runtime).cost.seconds)
    return row.changed(value=value)


def served(model: str = "llama-3.1-8b", batch: int = 1, **others: Any) -> Row:
    """A row of requests that are served, still without its value."""
    made = {"hardware": "h100-sxm", "tp": 1, "input_tokens": 1024.0, "output_tokens": 512.0, "metric": "tpot_ms"}
    return Row(**{**made, "model": model, "batch": batch, "value": 1.0, **others})


def vllm_result(row: Row, requests: int = 10) -> dict[str, Any]:
    """What ``vllm bench serve --save-result`` says of a row (a part of it)."""
    done = requests * row.batch
    vllm_result: dict[str, Any] = {
        "date": "20260301-120000",
        "backend": "vllm",
        "model_id": MODEL_IDS.get(row.model, row.model),
        "num_prompts": done,
        "request_rate": "inf",
        "max_concurrency": row.batch,
        "duration": 60.0,
        "completed": done,
        "total_input_tokens": round(done * row.input_tokens),
        "total_output_tokens": round(done * row.output_tokens),
        "mean_tpot_ms": row.value,
    }
    if row.k is not None and row.acceptance_length is not None:
        vllm_result |= {
            "spec_decode_num_drafts": (
                rounds := round((vllm_result["total_output_tokens"] - done) / row.acceptance_length)
            ),
            "spec_decode_draft_tokens": rounds * row.k,
            "spec_decode_acceptance_length": row.acceptance_length,
        }
    return vllm_result


def write_benchmarks(folder: Path, models: Iterable[str] = tuple(MODEL_IDS), tp: int = 4, noise: float = 0.0) -> None:
    """A result file a model and batch, of the hidden engine."""
    rng = np.random.default_rng(0)
    for model in models:
        for batch in BATCHES:
            row = measured(served(model, batch, tp=tp), off_by=float(np.exp(noise * rng.standard_normal())))
            (folder / f"{model}-{batch}.json").write_text(json.dumps(vllm_result(row)))
