"""Records of nccl-tests (``-J``) and rccl-tests (``-Z``), in JSON and CSV.

* rccl-tests: a record a row with ``name``, ``ranks``, ``size`` (bytes), ``inPlace`` and ``time`` (us).
* nccl-tests: ``results`` with ``size`` and ``out_of_place`` and ``in_place`` (either may be null), each with ``time``
  (us; with ``-C`` the host's ``cpu_time``) and ``nwrong`` (null where unchecked); ``args`` names the test, ``config``
  the settings and ``devices``, of which some versions list the first of each process only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from calibration.importers.nccl_tests.runs import MOST_RANKS, Device, Run, as_number
from ssdsim.base.documents import parse_json
from ssdsim.base.errors import InputError, short_repr

_SETTINGS = {"nThread": "nthreads", "nGpus": "ngpus", "agg iters": "aggregated_iterations", "graph": "graph"}


def json_runs(path: Path, text: str) -> list[Run]:
    """The runs of a JSON document."""
    document = parse_json(text, path)
    if isinstance(document, list):
        return record_runs(path, [_object(path, f"record {n}", record) for n, record in enumerate(document, 1)])
    return [_nccl_run(path, document)]


def record_runs(path: Path, records: Iterable[Mapping[str, Any]]) -> list[Run]:
    """A run for each test and number of ranks that the records of rccl-tests are of."""
    runs: dict[tuple[str | None, int | None], Run] = {}
    for number, record in enumerate(records, 1):
        if str(record.get("inPlace") or 0) not in ("0", "0.0", "False"):
            continue
        size, time_us, count = (_number(path, number, record, name) for name in ("size", "time", "ranks"))
        if size is None or (time_us is None and not record.get("time")):
            raise InputError(f"{path}: record {number}: lacks its {'size' if size is None else 'time'}")
        operation, ranks = operation_name(record.get("name")), _ranks(count)
        run = runs.setdefault((operation, ranks), Run(operation, ranks))
        rates = (as_number(record.get("algBw")), as_number(record.get("busBw")))
        run.add(size, time_us, str(record.get("wrong", 0)), rates)
    return list(runs.values())


def operation_name(name: Any) -> str | None:
    """``AllReduce`` or ``./build/all_reduce_perf`` -> ``all_reduce``."""
    if not name:
        return None
    bare = re.sub(r"_perf(_mpi)?$", "", PurePath(str(name)).name)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()
    return "sendrecv" if snake == "send_recv" else snake


def _nccl_run(path: Path, document: Mapping[str, Any]) -> Run:
    config = _object(path, "config", document.get("config", {}))
    results = document.get("results", [])
    if not isinstance(results, list):
        raise InputError(f"{path}: results must be a list, got {short_repr(results)}")
    settings = {ours: str(config[theirs]) for ours, theirs in _SETTINGS.items() if theirs in config}
    devices = _devices(path, config)
    run = Run(_named(document, config), _ranks_of(config, devices, settings), devices, settings)
    for number, result in enumerate(results, 1):
        _result(path, number, _object(path, f"result {number}", result), run)
    return run


def _named(document: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    args = document.get("args")
    name = config.get("test") or document.get("test") or (args[0] if isinstance(args, list) and args else None)
    return operation_name(name)


def _devices(path: Path, config: Mapping[str, Any]) -> list[Device]:
    listed = config.get("devices", [])
    if not isinstance(listed, list):
        raise InputError(f"{path}: config.devices must be a list, got {short_repr(listed)}")
    devices = []
    for number, item in enumerate(listed):
        each = _object(path, f"config.devices {number}", item)
        rank = as_number(each.get("rank"))
        host, process, gpu = (str(each.get(name, "")) for name in ("hostname", "pid", "device_info"))
        devices.append(
            Device(int(rank if rank is not None else number), host, process, gpu, str(each.get("device", "")))
        )
    return devices


def _ranks_of(config: Mapping[str, Any], devices: list[Device], settings: Mapping[str, str]) -> int | None:
    """The ranks as told, or by the devices: some versions name the first of each process, a process' ranks apart."""
    told_ranks = _ranks(as_number(config.get("ranks") or config.get("nranks")))
    if told_ranks or not devices:
        return told_ranks
    of_process = 1
    for name in ("nThread", "nGpus"):
        of_process *= int(as_number(settings.get(name, "1")) or 1)
    ranks = [device.rank for device in devices]
    return _ranks(max(ranks) + (of_process if all(rank % of_process == 0 for rank in ranks) else 1))


def _ranks(number: float | None) -> int | None:
    return int(min(number, MOST_RANKS + 1)) if number else None


def _result(path: Path, number: int, result: Mapping[str, Any], run: Run) -> None:
    size = _number(path, number, result, "size")
    out, inside = (
        _object(path, f"result {number}, {place}", result.get(place) or {}) for place in ("out_of_place", "in_place")
    )
    if size is None:
        return
    if "cpu_time" in out or "cpu_time" in inside:
        run.left_out["of the host's calls (cpu_time)"] += 1
        return
    if "time" not in out and "time" in inside:
        run.in_place += 1
        out = inside
    time_us = _number(path, number, out, "time")
    run.reductions.update([str(result["redop"])] if str(result.get("redop", "")).isalpha() else [])
    check = "" if out.get("nwrong") is None else str(out["nwrong"])
    run.add(size, time_us, check, (as_number(out.get("alg_bw")), as_number(out.get("bus_bw"))))


def _object(path: Path, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: {where} must be an object, got {short_repr(value)}")
    return value


def _number(path: Path, number: int, record: Mapping[str, Any], name: str) -> float | None:
    """A number of a record, which CSV has as text; None where the record has none."""
    value = record.get(name)
    if value is None or value == "" or str(value).lower() in ("nan", "n/a"):
        return None
    parsed = as_number(value)
    if parsed is None:
        raise InputError(f"{path}: record {number}: {name} must be a number of at least 0, got {short_repr(value)}")
    return parsed
