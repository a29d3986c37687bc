"""Which options of which verbs inputs gave, and how far: in words, to the verb itself, and to an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
from click.core import ParameterSource

from tests.mutations.verbs import every_option, every_verb, verb_of


@contextmanager
def watched() -> Iterator[set[tuple[str, str]]]:
    """The options that click read and handed to a verb which began its work, within this block."""
    found: set[tuple[str, str]] = set()
    verbs = {id(command): verb for verb, command in every_verb().items()}
    invoke = click.Command.invoke

    def noted(self: click.Command, ctx: click.Context) -> object:
        verb = verb_of(ctx.command_path.split()[1:]) or verbs.get(id(self))
        if verb is not None:
            given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            found.update((verb, name) for name in (*given, ""))
        return invoke(self, ctx)

    click.Command.invoke = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        click.Command.invoke = invoke  # type: ignore[method-assign]


@dataclass
class Reached:
    """How often each option of each verb was handed to its verb, and answered; the verb itself has the name ''."""

    given: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, options: Iterable[tuple[str, str]], answered: bool) -> None:
        options = [*options]
        self.given.update(options)
        if answered:
            self.answered.update(options)

    def lines(self) -> Iterator[str]:
        """A row a verb, then the options that none of the inputs gave, or that none of the answers had."""
        yield f"{'verb':22} inputs  answered  options  given  answered"
        for verb in every_verb():
            options = [each for each in every_option() if each[0] == verb]
            counts = [sum(counter[each] > 0 for each in options) for counter in (self.given, self.answered)]
            runs = f"{self.given[verb, '']:6}  {self.answered[verb, '']:8}"
            yield f"{verb:22} {runs}  {len(options):7}  {counts[0]:5}  {counts[1]:8}"
        for title, counter in (("never given", self.given), ("never answered", self.answered)):
            absent = [f"{verb} {name}" for verb, name in every_option() if not counter[verb, name]]
            yield f"{len(absent)} of {len(every_option())} {title}: {', '.join(absent[:60])}"
