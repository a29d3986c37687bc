"""Options that a search varies to find the best deployment, with the values that it tries of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ssdsim.base.record import Record
from ssdsim.hardware.engine_versions import Runs
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.tokens.drafter_card import block_of
from ssdsim.tokens.pair_choice import fan_outs_known, positions_known
from ssdsim.tokens.saguaro import PLAIN, known_cs, why_not
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.parallel_degrees import MOST_DEVICES, legal_expert_parallel

Values = tuple[Any, ...] | None
"""What may be chosen; None: anything that the option takes."""

_FEW = 4  # numbers that are all tried at once
_MORE = " (--extrapolate goes on)"


class Scope(Record):
    """Limits of a search: GPUs in all, the target, and the given options.

    ``drafts``: devices of another kind beside them, which drafts alone may use; None where there is one kind.
    """

    gpus: int
    target: Transformer
    options: Mapping[str, Any]
    drafts: int | None = None

    @property
    def beside_target(self) -> int:
        """The most devices beside a target's."""
        return self.gpus - 1 if self.drafts is None else self.drafts


def _runs(given: Mapping[str, Any]) -> Runs | None:
    """What the named engine runs; None where none is named, or it says nothing of it."""
    named = given.get("engine")
    return find_runtime(named).runs if isinstance(named, str) else None


class SearchAxis(Record, kw_only=True):
    """An option that a search varies; this base class tries every value.

    A search looks first at the ``coarse`` values of each axis in a strategy's order, then at those ``near`` the best it
    has found. ``about`` is the help of the option that narrows what may be chosen; ``bounded`` axes allow nothing else
    than what is ``possible``. Those that are ``placing`` say on which devices models run: the best of each placement is
    looked at more closely. ``says`` is a value in a few words (``{symbol}`` is what formulas call the option).
    With any option of ``idle_with`` given, nothing is left to choose; else the ``implied`` options have these values
    where nobody gives them.

    One that is ``unit_free`` takes no time, so that it is searched without hardware, too.

    A schedule tries all values of ``tabled``, which are those of the option ``tabled_as`` (by default this one).
    """

    option: str
    about: str
    placing: bool = False
    bounded: bool = False
    says: str = "{value}"
    idle_with: tuple[str, ...] = ()
    implied: tuple[tuple[str, Any], ...] = ()
    tabled: tuple[Any, ...] = ()
    tabled_as: str | None = None
    unit_free: bool = False

    @property
    def table_option(self) -> str:
        return self.tabled_as or self.option

    def is_idle(self, given: Iterable[str]) -> bool:
        return not set(self.idle_with).isdisjoint(given)

    def concerns(self, scope: Scope) -> bool:
        """Tell whether there is something to choose for the target."""
        return True

    def said(self, symbol: str, value: Any) -> str:
        """A value in a few words; empty of one that need not be said."""
        return self.says.format(symbol=symbol, value=value)

    def possible(self, scope: Scope) -> Values:
        """The values that may be chosen."""
        raise NotImplementedError

    def refuses(self, given: Mapping[str, Any], value: Any) -> str | None:
        """Reason why ``value`` goes beyond what was measured of the models, else None. No search goes there."""
        return None

    def stops(self, given: Mapping[str, Any]) -> str | None:
        """A sentence where a search ends early, for want of measurements of the models; else None."""
        return None

    def tables(self, settings: Mapping[str, Any]) -> bool:
        """Tell whether a table has the settings, where nobody gave the value of this option."""
        return True

    def unless_narrowed(self, scope: Scope) -> Values:
        """Values that are searched by default."""
        return self.possible(scope)

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """The part of ``values`` that a first look tries, beside the settings of the axes ``before`` this one."""
        return values or ()

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """The part of ``values`` around the setting of ``top``, beside the settings of the axes ``before`` this one.

        ``step`` is the factor between neighbours where they are spaced by factors; 1 asks for the same alone.
        """
        return (top[self.option],)


class WordAxis(SearchAxis, kw_only=True):
    """A few words, all of which are tried."""

    words: tuple[str, ...]

    def possible(self, scope: Scope) -> Values:
        return self.words


