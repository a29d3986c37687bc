"""GGUF files of whole models, without their weights: what a reader of headers sees of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Tensors = Mapping[str, tuple[tuple[int, ...], int]]
Q4_K, Q6_K, Q8_0, F16, BF16, F32, MXFP4 = 12, 14, 8, 1, 30, 0, 39

LLAMA_8B = {
    "block_count": 32,
    "embedding_length": 4096,
    "feed_forward_length": 14336,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
    "context_length": 131072,
}
LLAMA_1B = LLAMA_8B | {
    "block_count": 16,
    "embedding_length": 2048,
    "feed_forward_length": 8192,
    "attention.key_length": 64,
}


def gguf(path: Path, of: Mapping[str, Any] = LLAMA_8B, kind: int = Q4_K, **other: Any) -> Path:
    """A model with all of its layers' matrices in one of ggml's types, and a vocabulary as Llama 3 has it.

    ``other`` are its ``architecture``, ``vocabulary``, whether it is ``tied``, ``tensors`` besides, its ``name``, or
    values.
    """
    architecture, tied = other.pop("architecture", "llama"), other.pop("tied", False)
    rows, more, name = other.pop("vocabulary", 128256), other.pop("tensors", {}), other.pop("name", "Some model")
    hidden, wide, heads = of["embedding_length"], of["feed_forward_length"], of["attention.head_count"]
    head_dim = of.get("attention.key_length", hidden // heads)
    shapes = {
        "attn_q": (hidden, heads * head_dim),
        "attn_k": (hidden, of["attention.head_count_kv"] * head_dim),
        "attn_v": (hidden, of["attention.head_count_kv"] * head_dim),
        "attn_output": (heads * head_dim, hidden),
        "ffn_gate": (hidden, wide),
        "ffn_up": (hidden, wide),
        "ffn_down": (wide, hidden),
    }
    tensors: dict[str, tuple[tuple[int, ...], int]] = {"token_embd.weight": ((hidden, rows), Q6_K)}
    for layer in range(of["block_count"]):
        tensors |= {f"blk.{layer}.{part}.weight": (shape, kind) for part, shape in shapes.items()}
        tensors[f"blk.{layer}.attn_norm.weight"] = (hidden,), F32
    tensors |= {} if tied else {"output.weight": ((hidden, rows), Q6_K)}
    values = {"general.architecture": architecture, "general.name": name}
    values |= {f"{architecture}.{key}": value for key, value in of.items()} | other
    values["tokenizer.ggml.tokens"] = [f"token {n}" for n in range(100)]
    path.write_bytes(written(values, tensors | more))
    return path


def written(values: Mapping[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """The bytes of a header."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(values))]
    parts += [_text(key) + _value(value) for key, value in values.items()]
    for name, (shape, kind) in tensors.items():
        parts += [_text(name), struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case _ if value and isinstance(value[0], int):
            return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
        case _:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
