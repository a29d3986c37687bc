"""llama.cpp's benchmarks: ``llama-bench`` as JSON, CSV or Markdown, and ``llama-batched-bench`` as JSON lines.

Neither samples, uses HTTP or speculates. Both name the model by its file alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Literal

from ssdsim.base.documents import parse_csv
from ssdsim.base.record import Record
from ssdsim.readers.bench import Format, JsonObject, Run, as_number, has, number
from ssdsim.readers.facts import Facts, RunSpeed

_SHARD = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf$")
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "M": 1e6, "B": 1e9, "T": 1e12}
_AMOUNT = re.compile(r"([\d.]+)\s*([KMGT]iB|[MBT])\b")
_SPEED = re.compile(r"(\d{1,15}\.?\d{0,15})(?:\s*±\s*(\d{1,15}\.?\d{0,15}))?")
_TEST = re.compile(r"(?:pp(\d{1,9}))?\+?(?:tg(\d{1,9}))?(?:\s*@\s*d(\d{1,9}))?\s*$")
_DEVICE = re.compile(r"Device \d+: ([^,\n]+), compute capability")
_NAMES = {
    "model": "model_type",
    "size": "model_size",
    "params": "model_n_params",
    "backend": "backends",
    "ngl": "n_gpu_layers",
    "type_k": "type_k",
    "type_v": "type_v",
    "sm": "split_mode",
    "dev": "devices",
}
"""Columns of the Markdown table, by their names elsewhere."""


class TimedPass(Record):
    """A model's pass over ``rows`` tokens at once, behind ``depth`` cached ones.

    Of one row it is a step, the mean of so many ``generated`` tokens, or a prompt of one token (0). ``spread`` is the
    relative standard deviation from repeat to repeat, 0 where nobody says it.
    """

    rows: int
    generated: int
    depth: float
    seconds: float
    spread: float


def pass_of(record: JsonObject, where: str) -> tuple[Facts, TimedPass] | None:
    """What a test timed: a pass over a prompt, or a step of one token; None of a prompt and tokens in one."""
    prompt, made = (int(number(record, name, where)) if record.get(name) else 0 for name in ("n_prompt", "n_gen"))
    if bool(prompt) == bool(made):
        return None
    depth, deviation = (number(record, name, where) if record.get(name) else 0.0 for name in ("n_depth", "stddev_ns"))
    nanoseconds = number(record, "avg_ns", where)
    timed = TimedPass(prompt or 1, made, depth, 1e-9 * nanoseconds / (made or 1), deviation / nanoseconds)
    return _facts(record, where), timed


def _runs(record: JsonObject, where: str) -> Iterator[Run]:
    """The run of a test that generated tokens (``tg``), also after a prompt (``pg``), not of a prompt alone."""
    if not record["n_gen"]:
        return
    tokens, seconds = number(record, "n_gen", where), 1e-9 * number(record, "avg_ns", where)
    depth, prompt = (number(record, name, where) if record.get(name) else 0.0 for name in ("n_depth", "n_prompt"))
    if prompt:  # the prompt's seconds are in it
        yield _facts(record, where), RunSpeed("latency_s", seconds, depth + prompt, tokens + 1.0)
    else:
        yield _facts(record, where), RunSpeed("step_ms", 1e3 * seconds / tokens, depth, tokens)


def _facts(record: JsonObject, where: str) -> Facts:
    build, file, layers = (record.get(name) for name in ("build_number", "model_filename", "n_gpu_layers"))
    backends, gpus = str(record.get("backends") or ""), _devices(record)
    caches = {str(record[name]) for name in ("type_k", "type_v") if record.get(name)}
    sized = {
        name: number(record, name, where) if record.get(name) else None for name in ("model_n_params", "model_size")
    }
    return Facts(
        engine="llama.cpp",
        engine_version=f"b{build}" if build else "",
        model=_SHARD.sub("", PurePath(str(file)).name) if file else None,
        parameters=sized["model_n_params"],
        weight_bytes=sized["model_size"],
        weights=_quantised(record.get("model_type")),
        kv_dtype="/".join(sorted(caches)) or None,
        gpu=gpus[0] or None,
        gpus=1,
        stages=len(gpus) if record.get("split_mode", "layer") == "layer" else 1,
        backend=_kind(backends) if backends else None,
        backend_name=backends or None,
        gpu_layers=layers if isinstance(layers, int) else None,
        batch=1,
        speculated=False,
    )


def _devices(record: JsonObject) -> list[str]:
    """The GPUs that ran: of those that are there the ones that ``-dev`` named, all without."""
    there = re.split(", |/", str(record.get("gpu_info") or ""))
    named = [int(number) for number in re.findall(r"[A-Za-z](\d+)(?:/|$)", str(record.get("devices") or ""))]
    return [there[each] for each in named if each < len(there)] or there


def _kind(backends: str) -> Literal["cuda", "cpu", "another"]:
    if "CUDA" in backends:
        return "cuda"
    return "cpu" if re.fullmatch(r"(?:CPU|BLAS|,)+", backends) else "another"


def _quantised(said: Any) -> str | None:
    """``llama 8B Q4_K - Medium`` -> ``Q4_K - Medium``: what comes after the size."""
    match = re.search(r"\b(?:[\d.]+x)?[\d.]+[BMT]\s+(?:\(guessed\)\s+)?(\S.*)$", str(said or ""))
    return match[1].replace("all ", "") if match else None


def _batched(record: JsonObject, where: str) -> tuple[Run]:
    """The run of one batch: the mean time of its steps."""
    tokens, batch = number(record, "tg", where), int(number(record, "pl", where))
    step_ms = 1e3 * number(record, "t_tg", where) / tokens
    layers = record.get("n_gpu_layers")
    facts = Facts(engine="llama.cpp", batch=batch, speculated=False, gpu_layers=layers if layers != 999 else None)
    return ((facts, RunSpeed("step_ms", step_ms, number(record, "pp", where), tokens)),)


def _tables(text: str, where: str) -> list[dict[str, Any]]:
    """The tests in ``llama-bench``'s CSV or in its Markdown; none of another text."""
    head = text.lstrip().partition("\n")[0]
    if {"n_prompt", "n_gen", "avg_ns"} <= set(head.replace('"', "").strip().split(",")):
        return [{name: _number(cell) for name, cell in row.items()} for row in parse_csv(text.lstrip(), where)]
    rows = [[cell.strip() for cell in line.strip("| \t").split("|")] for line in text.splitlines() if line[:1] == "|"]
    titles = next((row for row in rows if {"model", "size", "params", "test", "t/s"} <= {*row}), None)
    if titles is None:
        return []
    build, devices = re.search(r"build: \w+ \((\d+)\)", text), ", ".join(_DEVICE.findall(text))
    common = {"gpu_info": devices, "build_number": build[1] if build else None, "model_filename": None}
    tests = (dict(zip(titles, row, strict=True)) for row in rows if len(row) == len(titles) and row != titles)
    return [common | test for cells in tests if (test := _test(cells)) is not None]


