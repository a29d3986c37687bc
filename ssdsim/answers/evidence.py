"""Evidence behind the ratio of two rates, in words: its condition, the range it holds over, what to measure first.

The verdicts of all verbs take their words from here, and so do the lines on the inputs of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ssdsim.answers.contest import OPEN, Contest, Key, Versus
from ssdsim.answers.swings import Swing, inputs_of, swings
from ssdsim.base.checks import FloatOrArray
from ssdsim.base.option import spelled
from ssdsim.base.record import Record
from ssdsim.question.options import ALL
from ssdsim.question.scenario import Scenario
from ssdsim.question.standing import ACCEPTANCE, TokenInput
from ssdsim.question.supposed import PRIOR

TIMINGS, SIMULATION = "timings", "the simulation"
_OF_TIMES = (TIMINGS, SIMULATION)
_SHOWN = 0.005  # of a ratio: what rounds to 0 %


class Uncertainty(Record):
    """The error of a ratio for one reason: ``half`` of its relative range while all else is held.

    ``timings`` (or ``the simulation`` without hardware) move it over a 95 % interval. ``acceptance`` and ``hits`` move
    it over their ranges, or over the 95 % intervals of a pair. ``turns``: one of these inputs alone changes the sign.
    """

    what: str
    half: float
    turns: bool = False

    def __str__(self) -> str:
        return f"{self.what} ±{self.half:.0%}".replace("%", " %")


class RatioEvidence(Record):
    """Evidence behind the ratio of two strategies: its token inputs and its uncertainties, timings first."""

    inputs: tuple[TokenInput, ...] = ()
    doubts: tuple[Uncertainty, ...] = ()

    @classmethod
    def of(cls, first: Scenario, other: Scenario, timings: float | None) -> RatioEvidence:
        """The evidence of ``first`` over ``other``; ``timings`` is the ratio's error from them alone, if known."""
        of_timings = [] if timings is None else [Uncertainty(SIMULATION if first.site is None else TIMINGS, timings)]
        return cls(inputs_of(first, other), (*of_timings, *token_uncertainties(swings(first, other))))

    @property
    def tokens(self) -> tuple[Uncertainty, ...]:
        """Uncertainties of tokens, the widest first."""
        return tuple(each for each in self.doubts if each.what not in _OF_TIMES)

    @property
    def placeholders(self) -> list[TokenInput]:
        """Inputs that are assumed, and have a range."""
        return [each for each in self.inputs if each.standing == "placeholder" and each.is_open]

    @property
    def summary(self) -> str:
        """One line: ``timings ±9 %, acceptance ±31 %: measure acceptance first``; empty without uncertainties."""
        shown = [each for each in self.doubts if each.half >= _SHOWN]
        if not shown:
            return ""
        widest = max(shown, key=lambda each: each.half)
        first = "" if widest.what in _OF_TIMES else f": measure {widest.what} first"
        return ", ".join(map(str, shown)) + first

    @property
    def condition(self) -> str:
        """``if acceptance is near 0.8, ``; empty without placeholders."""
        said = listed(self.placeholders)
        return f"if {said}, " if said else ""

    def sentence(
        self, contest: Contest[Key], rivals: Sequence[Key], head: tuple[str, str], clause: str, where: str = ""
    ) -> str:
        """The sentence about ``rivals``: those that decide, or that are undecided.

        ``head`` is the answer, such as ``("Yes for latency", ", no for cost")``, ``clause`` the finding, and ``where``
        the batch or the devices.
        """
        return filled(self.template(contest, rivals, head, literally(clause), where), contest)

    @property
    def robustness_clause(self) -> str:
        """`` at any plausible acceptance``: placeholders do not change the answer; empty without placeholders."""
        names = list(dict.fromkeys(each.what for each in self.placeholders))
        return f" at any plausible {' and '.join(names)}" if names else ""

    def template(
        self, contest: Contest[Key], rivals: Sequence[Key], head: tuple[str, str], clause: str, where: str = ""
    ) -> str:
        """The sentence with fields for the contest's numbers, for :func:`filled`; ``clause`` has fields, too."""
        held = {rival: at for at, rival in enumerate(contest.over) if rival in rivals}
        over = self._over(contest, [held[rival] for rival in rivals])
        condition, where = literally(self.condition), literally(where)
        if not contest.decided:
            versus = [contest.over[rival] for rival in rivals]
            return f"Undecided{where}: {condition}{clause}{over}{self._open(contest, versus)}."
        robustness = literally(self.robustness_clause) if over else ""
        before, after = map(literally, head)
        return f"{before}{where}{robustness}{after}: {condition}{clause}{over}."

    def _over(self, contest: Contest[Key], held: Sequence[int]) -> str:
        """``; with acceptance anywhere in 0.5-0.9 it is 1.34-1.41x``; empty if no input has a range.

        ``held`` are the rivals' places.
        """
        every = list(contest.over.values())
        ranged = [at for at in held if every[at].lowest is not None]
        if not ranged or not self.range_clause:
            return ""
        if len(ranged) == 1 and every[held[0]].constant_ratio:
            said = f"stays {field(ranged[0], 'lowest')}x"
        else:
            spans = [f"{field(at, 'lowest')}-{field(at, 'highest')}x" for at in ranged]
            said = f"is {' and '.join(spans)}"
        return f"; with {literally(self.range_clause)} it {said}"

    def _open(self, contest: Contest[Key], versus: Sequence[Versus]) -> str:
        """Words on why it is undecided, in a sentence."""
        if contest.open or any(each.sign_depends_on_inputs for each in versus):
            return literally(self.why_open(any(each.sign_depends_on_inputs for each in versus)))
        return "; that it is faster than all of them has P {probability:.2f}"

    def why_open(self, turns: bool) -> str:
        """Words on why it is undecided: the token inputs if the sign ``turns`` within their ranges, else the errors."""
        names = [each.what for each in self.tokens if each.half >= _SHOWN]
        if turns and names:
            names = [each.what for each in self.tokens if each.turns] or names
            which, it = ("decides", "it") if names == [ACCEPTANCE] else ("decide", "them")
            return f", so {' and '.join(names)} {which} who is faster: measure {it}"
        if not names:
            return f"; {OPEN}"
        return f"; the timings' errors and what is not known of {' and '.join(names)} leave open who is faster"

    @property
    def range_clause(self) -> str:
        """``acceptance anywhere in 0.5-0.9``, or ``anywhere plausible`` of several; empty if no input has a range.

        Unlike a 95 % interval it spans the best and the worst of the ranges, at the predicted timings.
        """
        ranged = [each for each in self.inputs if each.is_open]
        if len(ranged) == 1 and ranged[0].within is not None:
            low, high = ranged[0].within
            return f"{_called(ranged[0])} anywhere in {low:g}-{high:g}"
        names = " and ".join(dict.fromkeys(each.what for each in ranged))
        plausible = all(each.standing == "placeholder" for each in ranged)
        return f"{names} anywhere {'plausible' if plausible else 'in their ranges'}" if ranged else ""


