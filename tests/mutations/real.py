"""Files as they should be, by the words of a command that name them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

import ssdsim
from ssdsim.base.bundled import models_folder
from tests.calibration.importers import test_llama_bench as llama
from tests.calibration.pairs import sample
from tests.faults.writers import inputs
from tests.mutations import folders
from tests.mutations.files import cpu_profile
from tests.ssdsim.serving import test_logs as requests


@lru_cache
def _all() -> Mapping[str, bytes]:
    """Every file, by its path from where a command runs."""
    cards = models_folder() / "transformers"
    return {
        **inputs(),
        **folders.records_folder(),
        "llama.json": inputs()[f"{llama.LARGE[0]}.json"],
        "card.toml": (cards / "llama-3.1-8b.toml").read_bytes(),
        "draft.toml": (cards / "llama-3.2-1b.toml").read_bytes(),
        "profile.json": json.dumps(cpu_profile()).encode(),
        "runtime.toml": (models_folder() / "runtimes" / "vllm.toml").read_bytes(),
        "pair.json": sample.rich().as_json().encode(),
        "trace.csv": b"request,accepted\n" + b"".join(b"%d,%d\n" % (row % 3, row % 4) for row in range(24)),
        "requests.csv": requests.PLAIN.encode(),
        "requests.jsonl": "\n".join(map(json.dumps, requests.MOONCAKE)).encode(),
        "tokenizer.json": b"{}",
        "schedule.json": ssdsim.schedule(b=[1, 4], k=[2, 3], f=2).to_json().encode(),
    }


def named(words: Iterable[str]) -> dict[str, bytes]:
    """The files that the words name, and all of a folder; a word may have a flag or another word before it."""
    asked = {word.rpartition("=")[2] for word in words}
    return {name: content for name, content in _all().items() if name in asked or name.split("/")[0] in asked}
