"""MI300X and MI355X: their profiles made of public tables, and DeepSeek-R1's published speeds beside them.

    python docs/fidelity_amd.py cards ../shared/measurements/machines/amd           (minutes; models/hardware)
    python docs/fidelity_amd.py rows ../shared/measurements/machines/rows/inferencex_dsr1_amd.csv   (fidelity_amd.md)

The first folder holds ROCm/aiter's tuned products and fused experts, whose fastest kernel a shape counts, and what pull
requests say of latent attention and all-reduces. It becomes plain CSVs (``ssdsim import csv``). What nobody timed is
scaled: the MI355X from a B200, the MI300X from the MI355X. No row is written anywhere.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fidelity import cells
from fidelity_mixtures import MOST_TTFT_MS
from fidelity_outcomes import Outcome, decoding, left_out
from scipy.optimize import nnls

from calibration.importers.plain_csv import with_plain_csv
from calibration.importers.silicon_gemms import from_cache
from calibration.runtimes.fit import fit_runtime
from calibration.timings.fit import significant
from calibration.timings.fit_experts import FEWEST_ROWS
from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.device import Device
from ssdsim.hardware.experts import FEW_TOKENS
from ssdsim.hardware.latent import SCALED, LatentModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.hardware.what_if import Datasheet, from_datasheet
from ssdsim.readers.row import Row
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import WEIGHT_BYTES, Collective, Elementwise, ExpertMlp, Gemm, LatentAttention
from ssdsim.transformer.routing import distinct_experts

_PAGE = """# How well it predicts AMD's GPUs

For people with an MI300X or MI355X. This page says what the two profiles rest on, and how far they miss DeepSeek-R1's
published speeds. `python docs/fidelity_amd.py` makes it, the profiles and the card `sglang-rocm`, from public tables
that are not part of this project.

**In short.** Kernels are known well; what lies around them is not. Give `--runtime sglang-rocm`: the cards of engines
on NVIDIA's GPUs are a third to a half too fast there, and a GPU of another maker makes their intervals four times as
wide. The aim of 12 % for a GPU that was left out is missed.

## What was timed

ROCm/aiter (e4048607, MIT) tunes its kernels and writes down the time of the fastest. Products and fused experts are
fitted to these; times that were copied to other numbers of tokens, and what came faster than memory, are left out.
All-reduces (MI355X over eight, MI300X over two and four) are from pull requests of vLLM, aiter and SGLang. All other
attention, prompts and messages are scaled, the MI355X's from the `b200-sxm` and the MI300X's from the MI355X. They
count as hypothetical.

| profile | law | source | rows fitted / held out | median error | 95th percentile |
|---|---|---|---|---|---|
{laws}

- **Latent attention** was timed in batches over 21 tokens for 128 heads (nine times a GPU): 11 and 12 us and a
  little more for each sequence, within 5 % in the mean and 21 % at most. Over longer contexts the kernel was timed
  for one sequence alone, which a GPU reads at a sixth of its bandwidth. So reading is as H100 and H200 do it, by
  AMD's datasheets, and misses those rows by up to two thirds. Models with fewer heads a GPU, R1's among them, count
  as extrapolated.
- **The MI300X's experts** rest on 25 rows of three shapes. Left out, a shape is missed by up to 81 %.
- **A message between two GPUs** takes one of seven links, but is priced at all seven together, as all-reduces are.
- Products in `mxfp4` multiply two operands of 4 bits on the MI355X; the MI300X has none.

## DeepSeek-R1 on SGLang

{count} settings of InferenceX's dashboard (December 2025 to June 2026), decoding without a draft, first tokens within
a second. *Kernels*: the profile alone. *sglang*: with the card of NVIDIA's GPUs. *In fit*: `sglang-rocm`, with
{fields} numbers of these rows. *The other GPU's*: those numbers from the rows of the other GPU. Columns: mean
absolute error, bias, share of rows inside the 95 % interval, median half-width of that interval.

{rows}

Most rows do not tell their version, and it matters as much as anything: one setting of the MI355X (1,024 and 1,024
tokens, 16 requests) went from 27 to 11 ms within half a year. ATOM, AMD's own engine, is missed by {atom} with
kernels alone ({atoms} rows, fp8, MI355X).

## What was missing

With products alone from AMD's tables R1 was 26 to 36 % too fast. With experts, latent attention and all-reduces from
them, too, it is 19 % on the MI355X (12 % on ATOM) and 31 to 53 % on the MI300X. Kernels are in milliseconds a token,
by the profile; the rest is what was measured besides, for each of 61 layers. Rows whose version is known:

{parts}

