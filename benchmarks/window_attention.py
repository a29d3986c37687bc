"""How well attention with a window is priced: the timings with windows, none of which a fit has seen.

Run: ``python benchmarks/window_attention.py FOLDER...`` with folders of aiconfigurator's tables whose profiles are
bundled. A window is priced as attention over as many tokens as it has; the laws are fitted to rows without windows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ssdsim.hardware.catalog import find_hardware
from ssdsim.transformer.operations import DTYPE_BYTES

CACHES = {"bfloat16": "bfloat16", "fp8": "float8"}
FALLBACK = "triton"  # kernels that are timed where the engine has another


def windowed(folder: Path) -> pd.DataFrame:
    """The medians of windowed rows, whose context is longer than their window, by shape."""
    table = pd.read_parquet(folder / "generation_attention_perf.parquet")
    if "window_size" not in table:
        table = table.assign(window_size=0)
    numbers = ["window_size", "batch_size", "num_heads", "num_key_value_heads", "head_dim", "isl", "step"]
    rows = table.assign(**{name: table[name].astype(int) for name in numbers})
    rows = rows[(rows["window_size"] > 0) & ~rows["kernel_source"].str.contains(FALLBACK)]
    rows = rows.assign(context=rows["isl"] + rows["step"], seconds=1e-3 * rows["latency"].astype(float))
    rows = rows[rows["context"] > rows["window_size"]]
    shape = ["kv_cache_dtype", *numbers[:5], "context"]
    return rows.groupby(shape)["seconds"].median().reset_index()


def lines(folder: Path) -> Iterator[str]:
    """A row for each dtype of the cache and each window: bias, median and 95th percentile of the errors."""
    profile = find_hardware(folder.name.replace("_server", ""))
    for (theirs, window), rows in windowed(folder).groupby(["kv_cache_dtype", "window_size"]):
        model = profile.attention[CACHES[str(theirs)]]
        kv_heads = rows["num_key_value_heads"].where(rows["num_key_value_heads"] > 0, rows["num_heads"])
        seen = rows["context"].clip(upper=int(window))
        columns = (rows["batch_size"], np.ones(len(rows)), seen, rows["num_heads"], kv_heads, rows["head_dim"])
        shape = (np.asarray(column, float) for column in columns)
        errors = model.seconds(*shape, DTYPE_BYTES[CACHES[str(theirs)]]) / rows["seconds"].to_numpy() - 1.0
        off = np.abs(errors)
        cells = f"{np.median(errors):+.1%} | {np.median(off):.1%} | {np.quantile(off, 0.95):.1%}"
        yield f"| `{profile.name}` | {CACHES[str(theirs)]} | {window} | {len(rows):,} | {cells} |"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(*lines(Path(given)), sep="\n", flush=True)
