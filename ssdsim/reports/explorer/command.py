"""Options as they are spelled on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ssdsim.base.option import spelled
from ssdsim.question.options import ALL


def words(options: Mapping[str, Any]) -> list[str]:
    """The words of ``options``, quoted for a shell.

    >>> " ".join(words({"b": 4, "fl": [4, 3], "extrapolate": True, "pair": "my pair.json"}))
    "--b 4 --fl 4,3 --extrapolate --pair 'my pair.json'"
    """
    found = []
    for name, value in options.items():
        if value is False:
            continue
        found += [spelled(name)] if value is True else [spelled(name), shlex.quote(spelled_value(value))]
    return found


def swept_words(options: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """The words of a sweep's options and of the lists of its ``grid``.

    >>> " ".join(swept_words({"t_sd": 0.2}, {"b": [1, 2], "fl": [[4, 3], [2, 2]]}))
    '--t-sd 0.2 --b 1,2 --fl 4,3/2,2'
    """
    between = {name: "/" if ALL[name].kind.depth else "," for name in grid}
    lists = {name: between[name].join(map(spelled_value, values)) for name, values in grid.items()}
    return words({**options, **lists})


def spelled_value(value: Any) -> str:
    """A value as the command line takes it.

    >>> spelled_value([(1, 0.6), (2, 0.7)])
    '1:0.6,2:0.7'
    >>> spelled_value([("alpha", 0.7, 0.8)])
    'alpha=0.7:0.8'
    """
    if not isinstance(value, list | tuple):
        return repr(value) if isinstance(value, float) else str(value)
    return ",".join(_part(each) for each in value)


def _part(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        first, *others = map(spelled_value, value)
        return f"{first}={':'.join(others)}" if isinstance(value[0], str) else ":".join((first, *others))
    return spelled_value(value)
