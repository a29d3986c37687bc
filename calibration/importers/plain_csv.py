"""Import a plain CSV of timings, for measurements that no other importer knows.

A header and a row a timing, ``op,dtype,seconds`` and the columns of the operation (others may stay empty):

================ =====================================================================
gemm             ``m, n, k``: ``(m, k) @ (k, n)``
experts          ``tokens, count, per_token, hidden, width``, all on the device
attention        ``batch, queries, context, heads, kv_heads, head_dim``
latent_attention ``batch, context, heads, rank, rope_dim``, of one token a sequence
all_reduce       ``message_bytes, ranks``; ``all_gather`` alike, with the gathered bytes
link             ``message_bytes``
elementwise      ``moved_bytes``
================ =====================================================================

``dtype`` is the format of the weights (``gemm``, ``experts``) or of the cache (both attentions). Experts are whole and
gated: three matrices of ``hidden x width``. ``touched``, how many of them some token used, may be a column; where it is
not, each token is taken to have chosen ``per_token`` of ``count`` at random, as kernels are tuned. Latent attention is
what its block takes beyond the products with weights, which are priced as any; it stands beside weights of each format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from calibration.importers.experts import as_fitted
from calibration.importers.latent import timed_blocks
from calibration.importers.tables import messages_over, read_table, with_numbers
from calibration.timings.fit import FEWEST_ROWS, FEWEST_SIZES, checked_rows, fit_collective, fit_elementwise, fit_link
from calibration.timings.fit_attention import ATTENTION_SHAPE, fit_attention
from calibration.timings.fit_costs import fit_latent
from calibration.timings.fit_experts import fit_experts
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.laws import TimingModel
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import DTYPE_BYTES, WEIGHT_BYTES, CollectiveKind, LatentAttention
from ssdsim.transformer.routing import distinct_experts

_COLUMNS = {
    "gemm": ("m", "n", "k"),
    "experts": ("tokens", "count", "per_token", "hidden", "width"),
    "attention": ATTENTION_SHAPE,
    "latent_attention": ("batch", "context", "heads", "rank", "rope_dim"),
    "all_reduce": ("message_bytes", "ranks"),
    "all_gather": ("message_bytes", "ranks"),
    "link": ("message_bytes",),
    "elementwise": ("moved_bytes",),
}


def with_plain_csv(profile: HardwareProfile, path: Path, source: str) -> HardwareProfile:
    """``profile`` with every model that the file has timings for replaced by a fit to them."""
    table = _read(path)
    by_format: dict[str, dict[str, TimingModel]] = {}
    collectives: dict[CollectiveKind, dict[int, CollectiveModel]] = {}
    link: LinkModel | None = None
    update: dict[str, Any] = {}
    for op, of_op in table.groupby("op"):
        rows = of_op.dropna(subset=[*_COLUMNS[str(op)], "seconds"])
        fewest = FEWEST_SIZES if op in get_args(CollectiveKind) else FEWEST_ROWS
        if len(rows) < fewest:
            raise InputError(f"{path}: {len(rows)} complete rows of {op}; a fit needs at least {fewest}")
        if op in _FITS:
            by_format[str(op)] = dict(_by_format(path, str(op), rows, source, profile))
        elif op in ("link", "elementwise"):
            ((_, (sizes, seconds)),) = _groups(rows, "op", *_COLUMNS[str(op)])
            if op == "link":
                link = fit_link(sizes, seconds, source)
            else:
                update["elementwise"] = fit_elementwise(sizes, seconds, source)
        else:
            of_kind = collectives.setdefault(cast(CollectiveKind, op), {})
            for ranks, (sizes, seconds) in _groups(rows, "ranks", "message_bytes"):
                of_kind[round(float(ranks))] = fit_collective(sizes, seconds, source)
    sources = {**profile.sources, source: Provenance(kind="imported", source=source, note=f"plain CSV {path.name}")}
    latent = by_format.pop("latent_attention", {})
    update |= {op: {**getattr(profile, op), **models} for op, models in by_format.items()}
    beside = update.get("gemm", profile.gemm)  # a kernel alone is the same beside weights of each format
    update["latent"] = {**profile.latent, **{kept: dict.fromkeys(beside, model) for kept, model in latent.items()}}
    return profile.changed(**update, sources=sources, **messages_over(profile, collectives, link))


def _by_format(
    path: Path, op: str, rows: pd.DataFrame, source: str, profile: HardwareProfile
) -> Iterator[tuple[str, TimingModel]]:
    """A model for each format that an operation was timed in."""
    for name, some in rows.groupby("dtype"):
        try:
            yield str(name), _FITS[op](some, str(name), source, profile)
        except InputError as error:
            raise InputError(f"{path}: {op} in {name}: {error}") from None


def _gemm(rows: pd.DataFrame, weights: str, source: str, profile: HardwareProfile) -> TimingModel:
    m, n, k, seconds = _arrays(rows, *_COLUMNS["gemm"])
    return fit_gemm(m, n, k, seconds, WEIGHT_BYTES[weights], source, base=profile.gemm.get(weights))


def _experts(rows: pd.DataFrame, weights: str, source: str, _: HardwareProfile) -> TimingModel:
    tokens, count, per_token = _counted(rows, "experts")[:3]
    chosen = zip(count.astype(int).tolist(), per_token.astype(int).tolist(), tokens.astype(int).tolist(), strict=True)
    touched = pd.Series([distinct_experts(n, k, m, 1, skew=0.0) for n, k, m in chosen], index=rows.index)
    if "touched" in rows:
        if (rows["touched"] > np.minimum(count, tokens * per_token)).any():
            raise InputError("touched must be at most count, and at most tokens * per_token, in every row")
        touched = rows["touched"].fillna(touched)
    return fit_experts(as_fitted(rows.assign(touched=touched, width_of_all=rows["width"]), weights), source)


def _attention(rows: pd.DataFrame, kept: str, source: str, _: HardwareProfile) -> TimingModel:
    timed = dict(zip((*ATTENTION_SHAPE, "seconds"), _arrays(rows, *ATTENTION_SHAPE), strict=True))
    return fit_attention(timed, DTYPE_BYTES[kept], source)


def _latent(rows: pd.DataFrame, kept: str, source: str, profile: HardwareProfile) -> TimingModel:
    *shape, seconds = _counted(rows, "latent_attention")
    sizes = zip(*(column.astype(int).tolist() for column in shape), strict=True)
    blocks = [
        LatentAttention(
            name=source, batch=batch, queries=1, context=context, heads=heads, rank=rank, rope_dim=rope_dim,
            dtype="bfloat16", kv_dtype=kept,
        )
        for batch, context, heads, rank, rope_dim in sizes
    ]  # fmt: skip
    return fit_latent(timed_blocks(blocks, 0.0 * seconds, seconds), source, profile.device.memory_bandwidth)


_FITS: Mapping[str, Callable[[pd.DataFrame, str, str, HardwareProfile], TimingModel]] = {
    "gemm": _gemm,
    "experts": _experts,
    "attention": _attention,
    "latent_attention": _latent,
}
"""The fit of each operation that has a model a format: of its rows, the format, the source, the profile before."""

_FORMATS: Mapping[str, Mapping[str, float]] = {
    op: WEIGHT_BYTES if op in ("gemm", "experts") else DTYPE_BYTES for op in _FITS
}
"""Formats of weights, and dtypes of a cache."""


def _arrays(rows: pd.DataFrame, *columns: str) -> list[Array]:
    """The columns, and the seconds."""
    return [rows[name].to_numpy(float) for name in (*columns, "seconds")]


def _counted(rows: pd.DataFrame, op: str) -> list[Array]:
    """The columns of an operation all of whose sizes are counts, and the seconds."""
    named = dict(zip((*_COLUMNS[op], "seconds"), _arrays(rows, *_COLUMNS[op]), strict=True))
    return list(checked_rows(op, named).values())


def _groups(rows: pd.DataFrame, by: str, *columns: str) -> Iterator[tuple[str, list[Array]]]:
    """Each value of a column, with the others and the seconds of its rows."""
    for value, group in rows.groupby(by):
        yield str(value), _arrays(group, *columns)


def _read(path: Path) -> pd.DataFrame:
    table = read_table(path, "CSV", ("op", "dtype", "seconds"))
    for op in table["op"].unique():
        if op not in _COLUMNS:
            raise InputError(f"{path}: unknown op '{op}'{nearest(str(op), _COLUMNS)} Allowed: {', '.join(_COLUMNS)}")
        missing = [name for name in _COLUMNS[op] if name not in table]
        if missing:
            raise InputError(f"{path}: op '{op}' needs a column '{missing[0]}'")
    for op, dtype in table.loc[table["op"].isin(_FITS), ["op", "dtype"]].drop_duplicates().itertuples(index=False):
        known = _FORMATS[op]
        if dtype not in known:
            of = f"{path}: unknown dtype '{dtype}' of {op}"
            raise InputError(f"{of}{nearest(str(dtype), known)} Allowed: {', '.join(known)}")
    sizes = [
        name for name in (*dict.fromkeys(chain(*_COLUMNS.values())), "touched") if name in table and name != "ranks"
    ]
    table = with_numbers(table, path, [*sizes, "seconds"])
    counts = [name for name in sizes if name in (*_COLUMNS["experts"], *_COLUMNS["latent_attention"])]
    table = with_numbers(table, path, counts, whole=True, least=1)
    return with_numbers(table, path, ["ranks"] if "ranks" in table else [], whole=True, least=2)
