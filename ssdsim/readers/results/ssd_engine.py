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
from ssdsim.readers.bench import Format, JsonObject, Run, has
from ssdsim.readers.facts import Facts, RunSpeed
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.sd import Speculative
from ssdsim.strategies.ssd import SSD

ENGINE = "ssd-engine"
_KEY = "decode_tokens_per_s"
MODELS: Mapping[str, Mapping[str, str]] = {
    "llama": {"1": "llama-3.2-1b", "3": "llama-3.2-3b", "8": "llama-3.1-8b", "70": "llama-3.1-70b"},
    "qwen": {size: f"qwen3-{size}b" for size in ("0.6", "1.7", "4", "8", "14", "32")},
}
"""The models that ``bench.py`` has, by family and size; the smallest of a family drafts where nobody says another."""

_SPEED = re.compile(r"^[ \t]*Final Decode Throughput: ([\d.]+)tok/s", re.M)
_ENDED = re.compile(r"^[ \t]*Model: ([^,\n]+), Mode: ([^,\n]+), Total:", re.M)
_COMMAND = re.compile(r"\bbench\.py\b")
_BATCH = re.compile(r"\btemp=[\d.]+ b=(\d{1,9})|--b[ =](\d{1,9})")
_DRAFT_RANK = re.compile(r"Draft runner created on rank (\d{1,9}) \(async\)")
_GPUS = re.compile(r"--gpus[ =](\d{1,9})")
_PROMPT, _OUTPUT = re.compile(r"--input_len[ =](\d+)"), re.compile(r"--output_len[ =](\d+)")
_DEFAULT_PROMPT, _DEFAULT_OUTPUT = 128, 512
_DRAFT = re.compile(r"--draft[ =](\S+)")
_EAGLE = re.compile(r"(--eagle)\b|just set (eagle)_layers")
_OUTCOMES = re.compile(r"\bMQ_LEN=(\d{1,9})")


def _printed(text: str, where: str) -> list[dict[str, Any]]:
    """A run for each speed in the text; what it was told is looked for from its command line on, or else before it."""
    found = list(_SPEED.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    commands = [match.start() for match in _COMMAND.finditer(text)]
    runs = []
    for match, end in zip(found, ends, strict=False):
        begins = max((start for start in commands if start < match.start()), default=0)
        runs.append({_KEY: float(match[1]), "after": text[match.start() : end], "before": text[begins : match.start()]})
    return runs


def _runs(record: JsonObject, where: str) -> tuple[Run]:
    printed, after, before = record[_KEY], record["after"], record["before"]
    ended = _ENDED.search(after)
    if ended is None:
        raise InputError(f"{where}: no line 'Model: ..., Mode: ...' after the speed: the run did not end")
    model, mode = ended[1], ended[2].split(" + ")
    if mode[0] == "Eager":
        raise InputError(f"{where}: ran without CUDA graphs (--eager), which is another engine than the card's")
    batch, block, asynchronous = last_of(_BATCH, before), after[: ended.end()], "Async" in mode
    run = metrics_of(block, before + block, where) if LENGTH in block else None
    tokens = 1.0 if run is None else run.length
    facts = Facts(
        engine=ENGINE,
        model=model,
        gpus=_degree(before, asynchronous),
        batch=None if batch is None else int(batch),
        strategy=(SSD if asynchronous else Autoregressive if run is None else Speculative).name,
        speculated=run is not None,
        **({} if run is None else _speculated(run, mode, before, model)),
    )
    measured = RunSpeed(
        "step_ms",
        1e3 * (facts.batch or 1) * tokens / (printed + (0.5 if printed.is_integer() else 0.0)),
        float(last_of(_PROMPT, before) or _DEFAULT_PROMPT),
        float(last_of(_OUTPUT, before) or _DEFAULT_OUTPUT),
    )
    return ((facts, measured),)


def _degree(before: str, asynchronous: bool) -> int | None:
    """The target's GPUs: the draft of SSD has the last one to itself."""
    if rank := last_of(_DRAFT_RANK, before):
        return int(rank)
    gpus = last_of(_GPUS, before)
    return None if gpus is None else int(gpus) - asynchronous


def _speculated(run: RunMetrics, mode: list[str], before: str, model: str) -> dict[str, Any]:
    """The facts of a run of SD or SSD."""
    eagle = last_of(_EAGLE, before) is not None
    drafts = {"drafter": "eagle3"} if eagle else _draft(before, model)
    options: dict[str, Any] = {}
    if run.p_hit is not None:
        outcomes = last_of(_OUTCOMES, before)  # whose spread is in the hits that were counted
        cached = {"f": run.fan_out} if outcomes is None else {"budget": int(outcomes)}
        options = {"p_hit": min(1.0, run.p_hit), "backup": "jit" if "JIT" in mode else "fast", **cached}
    told = {"k": run.k, "acceptance_length": run.length, "temperature": run.temperature}
    return {**told, "options": options, **drafts}


def _draft(before: str, model: str) -> dict[str, str | None]:
    """The draft that was named; the one that the engine takes where nobody names one."""
    family = next((family for family in MODELS if model.lower().startswith(family)), None)
    sizes, named = MODELS[family] if family else {}, last_of(_DRAFT, before)
    return {"usual_draft": next(iter(sizes.values()), None)} if named is None else {"draft": sizes.get(named)}


SSD_BENCH = Format("the SSD engine's bench.py", has(_KEY, "before", "after"), _runs, _printed)
FORMATS = (SSD_BENCH,)
