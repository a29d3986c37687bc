"""A comparison as one JSON object: the table, and what a figure of it needs."""

from __future__ import annotations

from typing import Any

from ssdsim.answers.compare.compare import Comparison
from ssdsim.answers.recommend.as_json import deployment_as_json


def as_json(found: Comparison) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim compare --json`` (schema 1)."""
    request = found.request
    return {
        "schema": 1,
        "verb": "compare",
        "request": {
            "gpus": request.gpus,
            "b": found.batch,
            "seed": request.seed,
            "strategies": list(request.strategies),
            "options": dict(request.options),
            "searched": {name: values and list(values) for name, values in request.searched.items()},
        },
        "verdict": {"winner": found.winner, "sentence": found.sentence},
        "strategies": [
            {
                "deployment": deployment_as_json(each.deployment, None),
                "low": each.low,
                "high": each.high,
                "quantiles": {f"p{100 * q:.0f}": rate for q, rate in each.quantiles.items()},
                "probability_fastest": each.probability,
            }
            for each in found.compared.values()
        ],
        "inputs": [
            {
                "name": each.name,
                "value": each.value,
                "origin": each.origin,
                "measured": each.is_measured,
                "low": each.within[0] if each.within else None,
                "high": each.within[1] if each.within else None,
                "read_by": list(each.read_by),
            }
            for each in found.inputs
        ],
        "impossible": dict(found.impossible),
        "runtime": found.runtime,
        "warnings": list(found.warnings),
    }