- **A layer takes some 40 us beside its kernels on an MI355X**, whatever the batch up to 32: launches, quantising of
  activations, norms and copies that no table has. The card has {gap:.0f} us for both GPUs.
- **On an MI300X it is 80 us with SGLang 0.5.12 and 240 us with 0.5.9**, and grows with the batch. What grows is
  likely the experts: their law rests on other shapes, and rows ask for {experts:.1f} times it. MXFP4's on the
  MI355X ask for {narrow:.2f} times.
- So numbers of the MI355X's rows miss the MI300X by a lot, and the other way round by less. A table of the MI300X's
  mixtures as R1 runs them (256 experts of 256 a GPU) would tell more than any row of a server.
"""
_VERSIONS = "0.5.9 to 0.5.12, and versions that are not known, on ROCm"
_ABOUT = "fitted by docs/fidelity_amd.py to DeepSeek-R1 alone; drafts and rounds are as on NVIDIA's GPUs"
_8_BITS = ("float8", "float8-block", "int8")
SHEETS = {
    "mi355x": Datasheet(
        name="AMD Instinct MI355X", memory_bytes=288 << 30, memory_bandwidth=8e12, link=7 * 76.8e9, count=8,
        compute_units=256, peak_flops={"": 2.5166e15} | dict.fromkeys(_8_BITS, 5.0332e15),
    ),
    "mi300x": Datasheet(
        name="AMD Instinct MI300X", memory_bytes=192 << 30, memory_bandwidth=5.3e12, link=7 * 64e9, count=8,
        compute_units=304, peak_flops={"": 1.3074e15} | dict.fromkeys(_8_BITS, 2.6149e15),
    ),
}  # fmt: skip
"""AMD's datasheets: dense peaks, Infinity Fabric to each of seven others, one way."""

_CACHE_BYTES = 256 << 20
_GFX = {"mi355x": ("gfx950", 256), "mi300x": ("gfx942", 304)}
_GEMMS = {
    ("bf16", "torch.bfloat16"): "bfloat16",
    ("a8w8", "torch.float8_e4m3fn"): "float8",
    ("a8w8", "torch.int8"): "int8",
    ("a8w8-block", ""): "float8-block",
    ("a4w4", ""): "mxfp4",
}
_EXPERTS = {
    ("bfloat16", "bfloat16", "No"): "bfloat16",
    ("float8", "float8", "per_Token"): "float8",
    ("float8", "float8", "per_1x128"): "float8-block",
    ("bfloat16", "int4", "per_1x32"): "int4",
    ("float4", "float4", "per_1x32"): "mxfp4",
}
"""aiter's names of activations, weights and scales; of 4-bit weights the kernels with inputs of 4 bits."""
_FEWEST_PRODUCTS = 200
_MOST_TOKENS = 8192
_HEADS, _SHORT = 128, 64  # of latent attention that was timed in batches
_SOURCE = "ROCm/aiter"
_EXCERPTS = "pull requests"


# the profiles


def tuned_gemms(folder: Path, name: str) -> pd.DataFrame:
    """The fastest kernel's seconds of each product, in the columns of a plain CSV."""
    table = pd.read_csv(folder / "aiter_gemm_us.csv.gz", low_memory=False)
    gfx, units = _GFX[name]
    table = table[(table["gfx"] == gfx) & (table["cu_num"] == units) & table["B"].isna() & (table["us"] > 0)]
    kinds = zip(table["type"], table["dtype"].fillna(""), strict=True)
    table = table.assign(dtype=[_GEMMS.get(kind) for kind in kinds], seconds=1e-6 * table["us"])
    table = table.rename(columns={"M": "m", "N": "n", "K": "k"}).assign(op="gemm")
    return _fastest(table, ["m", "n", "k"])


def tuned_experts(folder: Path, name: str) -> pd.DataFrame:
    """The fastest kernel's seconds of each fused mixture."""
    table = pd.read_csv(folder / "aiter_fmoe_us.csv")
    gfx, units = _GFX[name]
    ours = (table["cu_num"] == units) & table["gfx"].fillna(gfx).eq(gfx) & (table["us"] > 0) & (table["topk"] > 1)
    table = table[ours & (table["tokens"] <= _MOST_TOKENS)]
    columns = ("q_dtype_a", "q_dtype_w", "q_type")
    kinds = zip(
        *(table[each].str.rpartition(".")[2].str.replace(r"_e\dm\d.*", "", regex=True) for each in columns), strict=True
    )
    table = table.assign(dtype=[_EXPERTS.get(kind) for kind in kinds], seconds=1e-6 * table["us"], op="experts")
    names = {"model_dim": "hidden", "inter_dim": "width", "experts": "count", "topk": "per_token"}
    shape = ["count", "per_token", "hidden", "width"]
    rows = _fastest(table.rename(columns=names), ["tokens", *shape])
    return rows[~rows.duplicated(["dtype", *shape, "seconds"], keep=False)]  # a time of other tokens, copied


