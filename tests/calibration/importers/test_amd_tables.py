"""What docs/fidelity_amd.py reads of aiter's tables: the fastest kernel of a shape on one GPU, in columns of a CSV."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from fidelity_amd import enough, streamed, streamed_experts, tuned_experts, tuned_gemms

GEMMS = """file,gfx,cu_num,type,dtype,B,M,N,K,us,bw_gbs,tflops,lib
a.csv,gfx950,256,a8w8-block,,,1,2112,7168,20.0,,,
b.csv,gfx950,256,a8w8-block,,,1,2112,7168,18.5,,,
a.csv,gfx950,256,a4w4,,,1,512,4096,5.4,,,
a.csv,gfx950,256,bf16,torch.bfloat16,,8,512,4096,0.1,,,
a.csv,gfx950,256,bf16,torch.bfloat16,,8,8192,4096,20.0,,,
a.csv,gfx950,256,a8w8,torch.float8_e4m3fn,4,1,512,4096,5.0,,,
a.csv,gfx942,304,a8w8-block,,,1,2112,7168,25.0,,,
a.csv,gfx942,80,a8w8-block,,,1,2112,7168,90.0,,,
a.csv,gfx950,256,a8w8-block,,,2,2112,7168,0,,,
"""
FUSED = """file,gfx,cu_num,q_dtype_a,q_dtype_w,q_type,tokens,model_dim,inter_dim,experts,topk,us,bw_gbs
a.csv,,256,torch.float8_e4m3fn,torch.float8_e4m3fn,QuantType.per_1x128,16,7168,256,257,9,112.7,
b.csv,gfx950,256,torch.float8_e4m3fn,torch.float8_e4m3fn,QuantType.per_1x128,16,7168,256,257,9,120.0,
a.csv,,256,torch.float8_e4m3fn,torch.float8_e4m3fn,QuantType.per_1x128,1,7168,256,257,9,77.5,
a.csv,,256,torch.float8_e4m3fn,torch.float8_e4m3fn,QuantType.per_1x128,2,7168,256,257,9,77.5,
a.csv,gfx950,256,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32,8,7168,256,256,8,45.5,
a.csv,gfx950,256,torch.bfloat16,torch.float4_e2m1fn_x2,QuantType.per_1x32,8,7168,256,256,8,30.5,
a.csv,gfx1250,256,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32,8,7168,256,256,8,10.5,
a.csv,gfx942,304,torch.float8_e4m3fnuz,torch.float8_e4m3fnuz,QuantType.per_1x128,8,6144,2048,32,8,84.0,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pd.read_csv(StringIO(GEMMS)).to_csv(tmp_path / "aiter_gemm_us.csv.gz", index=False)
    (tmp_path / "aiter_fmoe_us.csv").write_text(FUSED)
    return tmp_path


def test_products_are_of_one_gpu_and_its_fastest_kernel(folder: Path) -> None:
    gemms = tuned_gemms(folder, "mi355x")
    of_blocks = gemms[gemms["dtype"] == "float8-block"]
    assert of_blocks[["m", "n", "k", "seconds"]].to_numpy().tolist() == [[1, 2112, 7168, pytest.approx(18.5e-6)]]
    assert set(gemms["dtype"]) == {"float8-block", "mxfp4", "bfloat16"}  # a batch of products is no product
    assert tuned_gemms(folder, "mi300x")["seconds"].tolist() == [pytest.approx(25e-6)]


def test_what_came_from_a_cache_is_left_out(folder: Path) -> None:
    gemms = streamed(tuned_gemms(folder, "mi355x"), 8e12)
    assert gemms.loc[gemms["dtype"] == "bfloat16", "n"].tolist() == [8192]
    assert len(gemms) == 3


def test_mixtures_without_copied_times_and_in_the_formats_that_there_are(folder: Path) -> None:
    experts = tuned_experts(folder, "mi355x")
    assert dict(zip(experts["dtype"], 1e6 * experts["seconds"], strict=True)) == pytest.approx(
        {"float8-block": 112.7, "mxfp4": 45.5}
    )
    assert tuned_experts(folder, "mi300x")[["tokens", "count", "per_token", "hidden", "width"]].to_numpy().tolist() == [
        [8, 32, 8, 6144, 2048]
    ]
    assert len(streamed_experts(experts, 8e12)) == 2
    assert len(streamed_experts(experts, 4e12)) == 1
    assert enough(experts, 2).empty
