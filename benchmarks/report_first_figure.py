"""Seconds until a report's first figure, and all of them, are drawn in chromium; each time in a browser just started.

Run: python benchmarks/report_first_figure.py RUN_FOLDER   (needs chromium and the test tools)
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from ssdsim.reports.build import report
from tests.ssdsim.reports.browser import Browser

STARTS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        started = time.perf_counter()
        made = report(sys.argv[1])
        print(f"report: {time.perf_counter() - started:.1f} s, {len(made.html.encode()) / 1e6:.2f} MB")
        made.save(page)
        found = [drawn_s(page, Path(folder) / f"profile{start}") for start in range(STARTS)]
    for name, seconds in zip(("first figure", "all figures"), zip(*found, strict=True), strict=True):
        print(f"{name}: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {STARTS} starts")


def drawn_s(page: Path, profile: Path) -> tuple[float, float]:
    """Seconds from the navigation to the first figure and to the last."""
    with Browser(profile) as browser:
        browser.screen(1200, 900)
        time.sleep(2.0)  # the browser's own start is not the page's
        browser.open(page)
        marks = ("first figure", "all figures")
        times = [browser.evaluate(f"performance.getEntriesByName('{mark}')[0].startTime") / 1e3 for mark in marks]
    return times[0], times[1]


if __name__ == "__main__":
    main()