def token_uncertainties(moving: Sequence[Swing]) -> tuple[Uncertainty, ...]:
    """Uncertainties of tokens from the swings of their inputs, the widest first."""
    made = [Uncertainty(what, float(half), bool(turns)) for what, (half, turns) in _halves(moving).items()]
    return tuple(sorted(made, key=lambda each: -each.half))


def _halves(moving: Sequence[Swing]) -> dict[str, tuple[FloatOrArray, FloatOrArray]]:
    """Half of the ratio's range by what moves it, and whether it changes the sign; numbers, or columns."""
    made = {}
    for what in dict.fromkeys(swing.of for swing in moving):
        own = [swing for swing in moving if swing.of == what]
        width = np.sqrt(sum(swing.width**2 for swing in own))
        turns = [swing.moves & (swing.lowest <= 1.0) & (swing.highest > 1.0) for swing in own]
        made[what] = np.expm1(width / 2.0), np.any(turns, axis=0)
    return made


SURE = RatioEvidence()
"""The evidence of a ratio without known uncertainties."""


def field(rival: int, name: str) -> str:
    """A number of a :class:`Versus` in a template, by its rival's place in the contest."""
    return f"{{over[{rival}].{name}:.2f}}"


def literally(text: str) -> str:
    """``text`` with its braces escaped for a template."""
    return text.replace("{", "{{").replace("}", "}}")


def filled(template: str, contest: Contest[Key], **more: float) -> str:
    """The template filled with a contest's numbers, and with ``more``."""
    return template.format(over=list(contest.over.values()), probability=contest.probability, **more)


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
