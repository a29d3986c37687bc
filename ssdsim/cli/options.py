"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ssdsim.base import kinds
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Lists, Names, PassTimes, Ranges, Several
from ssdsim.base.option import Option, Section
from ssdsim.base.option_record import OptionRecord, options_of
from ssdsim.base.plain import plain
from ssdsim.cli.help_page import Adds, Placed, more_of, output_option, rare_option, write_options
from ssdsim.cli.output import print_out
from ssdsim.cli.values import OfKind, Output
from ssdsim.question.options import ALL, heading, ranged

_OUTPUT = Section.OUTPUT
VERBOSE = f"{__name__}.verbose"
"""The place where a call keeps that it is asked for every warning."""
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


def late_options(makes: Makes) -> Adds:
    """Add what ``makes`` returns whenever the verb, a :class:`Verb`, is asked."""
    return click.option(cls=_Late, makes=makes)


def chosen_options(
    names: Callable[[], Iterable[str]],
    several: bool = False,
    defaults: bool = True,
    instead: Callable[[], Mapping[str, Any]] = dict,
) -> Adds:
    """Add scenario options to a :class:`Verb`, with ``several`` as lists or ranges; one not given arrives as None.

    ``defaults`` shows the scenario's in --help: not for a verb that has its own; ``instead`` has a verb's own of some.
    """

    def one(option: Option, own: Mapping[str, Any]) -> click.Option:
        shown = option.help if defaults else option.help_text()
        shown = option.help_text(f"default: {own[option.name]}") if option.name in own else shown
        if isinstance(option.kind, kinds.Flag):
            return placed(option, is_flag=True, help=option.help)
        if isinstance(option.kind, Ranges):
            return _again_for_each(option, shown)
        return placed(option, type=several_of(option) if several else _single(option), help=shown)

    return late_options(lambda: [one(ALL[name], instead()) for name in names()])


def record_options(record: type[OptionRecord]) -> Adds:
    """Add the options of a record, which :func:`ssdsim.base.option_record.taken` makes of them."""

    def one(option: Option) -> click.Option:
        flag = isinstance(option.kind, kinds.Flag)
        return placed(option, help=option.help, **({"is_flag": True} if flag else {"type": OfKind(option.kind)}))

    return late_options(lambda: map(one, options_of(record).values()))


def _again_for_each(option: Option, shown: str) -> click.Option:
    """An option that may be given again for each input; None where it is not given at all."""

    def together(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        return tuple(triple for each in value or () for triple in each) or None

    return placed(option, type=OfKind(option.kind), multiple=True, callback=together, help=shown)


def placed(option: Option, **how: Any) -> Placed:
    """The option of the command line that a record describes; None where it is not given."""
    place: dict[str, Any] = {"heading": heading(option), "prominence": option.prominence}
    if isinstance(option.kind, kinds.Name) and option.kind.full is not str:
        place["callback"] = _in_full(option, option.kind.full)
    return Placed([*option.flags, option.name], **{"default": None, **place, **how})


def _in_full(option: Option, full: Callable[[str], str]) -> Callable[..., Any]:
    """Say what a short name is taken for."""

    def said(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and full(name) != name and not ctx.params.get("quiet"):
                from ssdsim.cli.console import echo  # here: what prints in colours is loaded where something is printed

                echo(f"note: {option.spelling} {name} is taken for {full(name)}", stderr=True)
        return value

    return said


class _One(OfKind):
    """One value of an option; a list or a range of them is for a verb that takes several."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            with suppress(ValueError, OverflowError):
                several = Several(self.kind).parse(value)
                if len(several) > 1:
                    flag = param.opts[0] if param else value
                    raise click.UsageError(
                        f"{flag} {value}: one value is taken here; ssdsim sweep takes several"
                    ) from None
            raise


def _single(option: Option) -> OfKind:
    """The type of one value of an option, for which a rate's range may stand."""
    kind = option.kind
    return _One(kinds.Between(kind.most) if isinstance(kind, kinds.Number) and option.name in ranged() else kind)


def several_of(option: Option) -> OfKind:
    """The type of several values of an option; where lists are values, rates by position are not."""
    match option.kind:
        case Names():  # they make one comparison
            return OfKind(option.kind)
        case ListOf() | HitRates() | PassTimes():
            return OfKind(Lists(option.kind))
    return OfKind(Several(option.kind))


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option as a list or range; one that is not given arrives as None."""
    return chosen_options(lambda: ALL, several=True)(command)


def given_of_grid(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values given of :func:`grid_options`; of a list of one its value."""
    given = {name: values for name, values in options.items() if values is not None}
    return {name: each[0] if isinstance(each, list) and len(each) == 1 else each for name, each in given.items()}


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option."""
    return chosen_options(lambda: ALL)(command)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``, ``--seed`` and ``--quiet``."""
    command = quiet_option(command)
    seed = rare_option("--seed", type=int, default=0, show_default=True, help="of every random draw", heading=_OUTPUT)
    command = seed(command)
    return json_option(command)


def kept_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-o``: where long work is kept."""
    folder = Output(path_type=Path, file_okay=False)
    return output_option("-o", "--output", type=folder, help="a run folder such as run; resumed after a kill")(command)


def _note_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[VERBOSE] = value


def quiet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--quiet``, and ``--verbose`` beside it."""
    noted: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _note_verbose}
    command = output_option("--verbose", **noted, help="every warning, not one of a kind")(command)
    return output_option("--quiet", is_flag=True, is_eager=True, help="no notes on stderr")(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return output_option("--json", "as_json", is_flag=True, help="one JSON object on stdout")(command)


def echo_json(value: Any) -> None:
    """A record, or a mapping of records, as :func:`ssdsim.base.plain.plain` has it."""
    print_out(json.dumps(plain(value), indent=2, allow_nan=False))
