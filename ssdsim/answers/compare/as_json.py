"""A comparison as one JSON object: the table, and what a figure of it needs."""

from __future__ import annotations

from typing import Any

from ssdsim.answers.compare.compare import Comparison
from ssdsim.answers.recommend.as_json import asked, deployed, ranked_by
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.base.plain import document, picked


def as_json(found: Comparison) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim compare --json`` (schema 3)."""
    answer = {
        "schema": 3,
        "verb": "compare",
        "request": {**asked(found.request), "b": found.batch},
        "verdict": picked(found, "winner", "likeliest", "over", "sentence", "doubts", "doubts_told"),
        "engine": ranked_by(found.request),
        "strategies": tuple(found.compared.values()),
        **picked(found, "inputs", "impossible", "runtime", "warnings"),
        "apart": {name: picked(each, "deployment", "worth", "sentence") for name, each in found.apart.items()},
    }
    return document(answer, {Deployment: deployed})
