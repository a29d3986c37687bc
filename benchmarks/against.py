"""Time what users wait for in this tree and in another one, in turns, on the same machine.

Run: ``python benchmarks/against.py OTHER_TREE``, on quiet cores; ``--long`` adds what takes minutes, ``--only WORD``
times the rows whose name has the word. Medians of wall clocks, seconds of a core and the most memory of a run; the
host's own wander is how far a command that is the same in both (Python with numpy, click and msgspec) strayed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parents[1]
BASE = ("-c", "import numpy, click, msgspec")
GRID = "--b 1,2,4,8,16,32,64,128,256 --k 2:12 --alpha 0.5:0.95:0.045 --f 1,2,3,4,6,8,12,16,24,32"
LARGE = "--b 1:64 --k 2:12 --alpha 0.5:0.95:0.0125 --f 1:40"
TEN = "ar,sd,ssd,pearl,specbranch,amusd,dsi,swiftspec,tree,treessd"  # those that a tree of today and of bd54832 have

SIMULATED = """
import time
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
case = configure(t_sd=0.3, t_p=0.6, t_b=0.3, k=7, alpha=0.8, p_hit=0.85, b=16, backup={backup!r}, strategies="ssd")
simulate(case.scenarios["ssd"], solver={solver!r}, rounds=1000)
start = time.perf_counter()
simulate(case.scenarios["ssd"], solver={solver!r}, rounds={rounds})
print({rounds} / (time.perf_counter() - start))
"""


@dataclass(frozen=True)
class Timed:
    """A command of both trees: words of ``ssdsim``, or what Python runs; ``{folder}`` is one of its tree's own.

    ``to_reach`` is what issue 36 asks for. What ``prints`` a rate is judged by that and not by its time.
    """

    name: str
    words: Sequence[str]
    to_reach: str = ""
    repeats: int = 20
    long: bool = False
    prints: bool = False

    @classmethod
    def verb(cls, name: str, words: str, to_reach: str, repeats: int = 20, long: bool = False) -> Timed:
        return cls(name, ("-m", "ssdsim", *words.split(), "--quiet"), to_reach, repeats, long)

    @classmethod
    def rate(cls, name: str, solver: str, backup: str, rounds: int, to_reach: str) -> Timed:
        code = SIMULATED.format(solver=solver, backup=backup, rounds=rounds)
        return cls(name, ("-c", code), to_reach, repeats=7, prints=True)


ROWS = (
    Timed("Python with its libraries", BASE),
    Timed.verb("predict, cold", "predict --b 16", "0.35 s"),
    Timed.verb("predict --json, cold", "predict --b 16 --json", "0.35 s"),
    Timed.verb("recommend, 7 batches", "recommend --gpus 8 --b 1,2,4,8,16,32,64", "2 s", 7),
    Timed.verb("compare, ten strategies", f"compare --strategies {TEN} --gpus 8 --b 16", "3 s", 7),
    Timed.verb("serve --rate 8", "serve --rate 8", "1.5 s", 7),
    Timed.verb("sweep of 10,890 points", f"sweep {GRID} --output {{folder}}/sweep{{number}}", "1.5 s", 7),
    Timed.verb("its report", "report {folder}/sweep0", "2 s", 7),
    Timed.rate("Monte Carlo, b 16, jit", "mc", "jit", 2_000_000, "15 M rounds/s"),
    Timed.rate("Monte Carlo, b 16, fast", "mc", "fast", 2_000_000, "8 M rounds/s"),
    Timed.rate("SimPy, b 16, jit", "des", "jit", 50_000, "0.65 of the bare loop (engine_speed.py)"),
    Timed.verb("serve of 10^5 requests", "serve --rate 8 --requests 100000", "10 s", 3, True),
    Timed.verb(
        "sweep of a million points", f"sweep {LARGE} --output {{folder}}/large{{number}}", "90 s of a core", 1, True
    ),
    Timed.verb("its report ", "report {folder}/large0", "5 s of a core", 3, True),
)


@dataclass
class Runs:
    """What one tree took, run by run."""

    wall_s: list[float] = field(default_factory=list)
    core_s: list[float] = field(default_factory=list)
    most_mb: float = 0.0
    rates: list[float] = field(default_factory=list)

    def add(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        start = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            said, complaint = process.communicate()
            if process.returncode not in (0, 1):  # 1: the answer is no
                raise SystemExit(f"{' '.join(command)}: {complaint.strip()}")
        self.wall_s.append(time.perf_counter() - start)
        spent = complaint.rsplit("\n", 2)[-2].split()
        self.core_s.append(float(spent[1]) + float(spent[2]))
        self.most_mb = max(self.most_mb, float(spent[3]) / 1024.0)
        self.rates += [float(said)] if said.strip().replace(".", "").isdigit() else []


ACCOUNTS = (  # a process that runs another one and says what that took: seconds of a core and KiB
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]).returncode; "
    "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    "print('used', used.ru_utime, used.ru_stime, used.ru_maxrss, file=sys.stderr); sys.exit(done)"
)


def environment_of(tree: Path, bytecode: Path) -> dict[str, str]:
    """Of a run of a tree: its own code, whose bytecode is kept, as that of an installed package is."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(bytecode)}


def timed(row: Timed, trees: Mapping[str, Path], folders: Mapping[str, Path], repeats: int) -> dict[str, Runs]:
    """Both trees in turns, after a first run of each that does not count where there are several."""
    found = {name: Runs() for name in trees}
    for number in range(-1 if repeats > 1 else 0, repeats):
        for name, tree in trees.items():
            words = [
                word.replace("{folder}", str(folders[name])).replace("{number}", str(number)) for word in row.words
            ]
            if row.prints:
                words = list(row.words)
            command = [sys.executable, "-c", ACCOUNTS, sys.executable, *words]
            runs = Runs() if number < 0 else found[name]
            runs.add(command, environment_of(tree, folders[name] / "bytecode"), folders[name])
    return found


def shown(row: Timed, found: Mapping[str, Runs]) -> str:
    """A line of the table."""
    cells = []
    for runs in found.values():
        if row.prints:
            cells.append(f"{statistics.median(runs.rates) / 1e6:10.3f} M rounds/s      ")
        else:
            wall, core = statistics.median(runs.wall_s), statistics.median(runs.core_s)
            cells.append(f"{wall:8.2f} s {core:7.2f} s {runs.most_mb:6.0f} MB")
    before, now = (statistics.median(runs.rates if row.prints else runs.core_s) for runs in found.values())
    ratio = now / before if row.prints else before / now
    return f"{row.name:28}{'  '.join(cells)}  {ratio:6.2f}x  {row.to_reach}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the tree to hold this one against, such as a worktree of bd54832")
    parser.add_argument("--long", action="store_true", help="add what takes minutes")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--repeats", type=int, help="in place of each row's own")
    given = parser.parse_args()
    trees = {"other": given.other.resolve(), "this": HERE}
    print(f"{'':28}{'other: wall, core, memory':>28}  {'this: wall, core, memory':>28}   core    to reach")
    with TemporaryDirectory() as folder:
        folders = {name: Path(folder) / name for name in trees}
        for each in folders.values():
            each.mkdir()
        for row in ROWS:
            if given.only in row.name and (given.long or not row.long):
                found = timed(row, trees, folders, given.repeats or row.repeats)
                print(shown(row, found), flush=True)
                if row.words == BASE:
                    walls = [second for runs in found.values() for second in runs.wall_s]
                    print(f"{'the host strays':28}from {min(walls):.2f} to {max(walls):.2f} s in it")


if __name__ == "__main__":
    main()
