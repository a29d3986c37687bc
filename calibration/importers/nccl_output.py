"""Output of nccl-tests and rccl-tests, as runs: text tables of every version, JSON and CSV.

Text tables, as logs hold them:

* A row has size (bytes), count, type and, by version and test, a reduction and a root; then time (us), rates and a
  check out of place, and again in place. Until 2021 the check was a column ``error`` (2e-07, N/A) and only rooted tests
  had a ``root``; since then it is ``#wrong``. Newer versions add columns after it. The header names the columns.
* Launchers write before each line: ``[1,0]<stdout>:``, ``0: ``, ``[0] ``, dates, names of pods. A row may begin
  anywhere in a line. NCCL's own lines break rows in two, because a row is printed before it is timed.
* A build without MPI under ``mpirun`` runs as many tests of one rank, all with ``Rank 0``.

rccl-tests (``-Z``) writes a record for each row, in JSON or CSV; nccl-tests (``-J``) a document with ``results``, of
which ``out_of_place`` and ``in_place`` may each be null, and ``config``, whose ``devices`` some versions list for the
first of each process only. Both are read as the text that they would have been.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.base.documents import parse_csv, parse_json
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import MutableRecord, Record, field

_TESTS = "all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoallv|alltoall|sendrecv|scatter|gather|hypercube"
_NAMES = {name.replace("_", ""): name for name in _TESTS.split("|")}
READABLE_RATE = 1.0  # GB/s: two decimals of less say little
_LARGEST_ERROR = 1e-2  # of a right result, in units of the data; a failed check before 2021 printed 1
_LONGEST = 4096  # characters of a line; a table's have some 120 after the launcher's

_TYPE = r"(?:u?int(?:8|32|64)?|char|uchar|half|float(?:16|32|64)?|double|bfloat16|f[p]?8_?e\dm\d|fp8)"
_ROW = re.compile(rf"(?<![\w.])(\d+)\s+(\d+)\s+({_TYPE})(?=\s|$)(.*)")
_CELL = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|nan)"
_SECOND_HALF = re.compile(rf"(?:^|[\]>:)]|Z)\s*({_CELL}(?:\s+{_CELL}){{2,}})\s*$")
_DEVICE = re.compile(
    r"\bRank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d{1,9})\s+\[([^\]]*)\]?\s*(.*)"
)
_SETTINGS = re.compile(r"\bnThreads?:?\s+\d+\s+nGpus:?\s+\d+")
_SETTING = re.compile(r"\b(nThread|nGpus|graph)s?:?\s+(\d+)")
_TEST = re.compile(rf"(?<![a-z])({_TESTS})_perf")
_IN_COMMUNICATOR = re.compile(r"\bnranks (\d{1,9})\b")


class RankDevice(Record):
    """A rank's line: ``# Rank 3 Group 0 Pid 746 on host device 3 [0x60] Tesla V100-SXM2-16GB``."""

    rank: int
    process: str
    host: str
    device: tuple[int, str]
    gpu: str


