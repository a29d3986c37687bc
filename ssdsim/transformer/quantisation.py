"""Quantisation as a Hugging Face checkpoint states it, by the names that the matrices of each part have there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeGuard

from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record, replace
from ssdsim.transformer.families import MOST_LAYERS

_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkv")
_LATENT_ATTENTION = ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


def modules_of(card: dict[str, Any], kinds: list[str] | None = None) -> dict[str, list[str]]:
    """Names of the modules of each part of the fields of a card, as checkpoints have them (an expert for all).

    ``kinds``: of each layer in order, where a model has several
    (:attr:`ssdsim.transformer.families.Family.kinds`).
    """
    by_part = _of_kinds(card, kinds or ["attention"] * min(card["layers"], MOST_LAYERS))
    return {part: names for part, names in by_part.items() if names}


def mtp_places(layers: int) -> tuple[str, str]:
    """Places that the first MTP layer may have: in a folder of its own, or after the last of so many layers."""
    return "mtp.layers.0", f"model.layers.{layers}"


class _Places(Record):
    """The places where a family has its parts: the layers' folder, and what comes after a layer's number."""

    folder: str
    attention: tuple[str, ...]
    attention_out: str
    recurrent: tuple[str, ...]
    dense: str
    shared: str
    experts: str
    mlp: tuple[str, ...] = _MLP


_USUAL = _Places(
    "model.layers", _ATTENTION, "self_attn.o_proj", (), "mlp", "mlp.shared_experts", "mlp.experts.0.gate_proj"
)
_QWEN = replace(
    _USUAL,
    recurrent=("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"),
    shared="mlp.shared_expert",
)
_BLOCK_SPARSE = replace(_USUAL, experts="block_sparse_moe.experts.0.gate_proj")
_PLACES = {
    "gemma4": replace(_USUAL, experts="experts.0.gate_proj"),
    "qwen2_moe": replace(_USUAL, shared="mlp.shared_expert"),
    "llama4": replace(_USUAL, shared="feed_forward.shared_expert", experts="feed_forward.experts.0.gate_proj"),
    **dict.fromkeys(("mixtral", "minimax_m2"), _BLOCK_SPARSE),
    "minimax_m3": replace(_USUAL, shared="block_sparse_moe.shared_experts", experts="block_sparse_moe.experts.0.w1"),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2"),
        replace(_USUAL, attention=_LATENT_ATTENTION),
    ),
    "deepseek_v4": replace(
        _USUAL,
        folder="layers",
        attention=("attn.wq_a", "attn.wq_b", "attn.wkv"),
        attention_out="attn.wo_b",
        shared="ffn.shared_experts",
        experts="ffn.experts",
        mlp=("w1", "w2", "w3"),
    ),
    "qwen3_5": _QWEN,
    "qwen3_next": replace(_QWEN, recurrent=("linear_attn.in_proj_qkvz", "linear_attn.out_proj")),
    "kimi_linear": replace(
        _USUAL,
        attention=_LATENT_ATTENTION,
        recurrent=(*_ATTENTION, "self_attn.o_proj"),
        shared="block_sparse_moe.shared_experts",
        experts="block_sparse_moe.experts.0.w1",
    ),
    "nemotron_h": _Places(
        "backbone.layers",
        tuple(f"mixer.{name}_proj" for name in "qkv"),
        "mixer.o_proj",
        ("mixer.in_proj", "mixer.out_proj"),
        "mixer",
        "mixer.shared_experts",
        "mixer.experts.0.up_proj",
        ("up_proj", "down_proj"),
    ),
}


def _of_kinds(card: dict[str, Any], kinds: list[str]) -> dict[str, list[str]]:
    """Names of each part of a model with layers of these kinds; a mixer may have a feed-forward after it."""
    names, experts = _PLACES.get(card["architecture"], _USUAL), card.get("experts")
    alone, beside = bool(card.get("mlp_alone")), bool(experts and experts.get("beside_mlp"))
    first = len(kinds) - min(len(kinds), experts["layers"]) if experts else len(kinds)
    has_experts = [kind == "experts" if alone else n >= first for n, kind in enumerate(kinds)]
    is_dense = [kind == "mlp" if alone else beside or n < first for n, kind in enumerate(kinds)]

    def of(chosen: Iterable[bool], *modules: str) -> list[str]:
        return [f"{names.folder}.{n}.{module}" for n, here in enumerate(chosen) if here for module in modules]

    shared = of(has_experts, *(f"{names.shared}.{name}" for name in names.mlp))
    return {
        "attention": of((kind == "attention" for kind in kinds), *names.attention),
        "attention_out": of((kind == "attention" for kind in kinds), names.attention_out),
        "recurrent": of((kind == "recurrent" for kind in kinds), *names.recurrent),
        "mlp": of(is_dense, *(f"{names.dense}.{name}" for name in names.mlp))
        + (shared if experts and experts["shared_width"] else []),
        "experts": of(has_experts, names.experts),
    }


Said = Mapping[str, Any]
"""An object of a checkpoint's JSON."""

