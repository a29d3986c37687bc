"""The reference of the options that describe a scenario."""

from __future__ import annotations

import click

from site_generator.command_line import option_table
from ssdsim.cli.predict import command
from ssdsim.scenario.options import DEFAULTS

_INTRODUCTION = """# Options of a scenario

What `predict`, `simulate`, `sweep`, `recommend`, `export` and the functions of the same names take; in Python
`--p-hit` is `p_hit`. In `sweep` each takes a list (`1,2,4`) or a range with both ends (`1:8`, `0.5:1:0.05`). Which verb
takes which, and what else it takes: [verbs](cli.md). An option without effect beside another is an error that says so.

"""


def options_page() -> str:
    """Every option of a scenario with its spellings, values, meaning and default."""
    context = click.Context(command, info_name="ssdsim predict")
    return _INTRODUCTION + option_table([o for o in command.params if o.name in DEFAULTS], context)