def _test(cells: dict[str, str]) -> dict[str, Any] | None:
    """A row of the table by the names of the other forms; tokens a second are seconds of all its tokens."""
    test, speed = _TEST.fullmatch(cells["test"]), _SPEED.match(cells["t/s"])
    if test is None or speed is None or not float(speed[1]):
        return None
    prompt, made, depth = (int(each or 0) for each in test.groups())
    record = {name: _number(cells[column]) for column, name in _NAMES.items() if column in cells}
    nanoseconds = 1e9 * (prompt + made) / float(speed[1])
    deviation = nanoseconds * float(speed[2] or 0.0) / float(speed[1])
    of_test = {"n_prompt": prompt, "n_gen": made, "n_depth": depth}
    return record | of_test | {"avg_ns": nanoseconds, "stddev_ns": deviation}


def _number(cell: str) -> Any:
    """``4.58 GiB`` in bytes, ``8.03 B`` as a number, a number as one; else the text."""
    if (amount := _AMOUNT.fullmatch(cell)) is not None:
        return float(amount[1]) * _UNITS[amount[2]]
    return as_number(cell)


LLAMA_BENCH = Format("llama-bench", has("n_prompt", "n_gen", "avg_ns", "model_filename"), _runs, _tables)
LLAMA_BATCHED_BENCH = Format("llama-batched-bench", has("pp", "tg", "pl", "t_pp", "t_tg"), _batched)
FORMATS = (LLAMA_BENCH, LLAMA_BATCHED_BENCH)