METHODS = ("fp8", "compressed-tensors", "modelopt", "awq", "gptq", "mxfp4")
"""Names of ``quant_method`` that are read."""

_ALGORITHMS = {
    "FP8": "float8",
    "FP8_PER_CHANNEL_PER_TOKEN": "float8",
    "FP8_PB_WO": "float8-block",
    "FP8_PB_REAL": "float8-block",
    "MXFP8": "float8-block",  # a scale each 32 weights, by the same kernels
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A16": "int4",
    "W4A16_AWQ": "int4",
    "INT4_AWQ": "int4",
    "W8A8": "int8",
    "INT8": "int8",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "NO_QUANT": None,
}
"""ModelOpt's algorithms as formats of weights."""

_BITS = {4: "int4", 8: "int8"}
_LEFT_OUT_KEYS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
_CACHE_KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")


def quantised(
    config: Said, beside: Said, modules: Mapping[str, Sequence[str]], mtp: Sequence[str], file: Path
) -> dict[str, Any]:
    """``weights`` and ``kv_dtype`` of a card.

    Parameters
    ----------
    config : the ``quantization_config`` of a ``config.json``; empty if it has none.
    beside : the ``quantization`` of the ``hf_quant_config.json`` beside it, which completes it; empty if there is none.
    modules : names of the matrices of each part of the model. A part counts as left out only where all of it is.
    mtp : places that the first MTP layer may have; it is quantised as the layers are, or left out whole.
    file : named in refusals.

    Returns
    -------
    What differs from a plain checkpoint, as fields of :class:`ssdsim.transformer.card.Transformer`.
    """
    said = {**beside, **{key: value for key, value in config.items() if value is not None}}
    if not said:
        return {}
    cache = _cache(said, file)
    fields: dict[str, Any] = {} if cache is None else {"kv_dtype": cache}
    if said.get("quant_algo") == "MIXED_PRECISION" and _is(said.get("quantized_layers")):
        fields["weights"] = _by_layer(said, modules, file)
        inside = tuple(f"{place}." for place in mtp)
        listed = any(_of_text(name).startswith(inside) for name in said["quantized_layers"])
        fields["mtp_plain"] = not listed and _others(said) is None
    elif (kept := _format(said, file)) is not None:
        left_out = _Names(said, file)
        fields["mtp_plain"] = any(left_out.has(f"{place}.mlp.gate_proj") for place in mtp)
        weights = {part: kept for part, names in modules.items() if not left_out.whole(part, names)}
        if _names_the_head(said, left_out):
            weights["lm_head"] = kept
        fields["weights"] = weights
    return fields


