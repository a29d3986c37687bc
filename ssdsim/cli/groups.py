"""Verbs that have verbs of their own."""

from __future__ import annotations

import click

from ssdsim.cli.options import Verb


class Group(click.Group):
    """A click group of :class:`Verb`, whose help gives each command's first sentence whole, not cut to the line."""

    command_class = Verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The rows of the help."""
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
