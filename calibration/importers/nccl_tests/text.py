"""The text tables of nccl-tests and rccl-tests, of every version, as logs hold them.

Quirks:

* A row has size (bytes), count, type and, by version and test, a reduction and a root; then time (us), rates and a
  check out of place, and again in place. Until 2021 the check was a column ``error`` (2e-07, N/A) and only rooted tests
  had a ``root``; since then it is ``#wrong``. Newer versions add columns after it. The header says which there are.
* Launchers write before each line: ``[1,0]<stdout>:``, ``0: ``, ``[0] ``, dates, names of pods. A row is found wherever
  in a line it begins.
* NCCL's own lines break rows in two: a row is printed before it is timed. Its second half is joined to it again.
* A build without MPI under ``mpirun`` runs as many tests of one rank, which say ``Rank 0`` each.
"""

from __future__ import annotations

import re

from calibration.importers.nccl_tests.runs import BROKEN, Device, Run, as_number
from ssdsim.base.record import Record

TESTS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoallv", "alltoall", "sendrecv"),
    *("scatter", "gather", "hypercube", "all_to_all"),
)
"""Tests that there are, with those that are not priced."""

_TYPE = r"(?:u?int(?:8|32|64)?|char|uchar|half|float(?:16|32|64)?|double|bfloat16|f[p]?8_?e\dm\d|fp8)"
_ROW = re.compile(rf"(?<![\w.])(\d+)\s+(\d+)\s+({_TYPE})(?=\s|$)(.*)")
_CELL = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|nan)"
_REST = re.compile(rf"(?:^|[\]>:)]|Z)\s*({_CELL}(?:\s+{_CELL}){{2,}})\s*$")
_DEVICE = re.compile(
    r"\bRank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]?\s*(.*)"
)
_SETTINGS = re.compile(r"\bnThreads?:?\s+\d+\s+nGpus:?\s+\d+")
_SETTING = re.compile(r"\b(nThread|nGpus|agg iters|validation|graph)s?:?\s+(\d+)")
_TEST = re.compile(rf"(?<![a-z])({'|'.join(TESTS)})_perf")
_OPENING = "Using devices"
_IN_COMMUNICATOR = re.compile(r"\bnranks (\d+)\b")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LONGEST = 4096  # characters of a line; a table's have some 120 and what a launcher writes before them


class Layout(Record):
    """The columns after ``type``: how many come before the first time, how many from one time to the next."""

    before: int
    group: int
    check: str
    of_host: bool = False
    """Whether the times are of the host's calls (``cputime``)."""

    @property
    def told(self) -> str:
        return f"column '{self.check}'" if self.check else "no column for a check"


def text_runs(text: str) -> list[Run]:
    """The runs in a text, in its order; rows that no header precedes are read by what they look like."""
    reader = _Reader()
    for line in _ESCAPES.sub("", text).splitlines():
        if 0 < len(line) <= _LONGEST:
            reader.read(line)
    return reader.finished()


def has_rows(text: str) -> bool:
    """Say whether any line looks like a row of such a table."""
    return _ROW.search(text) is not None


class _Reader:
    """Goes through the lines and begins a run where one does: with what is said before rows, after rows."""

    def __init__(self) -> None:
        self._runs = [Run()]
        self._layout: Layout | None = None
        self._half: tuple[float, list[str]] | None = None  # size and cells of a row whose times did not follow yet

    def finished(self) -> list[Run]:
        self._drop_half()
        return [run for run in self._runs if run.rows or run.left_out]

    def read(self, line: str) -> None:
        row = _ROW.search(line)
        if row:
            self._drop_half()
            self._row(float(row[1]), row[4].split())
            return
        rest = _REST.search(line) if self._half else None
        if rest and self._half:
            size, cells = self._half
            self._half = None
            self._row(size, [*cells, *rest[1].split()])
            return
        self._heading(line)

    def _heading(self, line: str) -> None:
        tokens = line.split()
        if "type" in tokens and {"time", "cputime"} & set(tokens):
            self._begun(again=False)
            self._layout = _layout(tokens[tokens.index("type") + 1 :])
        elif device := _DEVICE.search(line):
            self._begun(again=True).devices.append(_device(device))
        elif _SETTINGS.search(line):
            self._begun(again=True).settings.update(dict(_SETTING.findall(line)))
        elif test := _TEST.search(line):
            concluded = "concluded" in line
            run = self._runs[-1] if concluded else self._begun(again=True)
            run.operation = (run.operation if concluded else None) or test[1]
        elif _OPENING in line:
            self._begun(again=True)
        elif matched := _IN_COMMUNICATOR.search(line):
            self._runs[-1].ranks = self._runs[-1].ranks or int(matched[1])

    def _begun(self, again: bool) -> Run:
        """The run that is being told of; after rows a new one, which is of the same devices unless told ``again``."""
        last = self._runs[-1]
        if last.rows or last.left_out or self._half:
            self._drop_half()
            heading = {} if again else {"operation": last.operation, "ranks": last.ranks, "settings": last.settings}
            self._runs.append(Run(**heading, devices=[] if again else list(last.devices)))  # type: ignore[arg-type]
            self._layout = None
        return self._runs[-1]

    def _row(self, size: float, cells: list[str]) -> None:
        run = self._runs[-1]
        layout = self._layout or _guessed(cells)
        run.layout = layout.told
        timed = cells[layout.before : layout.before + 3 + bool(layout.check)]
        numbers = [as_number(cell) for cell in timed[:3]]
        complete = len(timed) == 3 + bool(layout.check)
        if complete and all(n is not None or _is_absent(c) for n, c in zip(numbers, timed, strict=False)):
            self._timed(size, cells, layout)
        else:
            self._half = (size, cells[: layout.before])

    def _timed(self, size: float, cells: list[str], layout: Layout) -> None:
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
        rates = tuple(as_number(cell) for cell in out[1:3])
        run.add(size, as_number(out[0]), check, (rates[0], rates[1] if len(rates) > 1 else None))

    def _drop_half(self) -> None:
        if self._half:
            self._runs[-1].left_out[BROKEN] += 1
            self._half = None


def _is_absent(cell: str) -> bool:
    return cell.lower() in ("n/a", "nan", "-")


def _layout(columns: list[str]) -> Layout:
    """The layout of the header's columns after ``type``."""
    times = [at for at, name in enumerate(columns) if name in ("time", "cputime")]
    group = times[1] - times[0] if len(times) > 1 else len(columns) - times[0]
    check = columns[times[0] + 3] if group > 3 else ""
    return Layout(times[0], group, check.lstrip("#") if check == "#" else check, columns[times[0]] == "cputime")


def _guessed(cells: list[str]) -> Layout:
    """The layout of a row without header: a word is the reduction, a number beyond whole groups of four the root."""
    word = int(bool(cells) and cells[0].isalpha() and not _is_absent(cells[0]))
    numbers = cells[word:]
    root = int(bool(numbers) and (numbers[0].startswith("-") or len(numbers) % 4 == 1))
    return Layout(word + root, 4, "check")


def _device(matched: re.Match[str]) -> Device:
    rank, pid, host, number, bus, name = matched.groups()
    return Device(int(rank), host, pid, " ".join(name.split()), f"{number} [{bus}]")