def _fastest(table: pd.DataFrame, shape: list[str]) -> pd.DataFrame:
    return table.dropna(subset=["dtype"]).groupby(["op", "dtype", *shape])["seconds"].min().reset_index()


def streamed(gemms: pd.DataFrame, bandwidth: float) -> pd.DataFrame:
    """Without products whose weights came from a cache."""
    cached = [from_cache(rows, WEIGHT_BYTES[str(name)], bandwidth) for name, rows in gemms.groupby("dtype")]
    return gemms[~pd.concat(cached).reindex(gemms.index)]


def streamed_experts(experts: pd.DataFrame, bandwidth: float) -> pd.DataFrame:
    shapes = experts[["count", "per_token", "tokens"]].astype(int).itertuples(index=False, name=None)
    touched = np.array([distinct_experts(n, k, tokens, 1, skew=0.0) for n, k, tokens in shapes])
    weight_bytes = 3.0 * experts["hidden"] * experts["width"] * experts["dtype"].map(WEIGHT_BYTES)
    return experts[touched * weight_bytes / experts["seconds"] <= bandwidth]


def enough(table: pd.DataFrame, fewest: int) -> pd.DataFrame:
    """Formats with rows enough for a law; of experts those of few tokens count."""
    few = table["tokens"] <= FEW_TOKENS if "tokens" in table else table["m"] > 0
    return table[few.groupby(table["dtype"]).transform("sum") >= fewest]