def _format(said: Said, file: Path) -> str | None:
    """The format of the quantised weights; None where only the cache is."""
    algorithm = said.get("quant_algo")
    method = said.get("quant_method", "modelopt" if "quant_algo" in said or "kv_cache_quant_algo" in said else None)
    if method not in METHODS:
        hint = nearest(method, METHODS)
        raise InputError(
            f"{file}: quant_method {short_repr(method)} is not supported{hint} Allowed: {', '.join(METHODS)}"
        )
    if algorithm is not None:
        return _of_algorithm(algorithm, file)
    if method == "fp8":
        return "float8-block" if said.get("weight_block_size") else "float8"
    if method == "mxfp4":
        return "mxfp4"
    if method == "compressed-tensors" or "config_groups" in said:
        return _of_groups(said, file)
    return None if method == "modelopt" else _of_bits(said.get("bits", said.get("w_bit", 4)), file)


def _others(said: Said) -> str | None:
    """The format of what is not listed: the one of before, where a quantised model was quantised again in parts."""
    return "float8-block" if said.get("quant_method") == "fp8" and said.get("weight_block_size") else None


def _by_layer(said: Said, modules: Mapping[str, Sequence[str]], file: Path) -> dict[str, str]:
    """Formats of parts whose modules are listed one by one; one that is not listed is as it was before."""
    listed = {_of_text(name): algorithm for name, algorithm in said["quantized_layers"].items()}

    def format_of(name: str) -> str | None:
        scheme = listed.get(name)
        if not _is(scheme):
            return None if name == "lm_head" else _others(said)
        return _of_algorithm(scheme.get("quant_algo"), file)

    by_part = {}
    for part, names in {**modules, "lm_head": ["lm_head"]}.items():
        formats = {format_of(name) for name in names}
        if len(formats) > 1:
            among = ", ".join(sorted(each or "16 bits" for each in formats))
            raise InputError(
                f"{file}: matrices of the {part} are of several formats ({among}); one a part is supported"
            )
        kept = formats.pop()
        if kept is not None:
            by_part[part] = kept
    return by_part


def _of_algorithm(algorithm: Any, file: Path) -> str | None:
    if not isinstance(algorithm, str) or algorithm.upper() not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        raise InputError(f"{file}: quant_algo {short_repr(algorithm)} is not supported; allowed: {known}")
    return _ALGORITHMS[algorithm.upper()]


def _of_bits(bits: Any, file: Path) -> str:
    if not isinstance(bits, int) or bits not in _BITS:
        raise InputError(f"{file}: weights of {short_repr(bits)} bits are not supported; allowed: 4, 8")
    return _BITS[bits]


def _of_groups(said: Said, file: Path) -> str:
    """Compressed-tensors describes groups of layers, which must be alike here."""
    groups = said.get("config_groups")
    weights = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)] if _is(groups) else []
    formats = {_of_scheme(each, said.get("format"), file) for each in weights if _is(each)}
    if len(formats) != 1:
        among = f", got {', '.join(sorted(formats))}" if formats else ""
        raise InputError(f"{file}: config_groups must hold one scheme of weights{among}")
    return formats.pop()


def _of_scheme(scheme: Said, stored: Any, file: Path) -> str:
    bits, kind, group = scheme.get("num_bits"), scheme.get("type", "int"), scheme.get("group_size")
    if (bits, kind) == (8, "float"):
        return "float8-block" if scheme.get("strategy") == "block" or scheme.get("block_structure") else "float8"
    if (bits, kind) == (4, "float"):
        return "mxfp4" if group == 32 or "mxfp4" in str(stored) else "nvfp4"
    if kind == "int":
        return _of_bits(bits, file)
    raise InputError(
        f"{file}: weights of {short_repr(bits)} bits of type {short_repr(kind)} are not supported; allowed: int, float"
    )


def _cache(said: Said, file: Path) -> str | None:
    for key in _CACHE_KEYS:
        scheme = said.get(key)
        if not scheme:
            continue
        eight_bits = _is(scheme) and (scheme.get("num_bits"), scheme.get("type", "float")) == (8, "float")
        if eight_bits or (isinstance(scheme, str) and scheme.upper() == "FP8"):
            return "float8"
        raise InputError(f"{file}: {key} {short_repr(scheme)} is not supported; allowed: FP8")
    return None


