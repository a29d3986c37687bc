"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ssdsim.base import kinds
from ssdsim.base.option import Option, Section
from ssdsim.base.plain import plain
from ssdsim.cli.console import echo
from ssdsim.cli.help_page import Placed, more_of, output_option, rare_option, write_options
from ssdsim.cli.output import print_out
from ssdsim.cli.values import Lists, Values
from ssdsim.scenario.options import ALL, heading, ranged

_OUTPUT = Section.OUTPUT
Makes = Callable[[], Iterable[click.Option]]


class _Late(click.Option):
    """Stands for options that are made when a verb is asked: a strategy or a drafter may have come meanwhile."""

    def __init__(self, declared: Sequence[str], makes: Makes) -> None:
        super().__init__([f"--late-{id(self)}", *declared])
        self.makes = makes


class Verb(click.Command):
    """A command with an ``example``, whose :func:`late_options` are those of now, and whose help has a first page."""

    def __init__(self, *args: Any, example: str = "", **how: Any) -> None:
        super().__init__(*args, **how)
        self.example = example

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        made: dict[Verb, list[click.Parameter]] = ctx.meta.setdefault(__name__, {})  # click asks several times a call
        if self not in made:
            known = super().get_params(ctx)
            every = [each for param in known for each in (param.makes() if isinstance(param, _Late) else [param])]
            made[self] = [*every[:-1], *more_of(every), *every[-1:]]  # click's last is --help
        return made[self]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            with formatter.section("Example"):
                formatter.write(f"  {self.example}\n")  # whole, to be copied
        write_options(self.get_params(ctx), ctx, formatter)


def late_options(makes: Makes) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add what ``makes`` returns whenever the verb, a :class:`Verb`, is asked."""
    return click.option(cls=_Late, makes=makes)


class _Parsed(click.ParamType[Any]):
    """What :meth:`parse` makes of a text; a word of ``words`` is itself. ``unless`` completes the complaint."""

    words: tuple[str, ...] = ()
    unless: str

    def parse(self, text: str) -> Any:
        """The value; ValueError where the text is none."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self.words:
            return value
        try:
            return self.parse(value)
        except ValueError:
            self.fail(f"'{value}' is {self.unless}", param, ctx)


class Rates(_Parsed):
    """A rate, the range in which it lies, or K rates by position: ``0.8``, ``0.75:0.85`` or ``0.9,0.85,0.8``."""

    name = "rate[,rate...]|low:high"
    unless = "not a rate, a range such as 0.75:0.85 or a list of rates such as 0.9,0.85,0.8"

    def parse(self, text: str) -> float | list[float] | str:
        if ":" in text:
            return _a_range(text)
        rates = [float(part) for part in text.split(",")]
        return rates[0] if len(rates) == 1 else rates


class Rate(_Parsed):
    """A number, or the range in which it lies: ``0.8`` or ``0.75:0.85``."""

    name = "n|low:high"
    unless = "not a number, or a range such as 0.75:0.85"

    def parse(self, text: str) -> float | str:
        return float(text) if ":" not in text else _a_range(text)


def _a_range(text: str) -> str:
    """The text itself, which the option reads; ValueError where it has not two numbers."""
    low, high = map(float, text.split(":"))
    return f"{low!r}:{high!r}"


class Ranges(_Parsed):
    """``alpha=0.75:0.85``, or several with commas."""

    name = "input=low:high[,...]"
    unless = "no input with its range such as alpha=0.75:0.85"

    def parse(self, text: str) -> tuple[tuple[str, float, float], ...]:
        found = []
        for part in text.split(","):
            name, _, ends = part.partition("=")
            low, high = map(float, ends.split(":"))
            found.append((name.replace("-", "_"), low, high))
        return tuple(found)


class WholeNumbers(_Parsed):
    """Whole numbers separated by commas: ``4,3,2,1``."""

    name = "n[,n...]"
    unless = "not a list of whole numbers such as 4,3,2,1"

    def parse(self, text: str) -> list[int]:
        return [int(part) for part in text.split(",")]


class Numbers(_Parsed):
    """Numbers separated by commas: ``0.6,0.2,0.1``."""

    name = "number[,number...]"
    unless = "not a list of numbers such as 0.6,0.2,0.1"

    def parse(self, text: str) -> list[float]:
        return [float(part) for part in text.split(",")]


class Word(click.Choice[str]):
    """A word of a few, which may be spelled otherwise."""

    def __init__(self, kind: kinds.OneOf) -> None:
        super().__init__(kind.words)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(self.kind.meant(value) if isinstance(value, str) else value, param, ctx)


class Share(_Parsed):
    """A share: ``0.1`` or ``10%``."""

    name = "share"
    unless = "not a share of at least 0 such as 0.1 or 10%"

    def parse(self, text: str) -> float:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if share < 0.0:
            raise ValueError
        return share


class NumberOrWord(_Parsed):
    """A number, or a word in its place."""

    def __init__(self, number: type[int] | type[float], name: str, word: str) -> None:
        self.number = number
        self.name = f"{name}|{word}"
        self.words = (word,)
        self.unless = f"neither a {'whole number' if number is int else 'number'} nor '{word}'"

    def parse(self, text: str) -> int | float:
        return self.number(text)


