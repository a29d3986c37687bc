"""The recurrent layers of aiconfigurator's ``gdn_perf`` and ``kda_perf`` tables as timing models.

A row is one kernel: a step of the recurrence, of one token a sequence or of several that are verified, its short
convolution, or either over prompts. Kernels that have the convolution inside are not read, as a pass has both. Of
several engines in a table the first one's rows are read.

Tables of TensorRT-LLM and of older SGLang time ``fused_recurrent_gated_delta_rule``, which is given states of 16 bits
and returns states of 32: flash-linear-attention's ``final_state`` is float32 whatever ``initial_state`` is. Their
convolutions are of the keys alone, over prompts with the host's time, and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from calibration.importers.silicon import engines
from calibration.timings.fit import FEWEST_ROWS, fit_convolution
from calibration.timings.fit_costs import Rows, fit_prefill_recurrence, fit_recurrence
from ssdsim.base.checks import Array
from ssdsim.hardware.device import Device
from ssdsim.hardware.elementwise import ConvolutionModel
from ssdsim.hardware.prefill import PrefillRecurrenceModel
from ssdsim.hardware.recurrence import SHARES, RecurrenceModel
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep, Rule

COLUMNS = (
    *("kernel_source", "phase", "batch_size", "seq_len", "d_conv"),
    *("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
)
TABLES: Mapping[str, Rule] = {"kda_perf": "kimi-delta", "gdn_perf": "gated-delta"}
"""The tables in this order: only the first has several tokens a sequence; the other takes what one more costs."""

_STEPS = r"packed_decode|fused_recurrent_kda|fused_sigmoid_gating_delta_rule_update"
_WIDENING = "fused_recurrent_gated_delta_rule"
"""A step that reads states of 16 bits and writes them in 32."""

_PROMPTS = r"^chunk_|^flashkda_fwd"
_CONVOLUTIONS = r"^causal_conv1d_(?:update|fn)$"
_DTYPE = "bfloat16"  # of what the kernels read and write beside the states
_FEWEST = 2 * FEWEST_ROWS

Model = TypeVar("Model", RecurrenceModel, PrefillRecurrenceModel)


def import_recurrences(tables: Mapping[str, pd.DataFrame], device: Device) -> dict[str, Any]:
    """The fields of a profile that ``tables`` say something of."""
    steps: dict[Rule, RecurrenceModel] = {}
    prompts: dict[Rule, PrefillRecurrenceModel] = {}
    convolution: ConvolutionModel | None = None
    for stem, rule in TABLES.items():
        if stem not in tables:
            continue
        engine_of = engines(tables[stem])
        rows = tables[stem][engine_of == engine_of.iloc[0]]
        others_s = next((model.costs.per_query_s for model in steps.values()), SHARES[rule].per_query_s)
        steps |= _if_any(rule, _step_model(rows, rule, stem, device, others_s))
        prompts |= _if_any(rule, _prompt_model(rows, rule, stem, device))
        convolution = _convolution_model(rows, stem, device) or convolution
    parts = {"recurrence": steps, "prefill_recurrence": prompts, "convolution": convolution}
    return {field: models for field, models in parts.items() if models}


def _if_any(rule: Rule, model: Model | None) -> dict[Rule, Model]:
    return {} if model is None else {rule: model}


def _step_model(
    rows: pd.DataFrame, rule: Rule, source: str, device: Device, per_query_s: float
) -> RecurrenceModel | None:
    """Fit a model of steps; None of too few rows. A further token's time is given where no row has two."""
    widening = _widens(rows)
    rows = _of_kernels(rows[rows["phase"] != "context"], f"^{_WIDENING}$" if widening else _STEPS)
    if len(rows) < _FEWEST:
        return None
    given_s = per_query_s if rows["seq_len"].max() == 1 else None
    cache_bytes = device.cache_bytes or 1  # where it is not known, all is taken to come from memory
    timed = _widening_steps(rows, rule) if widening else _steps(rows, rule)
    return fit_recurrence(timed, source, device.memory_bandwidth, cache_bytes, given_s)


