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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ssdsim.base.documents import parse_csv, parse_json, without_codes
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import MutableRecord, Record, field

_TESTS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoallv", "alltoall", "sendrecv"),
    *("scatter", "gather", "hypercube", "all_to_all"),
)  # also those that are not priced
_SPELLED = {"send_recv": "sendrecv", "all_to_all": "alltoall"}
MOST_RANKS = 1_000_000
READABLE_RATE = 1.0  # GB/s: two decimals of less say little
_LARGEST_ERROR = 1e-2  # of a right result, in units of the data; a failed check before 2021 printed 1
_LONGEST = 4096  # characters of a line; a table's have some 120 after the launcher's

_TYPE = r"(?:u?int(?:8|32|64)?|char|uchar|half|float(?:16|32|64)?|double|bfloat16|f[p]?8_?e\dm\d|fp8)"
_ROW = re.compile(rf"(?<![\w.])(\d+)\s+(\d+)\s+({_TYPE})(?=\s|$)(.*)")
_CELL = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|nan)"
_SECOND_HALF = re.compile(rf"(?:^|[\]>:)]|Z)\s*({_CELL}(?:\s+{_CELL}){{2,}})\s*$")
_DEVICE = re.compile(
    r"\bRank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]?\s*(.*)"
)
_SETTINGS = re.compile(r"\bnThreads?:?\s+\d+\s+nGpus:?\s+\d+")
_SETTING = re.compile(r"\b(nThread|nGpus|graph)s?:?\s+(\d+)")
_TEST = re.compile(rf"(?<![a-z])({'|'.join(_TESTS)})_perf")
_IN_COMMUNICATOR = re.compile(r"\bnranks (\d{1,9})\b")


class RankDevice(Record):
    """A rank's line: ``# Rank 3 Group 0 Pid 746 on host device 3 [0x60] Tesla V100-SXM2-16GB``."""

    rank: int
    host: str
    process: str
    gpu: str


class NcclRun(MutableRecord):
    """One run: its settings and usable rows, and how many rows were left out for which reason.

    A row is bytes, seconds, and the printed rates in GB/s (None: not printed), of the algorithm and of the bus.
    """

    operation: str | None = None
    ranks: int | None = None
    devices: list[RankDevice] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[float, float, float | None, float | None]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    in_place: int = 0
    """Rows that have a time in place only."""

    reductions: set[str] = field(default_factory=set)
    layout: str = ""

    def add(self, size: float, time_us: float | None, check: object, algorithm: object, bus: object) -> None:
        """Keep a row, or count it as left out."""
        if not _is_right(check):
            self.left_out["with a wrong result"] += 1
        elif not size:
            self.left_out["of size 0"] += 1
        elif not time_us:
            self.left_out["without a time"] += 1
        else:
            self.rows.append((size, 1e-6 * time_us, _number(algorithm), _number(bus)))

    def bus_share(self) -> float:
        """The bus rate as a share of the algorithm's; 0 if no rate is large enough to tell."""
        ratios = [bus / of for _, _, of, bus in self.rows if bus and of and of >= READABLE_RATE]
        return float(np.median(ratios)) if ratios else 0.0


def read_runs(path: Path, text: str) -> list[NcclRun]:
    """The runs in a file of any of the formats."""
    stripped = text.lstrip()
    if stripped.startswith("{") or (stripped.startswith("[") and not _ROW.search(text)):
        document = parse_json(stripped, path)
        return _record_runs(path, document) if isinstance(document, list) else [_nccl_json_run(path, document)]
    if stripped and "inPlace" in stripped.splitlines()[0]:
        return _record_runs(path, parse_csv(stripped, path))
    return text_runs(text)


def text_runs(text: str) -> list[NcclRun]:
    """The runs in a text, in its order. Rows without a header are read by their form."""
    reader = _TextReader()
    for line in without_codes(text).splitlines():
        if 0 < len(line) <= _LONGEST:
            reader.read(line)
    reader.drop_half()
    return [run for run in reader.runs if run.rows or run.left_out]


