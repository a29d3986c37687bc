"""Engines on V100s against what the bundled profile's kernels take: the table of docs/profiles.md.

Run: ``python benchmarks/v100_engines.py attention_and_engines.csv``. No engine there has a runtime card, so kernels are
priced alone, and what an engine adds shows as a prediction below what was measured. A PCIe card is priced as the SXM2
one (the same memory, a clock a tenth lower). Rows that a card cannot carry are counted with the reason.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.transformer.card import Transformer, Weights
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.layers import Experts, Latent, SlidingWindow
from ssdsim.transformer.operations import PrefillAttention
from ssdsim.transformer.prefill import prefill_pass

PROFILE = find_hardware("v100-sxm2-32gb")
FORMATS = {"FP16": "float16", "FP32": "float32"}
PROMPT = 512  # tokens of llama-bench's pp512: the cache holds half of them on average
SENTENCE = 25  # tokens of a translated sentence and of its source, about; no figure here moves with it


class Timed(NamedTuple):
    """What a row says a pass took, and the pass."""

    what: str
    seconds: float
    kernels: float


def _card(name: str, **shape: object) -> Transformer:
    return Transformer(**{"name": name, "source": "its config", "max_context": 1 << 17, **shape})


def _decoder(dtype: str) -> Transformer:
    """FasterTransformer's translation decoder without its attention to the encoder."""
    return _card(
        "translation decoder", architecture="llama", hidden_size=512, layers=6, heads=8, kv_heads=8, head_dim=64,
        intermediate_size=2048, vocab_size=32001, gated_mlp=False, dtype=dtype,
    )  # fmt: skip


def _bert(dtype: str) -> Transformer:
    return _card(
        "bert-base", architecture="llama", hidden_size=768, layers=12, heads=12, kv_heads=12, head_dim=64,
        intermediate_size=3072, vocab_size=30522, gated_mlp=False, dtype=dtype,
    )  # fmt: skip


def _deepseek_v2_lite() -> Transformer:
    return _card(
        "deepseek-v2-lite", architecture="deepseek_v2", hidden_size=2048, layers=27, heads=16, kv_heads=16,
        head_dim=128, intermediate_size=10944, vocab_size=102400, dtype="float16",
        experts=Experts(count=64, per_token=6, width=1408, layers=26, shared_width=2816),
        latent=Latent(rank=512, rope_dim=64, nope_dim=128, value_dim=128),
    )  # fmt: skip


def _gpt_oss_20b() -> Transformer:
    return _card(
        "gpt-oss-20b", architecture="gpt_oss", hidden_size=2880, layers=24, heads=64, kv_heads=8, head_dim=64,
        intermediate_size=2880, vocab_size=201088, dtype="float16", weights=Weights(experts="mxfp4"),
        experts=Experts(count=32, per_token=4, width=2880, layers=24), window=SlidingWindow(tokens=128, layers=12),
    )  # fmt: skip


def _seconds(forward: ForwardPass) -> float:
    return cost_of_pass(forward, PROFILE).seconds


def _to_encoder_s(forward: ForwardPass) -> float:
    """Seconds of a layer's attention to the encoder, over a source as long as what is translated of it.

    Norm, query, attention and projection are of the shapes of those that a layer has for its own tokens; keys and
    values are made once a sentence.
    """
    norm, attention, projection = (
        next(op for op in forward.layer if op.name == name) for name in ("input_norm", "attention", "attention_out")
    )
    return sum(PROFILE.seconds(op).seconds for op in (norm, projection, attention, projection))


def _translation(row: pd.Series) -> Timed:
    dtype, batch = FORMATS[row["dtype"]], int(row.batch)
    forward = forward_pass(_decoder(dtype), batch=batch, context=SENTENCE)
    kernels = _seconds(forward) + forward.layers * _to_encoder_s(forward)
    return Timed(f"translation decoder {dtype}, batch {batch}", batch / row.value, kernels)


def _encoder(row: pd.Series) -> Timed:
    tokens, dtype, batch = int(row.notes.removeprefix("Seq_len ")), FORMATS[row["dtype"]], int(row.batch)
    forward = prefill_pass(_bert(dtype), batch=batch, tokens=tokens)
    both_ways = [op for op in forward.layer if isinstance(op, PrefillAttention)]  # a decoder's tokens look back alone
    kernels = forward.layers * sum(PROFILE.seconds(op).seconds for op in (*forward.layer, *both_ways))
    return Timed(f"BERT-base {dtype}, {batch} x {tokens} tokens", row.value / 1e3, kernels)


def _llama(row: pd.Series) -> Timed:
    context = int(row.input_len) + int(row.output_len) // 2
    forward = forward_pass(find_transformer("llama-2-7b"), batch=1, context=context, dtype="float16")
    return Timed("OpenLLaMA-7B float16, a token", row.value / 1e3, _seconds(forward))


def _gpt_oss(row: pd.Series) -> Timed:
    context = max(1, int(row.input_len) + int(row.output_len) // 2)
    forward = forward_pass(_gpt_oss_20b(), batch=1, context=context)
    return Timed(f"gpt-oss-20b mxfp4, a token after {row.input_len}", 1.0 / row.value, _seconds(forward))


def _microbatch(row: pd.Series) -> Timed:
    tokens = int(row.batch)
    forward = forward_pass(_deepseek_v2_lite(), batch=1, queries=tokens, context=PROMPT // 2)
    return Timed(f"DeepSeek-V2-Lite float16, {tokens} of one sequence", tokens / row.value, _seconds(forward))


def _reader(row: pd.Series) -> Callable[[pd.Series], Timed] | str:
    """What prices a row, or why nothing does."""
    said, engine = row.source + row.model, row.engine
    if engine not in ("FT", "FT Decoding", "llama.cpp"):
        return "an engine that waits for Python, a fork's own kernels, a part of an engine, or a peer beside FT"
    priced = {"bert_guide": _encoder, "OpenLLaMA": _llama, "gpt-oss-20b": _gpt_oss, "PR 16843": _microbatch}
    for name, read in priced.items():
        if name in said:
            return read
    if "decoder_guide" in said:
        return _translation if row.notes == "Topk/Topp 4" else "beams, and sampling by p, whose kernels nobody timed"
    if "t5_guide" in said:
        return "T5 by beams, whose kernels nobody timed"
    return "weights of four bits and fewer in a layout that no card has, or layers that no card has"


def timed(path: Path) -> Iterator[tuple[str, Timed | str]]:
    """Each row's engine and what was priced of it, or why not."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    for _, row in rows.assign(value=rows["value"].astype(float)).iterrows():
        read = _reader(row)
        yield row.engine, read if isinstance(read, str) else read(row)


def main(path: Path) -> None:
    left_out: Counter[str] = Counter()
    print("| engine | pass | measured | kernels | error |\n|---|---|---|---|---|")
    for engine, found in timed(path):
        if isinstance(found, str):
            left_out[found] += 1
            continue
        error = found.kernels / found.seconds - 1
        print(
            f"| {engine} | {found.what} | {1e3 * found.seconds:.3g} ms | {1e3 * found.kernels:.3g} ms | {error:+.0%} |"
        )
    for why, count in left_out.items():
        print(f"\n{count} rows are not priced: {why}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
