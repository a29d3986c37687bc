"""Plain CSVs of experts, latent attention and quantised weights, made from known laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibration.importers import experts
from calibration.importers.plain_csv import with_plain_csv
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.experts import ExpertCosts
from ssdsim.hardware.latent import LatentCosts
from ssdsim.transformer.operations import WEIGHT_BYTES, ExpertMlp, Gemm, LatentAttention
from ssdsim.transformer.routing import distinct_experts
from tests.refusals import refused

BASE = find_hardware("h200-sxm")
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SHAPES = ((256, 8, 7168, 256), (128, 8, 4096, 192), (384, 8, 7168, 256), (64, 6, 2048, 1408))
EXPERTS = ExpertCosts(
    launch_s=2e-5, per_hidden_s=1e-9, per_width_s=0.0, per_expert_s=5e-8, bandwidth=3e12, per_value_s=1e-13,
    flops_per_s=5e14,
)  # fmt: skip
LATENT = LatentCosts(
    launch_s=1.2e-5, per_doubling_s=1e-6, per_row_doubling_s=1e-6, per_token_s=1e-8, per_row_s=1e-10,
    per_unfilled_row_s=0.0, bandwidth=3e12, peak_flops=5e14, sharpness=4.0,
)  # fmt: skip


def table_of_experts(dtype: str) -> pd.DataFrame:
    """Timings of tokens that chose at random."""
    rows = []
    for count, per_token, hidden, width in SHAPES:
        for tokens in TOKENS:
            touched = distinct_experts(count, per_token, tokens, 1, skew=0.0)
            expert_bytes = 3 * hidden * width * WEIGHT_BYTES[dtype]
            seconds = float(EXPERTS.seconds(tokens * per_token, hidden, width, touched, expert_bytes))
            rows.append((dtype, tokens, count, per_token, hidden, width, touched, seconds))
    columns = ["dtype", "tokens", "count", "per_token", "hidden", "width", "touched", "seconds"]
    return pd.DataFrame(rows, columns=columns).assign(op="experts")


def latent_op(batch: int, context: int, heads: int, dtype: str) -> LatentAttention:
    shape = {"batch": batch, "queries": 1, "context": context, "heads": heads, "rank": 512, "rope_dim": 64}
    return LatentAttention("latent", **shape, dtype="bfloat16", kv_dtype=dtype, projections="float8-block")


def table_of_latent(dtype: str) -> pd.DataFrame:
    ops = [
        latent_op(batch, context, heads, dtype)
        for batch in (1, 8, 64)
        for context in (64, 4096, 32768)
        for heads in (16, 128)
    ]
    return pd.DataFrame(
        {
            "op": "latent_attention",
            "dtype": dtype,
            "batch": op.batch,
            "context": op.context,
            "heads": op.heads,
            "rank": op.rank,
            "rope_dim": op.rope_dim,
            "seconds": float(LATENT.seconds(op.batch, 1, op.heads, op.streamed_bytes, op.row_flops)),
        }
        for op in ops
    )


def write(folder: Path, *tables: pd.DataFrame) -> Path:
    path = folder / "mine.csv"
    pd.concat(tables).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("dtype", ["float8-block", "nvfp4", "mxfp4"])
def test_experts_in_any_format_of_weights(tmp_path: Path, dtype: str) -> None:
    made = with_plain_csv(BASE, write(tmp_path, table_of_experts(dtype).drop(columns="touched")), "csv")
    model = made.experts[dtype]
    assert model.report is not None
    assert model.report.median_error < 0.01
    op = ExpertMlp("experts", 32, 7168, 256, 256, 8, 100.0, dtype, "bfloat16")
    timing = made.seconds(op)
    assert timing.warnings == ()
    expected = EXPERTS.seconds(op.visits, op.hidden, op.width, op.touched, op.expert_bytes)
    assert timing.seconds == pytest.approx(float(expected), rel=0.03)
    assert {name: each for name, each in made.experts.items() if name != dtype} == {
        name: each for name, each in BASE.experts.items() if name != dtype
    }


def test_experts_are_those_that_the_importer_of_aiconfigurators_tables_makes(tmp_path: Path) -> None:
    table = table_of_experts("float8-block").assign(
        touched=lambda t: np.minimum(t["tokens"] * t["per_token"], t["count"])
    )
    theirs = table.rename(columns={"tokens": "num_tokens", "hidden": "hidden_size", "width": "inter_size"})
    theirs = theirs.rename(columns={"per_token": "topk", "count": "num_experts"}).assign(
        moe_dtype="fp8_block", moe_tp_size=1, moe_ep_size=1, distribution="balanced"
    )
    fits, _ = experts.fits(theirs, "csv", BASE.device.memory_bandwidth)
    made = with_plain_csv(BASE, write(tmp_path, table), "csv")
    assert made.experts["float8-block"] == fits["experts", "float8-block"]()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8"])
def test_latent_attention_stands_beside_weights_of_every_format(tmp_path: Path, dtype: str) -> None:
    made = with_plain_csv(BASE, write(tmp_path, table_of_latent(dtype)), "csv")
    assert set(made.latent[dtype]) == {*made.gemm} == {*BASE.gemm}
    op = replace(latent_op(16, 2048, 16, dtype), projections="float8")
    timing = made.seconds(op)
    assert timing.warnings == ()
    expected = LATENT.seconds(16, 1, 16, op.streamed_bytes, op.row_flops)
    assert timing.seconds == pytest.approx(float(expected), rel=0.05)


@pytest.mark.parametrize("dtype", ["float8-block", "mxfp4", "int4"])
def test_products_in_any_format_of_weights(tmp_path: Path, dtype: str) -> None:
    def seconds(m: int, n: int, k: int) -> float:
        return 4e-6 + (2.0 * m * (n + k) + WEIGHT_BYTES[dtype] * n * k) / 3e12 + 2.0 * m * n * k / 5e14

    rng = np.random.default_rng(0)
    shapes = [[int(2 ** rng.uniform(*span)) for span in ((0, 7), (9, 14), (9, 14))] for _ in range(150)]
    rows = [("gemm", dtype, *shape, seconds(*shape)) for shape in shapes]
    table = pd.DataFrame(rows, columns=["op", "dtype", "m", "n", "k", "seconds"])
    made = with_plain_csv(BASE, write(tmp_path, table), "csv")
    timing = made.seconds(Gemm("gemm", 8, 4096, 4096, dtype))
    assert timing.seconds == pytest.approx(seconds(8, 4096, 4096), rel=0.06)
    assert made.gemm[dtype].element_bytes == WEIGHT_BYTES[dtype]


OF_EXPERTS = "op,dtype,tokens,count,per_token,hidden,width,{more}seconds\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op,dtype,seconds\nmoe,float8,1\n", "unknown op 'moe'. Allowed: gemm, experts, attention, latent_attention"),
        (
            "op,dtype,m,n,k,seconds\ngemm,fp8-block,1,1,1,1\n",
            "unknown dtype 'fp8-block' of gemm; did you mean 'float8-block'? Allowed: float32, bfloat16, float16, "
            "float8, float8-block, nvfp4, mxfp4, int4, int8",
        ),
        (
            "op,dtype,batch,context,heads,rank,rope_dim,seconds\nlatent_attention,nvfp4,1,1,1,1,1,1\n",
            "unknown dtype 'nvfp4' of latent_attention. Allowed: float32, bfloat16, float16, float8, int8",
        ),
        (
            OF_EXPERTS.format(more="") + 9 * "experts,float8,1,8.5,2,64,64,1e-5\n",
            "row 1: count must be a whole number from 1",
        ),
        (
            OF_EXPERTS.format(more="") + 5 * "experts,float8,1,8,2,64,64,1e-5\nexperts,float8,2,8,2,64,64,1e-5\n",
            "experts in float8: experts: 10 rows are too few to fit; at least 24",
        ),
        (
            OF_EXPERTS.format(more="touched,")
            + 5 * "experts,float8,1,8,2,64,64,3,1e-5\nexperts,float8,2,8,2,64,64,3,1e-5\n",
            "experts in float8: touched must be at most count, and at most tokens * per_token, in every row",
        ),
        ("op,dtype,tokens,seconds\nexperts,float8,1,1\n", "op 'experts' needs a column 'count'"),
    ],
)
def test_what_is_refused_names_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with refused(said):
        with_plain_csv(BASE, path, "csv")
