"""Read the header of a GGUF file, llama.cpp's: the shape of its model and the formats of its weights, not the weights.

The format: ggml's docs/gguf.md, versions 2 and 3. Everything in it is data, and as long as the file says only where the
file is as long.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ssdsim.base.documents import check_regular
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.config_values import ConfigValues
from ssdsim.transformer.huggingface import card_of

SUFFIX = ".gguf"
MOST_BYTES = 64 << 20
"""Of a header; a vocabulary of 262,144 tokens with its merges takes 16 MB."""

BITS = {"int4": 4.8, "int8": 8.5, "bfloat16": 16.0}
"""Of a weight in files that stand for a format: Q4_K_M, Q8_0; between the two are files of 5 and 6 bits."""
_OFF = 1.15
"""Times as many bits, or as few, with which a file's weights are called by another format."""

_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9
_MOST_KEYS, _MOST_TENSORS, _MOST_DIMENSIONS, _MOST_LISTED = 65_536, 1_000_000, 8, 65_536

_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""ggml's types of weights by their numbers: a name, and how many weights are in how many bytes."""
_SAME = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "MXFP4": "mxfp4", "NVFP4": "nvfp4"}

_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
}
"""Keys of a Hugging Face config, and of a GGUF after the architecture's name."""
_FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}
"""Architectures whose headers say all of a model's shape, with the ``model_type`` of a config that says it."""


def nearest_format(bits: float) -> str:
    """The format whose files have about so many bits a weight."""
    return min(BITS, key=lambda kept: abs(math.log(BITS[kept] / bits)))