class NumberAxis(SearchAxis, kw_only=True):
    """Whole numbers from 1 to ``most``, over which tokens/s are smooth."""

    most: int

    def possible(self, scope: Scope) -> Values:
        return tuple(range(1, self.most + 1))

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """Values ever further apart where there are many (those near good ones are tried); all of a few."""
        numbers = values or ()
        if len(numbers) <= _FEW:
            return numbers
        return [numbers[n * (n + 3) // 2] for n in range(len(numbers)) if n * (n + 3) // 2 < len(numbers)]

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """Values at ``top``, and the next ones up and down of those that are possible."""
        numbers = values or ()
        at = numbers.index(top[self.option])
        return numbers[max(0, at - 1) : at + 2]


class LookaheadAxis(NumberAxis, kw_only=True):
    """Tokens that are drafted in a row: no more than there are acceptance rates by position, or than a block has."""

    most: int = 16
    says: str = "{symbol} {value}"
    tabled: tuple[Any, ...] = tuple(range(1, 13))

    def is_settled(self, given: Mapping[str, Any], drafted: str | None) -> bool:
        """Tell whether K is given, or follows from a strategy's ``drafted`` tokens or from accepted lengths."""
        of_lengths = not str(given.get("acceptance", ".toml")).endswith(".toml")
        return of_lengths or bool({"k", self.option, drafted} & given.keys())

    def possible(self, scope: Scope) -> Values:
        mosts = self.most, positions_known(scope.options), block_of(scope.options, scope.target.name)
        return tuple(range(1, min(most for most in mosts if most is not None) + 1))

    def refuses(self, given: Mapping[str, Any], value: Any) -> str | None:
        known = positions_known(given)
        if known is None or value <= known:
            return None
        return f"acceptance is known at {known} positions{_MORE if given.get('pair') else ''}"

    def stops(self, given: Mapping[str, Any]) -> str | None:
        known = positions_known(given)
        if known is None or known >= self.most or given.get("pair") is None:
            return None
        return f"K is searched up to {known}, as far as the pair knows acceptance{_MORE}"


class DegreesAxis(SearchAxis):
    """Degrees of tensor parallelism that the target and the GPUs allow, with its experts together or apart."""

    def possible(self, scope: Scope) -> Values:
        degrees = range(1, min(scope.gpus, MOST_DEVICES) + 1)
        return tuple(tp for tp in degrees if legal_expert_parallel(scope.target, tp))


class ExpertGroupsAxis(SearchAxis):
    """Groups of the target's devices that hold different experts; by default each device is one, or all are.

    Engines offer these two as one switch. Which of them the other degrees allow is for a search to ask.
    """

    def concerns(self, scope: Scope) -> bool:
        return scope.target.experts is not None and scope.options.get("attention") != DATA_PARALLEL

    def possible(self, scope: Scope) -> Values:
        degrees = range(1, min(scope.gpus, MOST_DEVICES) + 1)
        return tuple(sorted({ep for tp in degrees for ep in legal_expert_parallel(scope.target, tp)}))

    def unless_narrowed(self, scope: Scope) -> Values:
        return None

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        return sorted({1, before[TARGET.option]}) if values is None else values


class DraftPlaceAxis(WordAxis, kw_only=True):
    """Whose devices a draft works on while its target does: its own, or the target's (``shared``).

    The latter is searched where one GPU is all there is. No engine that says what it runs has it.
    """

    words: tuple[str, ...] = ("own", "shared")

    def concerns(self, scope: Scope) -> bool:
        return scope.gpus == 1 and _runs(scope.options) is None

    def unless_narrowed(self, scope: Scope) -> Values:
        return ("shared",)

    def refuses(self, given: Mapping[str, Any], value: Any) -> str | None:
        runs = _runs(given)
        return None if value == "own" or runs is None else f"{runs.called} drafts on no GPU while it verifies there"


class DraftDevicesAxis(SearchAxis, kw_only=True):
    """Numbers of devices beside those of the target; ``place`` is the option that may say that there are none."""

    place: str

    def possible(self, scope: Scope) -> Values:
        return tuple(range(1, scope.beside_target + 1))

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """Powers of two; all numbers where only some may be chosen."""
        if before.get(self.place) == "shared":
            return (1,)
        numbers = values or ()
        everything = numbers == tuple(range(1, len(numbers) + 1))
        return [number for number in numbers if number & (number - 1) == 0] if everything else numbers

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """Values at ``top``, and one up and down."""
        same: int = top[self.option]
        if top.get(self.place) == "shared":
            return (same,)
        return [number for number in (same - 1, same, same + 1) if number in (values or ())]


def _spaced(same: float, step: float) -> Iterable[int]:
    """A size, and a step up and down."""
    sizes = [round(same)] if step == 1.0 else [math.floor(same / step), round(same), math.ceil(same * step)]
    return dict.fromkeys(max(1, size) for size in sizes)


class OutcomesAxis(SearchAxis, kw_only=True):
    """Cached outcomes of a sequence, any number: tokens/s are smooth in their logarithm.

    ``lookahead`` is the option of the K behind them: there are K + 1 accepted lengths to guess bonus tokens for. A
    search ends at ``most``; who wants more gives their number.
    """

    lookahead: str
    most: int
    guesses: tuple[int, ...] = (1, 3, 9, 27)

    def refuses(self, given: Mapping[str, Any], value: Any) -> str | None:
        """The reason why fan-outs, which a table has in place of outcomes, go beyond what is known."""
        known = fan_outs_known(given)
        if self.tabled_as is None or known is None or not isinstance(value, int) or value <= known:
            return None
        return f"hits are known up to {known} guesses a position{_MORE}"

    def possible(self, scope: Scope) -> Values:
        return None

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """The outcomes of so many guesses an accepted length."""
        if values is not None:
            return values
        return dict.fromkeys(min(f * (before[self.lookahead] + 1), self.most) for f in self.guesses)

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """Values of as many an accepted length as at ``top``, and a step up and down, whatever the K there."""
        if values is not None:
            return values
        lengths = before[self.lookahead] + 1
        as_many = top[self.option] * lengths / (top.get(self.lookahead, before[self.lookahead]) + 1)
        return dict.fromkeys(min(size, self.most) for size in _spaced(as_many, step))

    def tables(self, settings: Mapping[str, Any]) -> bool:
        guesses = settings[self.table_option]
        return isinstance(guesses, int) and guesses * (settings[self.lookahead] + 1) <= self.most


class SizesAxis(SearchAxis, kw_only=True):
    """Whole numbers up to ``most``: tokens/s are smooth in their logarithm. A first look is at ``first``."""

    first: tuple[int, ...]
    most: float = math.inf

    def possible(self, scope: Scope) -> Values:
        return None

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        return self.first if values is None else values

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """Values at ``top``, and a step up and down."""
        return values if values is not None else [size for size in _spaced(top[self.option], step) if size <= self.most]


class ScaleAxis(SearchAxis, kw_only=True):
    """Values of Saguaro's C that a measured pair knows, all of which are tried where the engine has ``strategy``'s."""

    strategy: str = ""

    def concerns(self, scope: Scope) -> bool:
        runs = _runs(scope.options)
        return len(known_cs(scope.options)) > 1 and (runs is None or self.strategy in runs.saguaro)

    def possible(self, scope: Scope) -> Values:
        return known_cs(scope.options)

    def refuses(self, given: Mapping[str, Any], value: Any) -> str | None:
        return why_not(given, value)

    def said(self, symbol: str, value: Any) -> str:
        return "" if value == PLAIN else super().said(symbol, value)

    def near(self, values: Values, before: Mapping[str, Any], top: Mapping[str, Any], step: float) -> Iterable[Any]:
        """All of them; the same alone where that is asked for."""
        return (top[self.option],) if step == 1.0 else values or ()


TARGET = DegreesAxis(
    option="tp",
    about="tensor-parallel degrees that may be chosen [default: all that divide]",
    placing=True,
    bounded=True,
)
EXPERTS = ExpertGroupsAxis(
    option="ep",
    about="groups of devices with different experts that may be chosen [default: 1, and as many as --tp]",
    placing=True,
    bounded=True,
)
PLACED = (TARGET, EXPERTS)
"""Every strategy has a target, so a search turns its degrees whatever else a strategy names."""

SAGUARO = ScaleAxis(
    option="saguaro_c",
    about="values of Saguaro's C that may be chosen [default: those that --pair knows]",
    says="{symbol} {value:g}",
    idle_with=("alpha", "p_hit", "hit_curve", "hit_c", "hit_r"),
    unit_free=True,
)


def work_of(settings: Iterable[tuple[str, Any]]) -> tuple[float, ...]:
    """Settings as numbers, of which less is simpler; before all others plain sampling is simpler than any C."""
    numbers = [each for each in settings if isinstance(each[1], int | float)]
    first = [-value for option, value in numbers if option == SAGUARO.option]
    return (*first, *(value for option, value in numbers if option != SAGUARO.option))


LOOKAHEAD = LookaheadAxis(option="k", about="lookaheads that may be chosen [default: 1:16]")
"""The K that strategies share."""
