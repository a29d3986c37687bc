"""Time the import of a folder of aiconfigurator's tables, in one process and in one a core: wall clock, each of three.

Run: ``python benchmarks/import_speed.py FOLDER``, on quiet cores. The first of several starts the processes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from calibration.importers.aiconfigurator import import_aiconfigurator

REPEATS = 3


def main(folder: Path) -> None:
    for jobs, said in ((1, "one process"), (None, "a process a core")):
        for _ in range(REPEATS):
            start_s = time.perf_counter()
            profile = import_aiconfigurator(folder, jobs=jobs)
            print(f"{profile.name}, {said}: {time.perf_counter() - start_s:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
