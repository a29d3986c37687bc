"""The inputs of an answer's tokens, in words: each with its standing, for terminals, reports and notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ssdsim.base.option import spelled
from ssdsim.question.standing import TokenInput


def value_told(each: TokenInput) -> str:
    """The value in words: a number, or of rates by position the first and the last."""
    if isinstance(each.value, int | float):
        return f"{each.value:g}"
    if isinstance(each.value, str):
        return each.value
    values: Sequence[Any] = each.value
    if all(isinstance(value, int | float) for value in values):
        return f"{values[0]:.3g}...{values[-1]:.3g} by position" if len(values) > 1 else f"{values[0]:.3g}"
    return f"{len(values)} points"


def range_told(each: TokenInput) -> str:
    """The range in which the value may lie, in words."""
    if each.within is not None:
        return f"{each.within[0]:g}-{each.within[1]:g}"
    return "its own 95 %" if each.standing == "measured" else "exact"


def standing_told(each: TokenInput) -> str:
    """The source of the value, in words."""
    if each.standing == "placeholder":
        return "a placeholder, nobody measured it"
    return "given" if each.standing == "given" else f"{each.standing}, {each.rests_on}"


def inputs_told(inputs: Iterable[TokenInput]) -> str:
    """All inputs in one line, those of one standing and text together; empty where no strategy drafts.

    What a text adds to that of another input stands beside its value: ``(to K 12)``.
    """
    told = [(each, standing_told(each)) for each in inputs]
    together: dict[str, list[str]] = {}
    for each, text in told:
        standing = min((other for _, other in told if f"{text}, ".startswith(f"{other}, ")), key=len)
        more = [range_told(each)] if each.is_open else []
        more += [text.removeprefix(standing).removeprefix(", ")] if text != standing else []
        span = f" ({'; '.join(more)})" if more else ""
        together.setdefault(standing, []).append(f"{spelled(each.name)} {value_told(each)}{span}")
    return "; ".join(f"{', '.join(values)}: {standing}" for standing, values in together.items())
