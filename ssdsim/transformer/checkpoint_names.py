"""What the name of a checkpoint says beside its model: whose it is, its tuning, its date, the format of its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ssdsim.base.record import Record
from ssdsim.transformer.card import Transformer, Weights
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.precision import KvDType

_FP8 = "fp8"
_GGUF = {r"i?q4(?:-(?:[01klms]|x[lsx]+|nl))*": "int4", r"q8(?:-(?:[0k]|xl))+": "int8"}
"""llama.cpp's formats, whose files keep the output matrix in about 8 bits (Q6_K or Q8_0), not in 16."""
_ENDINGS = {
    **dict.fromkeys(
        ("instruct", "chat", "base", "it", "hf", "thinking", "quantized", "gguf", "terminus", r"\d{4}"), ""
    ),
    **dict.fromkeys(("fp8-block", "float8-block", "mxfp8"), "float8-block"),
    **dict.fromkeys(("fp8-dynamic", "fp8-kv", "float8"), "float8"),
    "fp8": _FP8,
    **dict.fromkeys(("awq", "gptq", "int4", "w4a16"), "int4"),
    **dict.fromkeys(("int8", "w8a8", "w8a16"), "int8"),
    **{rf"(?:ud-)?{quantised}": kept for quantised, kept in _GGUF.items()},
    **dict.fromkeys(("nvfp4", "nvfp4-v2", "fp4"), "nvfp4"),
    "mxfp4": "mxfp4",
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "float16", "f16"), "float16"),
    **dict.fromkeys(("fp32", "float32", "f32"), "float32"),
}
"""Endings of names, with the format that each says; none of them changes a model's shape."""

_SAME_SHAPE = {"deepseek-v3.1": "deepseek-v3", "qwen3.8-27b": "qwen3.5-27b"}
_SCALES_OF_MATRICES = ("nvidia", "redhatai", "neuralmagic", "amd", "meta-llama")
"""Whose FP8 has a scale a matrix or a row, whatever the model's makers do."""


_EXPERTS = Weights(experts="nvfp4")
_BESIDE_BLOCKS = Weights(attention="float8-block", mlp="float8-block", experts="nvfp4")
_BLOCKS = Weights(attention="float8-block", mlp="float8-block", experts="float8-block")
_ALL_NVFP4 = Weights(attention="nvfp4", mlp="nvfp4")
OF_CONFIGS: Mapping[str, tuple[Weights, KvDType | None]] = {
    "nvidia/deepseek-v3.2-nvfp4": (Weights(attention_out="nvfp4", mlp="nvfp4", experts="nvfp4"), "float8"),
    **dict.fromkeys(("nvidia/deepseek-v4-flash-nvfp4", "nvidia/deepseek-v4-pro-nvfp4"), (_BESIDE_BLOCKS, "float8")),
    **dict.fromkeys(("nvidia/glm-5.2-nvfp4", "nvidia/qwen3.5-397b-a17b-nvfp4"), (_EXPERTS, "float8")),
    "nvidia/llama-3.1-70b-instruct-fp8": (Weights(attention="float8", mlp="float8"), "float8"),
    "nvidia/minimax-m2.5-nvfp4": (Weights(mlp="nvfp4", experts="nvfp4"), "float8"),
    "nvidia/minimax-m3-nvfp4": (_BESIDE_BLOCKS, None),
    "nvidia/qwen3-235b-a22b-nvfp4": (_ALL_NVFP4, "float8"),
    **dict.fromkeys(("sgl-project/deepseek-v4-flash-fp8", "sgl-project/deepseek-v4-pro-fp8"), (_BLOCKS, "float8")),
    "zai-org/glm-5.2": (Weights(), None),
}
"""Formats of weights and cache that the configs of checkpoints say where their names do not tell all of it."""


class CheckpointName(Record):
    """``model`` as cards are named, the ``owner`` before it and the format that its endings ``said``, empty if none.

    ``in_gguf``: it is one of llama.cpp's.
    """

    model: str
    owner: str
    said: str
    in_gguf: bool = False

    @classmethod
    def of(cls, name: str) -> CheckpointName:
        """Read ``nvidia/Llama-3.3-70B-Instruct-FP8`` as llama-3.3-70b, of nvidia, in FP8."""
        owner, _, model = name.lower().replace("_", "-").rpartition("/")
        model, said, in_gguf = model.removeprefix("meta-"), "", False
        while ending := next(
            ((m[1], kept) for each, kept in _ENDINGS.items() if (m := re.fullmatch(rf"(.+)[-.]{each}", model))), None
        ):
            in_gguf |= any(re.fullmatch(rf".+[-.]{each}", model) for each in _GGUF)
            model, said = ending[0], said or ending[1]
        return cls(_SAME_SHAPE.get(model, model), owner, said, in_gguf)

    def format_of(self, card: Transformer) -> str | None:
        """The format of the weights that it says; None where it says none, or one that the card has already."""
        own = card.precision().formats
        said = self.said
        if said == _FP8:
            makers = self.owner not in _SCALES_OF_MATRICES
            said = "float8-block" if makers and (card.family.startswith("qwen") or "float8-block" in own) else "float8"
        if said in DTYPES:
            return None if own == (said,) else said
        return None if not said or said in own else said


@lru_cache(maxsize=256)
def kept_in(card: Transformer, kept: str | None, in_gguf: bool = False) -> Transformer:
    """The model in a checkpoint whose blocks' weights are of another format, or all of it of a plain one."""
    if kept is None:
        return card
    if kept in DTYPES:
        return card.changed(dtype=kept, weights=Weights(), kv_dtype=None, checkpoint="")
    dtype = "bfloat16" if card.dtype == "float32" else card.dtype
    head = "int8" if in_gguf else None
    return card.changed(dtype=dtype, weights=Weights(attention=kept, mlp=kept, lm_head=head), checkpoint="")  # type: ignore[arg-type]
