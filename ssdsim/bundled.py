"""Where the cards that come with ssdsim are."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def models_folder() -> Path:
    """``models/``: beside the package in a checkout, inside it in an installed wheel."""
    inside = Path(__file__).parent / "models"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "models"