class NcclRun(MutableRecord):
    """One run: its rows (bytes, seconds, both rates in GB/s), and how many were left out for which reason."""

    operation: str | None = None
    ranks: int | None = None
    devices: list[RankDevice] = field(default_factory=list)
    graphs: str = "graphs not said"
    rows: list[tuple[float, float, float | None, float | None]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    in_place: int = 0
    reductions: set[str] = field(default_factory=set)
    layout: str = ""

    def add(self, size: float, cells: Sequence[str], columns: _Columns) -> bool:
        """Keep a row, in place where it has no time out of place, or count it as left out; False of a half one."""
        self.layout = f"column '{columns.check}'" if columns.check else "no column for a check"
        out, inside = (cells[at : at + columns.group] for at in (columns.before, columns.before + columns.group))
        if len(out) < columns.least or not all(_number(cell) is not None or _is_absent(cell) for cell in out[:3]):
            return False
        self.reductions.update(cell for cell in cells[: columns.before] if cell.isalpha())
        if _number(out[0]) is None and len(inside) >= columns.least and _number(inside[0]):
            self.in_place += 1
            out = inside
        time_us, *rates = map(_number, out[:3])
        if columns.of_host:
            self.left_out["of the host's calls (cputime)"] += 1
        elif columns.check and not _is_right(out[3]):
            self.left_out["with a wrong result"] += 1
        elif not size:
            self.left_out["of size 0"] += 1
        elif not time_us:
            self.left_out["without a time"] += 1
        else:
            self.rows.append((size, 1e-6 * time_us, rates[0], rates[1]))
        return True

    def bus_share(self) -> float:
        """The bus rate as a share of the algorithm's; 0 if no rate is large enough to tell."""
        ratios = [bus / of for _, _, of, bus in self.rows if bus and of and of >= READABLE_RATE]
        return float(np.median(ratios)) if ratios else 0.0


class _Columns(Record):
    """The columns after ``type``: how many before the first time, from one time to the next, and whose time it is."""

    before: int
    group: int = 4
    check: str = "check"
    of_host: bool = False

    @property
    def least(self) -> int:
        return 3 + bool(self.check)

    @classmethod
    def of_header(cls, names: list[str]) -> _Columns:
        times = [at for at, name in enumerate(names) if name in ("time", "cputime")]
        group = times[1] - times[0] if len(times) > 1 else len(names) - times[0]
        check = names[times[0] + 3] if group > 3 else ""
        return cls(times[0], group, check.lstrip("#") if check == "#" else check, names[times[0]] == "cputime")

    @classmethod
    def of_row(cls, cells: list[str]) -> _Columns:
        """Without a header: a word is the reduction, a number beyond whole groups of four the root."""
        word = int(bool(cells) and cells[0].isalpha() and not _is_absent(cells[0]))
        numbers = cells[word:]
        return cls(word + int(bool(numbers) and (numbers[0].startswith("-") or len(numbers) % 4 == 1)))


class _Reader:
    """Reads lines of a text; a heading that follows rows begins a new run."""

    def __init__(self) -> None:
        self.runs = [NcclRun()]
        self._columns: _Columns | None = None
        self._half: tuple[float, list[str]] | None = None  # size and cells of a row whose times did not follow yet

    def read(self, line: str) -> None:
        if row := _ROW.search(line):
            self.drop_half()
            self._row(float(row[1]), row[4].split())
        elif self._half and (rest := _SECOND_HALF.search(line)):
            (size, cells), self._half = self._half, None
            self._row(size, [*cells, *rest[1].split()])
        else:
            self._heading(line)

    def drop_half(self) -> None:
        if self._half:
            self.runs[-1].left_out["broken by another line"] += 1
            self._half = None

    def _row(self, size: float, cells: list[str]) -> None:
        columns = self._columns or _Columns.of_row(cells)
        self._half = None if self.runs[-1].add(size, cells, columns) else (size, cells[: columns.before])

    def _heading(self, line: str) -> None:
        words = line.split()
        if "type" in words and {"time", "cputime"} & {*words}:
            self._begin(same_devices=True)
            self._columns = _Columns.of_header(words[words.index("type") + 1 :])
        elif told := _DEVICE.search(line):
            device = int(told[4]), told[5].lower()
            self._begin().devices.append(RankDevice(int(told[1]), told[2], told[3], device, " ".join(told[6].split())))
        elif _SETTINGS.search(line):
            graphs = dict(_SETTING.findall(line)).get("graph")
            said = {None: "graphs not said", "0": "eager"}.get(graphs, f"in CUDA graphs ({graphs} launches)")
            self._begin().graphs = said
        elif test := _TEST.search(line):
            if "concluded" not in line:
                self._begin().operation = test[1]
            self.runs[-1].operation = self.runs[-1].operation or test[1]
        elif "Using devices" in line:
            self._begin()
        elif of_communicator := _IN_COMMUNICATOR.search(line):
            self.runs[-1].ranks = self.runs[-1].ranks or int(of_communicator[1])

    def _begin(self, same_devices: bool = False) -> NcclRun:
        """The run that headings describe: after rows a new one, with the last one's headings if ``same_devices``."""
        last = self.runs[-1]
        if last.rows or last.left_out or self._half:
            self.drop_half()
            self._columns = None
            same = (last.operation, last.ranks, [*last.devices], last.graphs) if same_devices else ()
            self.runs.append(NcclRun(*same))
        return self.runs[-1]


def runs_in(text: str, path: Path) -> list[NcclRun]:
    """The runs in a text, JSON or CSV, in their order."""
    reader = _Reader()
    for line in _as_text(text.lstrip(), path):
        if 0 < len(line) <= _LONGEST:
            reader.read(line)
    reader.drop_half()
    return [run for run in reader.runs if run.rows or run.left_out]


def _as_text(text: str, path: Path) -> Sequence[str]:
    """The lines of a text; of records in JSON and CSV those that would have been printed."""
    if text.startswith("{") or (text.startswith("[") and not _ROW.search(text)):
        document = parse_json(text, path)
        return [*_printed(path, document)] if isinstance(document, list) else [*_document(path, document)]
    lines = text.splitlines()
    return [*_printed(path, parse_csv(text, path))] if lines and "inPlace" in lines[0] else lines


def _document(path: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """The document of nccl-tests."""
    (config,) = _objects(path, "config", [document.get("config", {})])
    args = document.get("args")
    threads, gpus = (int(_number(config.get(name)) or 1) for name in ("nthreads", "ngpus"))
    yield f"nThread {threads} nGpus {gpus}" + (f" graph {config['graph']}" if "graph" in config else "")
    ranks = []
    for at, device in enumerate(_objects(path, "config.devices", config.get("devices", []))):
        rank, index = (int(at if (said := _number(device.get(name))) is None else said) for name in ("rank", "device"))
        process, host = int(_number(device.get("pid")) or 0), str(device.get("hostname") or "-").replace(" ", "-")
        yield f"Rank {rank} Pid {process} on {host} device {index} [] {device.get('device_info', '')}"
        ranks.append(rank)
    of_first = all(rank % (threads * gpus) == 0 for rank in ranks)  # of each process
    implied = max(ranks) + (threads * gpus if of_first else 1) if ranks else None
    common = {
        "name": config.get("test") or document.get("test") or (args[0] if isinstance(args, list) and args else None),
        "ranks": config.get("ranks") or config.get("nranks") or implied,
    }
    yield from _printed(path, [common | each for each in _objects(path, "results", document.get("results", []))])


_KEYS = (("time", "cpu_time"), ("algBw", "alg_bw"), ("busBw", "bus_bw"), ("wrong", "nwrong"))


def _printed(path: Path, records: Any) -> Iterator[str]:
    """Records as tables, one for each test and number of ranks."""
    tables: dict[tuple[str, str, str], list[str]] = {}
    for number, record in enumerate(_objects(path, "records", records), 1):
        if str(record.get("inPlace") or 0) not in ("0", "0.0", "False"):
            continue
        where = f"{path}: record {number}"
        parts = [record.get(name) or {} for name in ("out_of_place", "in_place") if name in record]
        halves = _objects(path, where, parts or [record])
        time = "cputime" if any("cpu_time" in half for half in halves) else "time"
        cells = [_cell(where, half, *keys) for half in halves for keys in _KEYS]
        size = _cell(where, record, "size")
        row = f"{size} 0 int {record.get('redop') or 'none'} {' '.join(cells)}"
        test = re.sub(r"_perf(_mpi)?$|_", "", str(record.get("name") or "").rpartition("/")[2].lower())
        about = f"{_NAMES.get(test, '')}_perf", f"nranks {_cell(where, record, 'ranks')}"
        header = f"type redop {' '.join(len(halves) * [f'{time} algbw busbw wrong'])}"
        tables.setdefault((*about, header), []).append(row)
    for headings, rows in tables.items():
        yield from ("Using devices", *headings, *rows)


def _objects(path: Path, what: str, listed: Any) -> list[dict[str, Any]]:
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{path}: {what} must be a list of objects, got {short_repr(listed)}")
    return listed


def _cell(where: str, record: Mapping[str, Any], *names: str) -> str:
    """A number of a record, which is text in CSV, as a table has it."""
    value = next((record[name] for name in names if record.get(name) is not None), "")
    text = re.sub(r"\.0$|[\s\"]", "", str(value))
    if _number(text) is None and (names == ("size",) or not (_is_absent(text) or "wrong" in names)):
        raise InputError(f"{where}: {names[0]} must be a number of at least 0, got {short_repr(value)}")
    return text or "N/A"


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
    return cell.lower() in ("", "n/a", "nan", "-")


def _is_right(check: str) -> bool:
    """Whether a check passed or was not made: no wrong elements, an ``error`` of rounding, or ``N/A``."""
    number = _number(check)
    return check == "-1" or _is_absent(check) or (number is not None and number <= _LARGEST_ERROR)
