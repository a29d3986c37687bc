"""A comparison as one JSON object: the table, and what a figure of it needs."""

from __future__ import annotations

from typing import Any

from ssdsim.advise.compare.compare import Comparison
from ssdsim.advise.recommend.as_json import asked, deployed, ranked_by
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.base.plain import document, picked


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim compare --json`` (schema 3)."""
    answer = {
        "schema": 3,
        "verb": "compare",
        "request": {**asked(comparison.request), "b": comparison.batch},
        "verdict": picked(comparison, "winner", "likeliest", "over", "sentence", "doubts", "doubts_told"),
        "engine": ranked_by(comparison.request),
        "strategies": tuple(comparison.compared.values()),
        **picked(comparison, "inputs", "impossible", "runtime", "warnings"),
        "apart": {name: picked(each, "deployment", "worth", "sentence") for name, each in comparison.apart.items()},
    }
    return document(answer, {Deployment: deployed})