class _Names:
    """The modules that are not quantised: names, patterns with ``*``, or regular expressions after ``re:``."""

    def __init__(self, said: Said, file: Path) -> None:
        self.file = file
        given: Any = next((said[key] for key in _LEFT_OUT_KEYS if said.get(key)), [])
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise InputError(f"{file}: what is not quantised must be a list of names, got {short_repr(given)}")
        given = [_of_text(name) for name in given]
        self._names = frozenset(name for name in given if "*" not in name and not name.startswith("re:"))
        self._patterns = [name for name in given if "*" in name and not name.startswith("re:")]
        expressions = [name.removeprefix("re:") for name in given if name.startswith("re:")]
        if sum(map(_ways, expressions)) > _MOST_WAYS:
            longest = max(expressions, key=_ways)
            raise InputError(f"{file}: regular expressions such as {short_repr(longest)} may take hours: simplify them")
        self._expressions = [_expression(text, file) for text in expressions]

    def whole(self, part: str, names: Sequence[str]) -> bool:
        """Tell whether all matrices of a part are left out."""
        left_out = sum(map(self.has, names))
        if 0 < left_out < len(names):
            share = f"{left_out} of {len(names)} matrices of the {part}"
            raise InputError(f"{self.file}: {share} are not quantised; all or none of a part is supported")
        return left_out > 0

    def has(self, module: str) -> bool:
        """Tell whether a module, or what it lies in, is left out."""
        parts = module.split(".")
        # a name may leave out the folders that it lies in: lm_head, self_attn, layers.0.mlp
        ends = (".".join(parts[first:last]) for first in range(len(parts)) for last in range(first + 1, len(parts) + 1))
        return (
            any(end in self._names for end in ends)
            or any(fnmatchcase(name, pattern) for pattern in self._patterns for name in _above(parts))
            or any(expression.match(module) for expression in self._expressions)
        )


def _of_text(name: str) -> str:
    """A name without the folder of the part that decodes, which models with several parts have."""
    for folder, plain in (("language_model.model.", "model."), ("model.language_model.", "model.")):
        if name.startswith(folder):
            return plain + name.removeprefix(folder)
    return name.removeprefix("language_model.")


def _above(parts: list[str]) -> Iterable[str]:
    """The module and everything that it lies in."""
    return (".".join(parts[:last]) for last in range(1, len(parts) + 1))


_LENGTH = 60  # of a module's name
_LONGEST, _MOST_WAYS = 1000, 1e6


def _ways(expression: str) -> float:
    """A bound of the ways in which an expression can be held against a name; each may be tried.

    A repeat may end anywhere, a group is one of its alternatives, what is optional has two ways, and a repeated group
    any number.
    """
    if len(expression) > _LONGEST:
        return math.inf
    plain = re.sub(r"\[[^\]]*\]", "x", re.sub(r"\\.", "x", expression))
    plain, ways = re.sub(r"\(\?(?:<?[=!]|:)", "(", plain), 1
    while group := re.search(r"\(([^()]*)\)([*+{]?)", plain):
        if group[2]:
            return math.inf
        ways *= group[1].count("|") + 1
        plain = plain[: group.start()] + group[1].replace("|", "") + plain[group.end() :]
    lazy = re.sub(r"([*+}])\?", r"\1", plain)
    repeats = len(re.findall(r"[*+{]", lazy))
    return float(ways * (plain.count("|") + 1) * _LENGTH**repeats * 2 ** lazy.count("?"))


def _expression(text: str, file: Path) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"{file}: {short_repr(text)} is no regular expression ({error})") from None


def _names_the_head(said: Said, left_out: _Names) -> bool:
    """Tell whether the LM head is quantised: tools that list what they leave out leave it in 16 bits by that alone."""
    listed = any(key in said for key in _LEFT_OUT_KEYS)
    by_list = "config_groups" in said or said.get("quant_method", "modelopt") in ("modelopt", "compressed-tensors")
    return listed and by_list and not left_out.has("lm_head")


def _is(value: Any) -> TypeGuard[Said]:
    return isinstance(value, Mapping)