class _Layout(Record):
    """The columns after ``type``: how many come before the first time, how many from one time to the next.

    ``of_host``: the times are of the host's calls (``cputime``).
    """

    before: int
    group: int = 4
    check: str = "check"
    of_host: bool = False

    @classmethod
    def of_header(cls, columns: list[str]) -> _Layout:
        times = [at for at, name in enumerate(columns) if name in ("time", "cputime")]
        group = times[1] - times[0] if len(times) > 1 else len(columns) - times[0]
        check = columns[times[0] + 3] if group > 3 else ""
        return cls(times[0], group, check.lstrip("#") if check == "#" else check, columns[times[0]] == "cputime")

    @classmethod
    def of_row(cls, cells: list[str]) -> _Layout:
        """Without a header: a word is the reduction, a number beyond whole groups of four the root."""
        word = int(bool(cells) and cells[0].isalpha() and not _is_absent(cells[0]))
        numbers = cells[word:]
        return cls(word + int(bool(numbers) and (numbers[0].startswith("-") or len(numbers) % 4 == 1)))


class _TextReader:
    """Reads lines, and begins a new run at a heading that follows rows."""

    def __init__(self) -> None:
        self.runs = [NcclRun()]
        self._layout: _Layout | None = None
        self._half: tuple[float, list[str]] | None = None  # size and cells of a row whose times did not follow yet

    def drop_half(self) -> None:
        if self._half:
            self.runs[-1].left_out["broken by another line"] += 1
            self._half = None

    def read(self, line: str) -> None:
        if row := _ROW.search(line):
            self.drop_half()
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
            self._layout = _Layout.of_header(tokens[tokens.index("type") + 1 :])
        elif device := _DEVICE.search(line):
            rank, process, host, name = device.groups()
            self._begin().devices.append(RankDevice(int(rank), host, process, " ".join(name.split())))
        elif _SETTINGS.search(line):
            self._begin().settings.update(dict(_SETTING.findall(line)))
        elif test := _TEST.search(line):
            if "concluded" in line:
                self.runs[-1].operation = self.runs[-1].operation or test[1]
            else:
                self._begin().operation = test[1]
        elif "Using devices" in line:
            self._begin()
        elif of_communicator := _IN_COMMUNICATOR.search(line):
            self.runs[-1].ranks = self.runs[-1].ranks or int(of_communicator[1])

    def _begin(self, same_devices: bool = False) -> NcclRun:
        """The run that headings describe: after rows a new one, with the last one's headings if ``same_devices``."""
        last = self.runs[-1]
        if last.rows or last.left_out or self._half:
            self.drop_half()
            self._layout = None
            carried = (last.operation, last.ranks, list(last.devices), last.settings) if same_devices else ()
            self.runs.append(NcclRun(*carried))
        return self.runs[-1]

    def _row(self, size: float, cells: list[str]) -> None:
        layout, run = self._layout or _Layout.of_row(cells), self.runs[-1]
        run.layout = f"column '{layout.check}'" if layout.check else "no column for a check"
        columns = 3 + bool(layout.check)
        timed = cells[layout.before : layout.before + columns]
        if len(timed) < columns or not all(_number(cell) is not None or _is_absent(cell) for cell in timed[:3]):
            self._half = (size, cells[: layout.before])
            return
        run.reductions.update(cell for cell in cells[: layout.before] if cell.isalpha())
        if layout.of_host:
            run.left_out["of the host's calls (cputime)"] += 1
            return
        starts = (layout.before, layout.before + layout.group)
        out, inside = (cells[at : at + layout.group] for at in starts)
        if _number(out[0]) is None and inside and _number(inside[0]):
            run.in_place += 1
            out = inside
        run.add(size, _number(out[0]), out[3] if layout.check and len(out) > 3 else "", *out[1:3])


def _record_runs(path: Path, records: Sequence[Any]) -> list[NcclRun]:
    """The runs of rccl-tests' records: one for each test and number of ranks."""
    runs: dict[tuple[str | None, int | None], NcclRun] = {}
    for where, record in _objects(path, "record", records):
        if str(record.get("inPlace") or 0) not in ("0", "0.0", "False"):
            continue
        size, time_us, ranks = (_number_of(where, record, name) for name in ("size", "time", "ranks"))
        if size is None or (time_us is None and not record.get("time")):
            raise InputError(f"{where}: lacks its {'size' if size is None else 'time'}")
        key = _operation_name(record.get("name")), _ranks_of(ranks)
        run = runs.setdefault(key, NcclRun(*key))
        run.add(size, time_us, record.get("wrong", 0), record.get("algBw"), record.get("busBw"))
    return list(runs.values())


