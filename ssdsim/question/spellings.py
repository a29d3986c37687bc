"""Options in Python by any spelling of the command line, and by the names that they had before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar, cast

from ssdsim.base.errors import InputError
from ssdsim.question.options import ALL, spellings

P = ParamSpec("P")
R = TypeVar("R")

SOLVERS = ("auto", "closed", "mc", "des", "loop")
"""Words of ``solver``, which once was called ``engine``; no serving engine has such a name."""


def any_spelling(asked: Callable[P, R]) -> Callable[P, R]:
    """A function that takes options by every spelling: ``predict(model="qwen3-8b")`` is ``predict(target=...)``."""

    @wraps(asked)
    def by_own_names(*args: P.args, **options: P.kwargs) -> R:
        return asked(*args, **cast(Any, own_names(options)))

    return by_own_names


def own_names(given: Mapping[str, Any], also: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, Any]:
    """What is given, by the options' own names; ``also`` are spellings of options that are no scenario's.

    >>> own_names({"model": "qwen3-8b", "batch_size": 16, "seed": 1})
    {'target': 'qwen3-8b', 'b': 16, 'seed': 1}

    Raises
    ------
    InputError : an option is given in two spellings.
    """
    if not also and given.get("engine") is None and given.keys() <= ALL.keys():
        return given
    known, named, said_as = {**spellings(), **also}, dict[str, Any](), dict[str, str]()
    for name, value in given.items():
        own = known.get(name, name)
        if name == "engine" and isinstance(value, str) and value in SOLVERS:
            said = f"engine={value!r} is solver={value!r} now: engine names the serving engine, such as 'vllm'"
            warnings.warn(said, FutureWarning, stacklevel=3)
            own = "solver"
        if value is not None and (other := said_as.setdefault(own, name)) != name:
            raise InputError(f"{other} and {name} are one option: give it once")
        named[own] = named.get(own) if value is None else value
    return named
