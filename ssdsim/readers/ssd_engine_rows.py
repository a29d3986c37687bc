"""Speeds of the SSD paper's engine (tanishqkumar/ssd), as ``bench.py`` prints them: a row for each run in the text.

It prints the tokens a second of all decoding steps together, prompts not among them, cut down to a whole number, and
the tokens of a round with two decimals: together a round's time. What a run was told stands in its mode, in the lines
of its start, and in its command line where the text has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.ssd_engine import LENGTH, RunMetrics, last_of, metrics_of
from ssdsim.readers.bench import RowDefaults, bench_row, model_in
from ssdsim.readers.row import Row
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.sd import Speculative
from ssdsim.strategies.ssd import SSD

ENGINE = "ssd-engine"
MODELS: Mapping[str, Mapping[str, str]] = {
    "llama": {"1": "llama-3.2-1b", "3": "llama-3.2-3b", "8": "llama-3.1-8b", "70": "llama-3.1-70b"},
    "qwen": {size: f"qwen3-{size}b" for size in ("0.6", "1.7", "4", "8", "14", "32")},
}
"""The models that ``bench.py`` has, by family and size; the smallest of a family drafts where nobody says another."""

_SPEED = re.compile(r"^[ \t]*Final Decode Throughput: ([\d.]+)tok/s", re.M)
_ENDED = re.compile(r"^[ \t]*Model: ([^,\n]+), Mode: ([^,\n]+), Total:", re.M)
_COMMAND = re.compile(r"\bbench\.py\b")
_BATCH = re.compile(r"\btemp=[\d.]+ b=(\d+)|--b[ =](\d+)")
_DRAFT_RANK = re.compile(r"Draft runner created on rank (\d+) \(async\)")
_GPUS = re.compile(r"--gpus[ =](\d+)")
_PROMPT, _OUTPUT = re.compile(r"--input_len[ =](\d+)"), re.compile(r"--output_len[ =](\d+)")
_DEFAULT_PROMPT, _DEFAULT_OUTPUT = 128, 512
_DRAFT = re.compile(r"--draft[ =](\S+)")
_EAGLE = re.compile(r"(--eagle)\b|just set (eagle)_layers")
_OUTCOMES = re.compile(r"\bMQ_LEN=(\d+)")


def is_bench_output(text: str) -> bool:
    """Say whether a text has runs of ``bench.py``."""
    return _SPEED.search(text) is not None


def bench_output_rows(text: str, given: RowDefaults, where: str) -> list[Row]:
    """A row a run; what each was told is looked for from its command line on, or else in all that is before it."""
    found = list(_SPEED.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    commands = [match.start() for match in _COMMAND.finditer(text)]
    rows = []
    for number, (match, end) in enumerate(zip(found, ends, strict=True), 1):
        begins = max((start for start in commands if start < match.start()), default=0)
        at = where if len(found) == 1 else f"{where}: run {number}"
        rows.append(_row(float(match[1]), text[match.start() : end], text[begins : match.start()], given, at))
    return rows


def _row(printed: float, after: str, before: str, given: RowDefaults, where: str) -> Row:
    ended = _ENDED.search(after)
    if ended is None:
        raise InputError(f"{where}: no line 'Model: ..., Mode: ...' after the speed: the run did not end")
    model, mode = ended[1], ended[2].split(" + ")
    if mode[0] == "Eager":
        raise InputError(f"{where}: ran without CUDA graphs (--eager), which is another engine than the card's")
    batch = last_of(_BATCH, before) or given.get("batch")
    if batch is None:
        raise InputError(f"{where}: does not say how many sequences were in flight; give them by --batch")
    own = model_in(model, given, where)
    block = after[: ended.end()]
    run = metrics_of(block, before + block, where) if LENGTH in block else None
    asynchronous = "Async" in mode
    rounds = {} if run is None else _speculated(run, mode, before, model, given, where)
    tokens = 1.0 if run is None else run.length
    fields = {
        "model": own,
        "batch": int(batch),
        "tp": _degree(before, asynchronous) or given.get("tp"),
        "input_tokens": float(last_of(_PROMPT, before) or _DEFAULT_PROMPT),
        "output_tokens": float(last_of(_OUTPUT, before) or _DEFAULT_OUTPUT),
        "metric": "step_ms",
        "value": 1e3 * int(batch) * tokens / (printed + (0.5 if printed.is_integer() else 0.0)),
        "engine": ENGINE,
        "strategy": (SSD if asynchronous else Autoregressive if run is None else Speculative).name,
        **rounds,
    }
    return bench_row(fields, given, where)


def _degree(before: str, asynchronous: bool) -> int | None:
    """The target's GPUs: the draft of SSD has the last one to itself."""
    if rank := last_of(_DRAFT_RANK, before):
        return int(rank)
    gpus = last_of(_GPUS, before)
    return None if gpus is None else int(gpus) - asynchronous


def _speculated(
    run: RunMetrics, mode: list[str], before: str, model: str, given: RowDefaults, where: str
) -> dict[str, Any]:
    """The columns of a run of SD or SSD."""
    eagle = last_of(_EAGLE, before) is not None
    drafts = {"drafter": "eagle3"} if eagle else {"draft": _draft(before, model, given, where)}
    said = {"k": run.k or given.get("k"), "acceptance_length": run.length, "temperature": run.temperature, **drafts}
    if run.p_hit is None:
        return said
    backup = "jit" if "JIT" in mode else "fast"
    outcomes = last_of(_OUTCOMES, before)  # whose spread is in the hits that were counted
    cached = {"f": run.fan_out} if outcomes is None else {"budget": int(outcomes)}
    return {**said, "p_hit": min(1.0, run.p_hit), "backup": backup, **cached}


def _draft(before: str, model: str, given: RowDefaults, where: str) -> str:
    if "draft" in given:
        return str(given["draft"])
    family = next((family for family in MODELS if model.lower().startswith(family)), None)
    sizes = MODELS[family] if family else {}
    draft = sizes.get(last_of(_DRAFT, before) or next(iter(sizes), ""))
    if draft is None:
        raise InputError(f"{where}: does not say which model drafted; give its card by --draft")
    return draft