def _nccl_json_run(path: Path, document: Mapping[str, Any]) -> NcclRun:
    """The run of nccl-tests' JSON document."""
    ((_, config),) = _objects(path, "config", [document.get("config", {})])
    args = document.get("args")
    name = config.get("test") or document.get("test") or (args[0] if isinstance(args, list) and args else None)
    names = {"nThread": "nthreads", "nGpus": "ngpus", "graph": "graph"}
    settings = {ours: str(config[theirs]) for ours, theirs in names.items() if theirs in config}
    devices = []
    for number, (_, each) in enumerate(_objects(path, "config.devices", config.get("devices", []))):
        rank = _number(each.get("rank"))
        texts = (str(each.get(name, "")) for name in ("hostname", "pid", "device_info"))
        devices.append(RankDevice(int(rank if rank is not None else number), *texts))
    run = NcclRun(_operation_name(name), _json_ranks(config, devices, settings), devices, settings)
    for where, result in _objects(path, "result", document.get("results", [])):
        size, halves = _number_of(where, result, "size"), [result.get(at) or {} for at in ("out_of_place", "in_place")]
        out, inside = (half for _, half in _objects(path, where, halves))
        if size is None:
            continue
        if "cpu_time" in out or "cpu_time" in inside:
            run.left_out["of the host's calls (cpu_time)"] += 1
            continue
        if "time" not in out and "time" in inside:
            run.in_place += 1
            out = inside
        if str(result.get("redop", "")).isalpha():
            run.reductions.add(str(result["redop"]))
        run.add(size, _number_of(where, out, "time"), out.get("nwrong"), out.get("alg_bw"), out.get("bus_bw"))
    return run


def _json_ranks(config: Mapping[str, Any], devices: list[RankDevice], settings: Mapping[str, str]) -> int | None:
    """The stated number of ranks, else that of the devices: some versions list the first device of each process."""
    stated = _ranks_of(_number(config.get("ranks") or config.get("nranks")))
    if stated or not devices:
        return stated
    of_process = 1
    for name in ("nThread", "nGpus"):
        of_process *= int(_number(settings.get(name, "1")) or 1)
    ranks = [device.rank for device in devices]
    return _ranks_of(max(ranks) + (of_process if all(rank % of_process == 0 for rank in ranks) else 1))


def _operation_name(name: Any) -> str | None:
    """``AllReduce`` or ``./build/all_reduce_perf`` -> ``all_reduce``."""
    bare = re.sub(r"_perf(_mpi)?$", "", PurePath(str(name or "")).name)
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower()
    return _SPELLED.get(snake, snake) or None


def _ranks_of(ranks: float | None) -> int | None:
    return int(min(ranks, MOST_RANKS + 1)) if ranks else None


def _objects(path: Path, what: str, listed: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list, each with its place."""
    if not isinstance(listed, list):
        raise InputError(f"{path}: {what}s must be a list, got {short_repr(listed)}")
    for number, value in enumerate(listed, 1):
        where = f"{path}: {what} {number}"
        if not isinstance(value, dict):
            raise InputError(f"{where} must be an object, got {short_repr(value)}")
        yield where, value


def _number_of(where: str, record: Mapping[str, Any], name: str) -> float | None:
    """A number of a record, which is text in CSV; None if the record has none."""
    value = record.get(name)
    if value is None or value == "" or _is_absent(str(value)):
        return None
    parsed = _number(value)
    if parsed is None:
        raise InputError(f"{where}: {name} must be a number of at least 0, got {short_repr(value)}")
    return parsed


def _number(value: object) -> float | None:
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


def _is_right(check: object) -> bool:
    """Whether a check passed or was not made: no wrong elements, an ``error`` of rounding, or ``N/A``."""
    text = str("" if check is None else check).strip().strip('"').lower()
    if text in ("", "n/a", "none", "null", "-1"):
        return True
    number = _number(text)
    return number is not None and number <= _LARGEST_ERROR
