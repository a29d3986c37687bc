"""Checkpoints that an engine loads for the cards that a person names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibration.bench.engines import Setting
from ssdsim.advise.export.dialect import loaded_name
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.drafting import draft_by_options
from ssdsim.strategies.drafters.model import ModelDrafter


def setting_of(given: Mapping[str, Any], rate: float, notes: list[str]) -> Setting:
    """The models of a plan by the names under which they are found: a card's checkpoint, or what was named itself."""
    for name in ("model", "hardware"):
        if name not in given:
            raise InputError(f"--plan needs --{name}: servers do not say it (--model: a card, a name, or a folder)")
    target, draft, drafter = (given.get(name) for name in ("model", "draft", "drafter"))
    loaded = None
    if draft is not None:
        loaded = _loaded(draft, notes)
    elif drafter not in (None, ModelDrafter.name):
        loaded = loaded_name("", draft_by_options({"target": target, "drafter": drafter}), notes)
    elif drafter is not None:
        raise InputError("--drafter model needs --draft")
    model = _loaded(str(target), notes)
    return Setting(model, 1, loaded, drafter, None, rate, given.get("kv_dtype"))


def _loaded(name: str, notes: list[str]) -> str:
    return loaded_name(name, find_transformer(name), notes)