def excerpts(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decode kernels of latent attention, and the fastest all-reduces, as pull requests tell of them."""
    table = pd.read_csv(folder / "amd_mla_allreduce_excerpts.csv")
    table = table[table["gpu"] == SHEETS[name].name.rpartition(" ")[2]].assign(seconds=1e-6 * table["us"])
    latent = table[table["op"].str.startswith("mla_decode")]
    reduces = table[table["op"].str.startswith("all_reduce")]
    ranks = reduces["op"].str.extract(r"TP(\d)")[0].astype(int)
    reduces = reduces.assign(op="all_reduce", dtype="", ranks=ranks)
    return latent, reduces.groupby(["op", "dtype", "ranks", "message_bytes"])["seconds"].min().reset_index()


def latent_law(latent: pd.DataFrame, device: Device) -> LatentModel:
    """What a kernel over a short context takes by its batch; reading as H100 and H200 do it, by their datasheets.

    Longer contexts were timed of one sequence alone, which a device reads at a sixth of its bandwidth.
    """
    short = latent[(latent["context"] <= _SHORT) & latent["op"].str.contains(f"nhead{_HEADS}")]
    batch, seconds = short["batch"].to_numpy(float), short["seconds"].to_numpy(float)
    features = np.column_stack([np.ones(len(batch)), np.log2(batch), _HEADS * batch])
    launch_s, per_doubling_s, per_row_s = map(float, nnls(features / seconds[:, None], np.ones(len(batch)))[0])
    rates = SCALED[False, False]
    costs = rates.changed(
        launch_s=significant(launch_s), per_doubling_s=significant(per_doubling_s), per_row_s=significant(per_row_s),
        per_row_doubling_s=0.0, per_token_s=0.0, per_unfilled_row_s=0.0,
        bandwidth=rates.bandwidth * device.memory_bandwidth,
        peak_flops=rates.peak_flops * device.peak_flops["bfloat16"],
    )  # fmt: skip
    heads = latent["op"].str.extract(r"nhead(\d+)")[0].astype(float)
    seen = {"batch": latent["batch"], "rows": heads, "context": latent["context"], "cached": pd.Series([576.0])}
    return LatentModel(
        source=_EXCERPTS, domain={n: (float(v.min()), float(v.max())) for n, v in seen.items()}, costs=costs
    )


def made(name: str, folder: Path, like: HardwareProfile) -> HardwareProfile:
    """The profile called ``name``."""
    sheet = SHEETS[name]
    base = from_datasheet(like, sheet, name)
    bandwidth = base.device.memory_bandwidth
    gemms = enough(streamed(tuned_gemms(folder, name), bandwidth), _FEWEST_PRODUCTS)
    experts = enough(streamed_experts(tuned_experts(folder, name), bandwidth), FEWEST_ROWS)
    latent, reduces = excerpts(folder, name)
    profile = _with(_with(base, [gemms, experts], _SOURCE), [reduces], _EXCERPTS)
    law = latent_law(latent, base.device)
    profile = profile.changed(latent={"bfloat16": dict.fromkeys(profile.gemm, law)})
    each = float(sheet.link or 0.0) / 7 / 1e9 if not isinstance(sheet.link, str) else 0.0
    topology = f"Infinity Fabric, {7 * each:.0f} GB/s each way per device, {each:g} to each other one"
    device = base.device.changed(name=sheet.name, topology=topology, cache_bytes=_CACHE_BYTES)
    rows = {str(dtype): len(some) for dtype, some in gemms.groupby("dtype")}
    of_experts = {str(dtype): len(some) for dtype, some in experts.groupby("dtype")}
    sources = {
        **profile.sources,
        _SOURCE: Provenance(
            kind="imported", source=_SOURCE, commit="e4048607", licence="MIT",
            note=f"the fastest kernel of each shape; products: {_counted(rows)}; fused experts, whose tokens choose at "
            f"random: {_counted(of_experts)}",
        ),
        _EXCERPTS: Provenance(
            kind="imported", source="aiter PRs 2039, 3003, 801; vLLM PR 39080; SGLang PR 6619",
            note="excerpts: latent attention over 21 tokens (nine times a GPU), whose reading is as H100 and H200 do "
            "it, by AMD's datasheets; all-reduces of engines",
        ),
    }  # fmt: skip
    own = {
        source: each for source, each in sources.items() if any(m.source == source for m in profile.models().values())
    }
    narrow = {} if name == "mi355x" else {part: _without_4_bits(getattr(profile, part)) for part in ("gemm", "experts")}
    return profile.changed(device=device, sources=own, **narrow)


def _without_4_bits(models: Mapping[str, Any]) -> dict[str, Any]:
    """Without the kernels that multiply 4 bits, which an MI300X cannot."""
    return {dtype: model for dtype, model in models.items() if dtype != "mxfp4"}


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {dtype}" for dtype, count in rows.items())


def _with(profile: HardwareProfile, tables: Sequence[pd.DataFrame], source: str) -> HardwareProfile:
    """``profile`` with laws of the tables, as ``import csv`` makes them."""
    with tempfile.TemporaryDirectory() as folder:
        for number, table in enumerate(tables):
            path = Path(folder) / f"{number}.csv"
            table.to_csv(path, index=False)
            profile = with_plain_csv(profile, path, source)
    return profile


def write_cards(folder: Path) -> None:
    profile = find_hardware("b200-sxm")
    for name in SHEETS:
        profile = made(name, folder, profile)
        profile.save(models_folder() / "hardware" / f"{name}.json")
        print("\n".join(laws_of(profile)), file=sys.stderr)


def laws_of(profile: HardwareProfile) -> Iterator[str]:
    """Lines of the page: each law that was fitted."""
    for what, model in profile.models().items():
        if found := model.report:
            errors = f"{found.median_error:.1%} | {found.p95_error:.0%}"
            rows = f"{found.rows_fitted:,} / {found.rows_held_out:,}"
            yield f"| `{profile.name}` | {what} | {model.source} | {rows} | {errors} |"


# the rows


_FORMATS = {"fp8": "float8-block", "fp4": "mxfp4"}
_LONG = 1024  # tokens answered
FIELDS = ("per_layer_s", "per_sequence_s", "experts", "experts_4_bit")
"""What is fitted to rows: gaps, and factors on experts of 8 and 4 bits."""


def rows_of(table: pd.DataFrame, engine: str = "sglang") -> list[Row]:
    """Decoding without a draft; what waited in a queue is left out."""
    steady = (table["method"] == "none") & (table["engine"] == engine) & ~(table["ttft_ms"] > MOST_TTFT_MS)
    return [_row_of(each) for each in table[steady].itertuples()]


def _row_of(each: Any) -> Row:
    version = re.search(r":v(\d+\.\d+\.\d+)", str(each.engine_image))
    return decoding(
        each,
        "deepseek-r1",
        "concurrency isl osl median_tpot_ms",
        engine="sglang",
        engine_version=version[1] if version else "",
        dtype=_FORMATS[each.dtype],
        source="InferenceX",
        series=f"{each.gpu} {each.dtype} TP {each.tp} {version[1] if version else ''}",
    )


def fitted(rows: Sequence[Row], base: Runtime) -> Runtime:
    """SGLang's card on AMD's GPUs."""
    card = fit_runtime(rows, base, "sglang-rocm", "sglang", FIELDS, source="InferenceX").card
    return card.changed(versions=_VERSIONS, about=_ABOUT)


def without_nvidia(card: Runtime) -> Runtime:
    """An engine's card without what its rows on NVIDIA's GPUs said of its kernels and steps."""
    plain = {"experts": 1.0, "communication": 1.0, "overlap": 0.0, "per_step_s": 0.0, "per_sequence_s": 0.0}
    apart = {"by_version": None, "four_bits": None, "since": "", "until": "", "covered": ()}
    return card.with_numbers(plain).changed(**apart)


def outcomes(rows: Sequence[Row], base: Runtime) -> dict[str, Outcome]:
    """Rows by kernels alone, by SGLang's card of NVIDIA's GPUs, and by it as the other GPU's rows ask for it."""
    return {
        "kernels": Outcome.of(rows, KERNELS),
        "sglang": Outcome.of(rows, find_runtime("sglang")),
        "in fit": Outcome.of(rows, fitted(rows, base)),
        "the other GPU's": left_out(rows, [row.hardware for row in rows], lambda some: fitted(some, base)),
    }


def table_of(found: Mapping[str, Outcome]) -> Iterator[str]:
    """Lines of the page: each series, each GPU, and all."""
    first = next(iter(found.values()))
    yield f"| rows of | rows | {' | '.join(f'{way}: error | bias | inside | width' for way in found)} |"
    yield f"|{'---|' * (2 + 4 * len(found))}"
    groups = [(row.series_name, lambda other, name=row.series_name: other.series_name == name) for row in first.rows]
    groups += [(row.hardware, lambda other, name=row.hardware: other.hardware == name) for row in first.rows]
    groups += [("a known version", lambda other: bool(other.engine_version)), ("all", lambda _: True)]
    for name, kept in dict(groups).items():
        some = [each.where(kept) for each in found.values()]
        yield f"| {name} | {len(some[0].rows)} | {' | '.join(map(cells, some))} |"


_KINDS = {
    Gemm: "products",
    ExpertMlp: "experts",
    LatentAttention: "attention",
    Collective: "all-reduce",
    Elementwise: "element-wise",
}


def parts_of(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of the page: what kernels take of a token, and the rest of what was measured."""
    yield f"| rows of | batch | {' | '.join(_KINDS.values())} | together | measured | the rest, a layer |"
    yield f"|{'---|' * (6 + len(_KINDS) - 1)}"
    groups = {(row.series_name, row.batch): row for row in rows if row.engine_version and row.output_tokens >= _LONG}
    for (series, batch), row in sorted(groups.items()):
        same = [o.value for o in rows if (o.series_name, o.batch) == (series, batch) and o.output_tokens >= _LONG]
        card, measured = find_transformer(row.model), float(np.median(same))
        context = round(row.input_tokens + row.output_tokens / 2)
        work = forward_pass(card, batch=row.batch, context=context, tp=row.tp, dtype=row.dtype)
        taken = dict.fromkeys(_KINDS.values(), 0.0)
        for op, count in work.counted:
            taken[_KINDS[type(op)]] += 1e3 * count * find_hardware(row.hardware).seconds(op).seconds
        whole = sum(taken.values())
        rest = 1e3 * (measured - whole) / card.layers
        cells_of = " | ".join(f"{ms:.1f}" for ms in (*taken.values(), whole, measured))
        yield f"| {series} | {batch} | {cells_of} | {rest:.0f} \N{MICRO SIGN}s |"


def report(path: Path) -> None:
    """Predict, and write the page."""
    rows = rows_of(pd.read_csv(path))
    base = without_nvidia(find_runtime("sglang"))
    found, card = outcomes(rows, base), fitted(rows, base)
    save_runtime(card, models_folder() / "runtimes" / "sglang-rocm.toml")
    parts = {
        "laws": [line for name in SHEETS for line in laws_of(find_hardware(name))],
        "rows": list(table_of(found)),
        "parts": list(parts_of(rows)),
    }
    atom = Outcome.of(rows_of(pd.read_csv(path), "atom"), KERNELS)
    said = {
        "count": len(rows),
        "fields": len(FIELDS),
        "atom": f"{np.abs(atom.errors).mean():.0%}",
        "atoms": len(atom.rows),
        "gap": 1e6 * card.numbers["per_layer_s"],
        "experts": card.numbers["experts"],
        "narrow": card.numbers["experts_4_bit"],
    }
    text = _PAGE.format(**said, **{name: "\n".join(lines) for name, lines in parts.items()})
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    {"cards": write_cards, "rows": report}[sys.argv[1]](Path(sys.argv[2]))
