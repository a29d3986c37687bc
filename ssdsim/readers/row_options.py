"""Columns of a row that are options of its strategy, by the names and the kinds that ``predict`` knows them by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import NumberOrWord
from ssdsim.base.option import Option, Section
from ssdsim.question.options import ALL

RowOptions = tuple[tuple[str, Any], ...]
"""The options of one row, in the order of :data:`ssdsim.question.options.ALL`."""

TELL_TOKENS = frozenset({"alpha", "pair", "acceptance"})
"""Options of which each says how many tokens a round yields."""

_NOT_OPTIONS = ("ranges", "tree_nodes", "tree_beam")
"""A range is no row's; of a tree a row has columns of its own."""


def option_columns() -> Mapping[str, Option]:
    """The options of strategies, of acceptance and of hits, and the temperature."""
    own = {option.name for strategy in strategies.ALL for option in strategy.options}
    return {
        name: option
        for name, option in ALL.items()
        if (name in own or name == "temperature" or option.section is Section.ACCEPTANCE) and name not in _NOT_OPTIONS
    }


def read_options(cells: Mapping[str, Any], where: str) -> RowOptions:
    """The options among a row's cells, checked as ``predict`` checks them; text is parsed as on the command line."""
    return tuple(_read(cells, where))


def _read(cells: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name, option in option_columns().items():
        value = cells.get(name)
        if value is None or value == "":
            continue
        try:
            checked = option.checked(option.kind.parse(value) if isinstance(value, str) else value)
        except ValueError as error:
            said = error if isinstance(error, InputError) else f"'{value}' is {option.kind.parse_error or error}"
            raise InputError(f"{where}: {name}: {said}") from None
        if isinstance(checked, str) and isinstance(option.kind, NumberOrWord):
            raise InputError(f"{where}: {name}: a run had a number, got '{checked}'")
        yield name, _hashable(checked)


def check_owned(options: RowOptions, run: str) -> None:
    """Raise :class:`InputError` at an option of other strategies than the one that ran."""
    for name, _ in options:
        owners = [strategy for strategy in strategies.ALL if any(option.name == name for option in strategy.options)]
        if owners and all(strategy.name != run for strategy in owners):
            said = f"{name} is no option of {strategies.ALL.named(run).title}, but of "
            raise InputError(f"{said}{', '.join(each.title for each in owners)}: name what ran in the column strategy")


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def as_cell(value: Any) -> str:
    """The text of an option's value, which :func:`read_options` reads again."""
    if not isinstance(value, tuple):
        return str(value)
    return ",".join(":".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value)
