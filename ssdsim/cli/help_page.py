"""The help of a verb: options below headings, the frequent ones on a first page, all of them with ``--help-all``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import click

from ssdsim.base.option import ALWAYS, Section
from ssdsim.cli.param_types import OfKind

MOST_OPTIONS = 25
"""The most options that a first page has, ``--help`` included."""
DECIDING = (
    "target", "gpus", "engine", "drafter", "b", "context", "text", "alpha", "acceptance", "pair", "slo", "explain",
    "as_json",
)  # fmt: skip
"""The options by which every verb that decides is asked, those of them that it has: all of its first page but for
those that it cannot do without."""
_COLUMN = 34  # of the options' names, beside what they mean


_SHORT = {"INTEGER": "N", "FLOAT": "X", "DIRECTORY": "FOLDER", "PATH": "FILE"}
_LISTED = re.compile(r"^([A-Z:]+)\[,.*")


class ListedOption(click.Option):
    """An option that knows its heading and, by ``prominence``, whether the first page has it: 0 is never there."""

    def __init__(
        self, declared: Sequence[str], *, heading: str | Section = "", prominence: int = ALWAYS, **how: Any
    ) -> None:
        super().__init__(declared, **how)
        self.heading = heading.value if isinstance(heading, Section) else heading
        self.prominence = prominence


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def help_all_option(options: Iterable[click.Parameter]) -> list[click.Option]:
    """``--help-all``, which shows every option and ends, where the first page leaves some out."""

    def shown(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_EVERYTHING] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    every = [each for each in options if isinstance(each, click.Option)]
    if len(every) < MOST_OPTIONS and all(_prominence(each) > 0 for each in every):
        return []
    how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": shown}
    return [ListedOption(["--help-all"], heading=Section.OUTPUT, help="Show every option and exit.", **how)]


_EVERYTHING = f"{__name__}.everything"


def write_options(
    options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter, names: Collection[str] = ()
) -> None:
    """The first page, which may be of options of given ``names``; with ``--help-all`` all, in all their spellings."""
    every = [each for each in options if isinstance(each, click.Option) and not each.hidden]
    whole = ctx.meta.get(_EVERYTHING, False)
    page = every if whole else first_page(every, names)
    for heading, below in by_heading(page).items():
        with formatter.section(heading):
            formatter.write_dl([_row(each, ctx, whole) for each in below], col_max=_COLUMN)
    if len(page) < len(every):
        formatter.write_paragraph()
        formatter.write_text(f"{len(every) - len(page)} more options: {ctx.command_path} --help-all")
        if names:
            formatter.write_text("A strategy's own: --strategies NAME --help; a drafter's: --drafter NAME --help")


def first_page(options: Iterable[click.Option], names: Collection[str] = ()) -> list[click.Option]:
    """The options of these names, or else the most prominent ones, as many as a page has room for, in their order."""
    every = list(options)
    if names:
        return [each for each in every if each.name in names or {"--help", "--help-all"}.intersection(each.opts)]
    ranked = sorted((each for each in every if _prominence(each) > 0), key=_prominence, reverse=True)
    kept = set(map(id, ranked[:MOST_OPTIONS]))
    return [each for each in every if id(each) in kept]


def by_heading(options: Sequence[click.Option]) -> Mapping[str, list[click.Option]]:
    """Options below their headings, the most prominent first: the scenario's, those of strategies, the output."""
    every = sorted(options, key=_prominence, reverse=True)
    asked = dict.fromkeys([each.value for each in Section if each is not Section.OUTPUT])
    order = dict.fromkeys([*asked, *sorted(map(_heading, options)), Section.OUTPUT.value])
    found = {heading: [each for each in every if _heading(each) == heading] for heading in order}
    return {heading: below for heading, below in found.items() if below}


def _prominence(option: click.Option) -> int:
    own = option.prominence if isinstance(option, ListedOption) else ALWAYS
    return own + 1 if own and _heading(option) == Section.OUTPUT.value else own  # no verb's own options push these out


def _heading(option: click.Option) -> str:
    own = option.heading if isinstance(option, ListedOption) else ""
    return Section.OUTPUT.value if "--help" in option.opts else own or Section.START.value


def _row(option: click.Option, ctx: click.Context, whole: bool) -> tuple[str, str]:
    """Names and meaning, which begins in one column; a first page has the names for which there is room."""
    record = option.get_help_record(ctx)
    assert record is not None
    meaning, value = record[1], "" if option.is_flag else f" {_value(option, ctx)}"
    if len(value) > _COLUMN // 2 and (words := _words(option)):
        value, meaning = " WORD", f"{meaning}; one of {', '.join(words)}"
    counts = range(len(option.opts), 0, -1)
    names = [click.formatting.join_options(option.opts[:count])[0] + value for count in counts]
    fitting = (each for each in names if len(each) <= _COLUMN - 2)
    return (names[0] if whole else next(fitting, names[-1])).ljust(_COLUMN - 2), meaning


def _words(option: click.Option) -> tuple[str, ...]:
    """The words that may be typed, where these are few."""
    if isinstance(option.type, click.Choice):
        return tuple(map(str, option.type.choices))
    return option.type.kind.words if isinstance(option.type, OfKind) else ()


def _value(option: click.Option, ctx: click.Context) -> str:
    """The option's value as a person would write it: N, a list as N,..."""
    told = option.make_metavar(ctx)
    return _LISTED.sub(r"\1,...", _SHORT.get(told.removesuffix(" RANGE"), told))
