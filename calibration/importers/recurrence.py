"""The recurrent layers of aiconfigurator's ``gdn_perf`` and ``kda_perf`` tables as timing models.

A row is one kernel: a step of the recurrence, of one token a sequence or of several that are verified, its short
convolution, or either over prompts. Kernels that have the convolution inside are not read, as a pass has both, nor
steps whose states have a dtype that the table does not tell: TensorRT-LLM's and older SGLang's, in 16 bits where the
model's have 32. Of several engines in a table the first one's rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from calibration.fit import FEWEST_ROWS, fit_convolution
from calibration.fit_recurrence import Rows, fit_prefill_recurrence, fit_recurrence
from ssdsim.checks import Array
from ssdsim.hardware.laws import TimingModel
from ssdsim.hardware.profile import Device
from ssdsim.hardware.recurrence import SHARES
from ssdsim.transformer.operations import Convolution, Operation, PrefillRecurrence, RecurrentStep, Rule

COLUMNS = (
    *("phase", "batch_size", "seq_len", "d_conv"),
    *("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
)
TABLES: Mapping[str, Rule] = {"kda_perf": "kimi-delta", "gdn_perf": "gated-delta"}
"""In this order: only the first has several tokens a sequence, and the other takes what one more of them costs."""

_STEPS = r"packed_decode|fused_recurrent_kda|fused_sigmoid_gating_delta_rule_update"
_PROMPTS = r"^chunk_|^flashkda_fwd"
_CONVOLUTIONS = r"^causal_conv1d_(?:update|fn)$"
_DTYPE = "bfloat16"  # of what the kernels read and write beside the states


def import_recurrences(tables: Mapping[str, pd.DataFrame], device: Device) -> dict[str, Any]:
    """The fields of a profile that ``tables`` say something of."""
    found: dict[str, Any] = {}
    per_query_s = None
    for stem, rule in TABLES.items():
        if stem not in tables:
            continue
        rows = _of_first_engine(tables[stem])
        steps = _of_kernels(rows[rows["phase"] != "context"], _STEPS)
        if len(steps) >= 2 * FEWEST_ROWS:
            given_s = per_query_s or SHARES[rule].per_query_s
            one = None if steps["seq_len"].max() > 1 else given_s
            cache_bytes = device.cache_bytes or 1
            model = fit_recurrence(_steps(steps, rule), stem, device.memory_bandwidth, cache_bytes, one)
            found.setdefault("recurrence", {})[rule] = model
            per_query_s = model.costs.per_query_s
        prompts = _of_kernels(rows[rows["phase"] == "context"], _PROMPTS)
        if len(prompts) >= 2 * FEWEST_ROWS:
            most = device.memory_bandwidth, device.peak_flops[_DTYPE]
            found.setdefault("prefill_recurrence", {})[rule] = fit_prefill_recurrence(
                _prompts(prompts, rule), stem, *most
            )
        if (convolution := _convolution(rows, stem, device.memory_bandwidth)) is not None:
            found["convolution"] = convolution
    return found


def _of_first_engine(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["framework"] == table["framework"].iloc[0]] if "framework" in table else table


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


def _prompts(rows: pd.DataFrame, rule: Rule) -> Rows:
    ops = [
        PrefillRecurrence("prompts", batch, tokens, heads, key_heads, key_dim, value_dim, rule, _DTYPE)
        for batch, tokens, heads, key_heads, key_dim, value_dim in _shapes(rows)
    ]
    columns = _columns(ops, "batch", "tokens", "heads", "flops", "state_bytes")
    return {**columns, "seconds": rows["seconds"].to_numpy(float)}


def _convolution(rows: pd.DataFrame, source: str, memory_bandwidth: float) -> TimingModel | None:
    """Of convolutions that memory can have streamed: the others' tokens of before stayed in the cache when repeated."""
    rows = _of_kernels(rows, _CONVOLUTIONS)
    widths = rows["d_conv"].astype(int)
    ops = [
        Convolution("convolution", batch, tokens, 2 * key_heads * key_dim + heads * value_dim, width, _DTYPE)
        for (batch, tokens, heads, key_heads, key_dim, value_dim), width in zip(_shapes(rows), widths, strict=True)
    ]
    moved_bytes, seconds = _columns(ops, "bytes")["bytes"], rows["seconds"].to_numpy(float)
    streamed = moved_bytes <= memory_bandwidth * seconds
    if streamed.sum() < 2 * FEWEST_ROWS:
        return None
    return fit_convolution(moved_bytes[streamed], seconds[streamed], source)


def _shapes(rows: pd.DataFrame) -> list[tuple[int, ...]]:
    """Sequences, tokens of each, and the sizes of heads in the order of the operations."""
    names = ["batch_size", "seq_len", "num_v_heads", "num_k_heads", "head_k_dim", "head_v_dim"]
    return list(rows[names].astype(int).itertuples(index=False, name=None))


def _columns(ops: Sequence[Operation], *names: str) -> dict[str, Array]:
    return {name: np.array([getattr(op, name) for op in ops], float) for name in names}
