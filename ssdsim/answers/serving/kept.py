"""Runs that are not made again: what one measured, by a key of all that shapes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter

from ssdsim import __version__
from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.metrics import Metrics
from ssdsim.answers.serving.slo import Slo
from ssdsim.answers.serving.workload import Workload
from ssdsim.runs.serving_folder import ServingFolder
from ssdsim.settings import Settings


def key_of(
    name: str, settings: Settings, workload: Workload, batching: Batching, slo: Slo | None, how: Sequence[Any]
) -> str:
    """Of one policy at one load; a new version of ssdsim has new keys."""
    found = sha256(
        repr((__version__, name, sorted(settings.items(), key=str), asdict(batching), str(slo), *how)).encode()
    )
    for column in (workload.arrival_s, workload.input_tokens, workload.output_tokens, workload.kind):
        found.update(column.tobytes())
    found.update(repr(workload.concurrency).encode())
    return found.hexdigest()[:24]


def kept(folder: ServingFolder, key: str) -> Metrics | None:
    """What was measured before, or None."""
    text = folder.part(key)
    return None if text is None else TypeAdapter(Metrics).validate_python(json.loads(text))


def keep(folder: ServingFolder, key: str, metrics: Metrics) -> None:
    """For the next time."""
    folder.keep(key, json.dumps(asdict(metrics)))