class GgufHeader(Record):
    """The ``values`` by key, of lists up to some length (of others None), and ``tensors``: shape and type by name."""

    file: Path
    values: Mapping[str, Any]
    tensors: Mapping[str, tuple[tuple[int, ...], int]]

    @property
    def architecture(self) -> str:
        return self._text("general.architecture")

    @property
    def names(self) -> tuple[str, ...]:
        """What the model may be called: by its file, and by itself."""
        of_file = re.sub(r"-\d{5}-of-\d{5}$", "", self.file.name.removesuffix(SUFFIX))
        return of_file, self._text("general.name").replace(" ", "-")

    @cached_property
    def _weights(self) -> Counter[str]:
        """Weights of the layers' matrices by ggml's type."""
        counted: Counter[str] = Counter()
        for name, (shape, kind) in self.tensors.items():
            if name.startswith("blk.") and len(shape) > 1:
                counted[self._type(name, kind)[0]] += math.prod(shape)
        if not counted.total():
            raise InputError(f"{self.file}: no layers in it (a part of a model, or none)")
        return counted

    def _type(self, name: str, kind: int) -> tuple[str, int, int]:
        if kind not in _TYPES:
            raise InputError(f"{self.file}: {short_repr(name)} is of ggml's type {kind}, which is not known")
        return _TYPES[kind]

    @property
    def bits(self) -> float:
        """Bits a weight of the layers."""
        by_name = {name: 8.0 * size / weights for name, weights, size in _TYPES.values()}
        return sum(by_name[name] * count for name, count in self._weights.items()) / self._weights.total()

    @property
    def format(self) -> str:
        """The format in which most weights of the layers are, or the nearest one by their bits."""
        return _SAME.get(self._weights.most_common(1)[0][0]) or nearest_format(self.bits)

    @property
    def off(self) -> str | None:
        """What its weights are where no format is about as large, in words; None where :attr:`format` is."""
        stands_for = BITS.get(self.format, self.bits)
        if 1.0 / _OFF <= self.bits / stands_for <= _OFF:
            return None
        return f"{self._weights.most_common(1)[0][0]}, {self.bits:.1f} bits a weight"

    def is_of(self, card: Transformer) -> bool:
        """Tell whether it has the layers of a card, by their number, their width and the vocabulary."""
        layers = self._number("block_count") - (self._number("nextn_predict_layers") or 0)
        rows = self._embedding[1]
        same = (card.hidden_size, card.layers) == (self._number("embedding_length"), layers)
        return same and 0 <= card.vocab_size - rows <= 0.02 * rows  # where a card's is padded

    @property
    def card(self) -> Transformer:
        """The card of a model whose header says all of its shape.

        Raises
        ------
        InputError : it is of another architecture, or a value is missing or wrong.
        """
        model_type = _FAMILIES.get(self.architecture)
        if model_type is None:
            known = f"known without one are {', '.join(_FAMILIES)}"
            ways = "give the model's card or config.json, and its format by --dtype"
            raise InputError(f"{self.file}: no card is called so; its architecture is {self._said}, {known}: {ways}")
        if model_type == "llama" and self._number("expert_count"):
            model_type = "mixtral"
        values = {key: self.values.get(f"{self.architecture}.{own}") for key, own in _KEYS.items()}
        kept = {key: value for key, value in values.items() if value is not None}
        said = {
            "model_type": model_type,
            "vocab_size": self._embedding[1],
            "tie_word_embeddings": "output.weight" not in self.tensors,
            "_name_or_path": self.names[0],
        }
        made = card_of(ConfigValues(self.file, {**kept, **said}))
        return made.changed(source=f"header of {self.file.name}")

    @property
    def _said(self) -> str:
        return short_repr(self.architecture) if self.architecture else "not said"

    @property
    def _embedding(self) -> tuple[int, ...]:
        shape, _ = self.tensors.get("token_embd.weight", ((), 0))
        if len(shape) != 2:
            raise InputError(f"{self.file}: no embeddings in it (token_embd.weight): a part of a model, or none")
        return shape

    def _number(self, key: str) -> int:
        found = self.values.get(f"{self.architecture}.{key}")
        return found if isinstance(found, int) else 0

    def _text(self, key: str) -> str:
        found = self.values.get(key)
        return found if isinstance(found, str) else ""


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file.

    Raises
    ------
    InputError : it is none, cut short, or larger than :data:`MOST_BYTES`.
    """
    return _Bytes(path).header()


def header_bytes(path: Path) -> bytes:
    """The bytes of the header alone, which are a file that :func:`read_header` takes."""
    read = _Bytes(path)
    read.header()
    return read.data[: read.at]


class _Bytes:
    """The first bytes of a file, and where reading is in them."""

    def __init__(self, path: Path) -> None:
        check_regular(path, "GGUF file")
        try:
            with path.open("rb") as file:
                self.data = file.read(MOST_BYTES)
        except OSError as error:
            raise InputError(f"{path}: not a readable GGUF file ({error})") from None
        self.path, self.at = path, 0

    def header(self) -> GgufHeader:
        if self.take(4) != b"GGUF":
            raise InputError(f"{self.path}: not a GGUF file")
        if (version := self.number("I")) not in (2, 3):
            raise InputError(f"{self.path}: a GGUF file of version {version}; 2 and 3 are read")
        tensors, keys = self.count(_MOST_TENSORS), self.count(_MOST_KEYS)
        values = {self.text(): self.value(self.number("I")) for _ in range(keys)}
        return GgufHeader(self.path, values, dict(self.tensor() for _ in range(tensors)))

    def tensor(self) -> tuple[str, tuple[tuple[int, ...], int]]:
        name, dimensions = self.text(), self.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise self.wrong(f"a tensor of {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        kind = self.number("I")
        self.take(8)  # where it begins
        return name, (shape, kind)

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            raise self.wrong(f"a value of the type {kind}")
        inside, count = self.number("I"), self.number("Q")
        if inside == _TEXT:
            return self.skip_texts(count)
        if inside not in _NUMBERS:
            raise self.wrong(f"a list of the type {inside}")
        form = _NUMBERS[inside]
        taken = self.take(count * struct.calcsize(form))
        return list(struct.unpack(f"<{count}{form}", taken)) if count <= _MOST_LISTED else None

    def skip_texts(self, count: int) -> None:
        """Go past a vocabulary, which is long."""
        data, at, size = self.data, self.at, len(self.data)
        for _ in range(count):
            at += 8 + int.from_bytes(data[at : at + 8], "little")
            if at > size:
                raise self.cut()
        self.at = at

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def count(self, most: int) -> int:
        found: int = self.number("Q")
        if found > most:
            raise self.wrong(f"{found} entries, more than {most}")
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise self.cut()
        self.at += size
        return taken

    def cut(self) -> InputError:
        return self.wrong(f"a header that is cut short, or of more than {MOST_BYTES >> 20} MiB")

    def wrong(self, what: str) -> InputError:
        return InputError(f"{self.path}: not a GGUF file that can be read ({what})")
