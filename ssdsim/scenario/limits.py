"""The most that an option's number may be: above any machine and any model, below what no computer could work out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.errors import InputError, told

MOST: Mapping[str, float] = {
    "b": 1_000_000,
    "k": 1_000,
    "sd_k": 1_000,
    "alpha_concentration": 1e9,
    "output_tokens": 131_072,
    "f": 1_000_000,
    "fl": 1_000_000,
    "flm": 1_000_000,
    "hit_curve": 1_000_000,
    "hit_r": 100.0,
    "hit_r_all": 100.0,
    "backup_ms": 1e9,
    "tp": 1_000_000,
    "draft_gpus": 1_000_000,
    "context": 1_000_000_000,
    "temperature": 1e6,
    "budget": 1_000_000,
    "spread": 10.0,
    "t_sd": 1e6,
    "t_p": 1e6,
    "t_b": 1e6,
}


def check_limits(values: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` at a number, or a list with one, above what its option allows.

    ``values`` are of the right kinds already.
    """
    for name, most in MOST.items():
        for number in _numbers(values.get(name)):
            if number > most:
                raise InputError(f"--{name.replace('_', '-')} must be at most {most:,.12g}, got {told(number)}")


def _numbers(value: Any) -> list[int | float]:
    """The numbers in a value: itself, or those of a list, or of a list of pairs."""
    if isinstance(value, list | tuple):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, int | float) else []
