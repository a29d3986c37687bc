"""The reference of verbs: what ``--help`` says, as a page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

import click

from ssdsim.cli.help_page import by_heading
from ssdsim.cli.main import cli
from ssdsim.cli.options import Verb

_INTRODUCTION = """# Verbs and their options

Generated from the command line itself; `ssdsim VERB --help-all` says the same, `--help` has the options
that most people use. The options that describe a scenario (models, devices, acceptance, cache) are alike in all verbs:
[what they mean](options.md).

Every verb: results on stdout, notes on stderr (`--quiet` silences them), `--json` where it has an answer. Exit codes
are 0 done, 1 the answer is no, 2 bad input (one line), 130 interrupted. An option without effect is an error.
"""


def command_line_page() -> str:
    """Every verb, its help and its options."""
    return _INTRODUCTION + "".join(_sections(cli, "ssdsim", 2))


def _sections(group: click.Group, path: str, level: int) -> Iterator[str]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield _section(command, f"{path} {name}", level)
        if isinstance(command, click.Group):
            yield from _sections(command, f"{path} {name}", level + 1)


def _section(command: click.Command, path: str, level: int) -> str:
    context = click.Context(command, info_name=path)
    about = inspect.cleandoc(command.help or "")
    usage = f"{path} {' '.join(command.collect_usage_pieces(context))}"
    text = f"\n{'#' * level} {path}\n\n{escaped(about)}\n\n```text\n{usage}\n```\n"
    if isinstance(command, click.Group):
        return text
    if isinstance(command, Verb) and command.example:
        text += f"\n```sh\n{command.example}\n```\n"
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    tables = [f"\n**{heading}**\n\n{option_table(below, context)}" for heading, below in by_heading(options).items()]
    return text + "".join(tables)


def option_table(options: Iterable[click.Option], context: click.Context) -> str:
    """A row an option: its spellings, its values, its help with the default."""
    return "| option | value | meaning |\n|---|---|---|\n" + "".join(_row(option, context) for option in options)


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    spellings = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f"`{option.make_metavar(context)}`"
    return f"| {spellings} | {value} | {escaped(record[1])} |\n"


def escaped(text: str) -> str:
    """``text`` as Markdown shows it letter by letter, also within a table; an option's name is code."""
    text = re.sub(r"([\\*_<>\[\]|])", r"\\\1", text)
    return re.sub(r"(?<![\w-])--[a-z][a-z-]*", lambda each: f"`{each.group()}`", text)
