"""Values that an option takes, by its kind, its bounds and its words, as a person who read the help gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from random import Random
from typing import Any

import click

from ssdsim.base import kinds
from ssdsim.base.kinds import Kind
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Lists, Names, PassTimes, Ranges, Several
from ssdsim.cli.param_types import OfKind
from ssdsim.hardware.catalog import hardware_names, transformer_names
from ssdsim.hardware.runtime_catalog import runtime_names
from ssdsim.question.options import DEFAULTS
from ssdsim.tokens.drafter_card import drafter_names

_NAMES: Mapping[str, Sequence[str]] = {
    "acceptance": ("kumar2026-llama", "easy-and-hard", "synthetic:3.3", "trace.csv"),
    "pair": ("smollm2-135m-28-layers", "smollm2-135m-20-layers", "pair.json"),
    "pair_set": ("chat", "code", "math"),
    "pair_backup": ("random", "ngram:3", "suffix"),
    "draft_set": ("MT-Bench",),
    "staged_by": ("llama-3.2-1b",),
    "hardware": ("h100-sxm", "a100-sxm", "h200-sxm", "rtx-4090", "b200-sxm", "profile.json"),
    "draft_hardware": ("h100-sxm", "a100-sxm", "rtx-4090", "profile.json"),
    "target": ("llama-3.1-8b", "qwen3-8b", "llama-3.1-70b", "qwen3-32b", "gpt-oss-20b", "card.toml"),
    "draft": ("llama-3.2-1b", "qwen3-0.6b", "eagle3-llama-3.1-8b", "ngram", "draft.toml"),
    "engine": ("ssd-engine", "vllm", "sglang", "trtllm", "llama-cpp", "runtime.toml"),
}
_OF_NAMES: Mapping[str, Sequence[str]] = {
    **_NAMES,
    "model": ("llama-3.1-8b", "qwen3-8b"),
    "like": ("h100-sxm", "a100-sxm"),
    "base": ("h100-sxm", "a100-sxm"),
    "slo": ("tpot:20", "ttft:500,tpot:30", "99%tpot:50"),
    "paste": ("", "vllm", "json", "csv"),
    "input_len": ("100", "256"),
    "output_len": ("8", "16"),
    "workload": ("requests.csv", "requests.jsonl"),
    "slice": ("0:10", "1:3"),
    "tokenizer": ("tokenizer.json",),
    "schedule": ("schedule.json",),
    "k_table": ("1-4:5,5-:0", "throughput", "ema"),
    "served": ("m", "llama"),
    "api_key": ("PATH",),
    "plan": ("vllm", "sglang", "llama.cpp", "tensorrt-llm"),
    "prompts": ("prompts.jsonl",),
    "fields": ("gemm", "gemm,per_step_s", "per_step_s"),
    "name": ("mine", "h100-too"),
    "named": ("chat=log.txt", "code=prompts.jsonl"),
    "answers": ("answers.jsonl",),
    "resume": ("pair",),
    "device_map": ("auto",),
    "backup": ("random", "ngram:3", "suffix"),
    "machine": ("here", "h100-node"),
    "link_csv": ("plain.csv",),
    "link_commit": ("095f58a51",),
    "commit": ("095f58a51",),
    "ar": ("llama-3.1-8b:1:120", "llama-3.1-8b:1:50"),
    "ar_source": ("a benchmark",),
    "mlp": ("mlp.csv",),
    "all_reduce": ("reduce.csv",),
    "send_recv": ("send.csv",),
    "vidur_mlp": ("mlp.csv",),
    "link": ("pcie4", "pcie5", "nvlink4"),
    "device": ("cpu", "NVIDIA H100"),
    "flops": ("bfloat16=990", "float8=1980"),
    "only": ("verify", "draft"),
    "preset": ("proposal-unit-free",),
    "sort": ("sd_over_ar", "b", "ar_tokens_per_second"),
    "figure": ("speedup-k",),
    "cluster": ("tcp://127.0.0.1:9",),
    "target_device": ("cpu", "cpu:0"),
    "draft_device": ("cpu", "cpu:1"),
}
"""Of options whose kind is a name, a file or text; a word that is a file's name comes with that file."""

_QUICK: Mapping[str, Sequence[str]] = {
    "b": ("1", "2", "4", "8", "16", "64"),
    "k": ("1", "2", "3", "4", "6", "auto"),
    "f": ("1", "2", "3", "5", "window"),
    "fl": ("4,3,2,1", "3,3,2"),
    "flm": ("4,3,2,1", "3,3,2"),
    "tp": ("1", "1", "2", "4", "8"),
    "ep": ("1", "1", "2"),
    "context": ("128", "512", "1024", "4k", "32k"),
    "temperature": ("0", "0.5", "1"),
    "output_tokens": ("8", "16", "64"),
    "alpha_concentration": ("2", "5", "24"),
    "hit_concentration": ("2", "10"),
    "t_sd": ("0.05", "0.2", "0.6"),
    "t_p": ("0.1", "0.3"),
    "t_b": ("0", "0.1"),
    "t_v": ("16:1,64:1.1,128:2",),
    "spread": ("0", "0.1", "0.5", "profile"),
    "budget": ("8", "12", "24"),
    "draft_gpus": ("1", "2"),
    "hit_r": ("0.3", "0.7", "1.2"),
    "ranges": ("alpha=0.7:0.9", "p_hit=0.6:0.9"),
    "placement": ("0,1", "0,1,2,3,4"),
    "rounds": ("16", "64", "200"),
    "tokens": ("5", "12"),
    "precision": ("0.1", "0.3"),
    "requests": ("20", "60"),
    "seconds": ("5", "20"),
    "rate": ("1", "2", "6"),
    "concurrency": ("1", "2", "4"),
    "replicas": ("1", "2", "3"),
    "gpus": ("2", "3", "5"),
    "jobs": ("1",),
    "draws": ("0", "2", "4"),
    "limit": ("10", "40"),
    "limit_minutes": ("1",),
    "minutes": ("1",),
    "max_error": ("1000%", "500%"),
    "timeout": ("1", "2"),
    "wait": ("0", "0.1"),
    "port": ("8000", "9"),
    "seed": ("0", "1", "7"),
    "tree_widths": ("2,4,4", "4,8", "8,8,4"),
    "lookahead_window": ("3", "7"),
    "specactor_targets": ("1", "2"),
    "dsi_targets": ("2", "4"),
    "targets": ("1", "2", "4"),
    "max_new_tokens": ("2", "4"),
    "acceptance_length": ("1.5", "2.5"),
    "memory": ("16", "32", "80"),
    "top": ("1", "5"),
}
"""Where a kind allows what takes long, or hardly ever goes with the rest."""