class Pairs(_Parsed):
    """Pairs of numbers, such as measured hit rates at some fan-outs: ``1:0.6,2:0.7,4:0.8``."""

    def __init__(self, name: str, such_as: str) -> None:
        self.name = name
        self.unless = f"not a list of {such_as}"

    def parse(self, text: str) -> list[tuple[float, float]]:
        pairs = [part.split(":") for part in text.split(",")]
        return [(float(one), float(other)) for one, other in pairs]


def chosen_options(
    names: Callable[[], Iterable[str]],
    several: bool = False,
    defaults: bool = True,
    instead: Callable[[], Mapping[str, Any]] = dict,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add scenario options to a :class:`Verb`, with ``several`` as lists or ranges; one not given arrives as None.

    ``defaults`` shows the scenario's in --help: not for a verb that has its own; ``instead`` has a verb's own of some.
    """

    def one(option: Option, own: Mapping[str, Any]) -> click.Option:
        shown = option.help if defaults else option.told()
        shown = option.told(f"default: {own[option.name]}") if option.name in own else shown
        if isinstance(option.kind, kinds.Flag):
            return placed(option, is_flag=True, help=option.help)
        if isinstance(option.kind, kinds.Ranges):
            return _again_for_each(option, shown)
        return placed(option, type=several_of(option) if several else _single(option), help=shown)

    return late_options(lambda: [one(ALL[name], instead()) for name in names()])


def _again_for_each(option: Option, shown: str) -> click.Option:
    """An option that may be given again for each input; None where it is not given at all."""

    def together(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        return tuple(triple for each in value or () for triple in each) or None

    return placed(option, type=Ranges(), multiple=True, callback=together, help=shown)


def placed(option: Option, **how: Any) -> Placed:
    """The option of the command line that a record describes; None where it is not given."""
    place: dict[str, Any] = {"heading": heading(option), "prominence": option.prominence}
    if isinstance(option.kind, kinds.Name) and option.kind.full is not str:
        place["callback"] = _in_full(option, option.kind.full)
    return Placed([*option.flags, option.name], **{"default": None, **place, **how})


def _in_full(option: Option, full: Callable[[str], str]) -> Callable[..., Any]:
    """Says what a short name is taken for."""

    def said(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and full(name) != name and not ctx.params.get("quiet"):
                echo(f"note: {option.spelling} {name} is taken for {full(name)}", stderr=True)
        return value

    return said


def _single(option: Option) -> Any:
    """The type of one value of an option."""
    if option.name in ranged() and isinstance(option.kind, kinds.Number):
        return Rate()
    match option.kind:
        case kinds.Whole():
            return int
        case kinds.Number():
            return float
        case kinds.OneOf():
            return Word(option.kind)
        case kinds.Name() | kinds.Member() | kinds.Names():
            return str
        case kinds.NumberOrWord(number, word):
            return NumberOrWord(_number(number), option.name, word)
        case kinds.OneOrByPosition():
            return Rates()
        case kinds.ListOf(number):
            return WholeNumbers() if isinstance(number, kinds.Whole) else Numbers()
        case kinds.HitRates():
            return Pairs("f:h[,f:h...]", "fan-outs and hit rates such as 1:0.6,2:0.7,4:0.8")
        case kinds.PassTimes():
            return Pairs("rows:time[,...]", "rows and times such as 16:1,64:1.1,128:2")
    raise TypeError(f"the command line knows no type for {option.kind}")


def several_of(option: Option) -> click.ParamType[Any]:
    """The type of several values of an option; where lists are values, rates by position are not."""
    match option.kind:
        case kinds.Names():  # they make one comparison
            return click.STRING
        case kinds.OneOf(words):
            return Values(str, words, option.kind.meant)
        case kinds.OneOrByPosition():
            return Values(float)
        case kinds.NumberOrWord(number, word):
            return Values(_number(number), (word,))
        case kinds.ListOf() | kinds.HitRates() | kinds.PassTimes():
            return Lists(_single(option))
    return Values(_single(option))


def _number(kind: kinds.Whole | kinds.Number) -> type[int] | type[float]:
    return int if isinstance(kind, kinds.Whole) else float


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option as a list or range; one that is not given arrives as None."""
    return chosen_options(lambda: ALL, several=True)(command)


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option."""
    return chosen_options(lambda: ALL)(command)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``, ``--seed`` and ``--quiet``."""
    command = quiet_option(command)
    seed = rare_option("--seed", type=int, default=0, show_default=True, help="of every random draw", heading=_OUTPUT)
    command = seed(command)
    return json_option(command)


def work_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-o``, ``--jobs`` and ``--cluster``: where long work is kept, and who does it."""
    folder = click.Path(path_type=Path, file_okay=False)
    address = "a Dask scheduler, whose workers do the work"
    for option in (
        rare_option("--cluster", metavar="TCP://HOST:PORT", help=address, heading=_OUTPUT),
        output_option(
            "--jobs", type=int, default=1, show_default=True, help="processes on this machine; -1: one a core"
        ),
        output_option("-o", "--output", type=folder, help="a run folder such as run; resumed after a kill"),
    ):
        command = option(command)
    return command


def quiet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return output_option("--quiet", is_flag=True, is_eager=True, help="no notes on stderr")(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return output_option("--json", "as_json", is_flag=True, help="one JSON object on stdout")(command)


def echo_json(value: Any) -> None:
    """A record, or a mapping of records, as :func:`ssdsim.base.plain.plain` has it."""
    print_out(json.dumps(plain(value), indent=2, allow_nan=False))
