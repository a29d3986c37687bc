"""Time the import of a folder of aiconfigurator's tables: wall clock and the processor's seconds, of three.

Run: ``python benchmarks/import_speed.py FOLDER``, on quiet cores; ``OPENBLAS_NUM_THREADS=1`` on busy ones.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from calibration.importers.aiconfigurator import import_aiconfigurator

REPEATS = 3


def main(folder: Path) -> None:
    for _ in range(REPEATS):
        wall_s, processor_s = time.perf_counter(), time.process_time()
        profile = import_aiconfigurator(folder)
        wall_s, processor_s = time.perf_counter() - wall_s, time.process_time() - processor_s
        print(f"{profile.name}: {wall_s:.1f} s, {processor_s:.1f} s of the processor")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
