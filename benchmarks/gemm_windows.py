"""How well GEMMs fit by window, on rows that no fit saw, and how smooth the tables are: the tables of docs/profiles.md.

Run: ``python benchmarks/gemm_windows.py FOLDER...`` with folders of aiconfigurator's tables, some 15 s a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.aiconfigurator import read_silicon_table
from calibration.importers.silicon import GEMM_FORMATS, WEIGHT_BYTES, fitted, read_system_card
from calibration.importers.silicon_gemms import by_format, without_host_bound
from calibration.timings.fit import FEWEST_ROWS, hold_out
from calibration.timings.fit_gemm import fit_gemm

DECODING, STREAMED = 64, 4e6  # tokens at most, weights at least
WINDOWS = ("decoding", "smaller weights", "65-512 tokens", "more")
AXES = ["m", "n", "k"]
ROUGH = 0.12  # off the line between its neighbours: no law that is smooth can be nearer to both


def window(rows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.str_]]:
    few, large = rows["m"] <= DECODING, rows["n"] * rows["k"] >= STREAMED
    return np.select([few & large, few, rows["m"] <= 512], WINDOWS[:3], WINDOWS[3])


def held_out_errors(rows: pd.DataFrame, weight_bytes: float) -> pd.Series:
    """Relative errors of 30 % of the rows, by a fit to the others, which holds out its own to choose terms by."""
    held = hold_out(len(rows))
    known, unseen = rows[~held], rows[held]
    model = fit_gemm(*(known[name] for name in (*AXES, "seconds")), weight_bytes, "table")
    predicted = model.seconds(*(unseen[name] for name in AXES))
    return pd.Series(np.abs(predicted / unseen["seconds"].to_numpy() - 1), index=unseen.index)


def off_the_line(rows: pd.DataFrame, axis: str) -> pd.Series:
    """How far each row lies from the straight line, in logarithms, between its neighbours along ``axis``."""
    others = [name for name in AXES if name != axis]
    logs = np.log(rows.sort_values([*others, axis])[[*AXES, "seconds"]])
    by = logs.groupby(others)
    before, after = by[[axis, "seconds"]].shift(1), by[[axis, "seconds"]].shift(-1)
    share = (logs[axis] - before[axis]) / (after[axis] - before[axis])
    between = before["seconds"] + share * (after["seconds"] - before["seconds"])
    return np.abs(np.exp(logs["seconds"] - between) - 1).dropna()


def gemm_rows(folder: Path) -> dict[str, pd.DataFrame]:
    """The rows of a folder that a fit takes, by the format of the weights: columns m, n, k and seconds."""
    table = read_silicon_table(folder, "gemm_perf")
    if table is None:
        raise SystemExit(f"{folder}: no gemm_perf there")
    formats = by_format(without_host_bound(table)[0], read_system_card(folder / "system.yaml"))
    streamed = ((theirs, rows[~cached]) for theirs, rows, cached in formats)
    return {GEMM_FORMATS[theirs]: rows for theirs, rows in streamed if len(rows) >= FEWEST_ROWS}


def lines(folder: Path) -> Iterator[str]:
    """A row of each format: held-out errors by window, of decoding also the jumps along tokens, n and k, the share of
    rough rows (off the line along one of these), and the 95th percentile of the others.
    """
    tables = gemm_rows(folder)
    fits = {kept: partial(held_out_errors, rows, WEIGHT_BYTES[kept]) for kept, rows in tables.items()}
    for kept, errors in fitted(fits, sum(map(len, tables.values()))).items():
        rows = tables[kept]
        of = pd.Series(window(rows), index=rows.index)
        cells = [f"{e.median():.1%} / {e.quantile(0.95):.1%}" for w in WINDOWS for e in [errors[of[errors.index] == w]]]
        off = pd.DataFrame({axis: off_the_line(rows[of == "decoding"], axis) for axis in AXES})
        rough = off.max(axis=1) > ROUGH  # rows without neighbours along any axis are in none of the two
        smooth = errors[errors.index.isin(rough.index[~rough])].quantile(0.95)
        cells += [", ".join(f"{off[axis].quantile(0.95):.0%}" for axis in AXES), f"{rough.mean():.0%}", f"{smooth:.1%}"]
        yield f"| `{folder.name}` | {kept} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(*lines(Path(given)), sep="\n", flush=True)
