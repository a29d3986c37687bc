"""What is known of a pair and of an engine: pairs and runtimes; with mistakes."""

from __future__ import annotations

import json
import tomllib
from functools import lru_cache
from random import Random
from typing import Any

from ssdsim.base.bundled import models_folder
from tests.calibration.pairs import sample
from tests.mutations.files import changed_json, changed_toml
from tests.mutations.input import Input, with_file

# every verb that reads a pair, at sizes that take a moment with a pair as it is
_WITH_PAIR = (
    "predict --pair pair.json --k 3 --b 4",
    "predict --pair pair.json --k 2 --t-sd 0.2 --solver mc --strategies ssd",
    "predict --pair pair.json --k 2 --t-sd 0.2 --solver des --strategies ssd",
    "predict --pair pair.json --k 3 --target llama-3.1-8b --tp 1 --solver des",
    "simulate --pair pair.json --t-sd 0.2 --rounds 200 --k 2",
    "simulate --pair pair.json --t-sd 0.2 --tokens 32 --k 2",
    "sweep --pair pair.json --k 1:3 --t-sd 0.2",
    "plan --pair pair.json --rate 2 --requests 60 --output-len 60 --target llama-3.1-8b --tp 1 --engine kernels",
    "recommend --pair pair.json --gpus 2 --target llama-3.1-8b --k 2,3",
)
_WITH_RUNTIME = (
    "predict --engine runtime.toml",
    "predict --engine runtime.toml --b 64 --k 3 --json",
    "runtimes show runtime.toml",
    "plan --engine runtime.toml --rate 2 --requests 40 --output-len 40 --target llama-3.1-8b --tp 1",
    "recommend --engine runtime.toml --gpus 2 --target llama-3.1-8b --k 2,3",
    "compare --engine runtime.toml --gpus 2 --target llama-3.1-8b",
    "export --engine runtime.toml --format vllm-serve --b 1 --k 2 --target llama-3.1-8b",
)


@lru_cache
def _pairs() -> tuple[Any, ...]:
    bundled = [json.loads(path.read_text()) for path in sorted((models_folder() / "pairs").glob("*.json"))]
    return (*(json.loads(pair.as_json()) for pair in (sample.pair(), sample.rich())), *bundled)


def pair(rng: Random) -> Input:
    content = changed_json(rng.choice(_pairs()), rng)
    return with_file("pair", rng.choice(_WITH_PAIR), "pair.json", content, rng)


@lru_cache
def _runtimes() -> tuple[Any, ...]:
    return tuple(tomllib.loads(path.read_text()) for path in sorted((models_folder() / "runtimes").glob("*.toml")))


def runtime(rng: Random) -> Input:
    content = changed_toml(rng.choice(_runtimes()), rng)
    return with_file("runtime", rng.choice(_WITH_RUNTIME), "runtime.toml", content, rng)
