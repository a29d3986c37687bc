"""Sparse attention of DeepSeek-V3.2 and GLM-5: configs, weights, caches, and the operations of a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import eagle3_head, mtp_head
from ssdsim.transformer.huggingface import load_config
from ssdsim.transformer.operations import Gemm, LatentAttention
from ssdsim.transformer.prefill import Chunk, mixed_pass, prefill_pass
from ssdsim.transformer.sparse import Indexer, PrefillSparse, SparseAttention, over_prompts
from tests.refusals import refused
from tests.ssdsim.transformer.test_families import DEEPSEEK_V3

V32: dict[str, Any] = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32", "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048,
}  # fmt: skip
GLM_52: dict[str, Any] = V32 | {
    "model_type": "glm_moe_dsa", "hidden_size": 6144, "num_hidden_layers": 78, "num_attention_heads": 64,
    "num_key_value_heads": 64, "intermediate_size": 12288, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
    "v_head_dim": 256, "index_n_heads": 32, "index_topk_freq": 4, "index_skip_topk_offset": 3, "vocab_size": 154880,
    "max_position_embeddings": 1048576,
}  # fmt: skip
OWN = [n for n in range(78) if n < 3 or (n - 2) % 4 == 0]


def read(config: dict[str, Any], folder: Path) -> Transformer:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return load_config(path)


def test_models_have_the_weights_that_are_published(tmp_path: Path) -> None:
    v32, glm = read(V32, tmp_path), read(GLM_52, tmp_path)
    dense = read(DEEPSEEK_V3, tmp_path)
    each = 1536 * 64 * 128 + 7168 * (128 + 64)
    assert v32.parameters - dense.parameters == 61 * each
    assert v32.parameters / 1e9 == pytest.approx(671 + 0.85, rel=0.005)
    assert glm.parameters / 1e9 == pytest.approx(744, rel=0.005)
    own = v32.weight_bytes(8, "bfloat16") - v32.weight_bytes(1, "bfloat16") // 8
    without = dense.weight_bytes(8, "bfloat16") - dense.weight_bytes(1, "bfloat16") // 8
    assert own - without == pytest.approx(7 / 8 * 2 * 61 * each, rel=1e-6)  # every device has all indexers


def test_layers_may_take_what_another_one_chose(tmp_path: Path) -> None:
    types = ["full" if n in OWN else "shared" for n in range(78)]
    told, listed = read(GLM_52, tmp_path), read(GLM_52 | {"indexer_types": types}, tmp_path)
    assert told.sparse is not None
    assert told.sparse.layers == len(OWN) == 21
    assert listed == told
    work = forward_pass(told, batch=2, queries=3, context=10_000, tp=8)
    assert work.those(Indexer) == [(Indexer("indexer", 2, 3, 10_000, 32, 128, 2048, "bfloat16"), 21)]
    assert [times for _, times in work.those(SparseAttention)] == [21, 57]
    assert {name: times for op, times in work.those(Gemm) if (name := op.name).startswith("index")} == {
        "index_queries": 21,
        "index_keys": 21,
    }
    assert not work.those(LatentAttention)
    with refused("layers of the type 'other'"):
        read(GLM_52 | {"indexer_types": ["other"] * 78}, tmp_path)


def test_a_token_takes_a_latent_and_index_keys() -> None:
    v32, glm = map(find_transformer, ("deepseek-v3.2", "glm-5.2"))
    for card, keys in ((v32, 61), (glm, 21)):
        assert card.kv_bytes_per_token(8) == card.kv_bytes_per_token() == card.layers * 576 * 2 + keys * 132
        assert card.kv_bytes_per_token(dtype="float8") == card.layers * 656 + keys * 132
        assert card.cache_bytes(1000) == 1000 * card.kv_bytes_per_token()


def test_heads_that_draft_keep_the_attention_of_mtp_alone() -> None:
    glm = find_transformer("glm-5.2")
    mtp = mtp_head(glm)
    assert mtp.sparse is not None
    assert mtp.sparse.layers == 1
    assert eagle3_head(glm).sparse is None
    assert forward_pass(mtp, batch=1, context=4096).those(Indexer)


def test_sparse_attention_needs_a_latent_cache_and_layers_for_its_indexers() -> None:
    card = find_transformer("deepseek-v3.2")
    assert card.sparse is not None
    for changes in ({"latent": None}, {"sparse": card.sparse.changed(layers=62)}):
        with pytest.raises(ValueError, match="sparse"):
            card.changed(**changes).__post_init__()


@given(tokens=st.integers(1, 600), prefix=st.integers(0, 600), chosen=st.integers(1, 600))
def test_a_prompt_sees_what_each_of_its_tokens_may_see(tokens: int, prefix: int, chosen: int) -> None:
    op = SparseAttention("sparse_attention", 1, 1, 600, chosen, 8, 512, 64, "bfloat16")
    assert over_prompts(op, tokens, prefix).pairs == sum(min(chosen, prefix + n + 1) for n in range(tokens))
    of_all = over_prompts(Indexer("indexer", 1, 1, 600, 64, 128, chosen, "bfloat16"), tokens, prefix)
    assert of_all.pairs == sum(prefix + n + 1 for n in range(tokens))


def test_prompts_are_scored_and_attended_to_in_their_own_operations() -> None:
    card = find_transformer("glm-5.2")
    work = prefill_pass(card, batch=2, tokens=8192)
    assert work.over_prompts
    assert {(op.name, times) for op, times in work.those(PrefillSparse)} == {
        ("indexer", 21), ("sparse_attention", 21), ("sparse_attention", 57),
    }  # fmt: skip
    both = mixed_pass(card, (Chunk(512, 1024),), batch=4, queries=2, context=100)
    assert {(op.batch, op.queries) for op, _ in both.those(Indexer)} == {(4, 2)}
    assert {(op.tokens, op.prefix, op.most) for op, _ in both.those(PrefillSparse)} == {
        (512, 1024, 1536), (512, 1024, 2048),
    }  # fmt: skip
