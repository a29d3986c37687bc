"""The complaint about an option that a verb does not have: what it has instead, and which verbs have it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ssdsim.base.errors import closest
from ssdsim.cli.main import VERBS, cli
from ssdsim.question.options import ALL

_SLIP = 0.8  # names as much alike as this differ by a slip of the keys


def complaint(error: click.NoSuchOption) -> str:
    """``No such option '--gpus'; here --tp (target GPUs) and --draft-gpus (draft GPUs); recommend has --gpus``."""
    asked, params = error.option_name, [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    own = [each for each in params if isinstance(each, click.Option)]
    flags = {flag.lstrip("-"): flag for each in own for flag in each.opts}
    name = asked.lstrip("-")
    if slip := closest(name, flags, _SLIP):
        return f"No such option '{asked}'; did you mean {flags[slip]}?"
    said = [f"No such option '{asked}'"]
    here = [each for each in own if each.name in ALL and name in ALL[each.name].axis.lower().split()]
    if here:
        here.sort(key=lambda each: -ALL[str(each.name)].prominence)
        told = (f"{each.opts[0]} ({ALL[str(each.name)].axis.partition(' (')[0]})" for each in here)
        said.append(f"here {' and '.join(told)}")
    if there := list(_verbs_with(asked)):
        said.append(f"{', '.join(there)} {'have' if len(there) > 1 else 'has'} {asked}")
    elif not here and (near := closest(name, flags)):
        said.append(f"did you mean {flags[near]}?")
    return "; ".join(said)


def _verbs_with(flag: str) -> Iterator[str]:
    """The verbs that have an option; those that miss an extra are passed over."""
    top = click.Context(cli)
    for verb in VERBS:
        try:
            command = cli.get_command(top, verb)
        except ModuleNotFoundError:
            continue
        if command is None or isinstance(command, click.Group):
            continue
        ctx = click.Context(command, parent=top)
        if any(flag in each.opts for each in command.get_params(ctx)):
            yield verb
