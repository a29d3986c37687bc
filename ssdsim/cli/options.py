"""Verbs and their options: those that records describe and those that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from ssdsim.base import kinds
from ssdsim.base.errors import closest
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Lists, Names, PassTimes, Ranges, Several
from ssdsim.base.option import Option, OptionRecord, Searcher, Section, options_of
from ssdsim.cli.help_page import DECIDING, Decorator, ListedOption, help_all_option, write_options
from ssdsim.cli.output import VERBOSE
from ssdsim.cli.param_types import COMPLETER_OF, SEED, OfKind, Output
from ssdsim.question.options import ALL, heading, owners, ranged
from ssdsim.question.spellings import SOLVERS

_OUTPUT = Section.OUTPUT
_SLIP = 0.8  # names as much alike as this differ by a slip of the keys
OptionRecords = Callable[[], Iterable[Option]]
OptionFactory = Callable[[Option], click.Option]


class DynamicOption(click.Option):
    """Stands for options that are made when a verb is called: strategies and drafters may be registered meanwhile."""

    def __init__(self, declared: Sequence[str], records: OptionRecords, factory: OptionFactory) -> None:
        super().__init__([f"--dynamic-{id(self)}", *declared])
        self.records, self.factory = records, factory


class Verb(click.Command):
    """A command with an ``example``, with :func:`dynamic_options`, and with a first page of help.

    ``has_no`` says why it has no such option, by the option's name. The first page of one that decides has the options
    of :data:`DECIDING`, and of those that it cannot do without, ``needs``.
    """

    def __init__(
        self,
        *args: Any,
        example: str = "",
        has_no: Mapping[str, str] | None = None,
        needs: Sequence[str] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(*args, **how)
        self.example = example
        self.has_no = has_no or {}
        self.page: Sequence[str] = () if needs is None else (*DECIDING, *needs)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        made: dict[Verb, list[click.Parameter]] = ctx.meta.setdefault(__name__, {})  # click asks several times a call
        if self not in made:
            *every, help_option = self._made(ctx)
            made[self] = [*every, *help_all_option(every), help_option]
        return made[self]

    def _made(self, ctx: click.Context, words: set[str] | None = None) -> Iterator[click.Parameter]:
        """The parameters, click's ``--help`` last; of the dynamic options those with a flag among ``words``, or all."""
        for param in super().get_params(ctx):
            if isinstance(param, DynamicOption):
                records = param.records()
                yield from [param.factory(each) for each in records if words is None or words.intersection(each.flags)]
            else:
                yield param

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``; of the dynamic options, over a hundred, make but those that are named there.

        All are made where a word may be no flag of this verb, or asks for help: then they may be shown.
        """
        words = {word.partition("=")[0] for word in args if word.startswith("-")}
        if "--engine" in words and any("--solver" in param.opts for param in self._made(ctx, {"--solver"})):
            args = [*_solver_named(args)]
            words = {word.partition("=")[0] for word in args if word.startswith("-")}
        if {"--help", "-h"} & words:
            ctx.meta[_ASKED_FOR] = [*_own_options(args)]
        records = [option for param in self.params if isinstance(param, DynamicOption) for option in param.records()]
        flags = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        if ctx.resilient_parsing or not words <= flags.union(*map(attrgetter("flags"), records)):
            return super().parse_args(ctx, args)
        made = ctx.meta.setdefault(__name__, {})
        made[self] = [*self._made(ctx, words)]
        try:
            rest = super().parse_args(ctx, args)
        finally:
            del made[self]
        for option in records:
            ctx.params.setdefault(option.name, None)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            with formatter.section("Example"):
                formatter.write(f"  {self.example}\n")  # whole, to be copied
        own = ctx.meta.get(_ASKED_FOR, ())
        write_options(self.get_params(ctx), ctx, formatter, (*self.page, *own) if self.page else ())


_ASKED_FOR = f"{__name__}.asked_for"


def _own_options(args: Sequence[str]) -> Iterator[str]:
    """The options of strategies and drafters that the words name, for the first page of help."""
    asked = {chooser: set[str]() for chooser in ("strategies", "drafter")}
    for flag, value in pairwise([*args, ""]):
        name, _, said = flag.partition("=")
        for chooser, names in asked.items():
            if name in ALL[chooser].flags:
                names.update((said or value).split(","))
    for name in ALL:
        chooser, theirs = owners(name) or ("", ())
        if chooser and asked[chooser].intersection(theirs):
            yield name


def _solver_named(args: Sequence[str]) -> Iterator[str]:
    """The words of a verb whose ``--solver`` was ``--engine`` before 0.4: that names the serving engine now."""
    for flag, value in pairwise([*args, ""]):
        name, _, word = flag.partition("=")
        if name == "--engine" and (word or value) in SOLVERS:
            from ssdsim.cli.console import echo  # here: what prints in colours is loaded where something is printed

            echo(f"note: --engine {word or value} is --solver {word or value} now", stderr=True)
            flag = flag.replace("--engine", "--solver", 1)
        yield flag


class CommandGroup(click.Group):
    """A verb that has verbs of its own; its help gives the first sentence of each whole, not cut to the line."""

    command_class = Verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def output_option(*declared: str, **how: Any) -> Decorator:
    """Add an option that says what is written, and where."""
    return click.option(*declared, **{"cls": ListedOption, "heading": Section.OUTPUT, **how})


def rare_option(*declared: str, **how: Any) -> Decorator:
    """Add an option that only ``--help-all`` shows."""
    return click.option(*declared, **{"cls": ListedOption, "prominence": 0, **how})


def dynamic_options(records: OptionRecords, factory: OptionFactory) -> Decorator:
    """Add to a :class:`Verb` what ``factory`` makes of the ``records`` of the moment; one not given arrives as None."""
    return click.option(cls=DynamicOption, records=records, factory=factory)


def chosen_options(
    names: Callable[[], Iterable[str]],
    several: bool | Searcher = False,
    defaults: bool = True,
    instead: Callable[[], Mapping[str, Any]] = dict,
) -> Decorator:
    """Add scenario options to a :class:`Verb`; one not given arrives as None. Lists and ranges are for ``several``: for
    all options, or for those that an answer varies.

    ``defaults`` shows the scenario's in --help: not for a verb that has its own; ``instead`` has a verb's own of some.
    """

    def made(option: Option) -> click.Option:
        own = instead()
        shown = option.help if defaults else option.help_text()
        shown = option.help_text(f"default: {own[option.name]}") if option.name in own else shown
        if isinstance(option.kind, kinds.Flag):
            return listed(option, is_flag=True, help=option.help)
        if isinstance(option.kind, Ranges):
            return _again_for_each(option, shown)
        takes_several = several if isinstance(several, bool) else several in option.varied_by
        return listed(option, type=several_of(option) if takes_several else _single(option), help=shown)

    return dynamic_options(lambda: map(ALL.__getitem__, names()), made)


def record_options(record: type[OptionRecord]) -> Decorator:
    """Add the options of a record, which :func:`ssdsim.base.option.taken` makes of them."""

    def made(option: Option) -> click.Option:
        flag = isinstance(option.kind, kinds.Flag)
        return listed(option, help=option.help, **({"is_flag": True} if flag else {"type": OfKind(option.kind)}))

    return dynamic_options(lambda: options_of(record).values(), made)


def _again_for_each(option: Option, shown: str) -> click.Option:
    """An option that may be given again for each input; None where it is not given at all."""

    def together(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        return tuple(triple for each in value or () for triple in each) or None

    return listed(option, type=OfKind(option.kind), multiple=True, callback=together, help=shown)


def listed(option: Option, **how: Any) -> ListedOption:
    """The option of the command line that a record describes; None where it is not given."""
    place: dict[str, Any] = {"heading": heading(option), "prominence": option.prominence}
    if isinstance(option.kind, kinds.Name) and option.kind.full is not str:
        place["callback"] = _in_full(option, option.kind.meant or option.kind.full)
    place["shell_complete"] = COMPLETER_OF.get(option.name)
    return ListedOption([*option.flags, option.name], **{"default": None, **place, **how})


def _in_full(option: Option, meant: Callable[[str], str]) -> Callable[..., Any]:
    """Say what a short name is taken for."""

    def said(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and meant(name) != name and not ctx.params.get("quiet"):
                from ssdsim.cli.console import echo  # here: what prints in colours is loaded where something is printed

                echo(f"note: {option.spelling} {name} is taken for {meant(name)}", stderr=True)
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
    seed = rare_option("--seed", type=SEED, default=0, show_default=True, help="of every random draw", heading=_OUTPUT)
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


def explain_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--explain``: all that a first screen of fifteen lines leaves out."""
    about = "what the answer rests on: rounds, sources, 95 % intervals, every warning"
    return output_option("--explain", is_flag=True, help=about)(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return output_option("--json", "as_json", is_flag=True, help="one JSON object on stdout")(command)


def complaint(error: click.NoSuchOption) -> str:
    """``No such option '--gpus'; here --tp (target GPUs) and --draft-gpus (draft GPUs); recommend has --gpus``."""
    asked, params = error.option_name, [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    own = [each for each in params if isinstance(each, click.Option)]
    flags = {flag.lstrip("-"): flag for each in own for flag in each.opts}
    verb = None if error.ctx is None else error.ctx.command
    for absent, why in verb.has_no.items() if isinstance(verb, Verb) else ():
        if asked in ALL[absent].flags:
            return why
    name = asked.lstrip("-")
    if slip := closest(name, flags, _SLIP):
        return f"No such option '{asked}'; did you mean {flags[slip]}?"
    said = [f"No such option '{asked}'"]
    here = [each for each in own if each.name in ALL and name in ALL[each.name].axis.lower().split()]
    if here:
        here.sort(key=lambda each: -ALL[str(each.name)].prominence)
        told = (f"{each.opts[0]} ({ALL[str(each.name)].axis.partition(' (')[0]})" for each in here)
        said.append(f"here {' and '.join(told)}")
    if there := [] if error.ctx is None else list(_verbs_with(asked, error.ctx.find_root())):
        said.append(f"{', '.join(there)} {'have' if len(there) > 1 else 'has'} {asked}")
    elif not here and (near := closest(name, flags)):
        said.append(f"did you mean {flags[near]}?")
    return "; ".join(said)


def _verbs_with(flag: str, root: click.Context) -> Iterator[str]:
    """The verbs that have an option; those that miss an extra are passed over."""
    assert isinstance(root.command, click.Group)
    for verb in root.command.list_commands(root):
        try:
            command = root.command.get_command(root, verb)
        except ModuleNotFoundError:
            continue
        if isinstance(command, Verb) and any(
            flag in each.opts for each in command.get_params(click.Context(command, parent=root))
        ):
            yield verb