def fitting(param: click.Option, rng: Random) -> str:
    """A text that the option takes, as far as its kind tells."""
    name, kind = str(param.name), param.type
    if name in _QUICK and not (isinstance(kind, click.Choice) or (name == "b" and rng.random() < 0.02)):
        return _several(name, kind, rng)
    if isinstance(kind, OfKind):
        return of_kind(name, kind.kind, rng)
    if isinstance(kind, click.Choice):
        return str(rng.choice(tuple(kind.choices)))
    if isinstance(kind, click.IntRange | click.FloatRange):
        return _in_bounds(kind.min, kind.max, isinstance(kind, click.IntRange), param.default, rng)
    if name == "output" or type(kind).__name__.startswith("Output"):
        return rng.choice(("made", "made.json"))
    return rng.choice(_OF_NAMES.get(name) or _bundled())


def value_of(name: str, kind: Kind, rng: Random) -> str:
    """A text that an option of a scenario takes where nobody asks for several."""
    return rng.choice(_QUICK[name]) if name in _QUICK else of_kind(name, kind, rng)


def _several(name: str, kind: Any, rng: Random) -> str:
    """One of the quick ones; two of them where a grid takes several."""
    several = isinstance(kind, OfKind) and isinstance(kind.kind, Several) and rng.random() < 0.4
    listed = rng.sample(_QUICK[name], min(2, len(_QUICK[name]))) if several else [rng.choice(_QUICK[name])]
    return ",".join(dict.fromkeys(listed))


def of_kind(name: str, kind: Kind, rng: Random) -> str:
    """A text that a kind of value takes; ``name`` is its option's."""
    match kind:
        case Several() | Lists():
            inner = kind.of if isinstance(kind, Several) else kind.each
            made = (of_kind(name, inner, rng) for _ in range(rng.choice((1, 1, 2))))
            return ("," if isinstance(kind, Several) else "/").join(dict.fromkeys(made))
        case kinds.Whole() | kinds.Number():
            return _in_bounds(kind.least, kind.most, isinstance(kind, kinds.Whole), DEFAULTS.get(name), rng)
        case kinds.OneOf():
            return rng.choice((*kind.words, *(word for word, meant in kind.also if meant in kind.words)))
        case kinds.Member():
            return rng.choice(kind.of.names)
        case Names():
            few = rng.sample(kind.of.names, min(len(kind.of.names), rng.choice((1, 2, 3))))
            return ",".join(few) if rng.random() < 0.95 else "all"
        case ListOf():
            return ",".join(of_kind(name, kind.number, rng) for _ in range(rng.choice((1, 2, 4))))
        case kinds.NumberOrWord():
            return kind.word if rng.random() < 0.3 else of_kind(name, kind.number, rng)
        case kinds.OneOrByPosition():
            return of_kind(name, kind.number, rng) if rng.random() < 0.8 else "0.9,0.85,0.8,0.7,0.6,0.5"
        case HitRates():
            return rng.choice(("1:0.5,2:0.7", "1:0.6,2:0.75,4:0.8,8:0.85"))
        case PassTimes():
            return "16:1,64:1.1,128:2"
        case Ranges():
            return "alpha=0.7:0.9"
    if name == "gpus":
        return rng.choice(_QUICK[name])
    return rng.choice(_OF_NAMES.get(name) or _bundled())


def _in_bounds(least: float | None, most: float | None, whole: bool, default: object, rng: Random) -> str:
    """A number of a range: mostly a small one, near the default; a bound itself at times."""
    low = 0.0 if least is None else least
    high = most if most is not None and isfinite(most) else 1e9
    if rng.random() < 0.05:
        return _text(rng.choice((low, high)), whole)
    if not whole and high <= 1.0:
        return _text(round(rng.uniform(low, high), 2), whole)
    usual = default if isinstance(default, int | float) and default > 0 else max(low, 1)
    drawn = rng.choice((low, usual, 2 * usual, usual / 2, usual + 1, 3, 8))
    return _text(min(max(int(drawn) if whole else drawn, low), high), whole)


def _text(number: float, whole: bool) -> str:
    return str(int(number)) if whole else f"{number:g}"


@lru_cache
def _bundled() -> tuple[str, ...]:
    return (*transformer_names(), *hardware_names(), *runtime_names(), *drafter_names())
