"""Output of nccl-tests and rccl-tests, as runs: text tables of every version, JSON and CSV.

Text tables, as logs hold them:

* A row has size (bytes), count, type and, by version and test, a reduction and a root; then time (us), rates and a
  check out of place, and again in place. Until 2021 the check was a column ``error`` (2e-07, N/A) and only rooted tests
  had a ``root``; since then it is ``#wrong``. Newer versions add columns after it. The header names the columns.
* Launchers write before each line: ``[1,0]<stdout>:``, ``0: ``, ``[0] ``, dates, names of pods. A row may begin
  anywhere in a line.
* NCCL's own lines break rows in two, because a row is printed before it is timed. The halves are joined.
* A build without MPI under ``mpirun`` runs as many tests of one rank, all with ``Rank 0``.

Records, in JSON and CSV:

* rccl-tests (``-Z``): one for each row, with ``name``, ``ranks``, ``size`` (bytes), ``inPlace`` and ``time`` (us).
* nccl-tests (``-J``): ``results`` with ``size``, and ``out_of_place`` and ``in_place`` (either may be null), each with
  ``time`` (us; with ``-C`` the host's ``cpu_time``) and ``nwrong`` (null if unchecked). ``args`` names the test,
  ``config`` has the settings and ``devices``, of which some versions list the first of each process only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from ssdsim.base.documents import parse_csv, parse_json
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import MutableRecord, Record, field

MOST_RANKS = 1_000_000
_TESTS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoallv", "alltoall", "sendrecv"),
    *("scatter", "gather", "hypercube", "all_to_all"),
)  # also those that are not priced
_LARGEST_ERROR = 1e-2  # of a right result, in units of the data; a failed check before 2021 printed 1

_TYPE = r"(?:u?int(?:8|32|64)?|char|uchar|half|float(?:16|32|64)?|double|bfloat16|f[p]?8_?e\dm\d|fp8)"
_ROW = re.compile(rf"(?<![\w.])(\d+)\s+(\d+)\s+({_TYPE})(?=\s|$)(.*)")
_CELL = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|nan)"
_SECOND_HALF = re.compile(rf"(?:^|[\]>:)]|Z)\s*({_CELL}(?:\s+{_CELL}){{2,}})\s*$")
_DEVICE = re.compile(
    r"\bRank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]?\s*(.*)"
)
_SETTINGS = re.compile(r"\bnThreads?:?\s+\d+\s+nGpus:?\s+\d+")
_SETTING = re.compile(r"\b(nThread|nGpus|agg iters|validation|graph)s?:?\s+(\d+)")
_JSON_SETTINGS = {"nThread": "nthreads", "nGpus": "ngpus", "agg iters": "aggregated_iterations", "graph": "graph"}
_TEST = re.compile(rf"(?<![a-z])({'|'.join(_TESTS)})_perf")
_IN_COMMUNICATOR = re.compile(r"\bnranks (\d+)\b")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LONGEST = 4096  # characters of a line; a table's have some 120 after the launcher's


class RankDevice(Record):
    """A rank's line: ``# Rank 3 Group 0 Pid 746 on host device 3 [0x60] Tesla V100-SXM2-16GB``."""

    rank: int
    host: str
    process: str
    gpu: str
    place: str
    """Its number on the host, and the bus."""


class TimedSize(Record):
    """A row: bytes, seconds, and the printed rates in GB/s (None: not printed)."""

    size: float
    seconds: float
    algorithm_rate: float | None = None
    bus_rate: float | None = None


class NcclRun(MutableRecord):
    """One run: its settings and usable rows, and how many rows were left out for which reason."""

    operation: str | None = None
    ranks: int | None = None
    devices: list[RankDevice] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """The first line's ``nThread``, ``nGpus``, ``agg iters``, ``graph`` and others."""

    rows: list[TimedSize] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    in_place: int = 0
    """Rows that have a time in place only."""

    reductions: set[str] = field(default_factory=set)
    layout: str = ""

    def add(self, size: float, time_us: float | None, check: str, *rates: object) -> None:
        """Keep a row, or count it as left out."""
        if not _is_right(check):
            self.left_out["with a wrong result"] += 1
        elif not size:
            self.left_out["of size 0"] += 1
        elif not time_us:
            self.left_out["without a time"] += 1
        else:
            self.rows.append(TimedSize(size, 1e-6 * time_us, *map(as_number, rates)))

    @property
    def mode(self) -> str:
        """Processes and graphs, which decide the fixed time of a small collective."""
        count = len({(device.host, device.process) for device in self.devices if device.process})
        processes = {0: "processes not said", 1: "one process"}.get(count, f"{count} processes")
        graph = self.settings.get("graph")
        graphs = {None: "graphs not said", "0": "eager"}.get(graph, f"in CUDA graphs ({graph} launches)")
        return f"{processes}, {graphs}"


