"""Token inputs in words: what an answer rests on, and who says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssdsim.base.option import spelled
from ssdsim.question.options import ALL
from ssdsim.question.supposed import PRIOR
from ssdsim.question.token_inputs import TokenInput


def condition(inputs: Iterable[TokenInput]) -> str:
    """``if acceptance is near 0.8, ``: what is assumed, and has a range; empty where nothing is."""
    said = listed(each for each in inputs if each.standing == "placeholder" and each.is_open)
    return f"if {said}, " if said else ""


def listed(inputs: Iterable[TokenInput]) -> str:
    """``acceptance is near 0.8 and hits follow 1 - 0.4 F^-0.7``."""
    by_name = {each.name: each for each in inputs}
    said = []
    if {"hit_c", "hit_r"} <= by_name.keys():
        c, r = by_name.pop("hit_c"), by_name.pop("hit_r")
        said.append(f"hits follow 1 - {c.value:g} F^-{r.value:g}")
    return " and ".join([*(f"{_called(each)} is near {each.middle:g}" for each in by_name.values()), *said])


def _called(each: TokenInput) -> str:
    return each.what if each.name == "alpha" else ALL[each.name].axis


def value_text(each: TokenInput) -> str:
    """The value in words: a number, or the first and the last of rates by position."""
    if isinstance(each.value, int | float):
        return f"{each.value:g}"
    if isinstance(each.value, str):
        return each.value
    values: Sequence[Any] = each.value
    if all(isinstance(value, int | float) for value in values):
        return f"{values[0]:.3g}...{values[-1]:.3g} by position" if len(values) > 1 else f"{values[0]:.3g}"
    return f"{len(values)} points"


def range_text(each: TokenInput) -> str:
    """The range of the value, in words."""
    if each.within is not None:
        return f"{each.within[0]:g}-{each.within[1]:g}"
    return "its own 95 %" if each.standing == "measured" else "exact"


NOBODY = "a placeholder, nobody measured it"


def standing_text(each: TokenInput) -> str:
    """The source of the value, in words."""
    if each.standing == "placeholder":
        return f"a placeholder ({each.rests_on})" if each.rests_on.startswith(PRIOR) else NOBODY
    return "given" if each.standing == "given" else f"{each.standing}, {each.rests_on}"


_MAIN = ("alpha", "acceptance", "p_hit", "hit_c", "hit_curve")  # inputs of a first screen
_RULE, _RULE_SAID = "rule_odds", "the rule multiplies the odds of acceptance by"


def assumed(inputs: Sequence[TokenInput], seen: Mapping[str, tuple[float, float]]) -> dict[str, list[str]]:
    """What an answer takes for acceptance and hits, by who says so: ``acceptance 0.33-0.94``.

    ``seen`` are the ranges over which acceptance and hits were drawn, by what is measured.
    """
    told: dict[str, dict[str, None]] = {}
    for each in [one for one in inputs if one.name in (*_MAIN, _RULE)] or inputs:
        told.setdefault(_says_so(each), {})[_said(each, seen)] = None
    return {standing: [*values] for standing, values in told.items()}


def _said(each: TokenInput, seen: Mapping[str, tuple[float, float]]) -> str:
    drawn, digits = (each.within, 3) if each.name == _RULE else (seen.get(each.what), 2)
    value = "-".join(f"{end:.{digits}g}" for end in drawn) if drawn and each.is_open else value_text(each)
    named = _RULE_SAID if each.name == _RULE else each.what if each.name in _MAIN else ALL[each.name].axis
    return f"{named} {value}"


def _says_so(each: TokenInput) -> str:
    if each.standing == "placeholder":
        return "nobody measured yours"
    return f"measured, {each.rests_on.partition(':')[0]}" if each.standing == "measured" else standing_text(each)


def inputs_text(inputs: Iterable[TokenInput]) -> str:
    """All inputs in one line, grouped by the text on their source; empty if no strategy drafts.

    If a text only adds to that of another input, the addition stands beside its value: ``(to K 12)``.
    """
    told = [(each, standing_text(each)) for each in inputs]
    together: dict[str, list[str]] = {}
    for each, text in told:
        standing = min((other for _, other in told if f"{text}, ".startswith(f"{other}, ")), key=len)
        more = [range_text(each)] if each.is_open else []
        more += [text.removeprefix(standing).removeprefix(", ")] if text != standing else []
        span = f" ({'; '.join(more)})" if more else ""
        together.setdefault(standing, []).append(f"{spelled(each.name)} {value_text(each)}{span}")
    return "; ".join(f"{', '.join(values)}: {standing}" for standing, values in together.items())
