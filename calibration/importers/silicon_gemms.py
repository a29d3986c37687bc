"""GEMMs of aiconfigurator's tables, without timings that waited for the host or read from a cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas as pd

from calibration.importers.silicon import (
    FROM_CACHE,
    GEMM_FORMATS,
    WEIGHT_BYTES,
    Fits,
    SystemCard,
    engines,
    left_out,
    one_time_a_shape,
)
from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.fit_gemm import fit_gemm

_GEMM_SHAPE = ["m", "n", "k"]
_FEW_TOKENS, _HOST_BOUND = 16, 5.0  # a GEMM of few tokens so many times slower than another format's waits for the host
_STREAMED_TOKENS = 512  # products of more wait for arithmetic


def without_host_bound(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The GEMMs of each format of one engine, and what was left out: those of few tokens that wait for the host.

    These take several times as long as another format's, whatever their size. So does vLLM's ``fp8_block`` on the B200:
    150 to 280 us for every matrix up to 256 tokens, where bfloat16, of twice the bytes, takes 8 to 24. An engine that
    replays a graph launches nothing, so these times are not its own. A format is of the engine whose rows come first in
    the table; where those wait, of the next that has it.
    """
    engine_of = engines(table)
    few = table[table["m"] <= _FEW_TOKENS]
    times = few.groupby([*_GEMM_SHAPE, "gemm_dtype", engine_of])["seconds"].min().unstack([-2, -1])
    slower = times.div(times.min(axis=1), axis=0).median()
    waiting = [(str(theirs), str(engine)) for theirs, engine in slower.index[slower > _HOST_BOUND]]
    taken: dict[str, str] = {}
    for pair in dict.fromkeys(zip(table["gemm_dtype"], engine_of, strict=True)):
        if pair not in waiting:
            taken.setdefault(*pair)
    said = "".join(
        f"; {theirs} of {taken[theirs]}, {engine}'s times of few tokens are the host's"
        if theirs in taken
        else f"; {theirs} left out, its times of few tokens are the host's"
        for theirs, engine in waiting
    )
    return table[engine_of == table["gemm_dtype"].map(taken)], said


def gemm_fits(table: pd.DataFrame, card: SystemCard) -> tuple[Fits, str]:
    """A fit a format, and what of the table was left out."""
    fits: Fits = {}
    said = ""
    for theirs, rows, cached in by_format(table, card):
        said += left_out(rows, cached, theirs, FROM_CACHE)
        rows, weights = rows[~cached], GEMM_FORMATS[theirs]
        if len(rows) >= FEWEST_ROWS:
            m, n, k, seconds = (rows[name].to_numpy(float) for name in (*_GEMM_SHAPE, "seconds"))
            fits["gemm", weights] = partial(fit_gemm, m, n, k, seconds, WEIGHT_BYTES[weights], "gemm_perf")
    return fits, said


def by_format(table: pd.DataFrame, card: SystemCard) -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Each format that is imported: its name there, a time a shape, and which of them came from a cache."""
    for theirs, rows in table.groupby("gemm_dtype"):
        weights = GEMM_FORMATS.get(str(theirs))
        if weights:
            rows = one_time_a_shape(rows, _GEMM_SHAPE)
            yield str(theirs), rows, from_cache(rows, WEIGHT_BYTES[weights], card.figure("gpu", "mem_bw"))


def from_cache(rows: pd.DataFrame, weight_bytes: float, memory_bandwidth: float) -> pd.Series:
    """Rows of matrices whose weights arrived faster than memory streams: repeated, they stayed in the cache.

    In a pass every matrix is read once, after all others, from memory. On an L40S (96 MB of cache) matrices of 4 to 16
    MB show twice its bandwidth; a matrix that does at any number of tokens is left out where it streams.
    """
    faster = weight_bytes * rows["n"] * rows["k"] / rows["seconds"] > memory_bandwidth
    of_matrix = faster.groupby([rows["n"], rows["k"]]).transform("any")
    return of_matrix & (rows["m"] <= _STREAMED_TOKENS)