def read_runs(path: Path, text: str) -> list[NcclRun]:
    """The runs in a file of any of the formats."""
    stripped = text.lstrip()
    if stripped.startswith("{") or (stripped.startswith("[") and not _ROW.search(text)):
        document = parse_json(stripped, path)
        if isinstance(document, list):
            return _record_runs(path, [_object(path, f"record {n}", record) for n, record in enumerate(document, 1)])
        return [_nccl_json_run(path, document)]
    if stripped and "inPlace" in stripped.splitlines()[0]:
        return _record_runs(path, parse_csv(stripped, path))
    return text_runs(text)


def text_runs(text: str) -> list[NcclRun]:
    """The runs in a text, in its order. Rows without a header are read by their form."""
    reader = _TextReader()
    for line in _ESCAPES.sub("", text).splitlines():
        if 0 < len(line) <= _LONGEST:
            reader.read(line)
    return reader.finished()


class _Layout(Record):
    """The columns after ``type``: how many come before the first time, how many from one time to the next."""

    before: int
    group: int
    check: str
    of_host: bool = False
    """Whether the times are of the host's calls (``cputime``)."""


class _TextReader:
    """Reads lines, and begins a new run at a heading that follows rows."""

    def __init__(self) -> None:
        self._runs = [NcclRun()]
        self._layout: _Layout | None = None
        self._half: tuple[float, list[str]] | None = None  # size and cells of a row whose times did not follow yet

    def finished(self) -> list[NcclRun]:
        self._drop_half()
        return [run for run in self._runs if run.rows or run.left_out]

    def read(self, line: str) -> None:
        if row := _ROW.search(line):
            self._drop_half()
            self._row(float(row[1]), row[4].split())
        elif self._half and (rest := _SECOND_HALF.search(line)):
            (size, cells), self._half = self._half, None
            self._row(size, [*cells, *rest[1].split()])
        else:
            self._heading(line)

    def _heading(self, line: str) -> None:
        tokens = line.split()
        if "type" in tokens and {"time", "cputime"} & set(tokens):
            self._begin(same_devices=True)
            self._layout = _layout(tokens[tokens.index("type") + 1 :])
        elif device := _DEVICE.search(line):
            rank, process, host, number, bus, name = device.groups()
            gpu = " ".join(name.split())
            self._begin().devices.append(RankDevice(int(rank), host, process, gpu, f"{number} [{bus}]"))
        elif _SETTINGS.search(line):
            self._begin().settings.update(dict(_SETTING.findall(line)))
        elif test := _TEST.search(line):
            if "concluded" in line:
                self._runs[-1].operation = self._runs[-1].operation or test[1]
            else:
                self._begin().operation = test[1]
        elif "Using devices" in line:
            self._begin()
        elif of_communicator := _IN_COMMUNICATOR.search(line):
            self._runs[-1].ranks = self._runs[-1].ranks or int(of_communicator[1])

    def _begin(self, same_devices: bool = False) -> NcclRun:
        """The run that headings describe: after rows a new one, with the last one's headings if ``same_devices``."""
        last = self._runs[-1]
        if last.rows or last.left_out or self._half:
            self._drop_half()
            self._layout = None
            self._runs.append(
                NcclRun(last.operation, last.ranks, list(last.devices), last.settings) if same_devices else NcclRun()
            )
        return self._runs[-1]

    def _row(self, size: float, cells: list[str]) -> None:
        layout = self._layout or _guessed_layout(cells)
        self._runs[-1].layout = f"column '{layout.check}'" if layout.check else "no column for a check"
        columns = 3 + bool(layout.check)
        timed = cells[layout.before : layout.before + columns]
        if len(timed) == columns and all(as_number(cell) is not None or _is_absent(cell) for cell in timed[:3]):
            self._timed(size, cells, layout)
        else:
            self._half = (size, cells[: layout.before])

    def _timed(self, size: float, cells: list[str], layout: _Layout) -> None:
        run, start = self._runs[-1], layout.before
        run.reductions.update(cell for cell in cells[:start] if cell.isalpha())
        if layout.of_host:
            run.left_out["of the host's calls (cputime)"] += 1
            return
        out, inside = (cells[at : at + layout.group] for at in (start, start + layout.group))
        if as_number(out[0]) is None and inside and as_number(inside[0]):
            run.in_place += 1
            out = inside
        check = out[3] if layout.check and len(out) > 3 else ""
        run.add(size, as_number(out[0]), check, *out[1:3])

    def _drop_half(self) -> None:
        if self._half:
            self._runs[-1].left_out["broken by another line"] += 1
            self._half = None


def _layout(columns: list[str]) -> _Layout:
    """The layout of the header's columns after ``type``."""
    times = [at for at, name in enumerate(columns) if name in ("time", "cputime")]
    group = times[1] - times[0] if len(times) > 1 else len(columns) - times[0]
    check = columns[times[0] + 3] if group > 3 else ""
    return _Layout(times[0], group, check.lstrip("#") if check == "#" else check, columns[times[0]] == "cputime")


def _guessed_layout(cells: list[str]) -> _Layout:
    """The layout of a row without header: a word is the reduction, a number beyond whole groups of four the root."""
    word = int(bool(cells) and cells[0].isalpha() and not _is_absent(cells[0]))
    numbers = cells[word:]
    root = int(bool(numbers) and (numbers[0].startswith("-") or len(numbers) % 4 == 1))
    return _Layout(word + root, 4, "check")