def _prompt_model(rows: pd.DataFrame, rule: Rule, source: str, device: Device) -> PrefillRecurrenceModel | None:
    rows, peaks = _of_kernels(rows[rows["phase"] == "context"], _PROMPTS), device.peak_flops
    if len(rows) < _FEWEST:
        return None
    most_flops = peaks.get(_DTYPE, max(peaks.values()))
    return fit_prefill_recurrence(_prompts(rows, rule), source, device.memory_bandwidth, most_flops)


def _convolution_model(rows: pd.DataFrame, source: str, device: Device) -> ConvolutionModel | None:
    """The model of convolutions that memory can have streamed: the others' tokens stayed in the cache when repeated."""
    if _widens(rows):
        return None
    rows = _of_kernels(rows, _CONVOLUTIONS)
    keys, values = (rows[f"num_{each}_heads"] * rows[f"head_{each}_dim"] for each in ("k", "v"))
    shapes = zip(rows["batch_size"], rows["seq_len"], 2 * keys + values, rows["d_conv"], strict=True)
    ops = [
        Convolution("convolution", int(batch), int(tokens), int(channels), int(width), _DTYPE)
        for batch, tokens, channels, width in shapes
    ]
    moved_bytes, seconds = _columns(ops, "bytes")["bytes"], rows["seconds"].to_numpy(float)
    streamed = moved_bytes <= device.memory_bandwidth * seconds
    return fit_convolution(moved_bytes[streamed], seconds[streamed], source) if streamed.sum() >= _FEWEST else None


def _widens(rows: pd.DataFrame) -> bool:
    return bool(rows["kernel_source"].eq(_WIDENING).any())


def _of_kernels(rows: pd.DataFrame, kernels: str) -> pd.DataFrame:
    return rows[rows["kernel_source"].str.contains(kernels)]


def _steps(rows: pd.DataFrame, rule: Rule) -> Rows:
    ops = [
        RecurrentStep("step", batch, queries, heads, key_heads, key_dim, value_dim, rule, _DTYPE)
        for batch, queries, heads, key_heads, key_dim, value_dim in _shapes(rows)
    ]
    # one token's state stays where it was read; of several each is written to a place of its own
    held_bytes = [op.batch * op.state_bytes * (1 if op.queries == 1 else 1 + op.queries) for op in ops]
    return {
        **_columns(ops, "batch", "queries", "state_bytes", "streamed_bytes"),
        "held_bytes": np.array(held_bytes, float),
        "seconds": rows["seconds"].to_numpy(float),
    }


def _widening_steps(rows: pd.DataFrame, rule: Rule) -> Rows:
    """Steps that read two bytes of a value and write four, in another place."""
    wide = _steps(rows, rule)
    return {**wide, "streamed_bytes": 0.75 * wide["streamed_bytes"], "held_bytes": 1.5 * wide["held_bytes"]}


def _prompts(rows: pd.DataFrame, rule: Rule) -> Rows:
    ops = [
        PrefillRecurrence("prompts", batch, tokens, heads, key_heads, key_dim, value_dim, rule, _DTYPE)
        for batch, tokens, heads, key_heads, key_dim, value_dim in _shapes(rows)
    ]
    columns = _columns(ops, "batch", "tokens", "heads", "flops", "state_bytes")
    return {**columns, "seconds": rows["seconds"].to_numpy(float)}


def _shapes(rows: pd.DataFrame) -> list[tuple[int, ...]]:
    """Sequences, tokens of each, and the sizes of heads in the order of the operations."""
    names = ["batch_size", "seq_len", "num_v_heads", "num_k_heads", "head_k_dim", "head_v_dim"]
    return list(rows[names].astype(int).itertuples(index=False, name=None))


def _columns(ops: Sequence[Operation], *names: str) -> dict[str, Array]:
    return {name: np.array([getattr(op, name) for op in ops], float) for name in names}