def _record_runs(path: Path, records: Iterable[Mapping[str, Any]]) -> list[NcclRun]:
    """The runs of rccl-tests' records: one for each test and number of ranks."""
    runs: dict[tuple[str | None, int | None], NcclRun] = {}
    for number, record in enumerate(records, 1):
        if str(record.get("inPlace") or 0) not in ("0", "0.0", "False"):
            continue
        size, time_us, count = (_number(path, number, record, name) for name in ("size", "time", "ranks"))
        if size is None or (time_us is None and not record.get("time")):
            raise InputError(f"{path}: record {number}: lacks its {'size' if size is None else 'time'}")
        key = _operation_name(record.get("name")), _clamped(count)
        run = runs.setdefault(key, NcclRun(*key))
        run.add(size, time_us, str(record.get("wrong", 0)), record.get("algBw"), record.get("busBw"))
    return list(runs.values())


def _nccl_json_run(path: Path, document: Mapping[str, Any]) -> NcclRun:
    """The run of nccl-tests' JSON document."""
    config = _object(path, "config", document.get("config", {}))
    results = document.get("results", [])
    if not isinstance(results, list):
        raise InputError(f"{path}: results must be a list, got {short_repr(results)}")
    args = document.get("args")
    name = config.get("test") or document.get("test") or (args[0] if isinstance(args, list) and args else None)
    settings = {ours: str(config[theirs]) for ours, theirs in _JSON_SETTINGS.items() if theirs in config}
    devices = _json_devices(path, config)
    run = NcclRun(_operation_name(name), _json_ranks(config, devices, settings), devices, settings)
    for number, result in enumerate(results, 1):
        _add_json_result(path, number, _object(path, f"result {number}", result), run)
    return run


def _json_devices(path: Path, config: Mapping[str, Any]) -> list[RankDevice]:
    listed = config.get("devices", [])
    if not isinstance(listed, list):
        raise InputError(f"{path}: config.devices must be a list, got {short_repr(listed)}")
    devices = []
    for number, item in enumerate(listed):
        each = _object(path, f"config.devices {number}", item)
        rank = as_number(each.get("rank"))
        texts = (str(each.get(name, "")) for name in ("hostname", "pid", "device_info", "device"))
        devices.append(RankDevice(int(rank if rank is not None else number), *texts))
    return devices


def _json_ranks(config: Mapping[str, Any], devices: list[RankDevice], settings: Mapping[str, str]) -> int | None:
    """The stated number of ranks, else that of the devices: some versions list the first device of each process."""
    stated = _clamped(as_number(config.get("ranks") or config.get("nranks")))
    if stated or not devices:
        return stated
    of_process = 1
    for name in ("nThread", "nGpus"):
        of_process *= int(as_number(settings.get(name, "1")) or 1)
    ranks = [device.rank for device in devices]
    return _clamped(max(ranks) + (of_process if all(rank % of_process == 0 for rank in ranks) else 1))


def _add_json_result(path: Path, number: int, result: Mapping[str, Any], run: NcclRun) -> None:
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
    if str(result.get("redop", "")).isalpha():
        run.reductions.add(str(result["redop"]))
    check = "" if out.get("nwrong") is None else str(out["nwrong"])
    run.add(size, time_us, check, out.get("alg_bw"), out.get("bus_bw"))


def _operation_name(name: Any) -> str | None:
    """``AllReduce`` or ``./build/all_reduce_perf`` -> ``all_reduce``."""
    if not name:
        return None
    bare = re.sub(r"_perf(_mpi)?$", "", PurePath(str(name)).name)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()
    return "sendrecv" if snake == "send_recv" else snake


def _clamped(ranks: float | None) -> int | None:
    return int(min(ranks, MOST_RANKS + 1)) if ranks else None


def _object(path: Path, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: {where} must be an object, got {short_repr(value)}")
    return value


def _number(path: Path, number: int, record: Mapping[str, Any], name: str) -> float | None:
    """A number of a record, which is text in CSV; None if the record has none."""
    value = record.get(name)
    if value is None or value == "" or str(value).lower() in ("nan", "n/a"):
        return None
    parsed = as_number(value)
    if parsed is None:
        raise InputError(f"{path}: record {number}: {name} must be a number of at least 0, got {short_repr(value)}")
    return parsed


def as_number(value: object) -> float | None:
    """A finite number of at least 0 from a number or its text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number < float("inf") else None


def _is_absent(cell: str) -> bool:
    return cell.lower() in ("n/a", "nan", "-")


def _is_right(check: str) -> bool:
    """Whether a check passed or was not made: no wrong elements, an ``error`` of rounding, or ``N/A``."""
    text = check.strip().strip('"').lower()
    if text in ("", "n/a", "none", "null", "-1"):
        return True
    number = as_number(text)
    return number is not None and number <= _LARGEST_ERROR
